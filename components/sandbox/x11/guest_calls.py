"""A running desktop as Python sees it: one method a call of the agent. Setups, verifiers and the backend use it."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.contracts.calls import ComputerUse
from components.contracts.errors import SandboxError
from components.sandbox.x11 import starts
from components.sandbox.x11.channel import Channel

ACTION_QUIET, LAUNCH_QUIET = 0.2, 0.4
"""Seconds without paint or work that count as settled, after an action and after the start of an application."""
ACTION_LIMIT, LAUNCH_LIMIT = 5.0, 30.0
"""Seconds after which a screen that does not settle is taken as it is."""
FILE_LIMIT = 64 << 20
RUN_LIMIT = 1 << 20
"""Bytes of a command's output that are kept, of its errors the same."""
_SECONDS_A_CHARACTER = 0.05
_SECONDS_A_BATCH, _BATCH = 12.0, 100
"""Characters that are on no key come in batches: each waits for the applications twice."""


@dataclass(frozen=True)
class Settled:
    """`settled` False: the limit passed first. `painted`: paint events; `busy`: share of a core at the end."""

    settled: bool
    seconds: float
    painted: int
    busy: float


@dataclass(frozen=True)
class Picture:
    """`png` as the agent encoded it; `uniform`: one colour all over, so it was never painted."""

    png: bytes
    pointer: tuple[int, int]
    uniform: bool


@dataclass(frozen=True)
class Window:
    """A managed window. `kind`: normal, dialog, desktop, dock, ... `box` without the frame. `pid` 0 = unknown."""

    id: int
    title: str
    app: str
    kind: str
    box: tuple[int, int, int, int]
    active: bool
    pid: int

    @property
    def center(self) -> tuple[int, int]:
        x0, y0, x1, y1 = self.box
        return (x0 + x1) // 2, (y0 + y1) // 2


@dataclass(frozen=True)
class Terminal:
    """What a terminal command gave. `directory`: where the shell is now."""

    output: str
    exit_code: int
    timed_out: bool
    truncated: bool
    directory: str


@dataclass(frozen=True)
class Cell:
    """What a cell of Python gave. `failed`: an exception ended it."""

    output: str
    failed: bool
    timed_out: bool
    truncated: bool


@dataclass(frozen=True)
class Ran:
    """What a command of its own gave. `returncode` -1: it ran out of time; other negatives: a signal ended it."""

    output: str
    error: str
    returncode: int
    timed_out: bool
    truncated: bool


@dataclass(frozen=True)
class FileInfo:
    """`path` relative to the folder asked for, `size` in bytes, `mtime` in seconds since 1970."""

    path: str
    size: int
    mtime: float


class GuestCalls:
    """Every method raises `GuestError` when the agent refuses the call and `SandboxError` when the agent is lost."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def gone(self) -> list[str]:
        """Parts of the desktop (server, window manager, ...) that have ended."""
        return [str(name) for name in self._ask("hello")["gone"]]

    def act(self, *calls: ComputerUse, quiet: float = ACTION_QUIET, limit: float = ACTION_LIMIT) -> Settled:
        """Carries out the actions in order, then settles."""
        return self.inputs(
            [call.model_dump(include={"action", "coordinate", "start", "keys", "text", "pixels"}) for call in calls],
            quiet=quiet, limit=limit,
        )  # fmt: skip

    def inputs(
        self, actions: Sequence[Mapping[str, Any]], *, quiet: float = ACTION_QUIET, limit: float = ACTION_LIMIT
    ) -> Settled:
        """`act` for actions as the agent takes them, those beyond the `computer_use` tool too (`guest/inputs.py`)."""
        seconds = limit + 5.0 + sum(_typing_seconds(str(action.get("text", ""))) for action in actions)
        asked = {"actions": [dict(action) for action in actions], "quiet": quiet, "limit": limit}
        return Settled(**self._ask("act", asked, seconds=seconds))

    def settle(self, quiet: float = ACTION_QUIET, limit: float = ACTION_LIMIT, *, change: bool = False) -> Settled:
        """Waits for a settled screen; with `change` first for something to be painted at all."""
        return Settled(**self._ask("settle", {"quiet": quiet, "limit": limit, "change": change}, seconds=limit))

    def shot(self, *, pointer: bool = True) -> Picture:
        """The screen as it is now."""
        answer, data = self._channel.call("shot", {"pointer": pointer})
        return Picture(data, (int(answer["pointer"][0]), int(answer["pointer"][1])), bool(answer["uniform"]))

    def windows(self) -> list[Window]:
        """All windows of applications, oldest first: not the desktop itself, nor the panel."""
        return [window for window in self.all_windows() if window.kind not in ("desktop", "dock")]

    def all_windows(self) -> list[Window]:
        return [_window(entry) for entry in self._ask("windows")]

    def await_window(self, text: str = "", *, kind: str = "", limit: float = LAUNCH_LIMIT) -> Window | None:
        """The first window whose title or application holds `text`, whatever the case; None after `limit` seconds."""
        found = self._ask("await_window", {"text": text, "kind": kind, "limit": limit}, seconds=limit)
        return _window(found[0]) if found else None

    def launch(self, argv: Sequence[str], *, cwd: str = "") -> int:
        """Starts an application and gives its pid inside; does not wait for a window."""
        return int(self._ask("launch", {"argv": list(argv), "cwd": cwd})["pid"])

    def open(self, argv: Sequence[str], text: str, *, limit: float = LAUNCH_LIMIT) -> Window | None:
        """Starts an application, waits for its window (see `await_window`) and for a settled screen.

        Starts take turns (`starts.py`); the wait for one's turn is not part of `limit` (seconds).
        """
        with starts.turn():
            self.launch(argv)
            window = self.await_window(text, limit=limit)
            self.settle(LAUNCH_QUIET, limit)
        return window

    def run(self, argv: Sequence[str], timeout: float = 30.0, *, cwd: str = "", limit: int = RUN_LIMIT) -> Ran:
        """Runs a program to its end in a process of its own, beside the shell; `timeout` in seconds."""
        answer, data = self._channel.call(
            "run", {"argv": list(argv), "timeout": timeout, "cwd": cwd, "limit": limit}, seconds=timeout + 15.0
        )
        cut = len(data) - int(answer["errors"])
        output, error = (part.decode("utf-8", "replace") for part in (data[:cut], data[cut:]))
        return Ran(output, error, int(answer["returncode"]), bool(answer["timed_out"]), bool(answer["truncated"]))

    def activate(self, window: Window) -> None:
        """Brings a window to the front, as a click on the panel does."""
        self._ask("window", {"id": window.id, "what": "activate"})

    def close_window(self, window: Window) -> None:
        """Asks a window to close; it may ask back."""
        self._ask("window", {"id": window.id, "what": "close"})

    def bash(self, command: str, timeout: float = 30.0, *, restart: bool = False) -> Terminal:
        """Runs a command in the desktop's one shell; `timeout` in seconds."""
        return Terminal(**self._ask(
            "bash", {"command": command, "timeout": timeout, "restart": restart}, seconds=timeout + 15.0
        ))  # fmt: skip

    def python(self, code: str, timeout: float = 30.0, *, restart: bool = False) -> Cell:
        """Runs a cell in the desktop's one Python; a last expression is printed. `timeout` in seconds."""
        return Cell(**self._ask(
            "python", {"code": code, "timeout": timeout, "restart": restart}, seconds=timeout + 15.0
        ))  # fmt: skip

    def put(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Writes a file; relative paths start at the home."""
        self._channel.call("put", {"path": path, "mode": mode}, data, seconds=60)

    def get(self, path: str, limit: int = FILE_LIMIT) -> bytes:
        """A regular file of at most `limit` bytes; links are not followed."""
        return self._channel.call("get", {"path": path, "limit": limit}, seconds=60)[1]

    def files(self, folder: str = ".") -> list[FileInfo]:
        """Regular files below `folder`, sorted by path."""
        return [FileInfo(**entry) for entry in self._ask("list", {"path": folder}, seconds=60)]

    def kill_apps(self) -> int:
        """Ends all applications and what the shell started; the desktop and the shell stay. Returns how many."""
        return int(self._ask("kill_apps")["killed"])

    def freeze(self) -> int:
        """Stops every process but the X server and the agent. Returns how many stand still."""
        return int(self._ask("freeze")["frozen"])

    def thaw(self) -> None:
        self._ask("thaw")

    def listen(self, port: int) -> socket.socket:
        """A socket that listens on `port` of the desktop's own loopback, to be answered from out here.

        Raises `SandboxError` where the agent is not on this machine: descriptors do not travel over a network.
        """
        fds: list[int] = []
        self._channel.call("listen", {"port": port}, fds=fds)
        if len(fds) != 1:
            raise SandboxError("the agent's socket did not arrive", where="x11", remedy="use a driver of this machine")
        return socket.socket(fileno=fds[0])

    def _ask(self, call: str, args: dict[str, Any] | None = None, *, seconds: float = 10.0) -> Any:
        return self._channel.call(call, args, seconds=seconds)[0]


@dataclass(frozen=True)
class Frame:
    """`jpeg` of the screen with the pointer in it; `count` of its changes so far."""

    jpeg: bytes
    count: int
    pointer: tuple[int, int]


class EyeCalls:
    """The screen for people who watch. Raises as `GuestCalls` does; the desktop's own calls go on meanwhile."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._count = -1

    def frame(self, wait: float) -> Frame | None:
        """The screen once it differs from the last one given; None when it has not within `wait` seconds."""
        about, jpeg = self._channel.call("frame", {"since": self._count, "wait": wait}, seconds=wait)
        if not jpeg:
            return None
        self._count = int(about["count"])
        return Frame(jpeg, self._count, (int(about["pointer"][0]), int(about["pointer"][1])))


def _typing_seconds(text: str) -> float:
    """What typing may take at most."""
    rare = sum(1 for character in text if character > "~")
    return _SECONDS_A_CHARACTER * len(text) + (_SECONDS_A_BATCH * (1 + rare // _BATCH) if rare else 0.0)


def _window(entry: dict[str, Any]) -> Window:
    return Window(**{**entry, "box": tuple(entry["box"])})
