"""How many applications of a host may start at the same time.

A starting LibreOffice or Chromium wants a core for some seconds: many at once make every one late, and a window that
is late looks like a broken sandbox. Whoever starts an application takes a turn here. A slot host with a better idea (a
limit over processes, say) puts its own in place with `limit_by`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

Limiter = Callable[[], AbstractContextManager[object]]
"""Gives a context: entered before a start, left when its window has settled."""


def at_once(count: int) -> Limiter:
    """At most `count` starts at the same time, over all threads of this process."""
    gate = threading.BoundedSemaphore(count)

    @contextmanager
    def turn() -> Iterator[None]:
        with gate:
            yield

    return turn


_limiter: Limiter = at_once(max(1, os.cpu_count() or 1))


def limit_by(limiter: Limiter) -> Limiter:
    """Puts a limiter in place for this process and returns the one before."""
    global _limiter
    before, _limiter = _limiter, limiter
    return before


def turn() -> AbstractContextManager[object]:
    """One start's turn: `with turn(): ...`."""
    return _limiter()
