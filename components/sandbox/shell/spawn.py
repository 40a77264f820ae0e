"""Starting guest processes so that they live as long as this process, not as long as the calling thread.

"Die with the parent" is the kernel's parent-death signal, and for it the parent is the *thread* that forked
(prctl(2), PR_SET_PDEATHSIG): a shell started from a worker thread would die with that worker. So whatever is not
the main thread hands the start to one thread that never ends. `Popen` without `preexec_fn` uses vfork, so the
size of this process does not matter.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from select import POLLIN, poll
from typing import TypeVar

from components.contracts.errors import SandboxError
from components.sandbox.confine import Launch

Started = TypeVar("Started")

_starter: ThreadPoolExecutor | None = None
_starter_lock = threading.Lock()


def _forget_starter() -> None:
    """After a fork the child has no such thread."""
    global _starter, _starter_lock
    _starter, _starter_lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_starter)


@dataclass
class Guest:
    """A started guest. `control` and `report` are its standard input and standard error, `output` its output.

    `pidfd` is the process we started; `init_pidfd` the first of the guest's process namespace, once known.
    """

    process: subprocess.Popen[bytes]
    pidfd: int
    control: int
    output: int
    report: int
    init_pidfd: int | None = None


def start(launch: Launch) -> Guest:
    """Start the guest with three non-blocking pipes. Raises `SandboxError` when it cannot be started at all."""
    return lasting(lambda: _start(launch))


def lasting(work: Callable[[], Started]) -> Started:
    """Does `work` on a thread that lives as long as this process, and gives back what it returns or raises."""
    global _starter
    if threading.current_thread() is threading.main_thread():
        return work()
    with _starter_lock:
        if _starter is None:
            _starter = ThreadPoolExecutor(1, thread_name_prefix="guest-starter")
        starter = _starter
    return starter.submit(work).result()


def _start(launch: Launch) -> Guest:
    pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(3)]
    (control_end, control), (output, output_end), (report, report_end) = pipes
    try:
        with launch.arguments() as (argv, fds):
            process = subprocess.Popen(
                argv, stdin=control_end, stdout=output_end, stderr=report_end, env=launch.env, cwd=launch.cwd,
                pass_fds=fds, start_new_session=True,
            )  # fmt: skip
    except OSError as error:
        for end in (control, output, report):
            os.close(end)
        raise SandboxError(f"the shell could not be started: {error}", where=launch.argv[0],
                           remedy="run `cowork doctor`") from error  # fmt: skip
    finally:
        for end in (control_end, output_end, report_end):
            os.close(end)
    for end in (control, output, report):
        os.set_blocking(end, False)
    return Guest(process, os.pidfd_open(process.pid), control, output, report)


def find_init(guest: Guest) -> None:
    """Remember the first process of the guest's process namespace. To be called when the guest has reported."""
    if guest.init_pidfd is None:
        guest.init_pidfd = open_init(guest.process.pid)


def has_ended(guest: Guest) -> bool:
    """Whether the guest is gone by its own doing."""
    waiter = poll()
    waiter.register(guest.pidfd, POLLIN)
    return bool(waiter.poll(0))


def stop(guest: Guest, *, confined: bool, deadline_seconds: float = 5.0) -> int:
    """Kill the guest with everything it started, wait until all of it is gone, and return its exit status (0..255)."""
    if confined:
        find_init(guest)
        if guest.init_pidfd is not None:
            kill_namespace(guest.init_pidfd, deadline_seconds)
        with suppress(subprocess.TimeoutExpired):  # it ends by itself now, with the status
            guest.process.wait(0.2 if guest.init_pidfd is not None else 0)
    else:
        with suppress(ProcessLookupError):
            os.killpg(guest.process.pid, signal.SIGKILL)
    guest.process.kill()
    code = guest.process.wait()
    for end in (guest.control, guest.output, guest.report, guest.pidfd):
        os.close(end)
    return code if code >= 0 else 128 - code


def kill_namespace(init_pidfd: int, deadline_seconds: float) -> None:
    """Kill a process namespace by its first process, wait until all of it is gone, and close the descriptor.

    The kernel reports the first process dead only after it has killed and reaped all others there
    (pid_namespaces(7)), so when this returns nothing in it can touch a file any more.
    """
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(init_pidfd, signal.SIGKILL)
    waiter = poll()
    waiter.register(init_pidfd, POLLIN)
    waiter.poll(deadline_seconds * 1000)
    os.close(init_pidfd)


def open_init(pid: int) -> int | None:
    """A descriptor of the first process of the namespace that `pid` started; None when there is none (yet)."""
    init = _namespace_init(pid)
    if init is not None:
        with suppress(ProcessLookupError):
            return os.pidfd_open(init)
    return None


def _namespace_init(pid: int) -> int | None:
    """First descendant of `pid` that is in a process namespace below ours; None when there is none (yet)."""
    here = os.stat("/proc/self/ns/pid").st_ino
    generation = [pid]
    for _ in range(4):  # launcher, perhaps its helper, first process: never deeper
        generation = [child for parent in generation for child in _children(parent)]
        for child in generation:
            with suppress(OSError):
                if os.stat(f"/proc/{child}/ns/pid").st_ino != here:
                    return child
    return None


def _children(pid: int) -> list[int]:
    """Of all its threads: the kernel lists a child with the thread that forked it."""
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found
