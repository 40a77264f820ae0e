"""The gate before a fresh desktop is handed out: painted, settled, and with the right windows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from components.contracts.errors import SandboxError
from components.sandbox.x11.guest_calls import LAUNCH_QUIET, GuestCalls, Settled, Window

_DESKTOP_SECONDS = 20.0
_PANEL_SECONDS = 3.0
_SETTLE_SECONDS = 10.0
_ROUND_TRIP = 1.0


@dataclass(frozen=True)
class Health:
    """What the gate saw. `panel`: the panel came in time (it may be late, and is no condition)."""

    settled: Settled
    panel: bool
    round_trip: float
    """Seconds of one empty call."""


def check_fresh(guest: GuestCalls) -> Health:
    """Waits until a new desktop can be used. Raises `SandboxError` with what is wrong."""
    if guest.await_window(kind="desktop", limit=_DESKTOP_SECONDS) is None:
        raise _unfit(f"no desktop after {_DESKTOP_SECONDS:g} s")
    panel = guest.await_window(kind="dock", limit=_PANEL_SECONDS) is not None
    settled = guest.settle(limit=_SETTLE_SECONDS)
    if not settled.settled:
        raise _unfit(f"the screen did not settle within {_SETTLE_SECONDS:g} s ({settled})")
    if guest.shot(pointer=False).uniform:
        raise _unfit("the screen was never painted")
    start = time.monotonic()
    gone = guest.gone()
    took = time.monotonic() - start
    if gone:
        raise _unfit(f"{', '.join(gone)} ended")
    if took > _ROUND_TRIP:
        raise _unfit(f"the agent took {took:.2f} s to answer")
    windows = guest.windows()
    if windows:
        raise _unfit(f"there are windows already: {', '.join(window.title for window in windows)}")
    return Health(settled, panel, took)


def _unfit(reason: str) -> SandboxError:
    return SandboxError(f"a fresh desktop is unfit: {reason}", where="x11", remedy="start another; see .ci/x11")


_OBSTACLES = {
    "document recovery": "the application asks about a document of an earlier run",
    "in use": "the document counts as open elsewhere",
    "read-only": "the document cannot be changed",
    "read only": "the document cannot be changed",
    "crash report": "the application has crashed before",
    "safe mode": "the application offers to start without its settings",
    "locked": "the document or the profile is locked",
}
"""Words of a title that mean: this is no start for an episode."""


def window_problem(titles: Sequence[str], wanted: str) -> str:
    """Why these windows are no start for an episode whose application should show `wanted`; "" when they are.

    Windows decide, never lock files or processes: on the way through a recovery dialog there is no lock, and a process
    that waits there is alive.
    """
    for title in titles:
        for words, meaning in _OBSTACLES.items():
            if words in title.lower():
                return f"not_ready: the window {title!r} says that {meaning}"
    if not titles:
        return "not_ready: there is no window"
    if not any(wanted.lower() in title.lower() for title in titles):
        return f"not_ready: no window shows {wanted!r}, only {', '.join(map(repr, titles))}"
    return ""


def await_application(guest: GuestCalls, wanted: str, limit: float) -> Window:
    """Waits for the window that shows `wanted`, and that nothing stands in the way. Raises `SandboxError`: an
    application that does not come is never the policy's failure. `limit` in seconds."""
    window = guest.await_window(wanted, limit=limit)
    guest.settle(LAUNCH_QUIET, limit)
    problem = window_problem([one.title for one in guest.windows()], wanted)
    if problem or window is None:
        raise _unfit(f"{problem or 'the window closed again'} (after {limit:g} s at most)")
    return window
