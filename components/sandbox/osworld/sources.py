"""Where the files of OSWorld's tasks come from: a folder on this host. Nothing is ever fetched from a network.

A benchmark's own files are put there once by whoever runs it, under the tail of their address:
`https://.../resolve/main/chrome/ID/file.xlsx` is `chrome/ID/file.xlsx`.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from components.contracts.errors import TaskError
from components.sandbox.shell.files import read_file_nofollow

MAX_FILE = 256 << 20
_WHERE = "osworld files"


class Sources:
    """`root` None: no files are allowed at all."""

    def __init__(self, root: Path | None = None) -> None:
        self._root = root

    def read(self, address: str) -> bytes:
        """The file that an address stands for. Raises `TaskError` when it is not there or not allowed."""
        if self._root is None:
            raise TaskError(f"{address} is no local file and nothing is downloaded", where=_WHERE,
                            remedy="put the tasks' files in a folder and name it (--files)")  # fmt: skip
        relative = tail(address)
        try:
            return read_file_nofollow(self._root, relative, MAX_FILE)
        except (OSError, ValueError) as error:
            raise TaskError(f"there is no file {relative} ({error})", where=_WHERE,
                            remedy=f"put the file of {address} there") from error  # fmt: skip


def tail(address: str) -> str:
    """The relative path of an address. Raises `TaskError` for one that leads out of the folder."""
    parts = urlsplit(address)
    path = unquote(parts.path) if parts.scheme else address
    _, found, after = path.partition("/resolve/main/")
    path = (after if found else path).lstrip("/") if parts.scheme else path
    pieces = path.split("/")
    if path.startswith("/") or not path or ".." in pieces or "\0" in path:
        raise TaskError(f"{address} leads out of the tasks' files", where=_WHERE, remedy="use a relative path")
    return "/".join(piece for piece in pieces if piece not in ("", "."))
