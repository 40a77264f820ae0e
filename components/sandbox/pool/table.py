"""The lease table: what this host made and lent, on disk, so that its next life can take back what its last one left.

A row is written before a sandbox is made and deleted after it is gone. SQLite keeps it whole through `kill -9` and
full disks.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from components.contracts.errors import SandboxError
from components.sandbox.pool.processes import Process, boot_id, this_process

_SCHEMA = """
create table if not exists slots (
    slot_id text primary key, host text not null, provider text not null, handle text not null,
    pid integer not null, start text not null, boot text not null, made real not null
);
create table if not exists leases (
    lease_id text primary key, host text not null, owner text not null, slot_id text not null, labels text not null,
    pid integer not null, start text not null, boot text not null, began real not null
);
"""
T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """A sandbox as its maker recorded it. `maker`: the service's process, `boot`: the machine's run."""

    slot_id: str
    host: str
    provider: str
    handle: dict[str, Any]
    maker: Process
    boot: str

    @property
    def this_boot(self) -> bool:
        """Process numbers of an earlier run of the machine name nothing now."""
        return self.boot == boot_id()


class LeaseTable:
    """Rows of `host`, in a file. Every method raises `SandboxError` when the file cannot be written or read."""

    def __init__(self, path: Path, host: str) -> None:
        self.path, self.host = path, host
        self._me, self._boot = this_process(), boot_id()
        self._lock = threading.Lock()
        self._db = self._open()

    def _open(self) -> sqlite3.Connection:
        def work() -> sqlite3.Connection:
            db = sqlite3.connect(self.path, check_same_thread=False, isolation_level=None, timeout=10)
            db.execute("pragma journal_mode = wal")
            db.execute("pragma synchronous = normal")
            db.executescript(_SCHEMA)
            return db

        return self._told(work)

    def put_slot(self, slot_id: str, provider: str, handle: dict[str, Any]) -> None:
        self._write(
            "insert into slots values (?,?,?,?,?,?,?,?) on conflict (slot_id) do update set handle = excluded.handle",
            (slot_id, self.host, provider, json.dumps(handle), *self._me, self._boot, time.time()),
        )

    def drop_slot(self, slot_id: str) -> None:
        self._write("delete from slots where slot_id = ? and host = ?", (slot_id, self.host))

    def put_lease(self, lease_id: str, owner: str, slot_id: str, labels: dict[str, str]) -> None:
        self._write(
            "insert or replace into leases values (?,?,?,?,?,?,?,?,?)",
            (lease_id, self.host, owner, slot_id, json.dumps(labels), *self._me, self._boot, time.time()),
        )

    def drop_lease(self, lease_id: str) -> None:
        self._write("delete from leases where lease_id = ? and host = ?", (lease_id, self.host))

    def slots(self) -> list[Row]:
        """Sandboxes of this host, of this life and of earlier ones. Never another host's."""
        query = "select slot_id, host, provider, handle, pid, start, boot from slots where host = ? order by made"
        rows = self._told(lambda: self._all(query))
        return [Row(r[0], r[1], r[2], json.loads(r[3]), Process(int(r[4]), r[5]), r[6]) for r in rows]

    def leases(self) -> list[str]:
        return [r[0] for r in self._told(lambda: self._all("select lease_id from leases where host = ?"))]

    def forget_leases(self) -> int:
        """Leases end with the service that gave them. Returns how many an earlier life left."""
        left = len(self.leases())
        self._write("delete from leases where host = ?", (self.host,))
        return left

    def mine(self, row: Row) -> bool:
        """Whether this very process made it."""
        return row.maker == self._me and row.boot == self._boot

    def close(self) -> None:
        with self._lock, suppress(sqlite3.Error):
            self._db.close()

    def _all(self, query: str) -> list[Any]:
        return self._db.execute(query, (self.host,)).fetchall()

    def _write(self, statement: str, values: tuple[Any, ...]) -> None:
        self._told(lambda: self._db.execute(statement, values))

    def _told(self, work: Callable[[], T]) -> T:
        with self._lock:
            try:
                return work()
            except sqlite3.Error as error:
                raise SandboxError(
                    f"the lease table cannot be used: {error}", where=self.path.name, remedy="free space on its disk"
                ) from error
