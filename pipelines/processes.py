"""Processes that do not outlive who started them, however that one ends."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from components.contracts.processes import die_with
from pipelines.waiting import wait_until


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
