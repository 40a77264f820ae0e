"""User ids for sandboxes that root starts: each has its own, so that no limit or signal reaches another's."""

from __future__ import annotations

import socket

from components.contracts.errors import SandboxError

UID_BASE = 20_000
UID_COUNT = 1_000


class SlotId:
    """A number that nobody else on this machine holds; given back by `release`, or by the end of this process.

    The lease is a socket with an abstract name: the kernel drops it with its holder, and no file can be left behind.
    """

    def __init__(self) -> None:
        """Raises `SandboxError` when all are taken."""
        for number in range(UID_COUNT):
            lease = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                lease.bind(f"\0cowork-x11-slot-{number}")
            except OSError:
                lease.close()
                continue
            self._lease, self.number = lease, number
            return
        raise SandboxError(f"all {UID_COUNT} slots of this machine are taken", where="x11", remedy="close some")

    @property
    def uid(self) -> int:
        return UID_BASE + self.number

    def release(self) -> None:
        self._lease.close()
