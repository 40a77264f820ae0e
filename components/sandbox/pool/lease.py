"""One lease: a place in the pool, the slot it uses now, what was asked of it, and its clocks."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from typing import Any

from components.contracts.errors import CoworkError
from components.contracts.task import Task
from components.sandbox.pool.errors import LeaseEndedError
from components.sandbox.pool.ledger import Ledger
from components.sandbox.pool.models import Deadlines, LeaseInfo, LeaseRequest, Seen
from components.sandbox.pool.providers import Slot


class Prepared:
    """A slot in which the next task is being set up."""

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        self.future: Future[tuple[Slot, Seen]] = Future()

    @property
    def state(self) -> str:
        if not self.future.done():
            return "preparing"
        return "failed" if self.future.cancelled() or self.future.exception() else "ready"


class Lease:
    """`lock` is held by whoever works with the slot. The clocks may be looked at without it."""

    def __init__(self, lease_id: str, request: LeaseRequest, deadlines: Deadlines, ttl: float, waited: float) -> None:
        self.lease_id, self.request, self.deadlines, self.ttl, self.waited = lease_id, request, deadlines, ttl, waited
        self.owner = request.labels.get("run", "")
        self.lock = threading.RLock()
        self.ledger = Ledger()
        self.slot: Slot | None = None
        self.used = False
        self.size = (0, 0)
        self.task: Task | None = None
        self.failure: CoworkError | None = None
        self.prepared: Prepared | None = None
        self.episode_ends = float("inf")
        self.began = time.monotonic()
        self.ended = ""
        self._expires = time.monotonic() + ttl

    def beat(self) -> None:
        """Heard from its holder. Raises `LeaseEndedError`."""
        if self.ended:
            raise LeaseEndedError(self.ended)
        self._expires = time.monotonic() + self.ttl

    @property
    def expires_in(self) -> float:
        return self._expires - time.monotonic()

    @property
    def episode_left(self) -> float:
        return self.episode_ends - time.monotonic()

    @property
    def state(self) -> str:
        return "ended" if self.ended else "failed" if self.failure else "episode" if self.task else "idle"

    def info(self, host: str) -> LeaseInfo:
        return LeaseInfo(
            lease=self.lease_id, host=host, backend=self.request.slot.backend, size=self.size, ttl=self.ttl,
            expires_in=max(0.0, round(self.expires_in, 3)), deadlines=self.deadlines, waited=round(self.waited, 3),
        )  # fmt: skip

    def summary(self) -> dict[str, Any]:
        """For the host's status page: no task content."""
        return {
            "lease": self.lease_id[:8], "state": self.state, "backend": self.request.slot.backend,
            "labels": self.request.labels, "age": round(time.monotonic() - self.began, 1),
            "expires_in": round(self.expires_in, 1), "prepared": self.prepared.state if self.prepared else "",
        }  # fmt: skip
