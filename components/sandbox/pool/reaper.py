"""Takes back what nobody holds any more: leases not heard from, episodes too long, and what an earlier life left.

Only what the host's own table names, or what carries its name at a provider, is ever touched.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from components.contracts.errors import CoworkError
from components.sandbox.pool.errors import DeadlineError

if TYPE_CHECKING:
    from components.sandbox.pool.host import SlotHost

log = logging.getLogger("cowork.pool")
_LEFTOVER_ROUNDS = 60
"""Looks at the clocks between two searches for leftovers."""


class Reaper:
    """`start` looks every `tick` seconds of the host's configuration, in a thread; `stop` ends that."""

    def __init__(self, host: SlotHost) -> None:
        self._host = host
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="pool-reaper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(30)

    def earlier_life(self) -> int:
        """Ends what stands in the table of this host and was not made by this process. Returns how many sandboxes."""
        rows = [row for row in self._host.table.slots() if not self._host.table.mine(row)]
        count = self._host.stock.reap(rows)
        self._host.metrics.reaped.labels("slot").inc(count)
        self._host.metrics.reaped.labels("lease").inc(self._host.table.forget_leases())
        return count + self.leftovers()

    def leftovers(self) -> int:
        """Removes what carries this host's name at its providers and stands nowhere. Returns how many."""
        count = 0
        for name, provider in self._host.providers.items():
            try:
                for slot_id, handle in provider.leftovers(self._host.stock.known()).items():
                    # One more look: it may have been made since.
                    if slot_id not in self._host.stock.known() and provider.destroy(slot_id, handle):
                        log.warning("%s: removed the leftover %s", name, slot_id)
                        count += 1
            except (CoworkError, OSError) as error:
                log.error("%s: leftovers could not be looked for: %s", name, error)
        self._host.metrics.reaped.labels("leftover").inc(count)
        return count

    def tick(self) -> None:
        """One look at all clocks: leases not heard from, episodes too long, standby sandboxes that have died."""
        for lease in list(self._host.leases.values()):
            if lease.expires_in <= 0:
                if self._host.end(lease, f"no heartbeat for {lease.ttl:g} s", "expired"):
                    self._host.metrics.reaped.labels("expired_lease").inc()
            elif lease.episode_left <= 0 and lease.failure is None and lease.slot is not None:
                self._host.episodes.fail(lease, lease.slot, DeadlineError("episode", lease.deadlines.episode))
        self._host.stock.drop_dead()
        self._host.stock.retry()

    def _watch(self) -> None:
        rounds = 0
        while not self._stop.wait(self._host.config.tick):
            try:
                self.tick()
                rounds += 1
                if rounds % _LEFTOVER_ROUNDS == 0:
                    self.leftovers()
            except Exception:  # the watch must go on
                log.exception("the reaper stumbled")
