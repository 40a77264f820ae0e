"""The slot host: leases, what their holders ask, and their ends. Called from many threads; HTTP is `app.py`."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from components.contracts.calls import DesktopCall
from components.contracts.digests import digest_value
from components.contracts.errors import SandboxError
from components.contracts.task import Task, Verdict
from components.sandbox.pool.episodes import Episodes, seen_of
from components.sandbox.pool.errors import LeaseEndedError, PoolFullError
from components.sandbox.pool.failures import failure_of
from components.sandbox.pool.lease import Lease, Prepared
from components.sandbox.pool.ledger import Ledger
from components.sandbox.pool.metrics import Metrics, kind_of
from components.sandbox.pool.models import (
    HEADROOM,
    Act,
    Deadlines,
    LeaseInfo,
    LeaseRequest,
    Outcome,
    Seen,
    SlotSpec,
    Status,
    act_seconds,
)
from components.sandbox.pool.providers import Slot, SlotProvider
from components.sandbox.pool.queue import FairQueue, Ticket
from components.sandbox.pool.reaper import Reaper
from components.sandbox.pool.starts import StartLimiter
from components.sandbox.pool.stock import Stock
from components.sandbox.pool.table import LeaseTable

log = logging.getLogger("cowork.pool")


@dataclass(frozen=True)
class HostConfig:
    """`host` names this service in its table and in the cluster; `state` is its own folder.

    capacity: leases at once; standby: sandboxes kept ready beyond them; longest_queue: who may wait; making: sandboxes
    made at once. Seconds: `deadlines` are the longest that a lease may ask for and what it gets by default, `most_ttl`
    the longest time without a heartbeat, `tick` how often clocks are looked at.
    """

    host: str
    state: Path
    capacity: int = 4
    standby: Mapping[SlotSpec, int] = field(default_factory=dict)
    longest_queue: int = 256
    making: int = 2
    deadlines: Deadlines = Deadlines()
    most_ttl: float = 300.0
    tick: float = 0.5


class SlotHost:
    """One service's state. `start`, then anything from any thread, then `close`."""

    def __init__(self, config: HostConfig, providers: Mapping[str, SlotProvider], starts: StartLimiter) -> None:
        """Takes the state folder. Raises `SandboxError` when another service has it, or it cannot be written."""
        self.config, self.starts = config, starts
        try:
            config.state.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._hold = FileLock(str(config.state / "host.lock"), timeout=0)
            self._hold.acquire()
        except Timeout:
            raise SandboxError(
                f"another slot host uses {config.state.name}", where="pool", remedy="give each its own state folder"
            ) from None
        except OSError as error:
            raise SandboxError(
                f"no state folder: {error}", where="pool", remedy="name one that can be written"
            ) from error
        self.metrics = Metrics()
        self.table = LeaseTable(config.state / "leases.sqlite", config.host)
        self.queue = FairQueue(config.capacity, config.longest_queue)
        self.stock = Stock(
            providers, self.table, self.metrics, standby=config.standby, making=config.making,
            create_seconds=config.deadlines.create,
        )  # fmt: skip
        self.providers = dict(providers)
        self.leases: dict[str, Lease] = {}
        self._gone: dict[str, str] = {}
        self._requests = Ledger()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._preparers = ThreadPoolExecutor(config.capacity, thread_name_prefix="pool-prefetch")
        self.episodes = Episodes(self.stock, self.metrics, self._lock)
        self.reaper = Reaper(self)
        self._gauges()

    # -- life -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """First takes back what an earlier life left, then makes standby sandboxes and watches the clocks."""
        self.reaper.earlier_life()
        self.stock.start()
        self.reaper.start()

    def close(self) -> None:
        """Ends every lease and every sandbox. May be called again."""
        if self._closing.is_set():
            return
        self._closing.set()
        self.queue.close()
        with ThreadPoolExecutor(8) as closers:
            list(
                closers.map(lambda lease: self.end(lease, "the host was closed", "closing"), list(self.leases.values()))
            )
        self._preparers.shutdown(wait=True, cancel_futures=True)
        self.stock.close()
        self.reaper.stop()
        self.table.close()
        self._hold.release()

    # -- leases -----------------------------------------------------------------------------------------------------

    def ticket(self, request: LeaseRequest) -> Ticket:
        """A place in the queue, to be given to `lease`. Raises `PoolFullError`, `ParamsError`."""
        if self._closing.is_set():
            raise PoolFullError("the host is closing", 30.0)
        self.stock.provider(request.slot.backend)
        return self.queue.ticket(request.labels.get("run", ""))

    def lease(self, request: LeaseRequest, on_ticket: Callable[[Ticket], None] = lambda ticket: None) -> LeaseInfo:
        """Waits for a place, then for a sandbox. The same key gives the same lease.

        Raises `PoolFullError`, `DeadlineError("create")`, `SandboxError`, `ParamsError`.
        """
        entry, new = self._requests.begin(request.key, "lease", digest_value(request.model_dump(mode="json")))
        if new:
            entry.run(lambda: self._lease(request, on_ticket))
        lease: Lease = entry.outcome(request.wait + self.config.deadlines.create + HEADROOM)
        return lease.info(self.config.host)

    def heartbeat(self, lease_id: str) -> LeaseInfo:
        lease = self._find(lease_id)
        lease.beat()
        return lease.info(self.config.host)

    def release(self, lease_id: str) -> None:
        """Ends the lease and its sandboxes. Of one that has ended already: nothing happens."""
        with suppress(LeaseEndedError):
            self.end(self._find(lease_id), "it was released", "released")

    # -- what a holder asks -----------------------------------------------------------------------------------------

    def reset(self, lease_id: str, key: str, task: Task) -> Seen:
        """A sandbox of its own for this task: the prepared one, one that waits, or a new one."""
        lease = self._find(lease_id)
        entry, new = lease.ledger.begin(key, "reset", task.task_id)
        if new:

            def work() -> Seen:
                with self.metrics.operation("reset", self.metrics.reset), lease.lock:
                    lease.ledger.next_episode(entry)
                    return self.episodes.reset(lease, task)

            entry.run(work)
        seen: Seen = entry.outcome(lease.deadlines.create + 2 * lease.deadlines.setup + HEADROOM)
        return seen

    def prefetch(self, lease_id: str, task: Task) -> str:
        """Begins to prepare a task beside the episode that runs; `state` of the preparation."""
        lease = self._find(lease_id)
        with self._lock:
            if lease.prepared is not None and lease.prepared.task_id == task.task_id:
                return lease.prepared.state
            old, lease.prepared = lease.prepared, Prepared(task.task_id)
            prepared = lease.prepared
        self.episodes.discard(old)
        self._preparers.submit(self.episodes.prepare, lease, prepared, task)
        return prepared.state

    def observe(self, lease_id: str) -> Seen:
        lease = self._find(lease_id)
        with self.metrics.operation("observe"), lease.lock:
            return seen_of(*self.episodes.call(lease, "observe", {}, lease.deadlines.act, "act"))

    def state(self, lease_id: str) -> dict[str, Any]:
        lease = self._find(lease_id)
        with self.metrics.operation("state"), lease.lock:
            answer, _ = self.episodes.call(lease, "state", {}, lease.deadlines.act, "act")
        return dict(answer)

    def act(self, lease_id: str, key: str, call: DesktopCall) -> Act:
        """Runs the call unless its key was seen; then gives the first answer."""
        lease = self._find(lease_id)
        data = call.model_dump(mode="json")
        seconds = act_seconds(call, lease.deadlines)
        entry, new = lease.ledger.begin(key, "act", digest_value(data))
        if new:

            def work() -> Act:
                with self.metrics.operation("act", self.metrics.step.labels(call.tool)), lease.lock:
                    answer, _ = self.episodes.call(lease, "act", {"call": data}, seconds, "act")
                    return Act(**answer)

            entry.run(work)
        done: Act = entry.outcome(seconds + HEADROOM)
        return done

    def grade(self, lease_id: str, key: str) -> Verdict:
        """What the verifier finds. The episode's own clock stands still meanwhile."""
        lease = self._find(lease_id)
        entry, new = lease.ledger.begin(key, "grade", "")
        if new:

            def work() -> Verdict:
                with self.metrics.operation("grade", self.metrics.grade), lease.lock:
                    if lease.failure is None:
                        lease.episode_ends = float("inf")
                    answer, _ = self.episodes.call(lease, "grade", {}, lease.deadlines.grading, "grading")
                    lease.episode_ends = time.monotonic() + lease.deadlines.episode
                    return Verdict.model_validate(answer)

            entry.run(work)
        verdict: Verdict = entry.outcome(lease.deadlines.grading + HEADROOM)
        return verdict

    def outcome(self, lease_id: str, key: str, seconds: float) -> Outcome:
        """What became of the request with that key, waiting up to `seconds` for it to end."""
        entry = self._find(lease_id).ledger.find(key)
        if entry is None:
            return Outcome(state="unknown")
        if not entry.done.wait(seconds):
            return Outcome(state="running", what=entry.what)
        if entry.error is not None:
            return Outcome(state="failed", what=entry.what, failure=failure_of(entry.error))
        return Outcome(state="ran", what=entry.what, result=entry.value)

    def status(self) -> Status:
        leases = list(self.leases.values())
        return Status(
            host=self.config.host, capacity=self.config.capacity, leased=self.queue.taken, waiting=self.queue.waiting,
            standby=self.stock.standby(), standby_wanted=self.stock.standby_wanted(), sandboxes=self.stock.sandboxes,
            starts_waiting=self.starts.waiting, leases=tuple(lease.summary() for lease in leases),
            problem=self.stock.problem,
        )  # fmt: skip

    # -- parts ------------------------------------------------------------------------------------------------------

    def _find(self, lease_id: str) -> Lease:
        with self._lock:
            lease = self.leases.get(lease_id)
            if lease is None:
                raise LeaseEndedError(self._gone.get(lease_id, "this host knows no such lease; was it restarted?"))
            return lease

    def _lease(self, request: LeaseRequest, on_ticket: Callable[[Ticket], None]) -> Lease:
        with self.metrics.operation("lease"):
            began = time.monotonic()
            ticket = self.ticket(request)
            on_ticket(ticket)
            self.queue.wait(ticket, request.wait)
            waited = time.monotonic() - began
            self.metrics.lease_wait.observe(waited)
            deadlines = (request.deadlines or self.config.deadlines).capped(self.config.deadlines)
            lease = Lease(
                f"l-{secrets.token_urlsafe(18)}", request, deadlines, min(request.ttl, self.config.most_ttl), waited
            )
            slot: Slot | None = None
            try:
                slot = self.stock.take(request.slot, deadlines.create)
                self.table.put_lease(lease.lease_id, lease.owner, slot.slot_id, request.labels)
                lease.slot, lease.size = slot, slot.size
                self.episodes.mark(lease, slot)
                with self._lock:
                    if self._closing.is_set():
                        raise PoolFullError("the host is closing", 30.0)
                    lease.beat()
                    self.leases[lease.lease_id] = lease
            except BaseException as error:
                if slot is not None:
                    self.stock.end(slot, kind_of(error))
                self.queue.release(lease.owner)
                raise
            return lease

    def end(self, lease: Lease, reason: str, kind: str) -> bool:
        """Once only; True when it was this call that ended it."""
        with self._lock:
            if lease.ended:
                return False
            lease.ended = f"the lease has ended: {reason}"
            del self.leases[lease.lease_id]
            self._gone[lease.lease_id] = lease.ended
            while len(self._gone) > 10_000:
                del self._gone[next(iter(self._gone))]
            slot, lease.slot = lease.slot, None
            prepared, lease.prepared = lease.prepared, None
        lease.ledger.forget()
        try:
            if slot is not None:
                slot.link.doom(LeaseEndedError(lease.ended))
                self.stock.end(slot, kind)
            self.episodes.discard(prepared)
            with suppress(SandboxError):  # a row too many is removed at the next start
                self.table.drop_lease(lease.lease_id)
        finally:
            self.queue.release(lease.owner)
        return True

    def _gauges(self) -> None:
        def count(state: str) -> Callable[[], float]:
            return lambda: float(sum(lease.state == state for lease in list(self.leases.values())))

        self.metrics.watch_leases({state: count(state) for state in ("idle", "episode", "failed")})
        self.metrics.watch(
            standby_size=lambda: float(sum(self.stock.standby().values())),
            capacity=lambda: float(self.config.capacity),
            queue_waiting=lambda: float(self.queue.waiting),
            sandboxes=lambda: float(self.stock.sandboxes),
            starts_waiting=lambda: float(self.starts.waiting),
            starts_running=lambda: float(self.starts.running),
        )
