"""The host's way into a guest's home: every step of a path is opened without following links.

The guest may plant a link, a pipe or a huge file anywhere in its home, also while we look. Verifiers and desktops
must therefore not use plain paths: `home / "report.csv"` may be the host's /etc/shadow. These functions walk with
openat(2) and O_NOFOLLOW from the home's own descriptor, take regular files only, and have a size limit.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
DEFAULT_LIMIT = 32 << 20


class UnsafeFileError(OSError):
    """What stands there is not a plain file of the home: a link, a device, too large, or a path that leaves it.

    An OSError, because for a reader it is an unreadable file, and the guest's doing rather than a broken sandbox.
    """


def safe_open(home: Path, relative: str) -> BinaryIO:
    """Open a regular file of the home for reading. Raises FileNotFoundError, or `UnsafeFileError`."""
    with _parent(home, relative) as (parent, name):
        try:  # O_NONBLOCK: a planted pipe must not make us wait for its writer
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise UnsafeFileError(f"{relative}: cannot be read as a plain file ({error.strerror})") from error
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise UnsafeFileError(f"{relative}: not a regular file")
        return os.fdopen(fd, "rb")


def read_file_nofollow(home: Path, relative: str, limit: int = DEFAULT_LIMIT) -> bytes:
    """Contents of a regular file of the home, at most `limit` bytes; larger is an `UnsafeFileError`."""
    with safe_open(home, relative) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise UnsafeFileError(f"{relative}: larger than {limit} bytes")
    return data


def write_file_nofollow(home: Path, relative: str, data: bytes) -> None:
    """Replace or create a file of the home, at once (rename), in an existing directory of it."""
    with _parent(home, relative) as (parent, name):
        temporary = f".{secrets.token_hex(8)}.tmp"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=parent)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
            os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=parent)
            raise


def list_files(home: Path) -> list[str]:
    """Relative paths of all regular files of the home, sorted. Links are neither followed nor listed."""
    found: list[str] = []

    def visit(fd: int, prefix: str) -> None:
        with os.scandir(fd) as entries:
            children = list(entries)
        for entry in children:
            if entry.is_dir(follow_symlinks=False):
                with _subdirectory(fd, entry.name) as child:
                    if child is not None:
                        visit(child, f"{prefix}{entry.name}/")
            elif entry.is_file(follow_symlinks=False):
                found.append(prefix + entry.name)

    with _home(home) as fd:
        visit(fd, "")
    return sorted(found)


def adopt(home: Path, uid: int) -> None:
    """Make `uid` the owner of all that is in the home. Needed when root plays host: the guest is not root then.

    Links are changed themselves, never what they point to. What vanishes meanwhile is skipped.
    """

    def visit(fd: int) -> None:
        with os.scandir(fd) as entries:
            children = list(entries)
        for entry in children:
            with suppress(FileNotFoundError):
                if os.stat(entry.name, dir_fd=fd, follow_symlinks=False).st_uid != uid:
                    os.chown(entry.name, uid, uid, dir_fd=fd, follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    with _subdirectory(fd, entry.name) as child:
                        if child is not None:
                            visit(child)

    with _home(home) as fd:
        if os.fstat(fd).st_uid != uid:
            os.fchown(fd, uid, uid)
        visit(fd)


@contextmanager
def _home(home: Path) -> Iterator[int]:
    fd = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # the home's own path is ours, links allowed
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _subdirectory(parent: int, name: str) -> Iterator[int | None]:
    """None when it is no directory any more."""
    try:
        fd = os.open(name, _DIRECTORY, dir_fd=parent)
    except OSError:
        yield None
        return
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _parent(home: Path, relative: str) -> Iterator[tuple[int, str]]:
    """(descriptor of the directory, last name) of a path below the home."""
    parts = [part for part in relative.split("/") if part not in ("", ".")]
    if not parts or relative.startswith("/") or ".." in parts or "\0" in relative:
        raise UnsafeFileError(f"{relative!r}: not a path inside the home")
    fd = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            try:
                below = os.open(part, _DIRECTORY, dir_fd=fd)
            except FileNotFoundError:
                raise
            except OSError as error:
                raise UnsafeFileError(f"{relative}: {part} is not a plain directory ({error.strerror})") from error
            os.close(fd)
            fd = below
        yield fd, parts[-1]
    finally:
        os.close(fd)
