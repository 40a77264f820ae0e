"""The picture of a run: a live table on a terminal, plain lines anywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TextIO

from components.tracking.events import Event
from pipelines.follow import StageView

PLAIN_SECONDS = 15.0
"""Between two progress lines of one stage where nobody watches a terminal."""
LIVE_SECONDS = 1.0
"""Between two drawings of the live table, unless a stage begins or ends: each costs milliseconds of the run's cores."""


class Picture(Protocol):
    def say(self, text: str) -> None: ...

    def news(self, view: StageView, event: Event) -> None: ...

    def restored(self, view: StageView) -> None: ...

    def refresh(self) -> None: ...

    def close(self) -> None: ...


def seconds_text(seconds: float | None) -> str:
    """12s, 3m05s, 1h02m; "" for unknown."""
    if seconds is None:
        return ""
    whole = int(seconds + 0.5)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def progress_text(view: StageView) -> str:
    if not view.total:
        return ""
    return f"{view.done}/{view.total}{' ' + view.unit if view.unit else ''}"


def rate_text(view: StageView) -> str:
    rate = view.rate
    if rate is None:
        return ""
    return f"{rate:.1f}/s" if rate >= 1 else f"{rate * 60:.1f}/min"


def metrics_text(metrics: Mapping[str, float], limit: int = 3) -> str:
    """The last few figures, shortest names first: what fits a line."""
    chosen = sorted(metrics, key=lambda name: (name.count("/") + name.count("."), len(name), name))[:limit]
    return "  ".join(f"{name} {metrics[name]:.4g}" for name in chosen)


class PlainPicture:
    """A line when a stage begins, every now and then while it runs, and when it ends."""

    def __init__(self, out: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.out = out or sys.stdout
        self.clock = clock
        self._last: dict[str, float] = {}

    def say(self, text: str) -> None:
        print(text, file=self.out, flush=True)

    def news(self, view: StageView, event: Event) -> None:
        if event["k"] == "start":
            self._last[view.name] = self.clock()
            self.say(f"{view.name}: started" + (f", attempt {view.attempt}" if view.attempt > 1 else ""))
        elif event["k"] == "end":
            figures = metrics_text(view.metrics)
            self.say(f"{view.name}: {view.state} in {seconds_text(view.seconds)}" + (f"  {figures}" if figures else ""))
        elif event["k"] == "progress" and self.clock() - self._last.get(view.name, 0.0) >= PLAIN_SECONDS:
            self._last[view.name] = self.clock()
            left = f"{seconds_text(view.left)} left" if view.left else ""
            parts = [progress_text(view), rate_text(view), left, metrics_text(view.metrics)]
            self.say(f"{view.name}: " + "  ".join(part for part in parts if part))

    def restored(self, view: StageView) -> None:
        self.say(f"{view.name}: restored from an earlier run with the same inputs")

    def refresh(self) -> None:
        return None

    def close(self) -> None:
        return None


_MARKS = {"waiting": "·", "running": "▸", "finished": "✓", "failed": "✗", "killed": "✗", "reused": "="}
_STYLES = {"running": "bold cyan", "finished": "green", "failed": "bold red", "killed": "bold red", "reused": "dim"}


class LivePicture:
    """A table that is drawn again in place."""

    def __init__(self, views: Mapping[str, StageView], console: Any = None) -> None:
        from rich.console import Console
        from rich.live import Live

        self.views = views
        self.console = console or Console()
        self.live = Live(console=self.console, auto_refresh=False, transient=False)
        self.live.start()
        self._drawn = 0.0

    def say(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False)

    def news(self, view: StageView, event: Event) -> None:
        if event["k"] in ("start", "end"):
            self._drawn = 0.0

    def restored(self, view: StageView) -> None:
        self._drawn = 0.0

    def refresh(self) -> None:
        now = time.monotonic()
        if now - self._drawn >= LIVE_SECONDS:
            self._drawn = now
            self.live.update(self._table(), refresh=True)

    def _table(self) -> Any:
        from rich import box
        from rich.table import Table

        grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=False)
        for heading, justify in (("", "left"), ("stage", "left"), ("progress", "right"), ("rate", "right")):
            grid.add_column(heading, justify=justify, no_wrap=True)  # type: ignore[arg-type]
        grid.add_column("time", justify="right", no_wrap=True)
        grid.add_column("left", justify="right", no_wrap=True)
        grid.add_column("figures", no_wrap=True, overflow="ellipsis")
        now = int(time.time() * 1000)
        for view in self.views.values():
            elapsed = (now - view.started) / 1000 if view.state == "running" else view.seconds or None
            running = view.state == "running"
            grid.add_row(
                _MARKS[view.state],
                view.name,
                progress_text(view) if running else "",
                rate_text(view) if running else "",
                seconds_text(elapsed),
                seconds_text(view.left) if running else "",
                metrics_text(view.metrics),
                style=_STYLES.get(view.state, ""),
            )
        return grid

    def close(self) -> None:
        self.live.update(self._table(), refresh=True)
        self.live.stop()


def open_picture(views: Mapping[str, StageView], to_stderr: bool = False) -> Picture:
    """The live table on a terminal wide enough for it, else plain lines."""
    out = sys.stderr if to_stderr else sys.stdout
    if out.isatty():
        from rich.console import Console

        console = Console(file=out)
        if console.width >= 80 and console.height >= len(views) + 6:
            return LivePicture(views, console)
    return PlainPicture(out)
