"""Application starts, at most so many at once on a host: they are what a processor is short of, not open desktops.

A slot asks over its own line and the host answers when it may. What a slot holds goes back when it says so, when its
setup ends, or when it dies: a lock in files or in shared memory would be lost with a killed slot.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from components.sandbox.x11.guest_calls import LAUNCH_LIMIT, GuestCalls, Window


class StartGate:
    """A slot's side. `ask` returns when the host lets it start, `tell` says that the start is over."""

    def __init__(self, ask: Callable[[], None], tell: Callable[[], None]) -> None:
        self._ask, self._tell = ask, tell
        self._depth = 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """For the time of one application start: `with gate(): ...`. Nested it counts once."""
        if self._depth == 0:
            self._ask()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                self._tell()


class GatedGuest(GuestCalls):
    """A desktop for setups whose `open` waits its turn. `launch` alone does not: nothing says when it is over."""

    def __init__(self, guest: GuestCalls, gate: StartGate) -> None:
        super().__init__(guest._channel)
        self._gate = gate

    def open(self, argv: Sequence[str], text: str, *, limit: float = LAUNCH_LIMIT) -> Window | None:
        with self._gate():
            return super().open(argv, text, limit=limit)


class StartLimiter:
    """The host's side: a counting semaphore that says how many wait."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._free = most
        self._condition = threading.Condition()
        self.waiting = 0

    @property
    def running(self) -> int:
        return self.most - self._free

    def acquire(self, seconds: float) -> bool:
        """Whether a place came free within `seconds`."""
        with self._condition:
            self.waiting += 1
            try:
                if not self._condition.wait_for(lambda: self._free > 0, max(0.0, seconds)):
                    return False
                self._free -= 1
                return True
            finally:
                self.waiting -= 1

    def release(self) -> None:
        with self._condition:
            self._free += 1
            self._condition.notify()
