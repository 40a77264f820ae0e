"""Files in and out. The agent is the same user as the applications: it can do no more than they."""

from __future__ import annotations

import os
import stat
from typing import Any

_MAX_ENTRIES = 100_000


def put(path: str, data: bytes, mode: int = 0o644) -> None:
    """Writes a file, with its folders; an existing one is replaced at once. Raises OSError."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = f"{path}.{os.getpid()}.part"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def get(path: str, limit: int) -> bytes:
    """A regular file of at most `limit` bytes. Raises FileNotFoundError, or OSError for what is none.

    Links are not followed, and a pipe in the file's place does not make us wait.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(f"{path} is no regular file")
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(f"{path} is larger than {limit} bytes")
    return data


def listing(folder: str) -> list[dict[str, Any]]:
    """Regular files below `folder`, sorted: path (relative), size in bytes, mtime in seconds. Raises OSError."""
    os.stat(folder)
    found: list[dict[str, Any]] = []
    for path, _, names in os.walk(folder):
        for name in names:
            full = os.path.join(path, name)
            try:
                info = os.lstat(full)
            except OSError:  # gone meanwhile, or deeper than any path reaches: not a file that can be fetched
                continue
            if stat.S_ISREG(info.st_mode):
                found.append({"path": os.path.relpath(full, folder), "size": info.st_size, "mtime": info.st_mtime})
            if len(found) > _MAX_ENTRIES:
                raise OSError(f"{folder} holds more than {_MAX_ENTRIES} files")
    return sorted(found, key=lambda entry: str(entry["path"]))
