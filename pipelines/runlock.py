"""One run at a time in a recipe folder.

The lock is the kernel's (`flock`), so it cannot outlive its owner: what a dead run leaves is only its name in the file,
which the next owner reads to say whom it takes over from. The owner is known by a random id, never by a pid alone.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from components.contracts.errors import OrchestrationError
from pipelines.waiting import wait_until


@dataclass(frozen=True)
class Owner:
    """Who holds the lock. `what` is said to those who wait, e.g. the run's name."""

    id: str
    host: str
    pid: int
    what: str

    def __str__(self) -> str:
        return f"{self.what} (process {self.pid} on {self.host})"


def read_owner(path: Path) -> Owner | None:
    """The owner named in the lock file; None when the last one left in order or nothing can be read."""
    try:
        return Owner(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def holder(path: Path) -> Owner | None:
    """Who is at work now; None when nobody holds the lock, whatever name a dead run left in the file."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return None
    try:
        return None if _take(descriptor) else read_owner(path)
    finally:
        os.close(descriptor)


@contextmanager
def run_lock(path: Path, what: str, wait: float, say: Callable[[str], None]) -> Iterator[Owner]:
    """Hold the lock. Waits up to `wait` seconds for another owner, saying so. Raises OrchestrationError after that."""
    path.parent.mkdir(parents=True, exist_ok=True)
    owner = Owner(secrets.token_hex(16), socket.gethostname(), os.getpid(), what)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not _take(descriptor):
            other = read_owner(path) or "another run"
            if wait > 0:
                say(f"waiting for {other} to end, up to {wait:.0f} s")
            if not wait_until(lambda: _take(descriptor), wait, 0.2):
                raise OrchestrationError(
                    f"{other} is at work here",
                    where=path.name,
                    remedy="wait for it, or stop that process; then try again",
                )
        if (dead := read_owner(path)) is not None:
            say(f"taking over from {dead}, which ended without a word")
        _write(descriptor, json.dumps(asdict(owner)))
        yield owner
        _write(descriptor, "")
    finally:
        os.close(descriptor)  # closing releases the lock; a name left in the file says that we did not end in order


def _take(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        raise OrchestrationError(
            f"this file system knows no locks ({error.strerror}): two runs could not be kept apart",
            where="run lock",
            remedy="work on a local disk, or mount the share with locking (NFS: without nolock)",
        ) from None


def _write(descriptor: int, text: str) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text.encode(), 0)
    os.fsync(descriptor)
