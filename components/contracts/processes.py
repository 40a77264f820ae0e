"""Processes that do not outlive who started them."""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, also by SIGKILL. `parent`: its pid, to see a lost race.

    Works for the calling process alone; it survives exec but not fork.
    """
    with suppress(OSError, AttributeError):  # not Linux: process groups and closed sockets have to do
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
