"""Waiting for something that no file descriptor announces: short looks until a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable

LOOK = 0.05
"""Seconds between two looks: below what a person notices, above what a processor does."""


def wait_until(done: Callable[[], bool], seconds: float, look: float = LOOK) -> bool:
    """Whether `done()` became true within `seconds`. It is asked at once, and a last time at the deadline."""
    deadline = time.monotonic() + seconds
    while not done():
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(look, left))
    return True
