"""All sandboxes of a host: made, kept ready, handed out, ended. Every one stands in the lease table while it exists."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from components.contracts.errors import CoworkError, ParamsError, SandboxError
from components.sandbox.pool.errors import DeadlineError
from components.sandbox.pool.metrics import Metrics, kind_of
from components.sandbox.pool.models import SlotSpec
from components.sandbox.pool.providers import Handle, Slot, SlotProvider
from components.sandbox.pool.table import LeaseTable, Row

log = logging.getLogger("cowork.pool")
_CLOSERS = 8
"""Sandboxes ended at once when the host closes."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
"""Seconds until standby sandboxes are tried again after one could not be made; doubled each time."""


@dataclass
class Undead:
    """A sandbox that is to end and is not known to have ended. `next`: when it is tried again."""

    provider: str
    handle: Handle
    tries: int = 0
    next: float = 0.0


class Stock:
    """`standby`: how many sandboxes of which specification are kept ready. `making`: how many are made at once."""

    def __init__(
        self,
        providers: Mapping[str, SlotProvider],
        table: LeaseTable,
        metrics: Metrics,
        *,
        standby: Mapping[SlotSpec, int],
        making: int,
        create_seconds: float,
    ) -> None:
        self._providers, self._table, self._metrics = providers, table, metrics
        self._wanted = dict(standby)
        self._create_seconds = create_seconds
        self._ready: dict[SlotSpec, deque[Slot]] = {spec: deque() for spec in standby}
        self._coming: dict[SlotSpec, int] = dict.fromkeys(standby, 0)
        self._alive: dict[str, Slot] = {}
        self._undead: dict[str, Undead] = {}
        self._condition = threading.Condition()
        self._making = threading.BoundedSemaphore(making)
        self._closed = False
        self._pause = 0.0
        self._not_before = 0.0
        self.problem = ""
        self._fillers = [
            threading.Thread(target=self._fill, name=f"pool-filler-{number}", daemon=True)
            for number in range(making if sum(self._wanted.values()) else 0)
        ]

    def start(self) -> None:
        for filler in self._fillers:
            filler.start()

    @property
    def sandboxes(self) -> int:
        return len(self._alive)

    def standby(self) -> dict[str, int]:
        with self._condition:
            return {spec.backend: len(ready) for spec, ready in self._ready.items()}

    def standby_wanted(self) -> dict[str, int]:
        return {spec.backend: count for spec, count in self._wanted.items()}

    def provider(self, name: str) -> SlotProvider:
        try:
            return self._providers[name]
        except KeyError:
            raise ParamsError(
                f"this host has no backend {name!r}",
                where="pool",
                remedy=f"it has {', '.join(sorted(self._providers))}",
            ) from None

    def take(self, spec: SlotSpec, seconds: float) -> Slot:
        """A fit sandbox within `seconds`: one that waits, else a new one. Raises `DeadlineError("create")`."""
        deadline = time.monotonic() + seconds
        provider = self.provider(spec.backend)
        while (slot := self._pop(spec)) is not None:
            doubt = provider.unfit(slot)
            if not doubt:
                self._metrics.standby_hits.labels("standby").inc()
                return slot
            log.warning("standby slot %s is replaced: %s", slot.slot_id, doubt)
            self.end(slot, "unfit")
        left = deadline - time.monotonic()
        if left <= 0 or not self._making.acquire(timeout=left):
            raise DeadlineError("create", seconds)
        try:
            slot = self._make(spec, max(0.01, deadline - time.monotonic()), seconds)
        finally:
            self._making.release()
        self._metrics.standby_hits.labels("new").inc()
        return slot

    def end(self, slot: Slot, reason: str) -> None:
        """Ends a sandbox with everything in it. What resists is tried again by `retry`."""
        with self._condition:
            if self._alive.pop(slot.slot_id, None) is None:
                return
            self._undead[slot.slot_id] = Undead(slot.spec.backend, slot.handle)
        self._metrics.ended.labels(reason).inc()
        self._bury(slot.slot_id, slot.spec.backend, slot.handle, slot)

    def retry(self, *, now: bool = False) -> int:
        """Tries again to end what did not end, less and less often. Returns how many still resist."""
        with self._condition:
            due = [(i, u) for i, u in self._undead.items() if now or (u.tries and u.next <= time.monotonic())]
        for slot_id, undead in due:
            self._bury(slot_id, undead.provider, undead.handle, None)
        return len(self._undead)

    def reap(self, rows: list[Row]) -> int:
        """Ends sandboxes that an earlier life of this host left. Returns how many there were."""
        for row in rows:
            # Process numbers of another run of the machine mean nothing: only files can be left.
            handle = row.handle if row.this_boot else {**row.handle, "process": None, "processes": []}
            with self._condition:
                self._undead[row.slot_id] = Undead(row.provider, handle)
            self._bury(row.slot_id, row.provider, handle, None)
        return len(rows)

    def known(self) -> set[str]:
        with self._condition:
            return {*self._alive, *self._undead, *(row.slot_id for row in self._table.slots())}

    def drop_dead(self) -> int:
        """Replaces standby sandboxes that have ended by themselves."""
        with self._condition:
            dead = [slot for ready in self._ready.values() for slot in ready if slot.ended()]
            for slot in dead:
                self._ready[slot.spec].remove(slot)
            self._condition.notify_all()
        for slot in dead:
            self.end(slot, "died")
        return len(dead)

    def close(self) -> None:
        """Ends all sandboxes and everything that makes them."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
        for filler in self._fillers:
            if filler.ident is not None:
                filler.join(self._create_seconds)
        with ThreadPoolExecutor(_CLOSERS) as closers:
            list(closers.map(lambda slot: self.end(slot, "closing"), list(self._alive.values())))
        self.retry(now=True)
        for provider in self._providers.values():
            provider.close()

    # -- parts ----------------------------------------------------------------------------------------------------

    def _pop(self, spec: SlotSpec) -> Slot | None:
        with self._condition:
            ready = self._ready.get(spec)
            if not ready:
                return None
            slot = ready.popleft()
            self._condition.notify_all()
            return slot

    def _make(self, spec: SlotSpec, seconds: float, asked: float) -> Slot:
        provider, slot_id = self.provider(spec.backend), f"s-{secrets.token_hex(8)}"
        began = time.monotonic()
        last: list[Handle] = []

        def record(handle: Handle) -> None:
            last[:] = [handle]
            self._table.put_slot(slot_id, spec.backend, handle)

        try:
            slot = provider.create(slot_id, spec, seconds, record)
        except DeadlineError as error:
            self._failed(slot_id, spec, last)
            raise DeadlineError(error.which, asked, where=spec.backend) from error
        except BaseException:
            self._failed(slot_id, spec, last)
            raise
        self._metrics.create.labels(spec.backend).observe(time.monotonic() - began)
        self._metrics.made.labels(spec.backend).inc()
        with self._condition:
            self._alive[slot_id] = slot
        return slot

    def _failed(self, slot_id: str, spec: SlotSpec, last: list[Handle]) -> None:
        if last:  # the provider has cleaned up; it is asked again so that the row goes only when nothing is left
            with self._condition:
                self._undead[slot_id] = Undead(spec.backend, last[0])
            self._bury(slot_id, spec.backend, last[0], None)

    def _bury(self, slot_id: str, provider: str, handle: Handle, slot: Slot | None) -> None:
        known = self._providers.get(provider)
        try:
            if known is None:
                raise SandboxError(f"this host has no backend {provider!r} any more; its row stays", where="pool")
            if not known.destroy(slot_id, handle, slot):
                raise SandboxError("it resists", where="pool")
            self._table.drop_slot(slot_id)
        except Exception as error:  # whatever it was: it is tried again
            with self._condition:
                undead = self._undead.get(slot_id)
                if undead is not None:
                    undead.next = time.monotonic() + min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**undead.tries)
                    undead.tries += 1
            log.warning("slot %s has not ended yet: %s", slot_id, error)
            return
        with self._condition:
            self._undead.pop(slot_id, None)

    def _fill(self) -> None:
        while True:
            with self._condition:
                spec = self._missing()
                while spec is None and not self._closed:
                    pause = self._not_before - time.monotonic()
                    self._condition.wait(pause if pause > 0 else None)
                    spec = self._missing()
                if self._closed:
                    return
                assert spec is not None
                self._coming[spec] += 1
            slot: Slot | None = None
            try:
                with self._making:
                    if not self._closed:
                        slot = self._make(spec, self._create_seconds, self._create_seconds)
                self.problem, self._pause = "", 0.0
            except Exception as error:  # standby comes back by itself; whoever leases meanwhile gets the error
                self._metrics.failures.labels("standby", kind_of(error)).inc()
                self.problem = str(error) if isinstance(error, CoworkError) else repr(error)
                self._pause = min(_LONGEST_PAUSE, max(_FIRST_PAUSE, 2 * self._pause))
                self._not_before = time.monotonic() + self._pause
                log.error("no standby slot: %s", self.problem)
            with self._condition:
                self._coming[spec] -= 1
                if slot is not None:
                    self._ready[spec].append(slot)
                self._condition.notify_all()

    def _missing(self) -> SlotSpec | None:
        if self._not_before > time.monotonic():
            return None
        for spec, wanted in self._wanted.items():
            if len(self._ready[spec]) + self._coming[spec] < wanted:
                return spec
        return None


__all__ = ["SandboxError", "Stock"]
