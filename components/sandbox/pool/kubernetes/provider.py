"""`SlotProvider` over pods: the agent in the pod speaks the slot's protocol over TCP."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable

from components.contracts.errors import CoworkError
from components.sandbox.pool.errors import DeadlineError
from components.sandbox.pool.kubernetes.sources import LEASE, RUN, PodSource
from components.sandbox.pool.link import SlotLink
from components.sandbox.pool.models import SlotSpec
from components.sandbox.pool.providers import Handle, Record, Slot, look_fit, open_slot
from components.sandbox.pool.starts import StartLimiter

AGENT_PORT = 8000
_DEAD_NODE_MS = 30_000
"""Unanswered data for so long means that the other end is gone, whatever TCP would still hope for."""


class PodProvider:
    """`token`: what the agents expect (`agent.py`). `oldest`: seconds that a slot may wait unused."""

    def __init__(
        self,
        name: str,
        source: PodSource,
        *,
        port: int = AGENT_PORT,
        token: str = "",
        starts: StartLimiter | None = None,
        oldest: float = 3600.0,
    ) -> None:
        self.name = name
        self._source, self._port, self._token, self._starts, self._oldest = source, port, token, starts, oldest
        self._pause = threading.Event()

    def create(self, slot_id: str, spec: SlotSpec, seconds: float, record: Record) -> Slot:
        deadline = time.monotonic() + seconds
        handle = self._source.plan(slot_id)
        record(handle)
        link: SlotLink | None = None
        try:
            pod = self._source.acquire(slot_id, seconds)
            handle = pod.handle
            record(handle)
            sock = self._reach(pod.ip, deadline, seconds)
            link = SlotLink(sock, self._starts)
            size, _ = open_slot(link, slot_id, spec, {"token": self._token}, deadline - time.monotonic())
        except BaseException:
            if link is not None:
                link.close()
            self._undo(slot_id, handle)
            raise
        return Slot(slot_id, spec, link, handle, size, sock.fileno())

    def unfit(self, slot: Slot) -> str:
        return "it has waited too long" if time.monotonic() - slot.born > self._oldest else look_fit(slot)

    def mark(self, slot: Slot, labels: dict[str, str]) -> None:
        self._source.mark(slot.handle, {RUN: labels.get("run", ""), LEASE: labels.get("lease", "")})

    def destroy(self, slot_id: str, handle: Handle, slot: Slot | None = None) -> bool:
        """The pod goes with everything in it: nothing is asked of its agent."""
        if slot is not None:
            slot.watch = -1
            slot.link.close()
        return self._source.release(slot_id, handle)

    def leftovers(self, known: Iterable[str]) -> dict[str, Handle]:
        return self._source.leftovers(known)

    def close(self) -> None: ...

    def _reach(self, ip: str, deadline: float, seconds: float) -> socket.socket:
        """A line to the agent. A pod that is ready may still need a moment until its address can be reached."""
        pause = 0.05
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise DeadlineError("create", seconds, where=f"agent at {ip}")
            try:
                sock = socket.create_connection((ip, self._port), timeout=min(5.0, left))
                break
            except OSError:
                self._pause.wait(min(pause, left))
                pause = min(1.0, 2 * pause)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (
            ("TCP_KEEPIDLE", 10),
            ("TCP_KEEPINTVL", 5),
            ("TCP_KEEPCNT", 4),
            ("TCP_USER_TIMEOUT", _DEAD_NODE_MS),
        ):
            if hasattr(socket, option):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        return sock

    def _undo(self, slot_id: str, handle: Handle) -> None:
        try:
            self._source.release(slot_id, handle)
        except CoworkError:
            return  # the row stays in the table, and it is tried again
