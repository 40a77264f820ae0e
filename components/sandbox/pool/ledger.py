"""What was asked of a lease, by key: asked again, it is answered again and not done again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from components.sandbox.pool.errors import KeyReusedError, UnreachableError

KEPT = 4096
"""Answers kept for an episode: more than it has steps."""


class Entry:
    """One request. `done` is set when it ran or failed."""

    def __init__(self, what: str, digest: str) -> None:
        self.what, self.digest = what, digest
        self.done = threading.Event()
        self.value: Any = None
        self.error: BaseException | None = None

    def run(self, work: Callable[[], Any]) -> Any:
        """Does the work, keeps its outcome, and gives it."""
        try:
            self.value = work()
            return self.value
        except BaseException as error:
            self.error = error
            raise
        finally:
            self.done.set()

    def outcome(self, seconds: float) -> Any:
        """The first answer, or the first error, again."""
        if not self.done.wait(seconds):
            raise UnreachableError(f"`{self.what}` still runs after {seconds:g} s", sent=True)
        if self.error is not None:
            raise self.error
        return self.value


class Ledger:
    """Safe from several threads."""

    def __init__(self) -> None:
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, key: str, what: str, digest: str) -> tuple[Entry, bool]:
        """(entry, whether it is new and the caller must run it). Raises `KeyReusedError` for another request's key."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                if (entry.what, entry.digest) != (what, digest):
                    raise KeyReusedError
                return entry, False
            entry = self._entries[key] = Entry(what, digest)
            while len(self._entries) > KEPT:
                self._entries.popitem(last=False)
            return entry, True

    def next_episode(self, own: Entry) -> None:
        """Forget the answers of the last episode: all but `own`, which begins the next one."""
        with self._lock:
            for key in [key for key, entry in self._entries.items() if entry is not own and entry.done.is_set()]:
                del self._entries[key]

    def forget(self) -> None:
        """The lease is over: nobody can ask any more."""
        with self._lock:
            self._entries.clear()

    def find(self, key: str) -> Entry | None:
        with self._lock:
            return self._entries.get(key)
