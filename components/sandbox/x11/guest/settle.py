"""When has the screen settled? Nothing painted for a while, and nobody at work, over the same while.

Neither alone is right. An application that is starting paints nothing for a second at a time; a chart that is
painted slowly leaves the processor idle between parts.
"""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Collection
from typing import Any

from Xlib import display as xdisplay
from Xlib.ext import damage

from components.sandbox.x11.guest.processes import Busy, anyone_ready

_TICK = 0.05
"""Seconds between two looks at the processes. The screen needs none: its changes arrive as events."""
_GLANCE = 0.005
_IDLE_SHARE = 0.2
"""Share of one core below which the applications together count as idle."""
_SMALL = (24, 40)
"""Damage no larger than this (width, height) is a blinking caret and does not count."""


class Settling:
    """Watches the root window for damage, on a connection of its own."""

    def __init__(self, name: str, skip: Collection[int]) -> None:
        """`skip`: processes that are not at work for the user (the X server). Raises Xlib's connection errors."""
        self._display = xdisplay.Display(name)
        self._display.damage_query_version()
        self._damage = self._display.screen().root.damage_create(damage.DamageReportBoundingBox)
        self._display.sync()
        self._skip = skip
        self._painted = 0

    def fileno(self) -> int:
        return int(self._display.fileno())

    def wait(self, quiet: float, limit: float) -> dict[str, Any]:
        """Until settled for `quiet` seconds or `limit` seconds have passed; says which, and what it saw.

        settled, seconds it took, painted (events of any size since `begin`), busy (share of a core at the end).
        """
        start = painted = time.monotonic()
        busy = Busy(self._skip)
        looks: deque[tuple[float, float]] = deque()
        while True:
            now = time.monotonic()
            if now - start >= limit:
                return self._report(False, now - start, looks, quiet)
            select.select([self._display], [], [], min(_TICK, start + limit - now))
            now = time.monotonic()
            if self._drain():
                painted = now
            if not looks or now - looks[-1][0] >= _TICK * 0.8:
                looks.append((now, busy.spent()))
            while looks and looks[0][0] < now - quiet:
                looks.popleft()
            worked = sum(spent for _, spent in looks)
            still = now - painted >= quiet and now - start >= quiet and worked < _IDLE_SHARE * quiet
            if still and not anyone_ready():
                return self._report(True, now - start, looks, quiet)

    def wait_for_change(self, limit: float) -> bool:
        """Until something larger than a caret is painted; False when `limit` seconds pass without."""
        deadline = time.monotonic() + limit
        while not self._drain():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            select.select([self._display], [], [], left)
        return True

    def wait_until_handled(self, limit: float) -> bool:
        """Until nobody has anything to do at this moment; False when that was not so within `limit` seconds.

        Much less than settled: it lets the window manager and the application take an event before the next comes.
        """
        deadline = time.monotonic() + limit
        while anyone_ready():
            if time.monotonic() >= deadline:
                return False
            select.select([self._display], [], [], _GLANCE)
            self._drain()
        return True

    def begin(self) -> None:
        """Forgets what was painted so far: `wait` counts from here."""
        self._drain()
        self._painted = 0

    def _report(
        self, settled: bool, seconds: float, looks: Collection[tuple[float, float]], quiet: float
    ) -> dict[str, Any]:
        share = sum(spent for _, spent in looks) / quiet if quiet else 0.0
        return {"settled": settled, "seconds": round(seconds, 3), "painted": self._painted, "busy": round(share, 3)}

    def _drain(self) -> int:
        """Takes all damage events that are there; returns how many were larger than a caret."""
        count = 0
        while self._display.pending_events():
            event = self._display.next_event()
            area = getattr(event, "area", None)
            if area is None:
                continue
            self._display.damage_subtract(self._damage, 0, 0)
            self._painted += 1
            count += area.width > _SMALL[0] or area.height > _SMALL[1]
        self._display.flush()
        return count
