"""The screen for people who watch: JPEG pictures, made only when something has changed.

It has its own connections to the X server and its own socket to the host, and runs in a thread of the agent, so that
a command that takes long or a screen that does not settle can be watched. Nothing is opened before someone watches.
"""

from __future__ import annotations

import io
import select
import socket
import time
from contextlib import suppress
from typing import Any

from components.sandbox.x11.guest import wire

_TICK = 0.1
"""Seconds between two looks at the pointer, whose movements damage nothing."""
_QUALITY = 82


class Eye:
    """Counts changes; a picture belongs to a count. For one thread."""

    def __init__(self, name: str) -> None:
        from Xlib import display as xdisplay
        from Xlib.ext import damage

        from components.sandbox.x11.guest.grab import Grabber

        self._display = xdisplay.Display(name)
        self._display.xfixes_query_version()
        self._display.damage_query_version()
        self._root = self._display.screen().root
        self._damage = self._root.damage_create(damage.DamageReportBoundingBox)
        self._display.sync()
        self._grabber = Grabber(name)
        self._pointer = (-1, -1)
        self._count = 0

    def frame(self, since: int, wait: float) -> tuple[dict[str, Any], bytes]:
        """The picture of a count other than `since`, or no bytes when nothing has changed for `wait` seconds."""
        from components.sandbox.x11.guest.grab import draw_pointer

        deadline = time.monotonic() + wait
        while True:
            self._look()
            left = deadline - time.monotonic()
            if self._count != since or left <= 0:
                break
            select.select([self._display], [], [], min(_TICK, left))
        about = {"count": self._count, "pointer": self._pointer}
        if self._count == since:
            return about, b""
        out = io.BytesIO()
        picture = draw_pointer(self._grabber.rgb(), self._display, self._root)
        picture.save(out, "JPEG", quality=_QUALITY)
        return about, out.getvalue()

    def _look(self) -> None:
        while self._display.pending_events():
            if getattr(self._display.next_event(), "area", None) is not None:
                self._display.damage_subtract(self._damage, 0, 0)
                self._count += 1
        self._display.flush()
        at = self._root.query_pointer()
        if (at.root_x, at.root_y) != self._pointer:
            self._pointer = (int(at.root_x), int(at.root_y))
            self._count += 1


def serve(sock: socket.socket, name: str) -> None:
    """Answers `frame` requests until the host closes the socket. What goes wrong is an answer; the agent lives on."""
    eye: Eye | None = None
    with suppress(wire.Closed):
        while True:
            request, _ = wire.receive(sock)
            number, args, data = request.get("id"), request.get("args") or {}, b""
            try:
                eye = eye or Eye(name)
                about, data = eye.frame(int(args.get("since", -1)), min(float(args.get("wait", 0.0)), 10.0))
                answer: dict[str, Any] = {"id": number, "result": about}
            except Exception as error:
                answer = {"id": number, "error": {"kind": "agent", "message": f"{type(error).__name__}: {error}"}}
            wire.send(sock, answer, data)
