"""The gate before a fresh desktop is handed out: painted, settled, and with the right windows."""

from __future__ import annotations

import time
from dataclasses import dataclass

from components.contracts.errors import SandboxError
from components.sandbox.x11.guest_calls import GuestCalls, Settled

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
