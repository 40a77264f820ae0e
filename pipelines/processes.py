"""Processes that do not outlive who started them, however that one ends."""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress

from pipelines.waiting import wait_until

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, also by SIGKILL. `parent`: its pid, to see a lost race.

    Works for the calling process alone; it survives exec but not fork (see `die_with_every_parent`).
    """
    with suppress(OSError, AttributeError):  # not Linux: process groups and closed sockets have to do
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def die_with_every_parent() -> None:
    """Bind this process's future forks (worker pools) to it likewise."""
    pids = {"self": os.getpid()}

    def child() -> None:
        die_with(pids["self"])
        pids["self"] = os.getpid()

    os.register_at_fork(after_in_child=child)


def end_group(pid: int, seconds: float = 3.0) -> None:
    """End the process group led by `pid`: first asked, then killed. Nothing happens when it is gone."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGTERM)
        if not wait_until(lambda: not group_alive(pid), seconds):
            os.killpg(pid, signal.SIGKILL)


def group_alive(pid: int) -> bool:
    """Whether any process of the group is left."""
    try:
        os.killpg(pid, 0)
        return True
    except ProcessLookupError:
        return False
    except PermissionError:
        return True


def alive(pid: int) -> bool:
    """Whether a process of that id exists on this machine and is not a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as handle:
            return handle.read().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return True
