"""What happens in a lease's slot: a task set up, calls within their deadlines, the next task prepared beside it."""

from __future__ import annotations

import base64
import threading
import time
from typing import Any

from components.contracts.errors import CoworkError, SandboxError
from components.contracts.task import Task
from components.sandbox.pool.errors import Deadline, DeadlineError, LeaseEndedError
from components.sandbox.pool.lease import Lease, Prepared
from components.sandbox.pool.metrics import Metrics, kind_of
from components.sandbox.pool.models import HEADROOM, Seen
from components.sandbox.pool.providers import Slot
from components.sandbox.pool.stock import Stock


class Episodes:
    """Works on leases whose `lock` the caller holds. `lock` guards what a lease's end and its use both change."""

    def __init__(self, stock: Stock, metrics: Metrics, lock: threading.Lock) -> None:
        self._stock, self._metrics, self._lock = stock, metrics, lock

    def reset(self, lease: Lease, task: Task) -> Seen:
        """A sandbox of its own for this task: the prepared one, the unused one of the lease, or another."""
        with self._lock:
            prepared, lease.prepared = lease.prepared, None
            old = lease.slot if lease.used or lease.failure else None
            if old is not None:
                lease.slot = None
            lease.task, lease.failure, lease.episode_ends = None, None, float("inf")
        if old is not None:
            self._stock.end(old, "used")
        if prepared is not None and prepared.task_id == task.task_id:
            try:
                slot, seen = prepared.future.result(lease.deadlines.create + lease.deadlines.setup + HEADROOM)
            except (CoworkError, TimeoutError):
                self.discard(prepared)  # as if nothing had been prepared
            else:
                if not self._stock.provider(slot.spec.backend).unfit(slot):
                    if lease.slot is not None:
                        self._stock.end(lease.slot, "unused")
                    self._attach(lease, slot, used=True)
                    return self._begin(lease, task, seen)
                self._stock.end(slot, "unfit")
        else:
            self.discard(prepared)
        if lease.slot is None or self._stock.provider(lease.slot.spec.backend).unfit(lease.slot):
            if lease.slot is not None:
                self._stock.end(lease.slot, "unfit")
            self._attach(lease, self._stock.take(lease.request.slot, lease.deadlines.create))
        lease.used = True
        try:
            seen = seen_of(
                *self.call(lease, "reset", {"task": task.model_dump(mode="json")}, lease.deadlines.setup, "setup")
            )
        except CoworkError as error:
            if lease.slot is not None:
                self.fail(lease, lease.slot, error)
            raise
        return self._begin(lease, task, seen)

    def _begin(self, lease: Lease, task: Task, seen: Seen) -> Seen:
        lease.used, lease.task = True, task
        lease.episode_ends = time.monotonic() + lease.deadlines.episode
        return seen

    def _attach(self, lease: Lease, slot: Slot, *, used: bool = False) -> None:
        with self._lock:
            ended = lease.ended
            if not ended:
                lease.slot, lease.size, lease.used = slot, slot.size, used
        if ended:
            self._stock.end(slot, "released")
            raise LeaseEndedError(ended)
        self.mark(lease, slot)

    def mark(self, lease: Lease, slot: Slot) -> None:
        """Before the first task. A cluster that cannot be told at once cannot keep its backstop off us either."""
        self._stock.provider(slot.spec.backend).mark(slot, {"run": lease.owner, "lease": lease.lease_id})

    def prepare(self, lease: Lease, prepared: Prepared, task: Task) -> None:
        """Sets a task up in a slot of its own; `prepared` gets the outcome. Runs in a thread of its own."""
        slot: Slot | None = None
        try:
            with self._metrics.operation("prefetch"):
                slot = self._stock.take(lease.request.slot, lease.deadlines.create)
                seen = seen_of(
                    *slot.link.call(
                        "reset", {"task": task.model_dump(mode="json")}, seconds=lease.deadlines.setup,
                        late=lambda: DeadlineError("setup", lease.deadlines.setup),
                    )
                )  # fmt: skip
            prepared.future.set_result((slot, seen))
        except BaseException as error:
            if slot is not None:
                self._stock.end(slot, kind_of(error))
            prepared.future.set_exception(error)

    def discard(self, prepared: Prepared | None) -> None:
        """What was prepared in vain ends as soon as it is there."""
        if prepared is None:
            return

        def done(future: Any) -> None:
            if not future.cancelled() and future.exception() is None:
                self._stock.end(future.result()[0], "unused")

        prepared.future.add_done_callback(done)

    def call(self, lease: Lease, call: str, args: dict[str, Any], seconds: float, which: Deadline) -> tuple[Any, bytes]:
        """One call to the lease's slot, within its own deadline and the episode's. A slot in doubt is killed."""
        if lease.ended:
            raise LeaseEndedError(lease.ended)
        if lease.failure is not None:
            raise lease.failure
        slot = lease.slot
        if slot is None or (lease.task is None and call != "reset"):
            raise SandboxError("no episode is open", where="pool", remedy="call reset first")
        left = lease.episode_left
        if left < seconds:
            seconds, which = max(0.001, left), "episode"
        full = lease.deadlines.episode if which == "episode" else seconds
        try:
            return slot.link.call(call, args, seconds=seconds, late=lambda: DeadlineError(which, full))
        except CoworkError as error:
            if slot.link.broken is not None:
                self.fail(lease, slot, error)
            raise

    def fail(self, lease: Lease, slot: Slot, error: CoworkError) -> None:
        """The episode is lost; its slot is killed, and whoever waits for it is told why."""
        lease.failure = lease.failure or error
        slot.link.doom(error)
        self._stock.end(slot, kind_of(error))


def seen_of(meta: dict[str, Any], png: bytes) -> Seen:
    return Seen(png=base64.b64encode(png).decode(), pointer=meta["pointer"], elements=meta["elements"])
