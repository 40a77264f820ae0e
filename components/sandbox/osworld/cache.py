"""The host's folder of one evaluation: files fetched from the guest, references, what setup commands printed."""

from __future__ import annotations

from pathlib import Path

from components.contracts.errors import TaskError
from components.sandbox.osworld.sources import tail


class FetchedFile(str):
    """The path of a file that was fetched from the guest: a text that knows what it is."""


class Cache:
    """Names come from task files: none leads out of the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """Where a name is. Raises `TaskError` for one that leads elsewhere."""
        return self.folder / tail(name)

    def write(self, name: str, data: bytes) -> str:
        """Stores a file and gives its path. Raises `TaskError` when the disk does not take it."""
        path = self.path(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except OSError as error:
            raise TaskError(f"{name} cannot be stored: {error.strerror}", where="cache",
                            remedy="is the disk full?") from error  # fmt: skip
        return str(path)
