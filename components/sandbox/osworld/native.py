"""A slot of ours as OSWorld's guest: each thing that its API asks for, on the calls of an open desktop."""

from __future__ import annotations

import json
import re
import shlex
from configparser import ConfigParser
from contextlib import suppress
from typing import Any

from components.contracts.errors import CallError, SandboxError
from components.sandbox.osworld import applications, pyautogui_commands
from components.sandbox.osworld.accessibility import window_tree
from components.sandbox.osworld.guest import DESKTOP, EXECUTE_SECONDS, HOME, Command, Executed, GuestRefusal
from components.sandbox.x11.channel import GuestError
from components.sandbox.x11.guest_calls import GuestCalls, Window

WHERE = "osworld guest"
_PAUSE_LIMIT = 120.0
_OPEN_SECONDS = 60.0
_PCMANFM = f"{HOME}/.config/pcmanfm/default/desktop-items-0.conf"
_FILM = "/tmp/recording.mp4"
_FILM_SECONDS = 30.0
_TREE = """
import json, os, sys
def walk(path):
    node = {"type": "directory", "name": os.path.basename(path.rstrip("/")) or "/", "children": []}
    for name in sorted(os.listdir(path)):
        full = os.path.join(path, name)
        inside = os.path.isdir(full) and not os.path.islink(full)
        node["children"].append(walk(full) if inside else {"type": "file", "name": name})
    return node
print(json.dumps(walk(sys.argv[1])))
"""


class NativeGuest:
    """Over the `GuestCalls` of one open desktop; `size` is its screen, (width, height)."""

    def __init__(self, calls: GuestCalls, size: tuple[int, int]) -> None:
        self._calls = calls
        self._size = size
        self._filming = 0

    @classmethod
    def begin(cls, calls: GuestCalls, size: tuple[int, int]) -> NativeGuest:
        """A fresh desktop as OSWorld's tasks expect it: with a folder for the desktop."""
        calls.run(["mkdir", "-p", DESKTOP])
        return cls(calls, size)

    # -- seeing and acting ----------------------------------------------------------------------------------------

    def screenshot(self) -> bytes:
        return self._calls.shot().png

    def execute(self, command: Command, *, shell: bool = False, timeout: float = EXECUTE_SECONDS) -> Executed:
        code = pyautogui_commands.code_of(command)
        if code is not None:
            return self._gui(code)
        ran = self._calls.run(_argv(command, shell), timeout, cwd=HOME)
        if ran.timed_out:
            return Executed(ran.output, f"{ran.error}[timed out after {timeout:g} s]\n", -1)
        return Executed(ran.output, ran.error, ran.returncode)

    def bash_script(self, script: str, *, timeout: float = 30.0, directory: str = "") -> Executed:
        try:
            ran = self._calls.run(
                ["/bin/bash", "--noprofile", "--norc", "-c", script], timeout, cwd=_expanded(directory) or HOME
            )
        except GuestError as error:
            raise _translated(error, directory) from error
        # OSWorld's guest gives both streams as output; ours come one after the other.
        note = f"[timed out after {timeout:g} s]\n" if ran.timed_out else ""
        return Executed(ran.output + ran.error, note, ran.returncode)

    def run_python(self, code: str) -> Executed:
        if re.search(r"\bpyautogui\b", code):
            return self._gui(code)
        ran = self._calls.run(["/usr/bin/python3", "-c", code], EXECUTE_SECONDS, cwd=HOME)
        return Executed(ran.output, ran.error, ran.returncode)

    def launch(self, command: Command, *, shell: bool = False) -> None:
        argv = _argv(command, shell)
        self._calls.launch(argv if shell else applications.started(argv), cwd=HOME)

    def open_file(self, path: str) -> None:
        full = _expanded(path)
        if self.execute(["test", "-e", full]).returncode:
            raise FileNotFoundError(full)
        folder = self.execute(["test", "-d", full]).returncode == 0
        name = full.rstrip("/").rpartition("/")[2]
        argv = ["pcmanfm", full] if folder else applications.opener(full)
        # GIMP and some browsers put only a part of the name into the title.
        if self._calls.open(argv, name.rpartition(".")[0] or name, limit=_OPEN_SECONDS) is None:
            raise GuestRefusal(f"no window for {path} within {_OPEN_SECONDS:g} s", where=WHERE,
                               remedy=f"is {argv[0]} installed on this host?")  # fmt: skip

    def pause(self, seconds: float) -> None:
        if seconds > 0:
            self._calls.settle(limit=min(seconds, _PAUSE_LIMIT), change=True)

    def _gui(self, code: str) -> Executed:
        """GUI actions of one command. All is understood before the first is pressed."""
        try:
            steps = pyautogui_commands.parse(code)
        except CallError as error:
            return Executed("", f"{error}\n", 1)
        steps = pyautogui_commands.resolve(steps, self.cursor_position())
        waiting: list[pyautogui_commands.Step] = []
        try:
            for step in steps:
                if step["action"] != "wait":
                    waiting.append(step)
                    continue
                self._press(waiting)
                waiting = []
                self.pause(float(step["time"]))
            self._press(waiting)
        except GuestError as error:
            if error.kind != "argument":
                raise
            return Executed("", f"pyautogui: {error.message}\n", 1)
        return Executed("", "", 0)

    def _press(self, steps: list[pyautogui_commands.Step]) -> None:
        if steps:
            self._calls.inputs(steps)

    # -- files ----------------------------------------------------------------------------------------------------

    def read_file(self, path: str) -> bytes:
        try:
            return self._calls.get(_expanded(path))
        except GuestError as error:
            raise _translated(error, path) from error

    def write_file(self, path: str, data: bytes) -> None:
        try:
            self._calls.put(_expanded(path), data)
        except GuestError as error:
            raise _translated(error, path) from error

    def tree(self, path: str) -> dict[str, Any]:
        ran = self._calls.run(["/usr/bin/python3", "-I", "-c", _TREE, _expanded(path)], 30.0)
        if "FileNotFoundError" in ran.error or "NotADirectoryError" in ran.error:
            raise FileNotFoundError(path)
        try:
            answer: dict[str, Any] = json.loads(ran.output)
        except ValueError as error:
            raise GuestRefusal(f"{path} cannot be listed: {ran.error[-200:]}", where=WHERE) from error
        return answer

    # -- what the desktop is like ---------------------------------------------------------------------------------

    def accessibility(self) -> str:
        return window_tree(self._calls.all_windows(), self._size)

    def terminal(self) -> str | None:
        return None

    def screen_size(self) -> dict[str, int]:
        return {"width": self._size[0], "height": self._size[1]}

    def window_size(self, app_class: str) -> dict[str, int] | None:
        for window in self._calls.windows():
            if app_class.lower() in window.app.lower():
                x0, y0, x1, y1 = window.box
                return {"width": x1 - x0, "height": y1 - y0}
        return None

    def cursor_position(self) -> tuple[int, int]:
        return self._calls.shot(pointer=False).pointer

    def platform(self) -> str:
        return "Linux"

    def desktop_path(self) -> str:
        return DESKTOP

    def wallpaper(self) -> bytes:
        settings = ConfigParser(interpolation=None, strict=False)
        with suppress(GuestError):
            settings.read_string(self._calls.get(_PCMANFM).decode("utf-8", "replace"))
        path = settings.get("*", "wallpaper", fallback="")
        if not path:
            raise FileNotFoundError("the desktop has a colour and no picture")
        return self.read_file(path)

    def change_wallpaper(self, path: str) -> None:
        full = _expanded(path)
        if self.execute(["test", "-f", full]).returncode:
            raise FileNotFoundError(full)
        done = self.execute(["pcmanfm", f"--set-wallpaper={full}", "--wallpaper-mode=stretch"], timeout=30)
        if done.returncode:
            raise GuestRefusal(f"the wallpaper was not changed: {done.error[-200:]}", where=WHERE)
        self._calls.settle()

    def activate_window(self, name: str, *, strict: bool = False, by_class: bool = False) -> None:
        self._calls.activate(self._window(name, strict, by_class))
        self._calls.settle()

    def close_window(self, name: str, *, strict: bool = False, by_class: bool = False) -> None:
        self._calls.close_window(self._window(name, strict, by_class))
        self._calls.settle()

    def window_exists(self, name: str) -> bool:
        return any(name.lower() in window.title.lower() for window in self._calls.windows())

    def _window(self, name: str, strict: bool, by_class: bool) -> Window:
        for window in self._calls.windows():
            has = window.app if by_class else window.title
            if has == name if strict else name.lower() in has.lower():
                return window
        raise GuestRefusal(f"there is no window {name!r}", where=WHERE, remedy="see its title in the list of windows")

    # -- films ----------------------------------------------------------------------------------------------------

    def start_recording(self) -> None:
        if self._filming:
            raise GuestRefusal("a recording is running already", where=WHERE, remedy="end it first")
        if self.execute(["which", "ffmpeg"]).returncode:
            raise GuestRefusal("there is no ffmpeg on this host", where=WHERE, remedy="install it")
        width, height = self._size
        # Few frames and the quickest encoding: the settling of actions counts whoever works in the sandbox.
        self._filming = self._calls.launch([
            "ffmpeg", "-y", "-loglevel", "error", "-f", "x11grab", "-framerate", "5", "-video_size",
            f"{width}x{height}", "-i", ":0",
            "-c:v", "libx264", "-preset", "ultrafast", "-threads", "1", "-pix_fmt", "yuv420p", _FILM,
        ])  # fmt: skip

    def end_recording(self) -> bytes:
        pid, self._filming = self._filming, 0
        if not pid:
            raise GuestRefusal("no recording is running", where=WHERE, remedy="start one first")
        # It has ended when it is a zombie: the agent collects those with its next call.
        ended = f"[ ! -e /proc/{pid} ] || grep -q ') Z ' /proc/{pid}/stat"
        script = f"kill -INT {pid}; until {ended}; do sleep 0.05; done"
        self._calls.run(["/bin/sh", "-c", script], _FILM_SECONDS)
        return self.read_file(_FILM)


def _argv(command: Command, shell: bool) -> list[str]:
    """What is run. A text is for the shell, or split like one; `python` is the guest's python3. Raises GuestRefusal."""
    if shell:
        words = [command] if isinstance(command, str) else [str(word) for word in command]
        if words and re.search(r"\bpython\b(?![3.])", words[0]):
            words[0] = f'python() {{ python3 "$@"; }}\n{words[0]}'
        return ["/bin/bash", "--noprofile", "--norc", "-c", *words]
    if isinstance(command, str):
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise GuestRefusal(f"no command: {error}", where=WHERE) from error
    else:
        words = [str(word) for word in command]
    if not words or not words[0]:
        raise GuestRefusal("an empty command", where=WHERE)
    words = [_expanded(word) for word in words]
    return ["python3", *words[1:]] if words[0] == "python" else words


def _expanded(path: str) -> str:
    return f"{HOME}/{path[2:]}" if path.startswith("~/") else HOME if path == "~" else path


def _translated(error: GuestError, path: str) -> Exception:
    if error.kind == "missing":
        return FileNotFoundError(path)
    if error.kind == "os":
        return GuestRefusal(f"{path}: {error.message}", where=WHERE)
    return SandboxError(error.message, where=WHERE)
