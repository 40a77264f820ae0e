"""Processes named so that a number given to another process later is never mistaken for it: pid and start time."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from select import POLLIN, poll
from typing import NamedTuple


class Process(NamedTuple):
    """`start`: clock ticks since boot, as /proc tells; "" matches no process."""

    pid: int
    start: str


def start_of(pid: int) -> str:
    """When a process started; "" when there is none, or only its remains (a zombie)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return "" if fields[0] in ("Z", "X") else fields[19]
    except (OSError, IndexError):
        return ""


def this_process() -> Process:
    return Process(os.getpid(), start_of(os.getpid()))


def boot_id() -> str:
    """Names this run of the machine: start times mean nothing in another."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def alive(process: Process) -> bool:
    return bool(process.start) and start_of(process.pid) == process.start


def kill(process: Process, seconds: float) -> bool:
    """Kill this very process and wait. True when it is gone; a later one of the same pid is left alone."""
    try:
        handle = os.pidfd_open(process.pid)
    except (ProcessLookupError, OSError):
        return not alive(process)
    try:
        # The descriptor stands for whatever has the pid now. If that started at our time it is ours, and stays so.
        if not alive(process):
            return True
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        return ended(handle, seconds)
    finally:
        os.close(handle)


def ended(pidfd: int, seconds: float) -> bool:
    """Whether the process behind a descriptor ends within `seconds`."""
    waiter = poll()
    waiter.register(pidfd, POLLIN)
    return bool(waiter.poll(seconds * 1000))
