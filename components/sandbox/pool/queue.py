"""Who gets the next free slot: the run that holds the fewest, and within a run who came first."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field

from components.sandbox.pool.errors import PoolFullError


@dataclass(eq=False)
class Ticket:
    """A place in the queue. `cancel` when whoever waits is gone."""

    owner: str
    number: int
    granted: bool = False
    cancelled: bool = False
    _queue: FairQueue | None = field(default=None, repr=False)

    def cancel(self) -> None:
        assert self._queue is not None
        self._queue.cancel(self)


class FairQueue:
    """Hands out `capacity` places. At most `longest` wait; more are told at once that the pool is full."""

    def __init__(self, capacity: int, longest: int) -> None:
        self.capacity, self.longest = capacity, longest
        self._held: Counter[str] = Counter()
        self._waiting: list[Ticket] = []
        self._numbers = 0
        self._condition = threading.Condition()
        self._closed = False

    @property
    def taken(self) -> int:
        return self._held.total()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def ticket(self, owner: str) -> Ticket:
        """Line up. Raises `PoolFullError` when the line is too long."""
        with self._condition:
            if len(self._waiting) >= self.longest:
                raise PoolFullError(f"{self.longest} wait already", 5.0)
            self._numbers += 1
            ticket = Ticket(owner, self._numbers, _queue=self)
            self._waiting.append(ticket)
            self._grant()
            return ticket

    def wait(self, ticket: Ticket, seconds: float) -> None:
        """Returns when the place is the ticket's. Raises `PoolFullError` after `seconds`, or when it was cancelled."""
        with self._condition:
            self._condition.wait_for(lambda: ticket.granted or ticket.cancelled or self._closed, seconds)
            if ticket.granted:
                return
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            why = "the host is closing" if self._closed else f"no slot of {self.capacity} came free in {seconds:g} s"
            raise PoolFullError("whoever waited is gone" if ticket.cancelled else why, max(1.0, min(30.0, seconds / 2)))

    def cancel(self, ticket: Ticket) -> None:
        with self._condition:
            ticket.cancelled = True
            self._condition.notify_all()

    def release(self, owner: str) -> None:
        """A place is free again."""
        with self._condition:
            self._held[owner] -= 1
            if self._held[owner] <= 0:
                del self._held[owner]
            self._grant()

    def close(self) -> None:
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def _grant(self) -> None:
        while self._waiting and self.taken < self.capacity and not self._closed:
            ticket = min((t for t in self._waiting), key=lambda t: (t.cancelled, self._held[t.owner], t.number))
            if ticket.cancelled:
                break
            self._waiting.remove(ticket)
            ticket.granted = True
            self._held[ticket.owner] += 1
        self._condition.notify_all()
