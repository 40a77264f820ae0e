"""Plays a plan on a real desktop: everything is done through `Desktop.act`, as an agent would; only looking is direct.

A plan is a tuple of stages `{channel: goal}` as in `components.forge.workflows.base`. Goals here are
`{"goal": "bash", "command": ...}` for the terminal and `{"goal": "moves", "moves": [...]}` for the screen:

    ["key", "ctrl", "s"]      keys together                  ["type", "text"]         characters
    ["click", x, y]           also "double", "right"         ["drag", x0, y0, x1, y1]
    ["click_in", title, x, y] relative to a window           ["wait"]                 until something has happened
    ["window", title]         until there is such a window   ["gone", title]          until there is none
    ["saved", path]           until the file is not as it was when the plan began

What does not come is a `TaskError`: the plan does not fit the application.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from components.contracts.calls import BashCall, ComputerUse
from components.contracts.errors import TaskError
from components.contracts.task import Channel
from components.forge.workflows.base import Plan
from components.sandbox.x11.desktop import X11Desktop

LOOKS = 120
"""Looks for something that was promised before giving up; each waits for the screen to come to rest in between."""
WINDOW_SECONDS = 60.0
COMMAND_SECONDS = 120.0

_BUTTONS = {"click": "left_click", "double": "double_click", "right": "right_click"}


class Hands:
    """Carries out moves on one desktop."""

    def __init__(self, desktop: X11Desktop) -> None:
        self._desktop = desktop
        self._start = {f.path: (f.size, f.mtime) for f in desktop.guest.files(".")}

    def stage(self, goal: dict[str, Any]) -> None:
        if goal["goal"] == "bash":
            result = self._desktop.act(BashCall(command=goal["command"], timeout=COMMAND_SECONDS))
            if result.exit_code:
                raise TaskError(f"the plan's command failed: {result.output[-400:]}", where="plan")
            return
        for move in goal["moves"]:
            self.move(*move)

    def move(self, name: str, *args: Any) -> None:
        if name == "key":
            self._act("key", keys=tuple(args))
        elif name == "type":
            self._act("type", text=args[0])
        elif name in _BUTTONS:
            self._act(_BUTTONS[name], coordinate=(args[0], args[1]))
        elif name == "drag":
            self._act("left_click_drag", start=(args[0], args[1]), coordinate=(args[2], args[3]))
        elif name == "click_in":
            box = self._find(args[0])
            self._act("left_click", coordinate=(box[0] + args[1], box[1] + args[2]))
        elif name == "wait":
            self._act("wait", time=5.0)
        elif name == "window":
            self._find(args[0])
            self._desktop.guest.settle()
        elif name == "gone":
            self._until(lambda: all(args[0].lower() not in w.title.lower() for w in self._desktop.guest.windows()),
                        f"the window {args[0]!r} to close")  # fmt: skip
        elif name == "saved":
            self._until(lambda: self._saved(args[0]), f"{args[0]} to be saved")
        else:
            raise TaskError(f"unknown move {name!r}", where="plan")

    def _act(self, action: Any, **arguments: Any) -> None:
        self._desktop.act(ComputerUse(action=action, **arguments))

    def _find(self, title: str) -> tuple[int, int, int, int]:
        window = self._desktop.guest.await_window(title, limit=WINDOW_SECONDS)
        if window is None:
            raise TaskError(f"no window {title!r} came", where="plan", remedy=f"there are {self._titles()}")
        return window.box

    def _titles(self) -> list[str]:
        return [window.title for window in self._desktop.guest.windows()]

    def _saved(self, path: str) -> bool:
        now = {f.path: (f.size, f.mtime) for f in self._desktop.guest.files(".")}
        return path in now and now[path] != self._start.get(path)

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        for _ in range(LOOKS):
            if holds():
                self._desktop.guest.settle()
                return
            self._desktop.guest.settle(limit=0.5, change=True)
        raise TaskError(f"waited in vain for {what}", where="plan", remedy=f"windows: {self._titles()}")


def play(desktop: X11Desktop, plan: Plan | Iterable[dict[str, Any]], route: tuple[Channel, ...]) -> None:
    """Plays all stages by `route`; where it has both channels, a stage is done in the terminal if it can be."""
    hands = Hands(desktop)
    for stage in plan:
        channel = next((c for c in ("terminal", "gui") if c in route and c in stage), None)
        if channel is None:
            raise TaskError(f"a stage cannot be played by {'+'.join(route)}", where="plan")
        hands.stage(stage[channel])
