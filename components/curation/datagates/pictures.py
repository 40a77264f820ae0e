"""Stored pictures by digest, with their sizes as the PNG header states them. Pixels are not decoded."""

from __future__ import annotations

import struct
from pathlib import Path

from components.contracts.errors import DataError
from components.rollout.store import SCREENS, shard_paths
from components.rollout.tables import read_table

_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def stored_sizes(folder: Path) -> dict[str, tuple[int, int]]:
    """Digest -> (width, height) in pixels of every picture of a store, corpus or score folder."""
    found: dict[str, tuple[int, int]] = {}
    for path in shard_paths(folder, SCREENS):
        columns = read_table(path, ("digest", "png"))
        for digest, png in zip(columns["digest"], columns["png"], strict=True):
            found[digest] = png_size(png, where=f"{path}: picture {digest}")
    return found


def png_size(data: bytes, *, where: str) -> tuple[int, int]:
    """(width, height) in pixels. Raises DataError for anything that does not begin as a PNG file does."""
    if len(data) < 24 or data[:8] != _SIGNATURE or data[12:16] != b"IHDR":
        raise DataError("not a PNG picture", where=where, remedy="run the stage that writes it again")
    width, height = struct.unpack(">II", data[16:24])
    return int(width), int(height)
