"""Setup steps of a task, before the episode and before grading. Each works on any `Guest`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from components.contracts.errors import CoworkError, TaskError
from components.sandbox.osworld import browser
from components.sandbox.osworld.cache import Cache
from components.sandbox.osworld.guest import Command, Executed, Guest, GuestRefusal
from components.sandbox.osworld.registry import SETUP_TYPES
from components.sandbox.osworld.sources import Sources
from components.sandbox.osworld.task import Step

_UNTIL_TRIES = 40
"""Repeats of a command that is to run until it gives something."""
_CHECK_SECONDS = 120.0


class Setup:
    """Runs steps in order. `cache` keeps what commands print for `cache_file` to read."""

    def __init__(self, guest: Guest, sources: Sources, cache: Cache) -> None:
        self._guest, self._sources, self._cache = guest, sources, cache

    def run(self, steps: Sequence[Step], *, lenient: bool = False) -> None:
        """Raises `TaskError` (which step, and why) or `SandboxError`.

        `lenient`: a window or file that is not there is no error, for steps after an episode: the agent may have closed
        or removed it, and the checks will say so.
        """
        for number, step in enumerate(steps, start=1):
            where = f"setup step {number} ({step.type})"
            reason = SETUP_TYPES.get(step.type, "unknown")
            if reason:
                raise TaskError(f"not supported: {reason}", where=where, remedy="leave the task out")
            method: Callable[..., None] = getattr(self, f"_{step.type}")
            try:
                method(**step.parameters)
            except (GuestRefusal, FileNotFoundError) as error:
                if not lenient:
                    raise TaskError(f"{type(error).__name__}: {error}", where=where) from error
            except TypeError as error:
                raise TaskError(f"wrong parameters: {error}", where=where) from error
            except (KeyError, ValueError) as error:
                raise TaskError(f"{type(error).__name__}: {error}", where=where) from error
            except CoworkError as error:
                error.where = error.where or where
                raise

    def _download(self, files: list[dict[str, str]]) -> None:
        for entry in files:
            self._guest.write_file(entry["path"], self._sources.read(entry["url"]))

    def _upload_file(self, files: list[dict[str, str]]) -> None:
        for entry in files:
            self._guest.write_file(entry["path"], self._sources.read(entry["local_path"]))

    def _open(self, path: str) -> None:
        self._guest.open_file(path)

    def _launch(self, command: Command, shell: bool = False) -> None:
        _not_empty(command)
        if not shell and isinstance(command, str):
            command = command.split()
        self._guest.launch(self._filled(command), shell=shell)

    def _execute(
        self, command: Command, stdout: str = "", stderr: str = "", shell: bool = False,
        until: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        _not_empty(command)
        filled = self._filled(command)
        for _ in range(_UNTIL_TRIES if until else 1):
            done = self._guest.execute(filled, shell=shell)
            if stdout:
                self._cache.write(stdout, done.output.encode())
            if stderr:
                self._cache.write(stderr, done.error.encode())
            if not until or _reached(done, until):
                return
            self._guest.pause(1.0)
        raise TaskError(f"`{command}` did not give {until} in {_UNTIL_TRIES} tries", where="execute until")

    _command = _execute

    def _execute_with_verification(
        self, command: Command, verification: dict[str, Any] | None = None, max_wait_time: float = 10,
        check_interval: float = 1.0, shell: bool = False,
    ) -> None:  # fmt: skip
        _not_empty(command)
        done = self._guest.execute(self._filled(command), shell=shell)
        wanted = verification or {}
        if not wanted and done.returncode:
            raise TaskError(f"`{command}` ended with {done.returncode}: {done.error[-200:]}", where="execute")
        for _ in range(max(1, int(min(max_wait_time, _CHECK_SECONDS) / max(check_interval, 0.1)))):
            if self._verified(wanted):
                return
            self._guest.pause(check_interval)
        if not self._verified(wanted):
            raise TaskError(f"`{command}`: {wanted} did not come true in {max_wait_time} s", where="verification")

    def _verified(self, wanted: dict[str, Any]) -> bool:
        window = wanted.get("window_exists")
        if window and not self._guest.window_exists(str(window)):
            return False
        command = wanted.get("command_success")
        return not command or self._guest.execute(command, shell=isinstance(command, str)).returncode == 0

    def _sleep(self, seconds: float) -> None:
        self._guest.pause(float(seconds))

    def _activate_window(self, window_name: str, strict: bool = False, by_class: bool = False) -> None:
        self._guest.activate_window(window_name, strict=strict, by_class=by_class)

    def _close_window(self, window_name: str, strict: bool = False, by_class: bool = False) -> None:
        self._guest.close_window(window_name, strict=strict, by_class=by_class)

    def _change_wallpaper(self, path: str) -> None:
        self._guest.change_wallpaper(path)

    def _chrome_open_tabs(self, urls_to_open: list[str]) -> None:
        browser.open_tabs(self._guest, urls_to_open)

    def _chrome_close_tabs(self, urls_to_close: list[str]) -> None:
        browser.close_tabs(self._guest, urls_to_close)

    def _update_browse_history(self, history: list[dict[str, Any]]) -> None:
        browser.add_history(self._guest, history)

    def _filled(self, command: Command) -> Command:
        """OSWorld's place-holders; there is no password, since nobody in a slot may become root."""
        size = self._guest.screen_size()
        words = {
            "{CLIENT_PASSWORD}": "", "{SCREEN_WIDTH_HALF}": str(size["width"] // 2),
            "{SCREEN_HEIGHT_HALF}": str(size["height"] // 2), "{SCREEN_WIDTH}": str(size["width"]),
            "{SCREEN_HEIGHT}": str(size["height"]),
        }  # fmt: skip

        def filled(text: str) -> str:
            for word, value in words.items():
                text = text.replace(word, value)
            return text

        return filled(command) if isinstance(command, str) else [filled(str(word)) for word in command]


def _not_empty(command: Command) -> None:
    if not command:
        raise TaskError("an empty command", where="setup")


def _reached(done: Executed, until: dict[str, Any]) -> bool:
    return (
        ("returncode" in until and done.returncode == until["returncode"])
        or ("stdout" in until and str(until["stdout"]) in done.output)
        or ("stderr" in until and str(until["stderr"]) in done.error)
    )
