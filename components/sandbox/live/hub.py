"""What is to be seen of a slot: the newest picture, the log of steps, who is in control. Any thread may ask or tell.

Nobody waits for a viewer: there is one newest picture, and a viewer that is slow misses those in between.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from components.contracts.desktop import Observation, Screen

LOG_LIMIT = 2000
"""Entries that are kept; older ones go."""
_SMALL = 640
"""Screens narrower than this are pixel art: lossless, they are smaller than a JPEG and stay sharp."""
_QUALITY = 82


@dataclass(frozen=True)
class Picture:
    """`data` is a PNG or a JPEG; `number` grows with every picture."""

    number: int
    data: bytes
    pointer: tuple[int, int] | None


class Hub:
    """One slot's state for its viewers."""

    def __init__(self, size: tuple[int, int], *, title: str = "", backend: str = "", task: str = "") -> None:
        self.size = size
        self.about = {"title": title, "backend": backend, "task": task, "size": list(size)}
        self._lock = threading.Lock()
        self._picture: Picture | None = None
        self._pixels: Screen | None = None
        self._log: list[dict[str, Any]] = []
        self._dropped = 0
        self._state: dict[str, Any] = {"text": "", "kind": "idle"}
        self._listeners: set[Callable[[], None]] = set()
        self.watched = threading.Event()
        """Set while there is a viewer: nobody makes pictures for nobody."""

    # -- telling -------------------------------------------------------------------------------------------------

    def show(self, seen: Observation) -> None:
        """A screen as the agent sees it. The same one again is nothing new."""
        with self._lock:
            if self._pixels is not None and np.array_equal(self._pixels, seen.screen):
                if self._picture is None or self._picture.pointer == seen.pointer:
                    return
        data = encode(seen.screen)
        with self._lock:
            self._pixels = seen.screen
            self._picture = Picture(self._number(), data, seen.pointer)
        self._wake()

    def show_encoded(self, data: bytes, pointer: tuple[int, int] | None) -> None:
        """A picture that someone else has encoded."""
        with self._lock:
            self._pixels = None
            self._picture = Picture(self._number(), data, pointer)
        self._wake()

    def tell(self, entry: dict[str, Any]) -> None:
        """One more line of the log: plain JSON."""
        with self._lock:
            self._log.append(entry)
            if len(self._log) > LOG_LIMIT:
                self._log.pop(0)
                self._dropped += 1
        self._wake()

    def set_state(self, text: str, kind: str = "idle") -> None:
        """What goes on now, in a few words. `kind`: idle, thinking, acting, waiting, ended, failed."""
        with self._lock:
            self._state = {"text": text, "kind": kind}
        self._wake()

    # -- asking --------------------------------------------------------------------------------------------------

    @property
    def picture(self) -> Picture | None:
        return self._picture

    @property
    def state(self) -> dict[str, Any]:
        return self._state

    def log_since(self, place: int) -> tuple[list[dict[str, Any]], int]:
        """Entries from `place` on (0 = the first ever), and the place after them."""
        with self._lock:
            start = max(0, place - self._dropped)
            return self._log[start:], self._dropped + len(self._log)

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Has `wake` called (from any thread) whenever there is something new; returns how to end that."""
        with self._lock:
            self._listeners.add(wake)
            self.watched.set()

        def end() -> None:
            with self._lock:
                self._listeners.discard(wake)
                if not self._listeners:
                    self.watched.clear()

        return end

    def _number(self) -> int:
        return self._picture.number + 1 if self._picture else 1

    def _wake(self) -> None:
        with self._lock:
            listeners = list(self._listeners)
        for wake in listeners:
            wake()


def encode(screen: Screen) -> bytes:
    """The picture as viewers get it: PNG for small screens, JPEG for real ones."""
    from PIL import Image

    out = io.BytesIO()
    image = Image.fromarray(screen)
    if screen.shape[1] < _SMALL:
        image.save(out, "PNG", compress_level=3)
    else:
        image.save(out, "JPEG", quality=_QUALITY)
    return out.getvalue()
