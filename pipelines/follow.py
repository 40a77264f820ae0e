"""What a run is doing, read from the spools of its stages: state, done of total, rate, time left, last figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from components.tracking.events import Event, list_spools, read_events

State = Literal["waiting", "running", "finished", "failed", "killed", "reused"]
WINDOW_MS = 20_000
"""The rate is that of the last 20 s: long enough to be calm, short enough to follow a change of pace."""


@dataclass
class StageView:
    """One stage as a console shows it. Times are milliseconds since the epoch; `seconds` is the finished duration."""

    name: str
    state: State = "waiting"
    attempt: int = 0
    key: str = ""
    done: int = 0
    total: int = 0
    unit: str = ""
    started: int = 0
    seconds: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict)
    error: str = ""
    note: str = ""
    recent: list[tuple[int, int]] = field(default_factory=list)
    """(time, done) of the progress records in the window."""

    def feed(self, event: Event) -> None:
        kind, now = event["k"], int(event.get("t", 0))
        if kind == "start":
            self.state, self.started, self.key = "running", now, str(event.get("key", ""))
            self.attempt = int(event.get("attempt", 0))
            self.done = self.total = 0
            self.recent, self.error, self.seconds = [], "", 0.0
        elif kind == "progress":
            self.done, self.total, self.unit = int(event["done"]), int(event["total"]), str(event.get("unit", ""))
            self.recent.append((now, self.done))
            while len(self.recent) > 2 and now - self.recent[0][0] > WINDOW_MS:
                self.recent.pop(0)
        elif kind == "metric":
            self.metrics[str(event["name"])] = float(event["value"])
        elif kind == "note":
            self.note = str(event["text"])
        elif kind == "end":
            self.state = event["status"]
            self.seconds, self.error = float(event["seconds"]), str(event.get("error", ""))
            self.metrics |= {name: float(value) for name, value in event.get("metrics", {}).items()}

    @property
    def rate(self) -> float | None:
        """Units a second over the window."""
        if len(self.recent) < 2:
            return None
        (t0, d0), (t1, d1) = self.recent[0], self.recent[-1]
        return (d1 - d0) * 1000 / (t1 - t0) if t1 > t0 and d1 > d0 else None

    @property
    def left(self) -> float | None:
        """Seconds to go, None when unknown."""
        rate = self.rate
        return (self.total - self.done) / rate if rate and self.total > self.done else None


class Follower:
    """Reads what is new in a run's spools."""

    def __init__(self, run_dir: Path, stages: Iterable[str]) -> None:
        self.run_dir = run_dir
        self.views = {name: StageView(name) for name in stages}
        self._offsets: dict[Path, int] = {}

    def skip_existing(self) -> None:
        """Leave out what the spools hold already (attempts of an earlier call)."""
        for spool in list_spools(self.run_dir):
            self._offsets[spool.path] = spool.path.stat().st_size

    def look(self) -> list[tuple[StageView, Event]]:
        """Take in what was written since the last look. The new records, with the view each belongs to."""
        news = []
        for spool in list_spools(self.run_dir):
            if (view := self.views.get(spool.stage)) is None:
                continue
            offset = self._offsets.get(spool.path, 0)
            if spool.path.stat().st_size <= offset:
                continue
            tail = read_events(spool.path, offset)
            self._offsets[spool.path] = tail.offset
            for event in tail.events:
                view.feed(event)
                news.append((view, event))
        return news

    @property
    def running(self) -> StageView | None:
        return next((view for view in self.views.values() if view.state == "running"), None)
