"""Host-side access to the episode's home: real files, reached without ever following a symbolic link.

The shell shares this directory and may put anything in it (links out of it, FIFOs, huge files), so every path is walked
part by part with `O_NOFOLLOW`, only regular files are read, and sizes are capped. What the system refuses becomes
`Refused` with a short lower-case reason that an error dialog can show.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Parts = tuple[str, ...]
"""A path below home: `()` is home itself."""

Stamp = tuple[int, int, int] | None

MAX_BYTES = 1 << 20
MAX_ENTRIES = 2000
_DIR = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME_BYTES = 255
_DEPTH = 16


class Refused(Exception):
    """The system, or this module on its behalf, refused a file operation. The message is shown to the user."""


@dataclass(frozen=True, order=True)
class Entry:
    """One name in a folder. `folder` is False for links and special files, whatever they point at."""

    name: str
    folder: bool


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Turns whatever the system says about a path into `Refused`."""
    try:
        yield
    except OSError as error:
        raise Refused((error.strerror or "system error").lower()) from error
    except ValueError as error:  # an embedded NUL, or a name that no file system encoding can hold
        raise Refused("bad name") from error


def check_name(name: str) -> None:
    """Raises `Refused` unless `name` can be the name of one file."""
    try:
        size = len(os.fsencode(name))
    except UnicodeEncodeError as error:
        raise Refused("bad name") from error
    if not name or name in (".", "..") or "/" in name or "\0" in name or size > _NAME_BYTES:
        raise Refused("bad name")


def decode(data: bytes) -> str:
    """Text of a file. Bytes that are not UTF-8 survive a round trip through `encode`."""
    return data.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    """Bytes of typed or read text; never fails. A lone surrogate that a policy typed is kept as its three bytes."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return b"".join(
            c.encode("utf-8", "surrogateescape" if "\udc80" <= c <= "\udcff" else "surrogatepass") for c in text
        )


class Home:
    """The files of one episode. Open until `close`; paths are tuples of names."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, _DIR)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    @contextlib.contextmanager
    def _folder(self, parts: Parts) -> Iterator[int]:
        """A descriptor of the folder, reached one name at a time."""
        fd = os.dup(self._fd)
        try:
            for name in parts:
                step = os.open(name, _DIR, dir_fd=fd)
                os.close(fd)
                fd = step
            yield fd
        finally:
            os.close(fd)

    def entries(self, folder: Parts) -> list[Entry]:
        """What Files shows: no dot files, folders first, then by name."""
        with _refusals(), self._folder(folder) as fd, os.scandir(fd) as scan:
            found = [Entry(e.name, e.is_dir(follow_symlinks=False)) for e in scan if not e.name.startswith(".")]
        found.sort(key=lambda e: (not e.folder, e.name.casefold(), e.name))
        return found[:MAX_ENTRIES]

    def is_folder(self, parts: Parts) -> bool:
        try:
            with self._folder(parts):
                return True
        except (OSError, ValueError):
            return False

    def exists(self, parts: Parts) -> bool:
        """Whether anything has that name, a dangling link included."""
        try:
            with self._folder(parts[:-1]) as fd:
                os.lstat(parts[-1] if parts else ".", dir_fd=fd)
                return True
        except (OSError, ValueError):
            return False

    def read(self, parts: Parts) -> bytes:
        """Content of a regular file of at most `MAX_BYTES`."""
        with _refusals(), self._folder(parts[:-1]) as fd:
            # O_NONBLOCK: opening a FIFO must not wait for a writer that never comes.
            handle = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd)
            with os.fdopen(handle, "rb") as file:
                info = os.fstat(handle)
                if not stat.S_ISREG(info.st_mode):
                    raise Refused("not a file")
                data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise Refused("file is too big")
        return data

    def stamp(self, parts: Parts) -> Stamp:
        """Changes when the file's content may have changed; None when there is no such file."""
        try:
            with self._folder(parts[:-1]) as fd:
                info = os.lstat(parts[-1], dir_fd=fd)
        except (OSError, ValueError):
            return None
        return info.st_ino, info.st_size, info.st_mtime_ns

    def write(self, parts: Parts, data: bytes) -> None:
        """Creates or replaces the content of a regular file, in place."""
        check_name(parts[-1])
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with _refusals(), self._folder(parts[:-1]) as fd:
            handle = os.open(parts[-1], flags, 0o644, dir_fd=fd)
            with os.fdopen(handle, "wb") as file:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise Refused("not a file")
                file.write(data)
                file.truncate(len(data))

    def make_folder(self, parts: Parts) -> None:
        check_name(parts[-1])
        with _refusals(), self._folder(parts[:-1]) as fd:
            os.mkdir(parts[-1], 0o755, dir_fd=fd)

    def move(self, old: Parts, new: Parts) -> None:
        """Renames or moves; never over something that is there."""
        check_name(new[-1])
        if new == old:
            return
        if self.exists(new):
            raise Refused("file exists")
        if new[: len(old)] == old:
            raise Refused("cannot move into itself")
        with _refusals(), self._folder(old[:-1]) as source, self._folder(new[:-1]) as target:
            os.rename(old[-1], new[-1], src_dir_fd=source, dst_dir_fd=target)

    def remove(self, parts: Parts) -> None:
        """Deletes a file, a link, or a folder with all it holds."""
        with _refusals(), self._folder(parts[:-1]) as fd:
            if stat.S_ISDIR(os.lstat(parts[-1], dir_fd=fd).st_mode):
                shutil.rmtree(parts[-1], dir_fd=fd)
            else:
                os.unlink(parts[-1], dir_fd=fd)

    def copy(self, old: Parts, new: Parts) -> None:
        """Copies a file or a folder to a free name. Links and special files inside a folder are left out."""
        check_name(new[-1])
        if self.exists(new):
            raise Refused("file exists")
        if new[: len(old)] == old:
            raise Refused("cannot copy into itself")
        if len(new) > _DEPTH:
            raise Refused("too deep")
        if not self.is_folder(old):
            self.write(new, self.read(old))
            return
        self.make_folder(new)
        for entry in self.entries(old):
            try:
                self.copy((*old, entry.name), (*new, entry.name))
            except Refused as refusal:
                if str(refusal) not in ("not a file", "too many levels of symbolic links"):
                    raise

    def free_name(self, folder: Parts, name: str) -> str:
        """`name` when it is free, else `<stem>2.ext`, `<stem>3.ext`, ..."""
        stem, dot, ext = name.rpartition(".")
        if not stem:
            stem, dot, ext = name, "", ""
        candidate, number = name, 2
        while self.exists((*folder, candidate)):
            candidate, number = f"{stem}{number}{dot}{ext}", number + 1
        return candidate


def read_state(path: Path) -> dict[str, Any]:
    """A private state file; an absent or malformed one is an empty document, as for an app started the first time."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def write_state(path: Path, value: dict[str, Any]) -> None:
    """Replaces a private state file. Key order is kept: it is the order on the screen. Any text can be written."""
    path.write_text(json.dumps(value, indent=1) + "\n", "utf-8")
