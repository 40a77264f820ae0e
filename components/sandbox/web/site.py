"""A slot's own copy of the shop: database, visits, and the server that answers the sandbox's browser from outside.

The browser speaks to a socket that listens on the sandbox's loopback and was handed out to us (`GuestCalls.listen`):
neither the database nor the record of visits can be reached from inside other than by asking for pages.
"""

from __future__ import annotations

import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from components.contracts.errors import SandboxError
from components.sandbox.web.app import make_app
from components.sandbox.web.seed import digest
from components.sandbox.web.shop import Shop

if TYPE_CHECKING:
    import uvicorn

PORT = 8100
ADDRESS = f"http://shop.local:{PORT}/"
"""Where the browser finds it."""
MOST_VISITS = 5000
"""Visits that are kept; an episode that asks for more pages than that is graded by the first ones."""
_MOST_PAGES = 1024
"""Size of the database at most, in pages of 4 KiB."""
_START_SECONDS = 20.0


@dataclass(frozen=True)
class Visit:
    """One page asked for. Their order is their time."""

    method: str
    path: str


@dataclass(frozen=True)
class SiteRecord:
    """What a grader gets: the visits in order, and the database at the start and now, as bytes."""

    visits: tuple[Visit, ...]
    before: bytes
    after: bytes


class Site:
    """Holds the shop; `serve` answers on a socket until `close`. Getters may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        self._visits: list[Visit] = []
        self._seed = b""
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def reset(self, seed: bytes) -> None:
        """Back to `seed`, byte for byte, with no visits. Raises `SandboxError` when the database is not equal to it."""
        with self._lock:
            self._seed, self._visits = seed, []
            try:
                self._database.deserialize(seed)
                self._database.execute(f"PRAGMA max_page_count = {_MOST_PAGES}")
                self._database.execute("SELECT count(*) FROM products").fetchone()
            except (sqlite3.Error, MemoryError) as error:  # SQLite has no memory for a database of no bytes
                raise SandboxError(f"the site's seed is no database: {error}", where="shop") from error
        self.check_ready()

    def check_ready(self) -> None:
        """Raises `SandboxError` unless the database is what it was reset to and nothing was asked for yet."""
        with self._lock:
            now, visits = self._database.serialize(), len(self._visits)
        if digest(now) != digest(self._seed) or visits:
            raise SandboxError(
                f"the site is not ready: its database is {digest(now)[:12]}, its seed {digest(self._seed)[:12]}, "
                f"{visits} visits", where="shop", remedy="reset the site, or replace the slot",
            )  # fmt: skip

    def record(self) -> SiteRecord:
        """Visits and database as they are now."""
        with self._lock:
            return SiteRecord(tuple(self._visits), self._seed, self._database.serialize())

    def serve(self, listener: socket.socket) -> None:
        """Answers on `listener` from now on, in a thread of its own. Raises `SandboxError` when it does not start."""
        import uvicorn

        if self._server is not None:
            raise SandboxError("the site is served already", where="shop", remedy="close it first")
        config = uvicorn.Config(
            make_app(self._visit), log_config=None, access_log=False, lifespan="off", limit_concurrency=64,
            timeout_keep_alive=5, timeout_graceful_shutdown=1, server_header=False,
        )  # fmt: skip
        server = uvicorn.Server(config)
        ready = threading.Event()

        def run() -> None:
            try:
                server.run(sockets=[listener])
            finally:
                ready.set()

        async def startup(sockets: list[socket.socket] | None = None) -> None:
            await start(sockets=sockets)
            ready.set()

        start, server.startup = server.startup, startup  # type: ignore[method-assign]
        thread = threading.Thread(target=run, name="shop", daemon=True)
        self._server, self._thread = server, thread
        thread.start()
        if not ready.wait(_START_SECONDS) or not server.started:
            self.close()
            raise SandboxError("the site's server did not start", where="shop", remedy="look at the slot host's load")

    def close(self) -> None:
        """Ends the server. The record stays. May be called again."""
        server, thread = self._server, self._thread
        self._server = self._thread = None
        if server is not None and thread is not None:
            server.should_exit = server.force_exit = True
            with suppress(RuntimeError):  # from the server's own thread, when the garbage collector calls
                thread.join(_START_SECONDS)

    @contextmanager
    def _visit(self, method: str, path: str) -> Iterator[Shop]:
        """One page: what it changes is in a record whole or not at all."""
        with self._lock:
            if len(self._visits) < MOST_VISITS:
                self._visits.append(Visit(method, path))
            yield Shop(self._database)
