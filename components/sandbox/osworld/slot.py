"""One desktop of ours that is open for OSWorld's API, and its serving on loopback."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from components.contracts.errors import SandboxError
from components.contracts.task import Task
from components.sandbox.osworld.guest import Guest
from components.sandbox.osworld.native import NativeGuest
from components.sandbox.x11.desktop import X11Desktop

if TYPE_CHECKING:
    from components.sandbox.osworld.sources import Sources

_START_SECONDS = 15.0
_LOOPBACK = "127.0.0.1"


class Slot:
    """A desktop that is replaced as a whole by `reset`; requests meanwhile wait."""

    def __init__(self, desktop: Callable[[], X11Desktop]) -> None:
        self._open = desktop
        self._lock = threading.RLock()
        self._desktop: X11Desktop | None = None
        self._guest: NativeGuest | None = None

    def reset(self) -> None:
        """A fresh sandbox. Raises `SandboxError`."""
        with self._lock:
            if self._desktop is None:
                self._desktop = self._open()
            self._guest = None
            self._desktop.reset(_nothing())
            self._guest = NativeGuest.begin(self._desktop.guest, self._desktop.size)

    def guest(self) -> Guest:
        """The open desktop. Raises `SandboxError` when there is none."""
        with self._lock:
            if self._guest is None:
                raise SandboxError("no desktop is open", where="osworld slot", remedy="POST /slot/reset")
            return self._guest

    @property
    def desktop(self) -> X11Desktop:
        """For who looks from outside. Raises `SandboxError`."""
        with self._lock:
            if self._desktop is None:
                raise SandboxError("no desktop is open", where="osworld slot", remedy="reset it")
            return self._desktop

    def close(self) -> None:
        with self._lock:
            if self._desktop is not None:
                self._desktop.close()
            self._desktop = self._guest = None


def _nothing() -> Task:
    """A desktop as such: what is done on it comes by the API."""
    return Task.build(
        skill="osworld", workflow="slot", apps=(), channels=(), instruction="", wording="", spec={}, setup=(),
        verifier=(), split="heldout",
    )  # fmt: skip


def listen(port: int = 0) -> socket.socket:
    """A loopback socket; port 0 takes a free one. Raises `SandboxError`."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((_LOOPBACK, port))
    except OSError as error:
        sock.close()
        raise SandboxError(f"port {port} cannot be had: {error.strerror}", where="osworld slot",
                           remedy="choose another with --port") from error  # fmt: skip
    return sock


@contextmanager
def served(slot: Slot, sources: Sources | None = None, port: int = 0) -> Iterator[str]:
    """Serves the API of a slot in a thread while the block runs; gives its address."""
    import uvicorn

    from components.sandbox.osworld.server import build_app

    sock = listen(port)
    config = uvicorn.Config(
        build_app(slot, sources), log_level="warning", lifespan="off", access_log=False, server_header=False,
        timeout_graceful_shutdown=5,
    )  # fmt: skip
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, name="osworld-api", daemon=True)
    thread.start()
    try:
        _await(sock)
        yield f"http://{_LOOPBACK}:{sock.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(_START_SECONDS)
        sock.close()


def _await(sock: socket.socket) -> None:
    """Until the server answers; connections wait in the socket's queue from the moment it listens."""
    import httpx

    try:
        sock.listen(128)
        address = f"http://{_LOOPBACK}:{sock.getsockname()[1]}/nothing"
        httpx.get(address, timeout=_START_SECONDS, trust_env=False)
    except httpx.HTTPError as error:
        raise SandboxError(f"the API did not start: {error}", where="osworld slot") from error
