"""What OSWorld asks of a guest: answered by a slot of ours (`native.py`) or a host that speaks HTTP (`client.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from components.contracts.errors import TaskError

EXECUTE_SECONDS = 120.0
"""What a command may take, as in OSWorld's guest."""
HOME = "/home/user"
DESKTOP = f"{HOME}/Desktop"

Command = str | Sequence[str]


@dataclass(frozen=True)
class Executed:
    """A command's end. `returncode` -1: it ran out of time."""

    output: str
    error: str
    returncode: int


class GuestRefusal(TaskError):
    """The guest lives and cannot do what a task asks of it: no such window, no picture there, ..."""


class Guest(Protocol):
    """Paths are the guest's own; `~/` is its home.

    Every method raises `SandboxError` when the guest is lost or its answer unknown, `GuestRefusal` when it refuses, and
    `FileNotFoundError` where a path is missing. What changes something is sent at most once.
    """

    def screenshot(self) -> bytes:
        """PNG, with the pointer."""

    def execute(self, command: Command, *, shell: bool = False, timeout: float = EXECUTE_SECONDS) -> Executed:
        """Runs a command to its end; pyautogui commands are GUI actions."""

    def bash_script(self, script: str, *, timeout: float = 30.0, directory: str = "") -> Executed: ...

    def run_python(self, code: str) -> Executed: ...

    def launch(self, command: Command, *, shell: bool = False) -> None:
        """Starts an application and does not wait for it."""

    def open_file(self, path: str) -> None:
        """Opens a document with the application for its kind and waits for the window."""

    def read_file(self, path: str) -> bytes: ...

    def write_file(self, path: str, data: bytes) -> None: ...

    def tree(self, path: str) -> dict[str, Any]:
        """{type, name, children} of a directory, whole."""

    def accessibility(self) -> str:
        """XML of what is on the screen."""

    def terminal(self) -> str | None:
        """Text of the terminal window; None where it cannot be read."""

    def screen_size(self) -> dict[str, int]: ...

    def window_size(self, app_class: str) -> dict[str, int] | None: ...

    def cursor_position(self) -> tuple[int, int]: ...

    def platform(self) -> str: ...

    def desktop_path(self) -> str: ...

    def wallpaper(self) -> bytes: ...

    def change_wallpaper(self, path: str) -> None: ...

    def activate_window(self, name: str, *, strict: bool = False, by_class: bool = False) -> None: ...

    def close_window(self, name: str, *, strict: bool = False, by_class: bool = False) -> None: ...

    def window_exists(self, name: str) -> bool: ...

    def pause(self, seconds: float) -> None:
        """Lets the guest go on for at most so long; a slot of ours stops waiting when it has come to rest."""

    def start_recording(self) -> None: ...

    def end_recording(self) -> bytes:
        """The film since `start_recording`, MP4."""
