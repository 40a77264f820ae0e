"""The sandbox's processes: list, stop, go on, kill, and how busy they are. All numbers come from /proc."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from components.sandbox.x11.guest.identity import as_user

_ROUNDS = 50
"""Passes of a kill or freeze before giving up: a fork bomb needs a few, since it forks between look and signal."""
_OOM_SCORE = "500"
"""What the user runs is taken first when memory ends; the agent and the X server are not."""


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    session: int
    state: str
    """R, S, D, T (stopped), Z (dead, not yet reaped), ..."""
    name: str


def processes() -> Iterator[Process]:
    """All processes of the namespace; those that end meanwhile are left out."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                    text = file.read()
                # The name stands in brackets and may itself hold brackets and spaces.
                head, _, tail = text.rpartition(")")
                fields = tail.split()
                yield Process(int(entry), int(fields[1]), int(fields[3]), fields[0], head.partition("(")[2])


def kill_all(keep: Collection[int], only: Callable[[Process], bool] = lambda process: True) -> int:
    """SIGKILL to all but `keep`, the first process and ourselves, until none is left. Returns how many were hit."""
    hit: set[int] = set()
    spared = {1, os.getpid(), *keep}
    for _ in range(_ROUNDS):
        found = [p for p in processes() if p.pid not in spared and p.state not in "ZX" and only(p)]
        if not found:
            break
        for process in found:
            hit.add(process.pid)
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal.SIGKILL)
    return len(hit)


def freeze_all(keep: Collection[int]) -> list[int]:
    """SIGSTOP to all but `keep`, the first process and ourselves. Returns the pids that stand still now.

    Done when two looks in a row find nobody running: nobody is left who could start or wake another.
    """
    spared = {1, os.getpid(), *keep}
    still: set[int] = set()
    quiet = 0
    for _ in range(_ROUNDS):
        running = [p.pid for p in processes() if p.pid not in spared and p.state not in "TtZX"]
        quiet = 0 if running else quiet + 1
        if quiet == 2:
            break
        for pid in running:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGSTOP)
                still.add(pid)
    return sorted(still)


def thaw(pids: Collection[int]) -> None:
    """SIGCONT to those that `freeze_all` stopped."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGCONT)


def descendants(pid: int) -> set[int]:
    children: dict[int, list[int]] = {}
    for process in processes():
        children.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


class Children:
    """What the agent started itself: reaped when they end, so that the process table does not fill."""

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[bytes]] = []

    def start(
        self, argv: Sequence[str], env: dict[str, str], *, user: bool, pass_fds: tuple[int, ...] = (), cwd: str = "/",
        trusted: bool = False,
    ) -> subprocess.Popen[bytes]:  # fmt: skip
        """`user`: an application, the first to go when memory ends. `trusted`: as the agent's own user, where there are
        two. Raises OSError when it cannot be started."""
        prefix = ["/usr/bin/choom", "-n", _OOM_SCORE, "--"] if user else []
        process = subprocess.Popen(
            [*prefix, *argv], env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, pass_fds=pass_fds, start_new_session=True, **({} if trusted else as_user()),
        )  # fmt: skip
        self._running.append(process)
        return process

    def reap(self) -> None:
        self._running = [process for process in self._running if process.poll() is None]


class Busy:
    """How much of a processor the others took *or waited for* between two looks.

    Waiting in the run queue counts: on a loaded machine an application that is starting gets little processor
    time, and by that time alone it would look idle.
    """

    def __init__(self, skip: Collection[int]) -> None:
        self._skip = {os.getpid(), *skip}
        self._last: dict[str, int] = self._read()

    def spent(self) -> float:
        """Seconds of processor wanted since the last call, over all threads."""
        now = self._read()
        last, self._last = self._last, now
        # A thread that is new since then counts whole; one that ended is not known any more.
        return sum(max(0, value - last.get(key, 0)) for key, value in now.items()) / 1e9

    def _read(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for thread in _threads(self._skip):
            with suppress(OSError, ValueError, IndexError):
                with open(f"{thread}/schedstat", "rb") as file:
                    run, wait = file.read().split()[:2]
                found[thread] = int(run) + int(wait)
        return found


def anyone_ready() -> bool:
    """Whether some thread but ours runs or waits for a processor right now, the X server's too.

    The kernel adds a wait to its sum only when it is over, so that one who gets no processor at all looks idle there.
    """
    for thread in _threads({os.getpid()}):
        with suppress(OSError):
            with open(f"{thread}/stat", "rb") as file:
                if file.read().rpartition(b")")[2].lstrip()[:1] == b"R":
                    return True
    return False


def _threads(skip: Collection[int]) -> Iterator[str]:
    """Folders of all threads, but those of the processes in `skip`."""
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) not in skip:
            with suppress(OSError):
                for thread in os.listdir(f"/proc/{entry}/task"):
                    yield f"/proc/{entry}/task/{thread}"
