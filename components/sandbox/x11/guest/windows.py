"""The windows as the window manager tells them (EWMH)."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from Xlib import X
from Xlib.display import Display
from Xlib.error import XError
from Xlib.protocol.event import ClientMessage

_MAX_WINDOWS = 1024
_TITLE_WORDS = 64
_LOOK = 0.25
"""Seconds until another look when no event came: a property of another window may have changed meanwhile."""


class Windows:
    """Reads on a connection of its own, which also hears of changes."""

    def __init__(self, name: str) -> None:
        self._display = Display(name)
        self._root = self._display.screen().root
        self._root.change_attributes(event_mask=X.PropertyChangeMask)
        self._display.sync()

    def listing(self) -> list[dict[str, Any]]:
        """All managed windows, oldest first: id, title, app (its class), kind (normal, dialog, desktop, dock, ...),
        box (x0, y0, x1, y1), active, pid (0 = unknown)."""
        active = self._property(self._root, "_NET_ACTIVE_WINDOW")
        current = int(active[0]) if active else 0
        found = []
        for number in self._property(self._root, "_NET_CLIENT_LIST") or ():
            with suppress(XError):  # it closed while we looked
                found.append(self._describe(int(number), current))
        return found

    def ask(self, number: int, what: str) -> None:
        """`what`: activate or close. The window manager decides; raises ValueError for another wish."""
        messages = {"activate": ("_NET_ACTIVE_WINDOW", [2, X.CurrentTime, 0, 0, 0]),
                    "close": ("_NET_CLOSE_WINDOW", [X.CurrentTime, 2, 0, 0, 0])}  # fmt: skip
        if what not in messages:
            raise ValueError(f"a window cannot be asked to {what!r}")
        name, data = messages[what]
        window = self._display.create_resource_object("window", number)
        event = ClientMessage(window=window, client_type=self._display.intern_atom(name), data=(32, data))
        self._root.send_event(event, event_mask=X.SubstructureRedirectMask | X.SubstructureNotifyMask)
        self._display.sync()

    def manager_is_up(self) -> bool:
        return bool(self._property(self._root, "_NET_SUPPORTING_WM_CHECK"))

    def wait(self, condition: Callable[[], bool], limit: float) -> bool:
        """Until `condition` holds; False when it did not within `limit` seconds."""
        deadline = time.monotonic() + limit
        while not condition():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self._display.flush()
            select.select([self._display], [], [], min(left, _LOOK))
            while self._display.pending_events():
                self._display.next_event()
        return True

    def _describe(self, number: int, active: int) -> dict[str, Any]:
        window = self._display.create_resource_object("window", number)
        geometry = window.get_geometry()
        corner = window.translate_coords(self._root, 0, 0)
        x, y = -int(corner.x), -int(corner.y)
        names = self._class(window)
        kinds = self._property(window, "_NET_WM_WINDOW_TYPE")
        atom = self._display.get_atom_name(int(kinds[0])) if kinds else "_NET_WM_WINDOW_TYPE_NORMAL"
        pid = self._property(window, "_NET_WM_PID")
        return {
            "id": number,
            "title": self._title(window),
            "app": names,
            "kind": atom.removeprefix("_NET_WM_WINDOW_TYPE_").lower(),
            "box": [x, y, x + int(geometry.width), y + int(geometry.height)],
            "active": number == active,
            "pid": int(pid[0]) if pid else 0,
        }

    def _class(self, window: Any) -> str:
        """WM_CLASS holds two names, each with a NUL after it; the second is the application's."""
        value = self._property(window, "WM_CLASS", _TITLE_WORDS)
        parts = value.decode("utf-8", "replace").split("\0") if isinstance(value, bytes) else []
        return parts[1] if len(parts) > 1 else ""

    def _title(self, window: Any) -> str:
        for name in ("_NET_WM_NAME", "WM_NAME"):
            value = self._property(window, name, _TITLE_WORDS)
            if value:
                return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
        return ""

    def _property(self, window: Any, name: str, words: int = _MAX_WINDOWS) -> Any:
        """At most `words` times four bytes of it: any client may set any property, to any size."""
        found = window.get_property(self._display.intern_atom(name), X.AnyPropertyType, 0, words)
        return found.value if found is not None else None
