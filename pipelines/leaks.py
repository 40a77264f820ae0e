"""A last look at what a stage made: no output may hold a secret of the environment."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from components.contracts.errors import DataError
from components.contracts.secrets import secrets_of

MIN_LENGTH = 12
"""Shorter values would be found in honest data."""
CHUNK = 1 << 22


def refuse_leaks(outputs: Mapping[str, Path], environ: Mapping[str, str] | None = None) -> None:
    """Raises DataError that names file and variable, and removes the output, when its bytes hold a secret's value.

    Compressed data is not looked into.
    """
    wanted = {value.encode(): name for value, name in secrets_of(environ).items() if len(value) >= MIN_LENGTH}
    if not wanted:
        return
    for role, path in outputs.items():
        for file in _files(path):
            if name := _found(file, wanted):
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()
                raise DataError(
                    f"{file.name} holds the value of the environment variable {name}",
                    where=f"output {role}",
                    remedy="the output was removed; find what wrote it, or unset the variable for this run",
                )


def _files(path: Path) -> Iterable[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


def _found(file: Path, wanted: Mapping[bytes, str]) -> str:
    """The variable whose value stands in the file, "" for none. Values across two chunks are seen too."""
    longest = max(map(len, wanted))
    tail = b""
    with file.open("rb") as handle:
        while data := handle.read(CHUNK):
            for value, name in wanted.items():
                if value in tail + data:
                    return name
            tail = data[-longest:]
    return ""
