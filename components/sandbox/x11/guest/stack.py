"""What makes a desktop: X server, session bus, window manager, file manager's desktop, panel. Started in this order."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Sequence

from components.sandbox.x11.guest.processes import Children

_X_SECONDS = 20.0
DISPLAY = ":0"
"""Inside a sandbox every desktop is display 0: its abstract sockets are its own."""


class StartError(Exception):
    """A part of the desktop did not come up."""


class Stack:
    def __init__(self, size: tuple[int, int], env: dict[str, str], home: str) -> None:
        self._size = size
        self._env = {**env, "DISPLAY": DISPLAY}
        self._home = home
        self.children = Children()
        self._parts: dict[str, subprocess.Popen[bytes]] = {}
        self._ready_end = -1

    @property
    def env(self) -> dict[str, str]:
        """The environment of applications."""
        return self._env

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._parts.values()]

    def pid(self, part: str) -> int:
        process = self._parts.get(part)
        return process.pid if process else 0

    def gone(self) -> list[str]:
        """Parts that have ended: none may, as long as the desktop is used."""
        return [name for name, process in self._parts.items() if process.poll() is not None]

    def begin(self) -> None:
        """Starts server and bus; does not wait for them."""
        self._ready_end, written = os.pipe()
        width, height = self._size
        # Without GLX the server takes 56 MB and 90 ms less, and no application minds.
        self._start(
            "Xvfb", DISPLAY, "-screen", "0", f"{width}x{height}x24", "-nolisten", "tcp", "-ac", "-dpi", "96",
            "-noreset", "-extension", "GLX", "-displayfd", str(written), pass_fds=(written,),
        )  # fmt: skip
        os.close(written)
        bus = self._env["DBUS_SESSION_BUS_ADDRESS"]
        self._start("dbus-daemon", "--session", f"--address={bus}", "--nofork", "--nopidfile", "--nosyslog")

    def wait_for_server(self) -> None:
        """Raises `StartError`. The number comes before the server listens; the newline after it when it does."""
        deadline = time.monotonic() + _X_SECONDS
        text = b""
        while b"\n" not in text:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self._ready_end], [], [], max(left, 0))
            chunk = os.read(self._ready_end, 64) if ready else b""
            if not chunk:
                raise StartError("the X server " + ("ended at once" if ready else f"was not ready in {_X_SECONDS} s"))
            text += chunk
        os.close(self._ready_end)

    def start_manager(self) -> None:
        self._start("openbox", "--sm-disable")

    def start_desktop(self) -> None:
        """To be called when the window manager answers: started together they wait for each other for a second."""
        self._start("pcmanfm", "--desktop", "--profile", "default")
        self._start("tint2")

    def _start(self, name: str, *args: str, pass_fds: Sequence[int] = ()) -> None:
        try:
            process = self.children.start(
                [f"/usr/bin/{name}", *args], self._env, user=False, pass_fds=tuple(pass_fds), cwd=self._home,
                trusted=name == "Xvfb",  # whoever owns the server can see and type what they like
            )  # fmt: skip
        except OSError as error:
            raise StartError(f"{name} cannot be started: {error}") from error
        self._parts[name] = process
