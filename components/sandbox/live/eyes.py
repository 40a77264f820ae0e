"""Pictures of a desktop that changes by itself: a thread that asks its eye, and only while somebody watches."""

from __future__ import annotations

import threading
from typing import Protocol, runtime_checkable

from components.contracts.errors import CoworkError
from components.sandbox.live.hub import Hub

RATE = 8.0
"""Pictures a second at most."""
_PATIENCE = 0.5
"""Seconds a single question waits for a change."""


class EyeFrame(Protocol):
    @property
    def jpeg(self) -> bytes: ...

    @property
    def pointer(self) -> tuple[int, int]: ...


class Eye(Protocol):
    def frame(self, wait: float) -> EyeFrame | None: ...


@runtime_checkable
class HasEye(Protocol):
    """A desktop whose screen can be looked at beside its calls."""

    def eye(self) -> Eye | None: ...


class EyeThread:
    """Shows what `desktop`'s eye sees. A desktop that is closed or reset is looked for again."""

    def __init__(self, desktop: HasEye, hub: Hub) -> None:
        self._desktop, self._hub = desktop, hub
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="live-eye", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends it; to be called before or after the desktop is closed."""
        self._stop.set()
        self._hub.watched.set()  # wakes it
        self._thread.join(_PATIENCE + 5.0)

    def _run(self) -> None:
        eye: Eye | None = None
        while not self._stop.is_set():
            if not self._hub.watched.wait(_PATIENCE):
                continue
            try:
                eye = eye or self._desktop.eye()
                frame = eye.frame(_PATIENCE) if eye is not None else None
            except CoworkError:
                eye, frame = None, None
            if frame is not None:
                self._hub.show_encoded(frame.jpeg, frame.pointer)
            self._stop.wait(1 / RATE)
