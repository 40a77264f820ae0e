"""Stored pictures by digest, with their sizes as the PNG header states them. Pixels are not decoded."""

from __future__ import annotations

from pathlib import Path

from components.rollout.screens import png_size
from components.rollout.store import SCREENS, shard_paths
from components.rollout.tables import read_table


def stored_sizes(folder: Path) -> dict[str, tuple[int, int]]:
    """Digest -> (width, height) in pixels of every picture of a store, corpus or score folder."""
    found: dict[str, tuple[int, int]] = {}
    for path in shard_paths(folder, SCREENS):
        columns = read_table(path, ("digest", "png"))
        for digest, png in zip(columns["digest"], columns["png"], strict=True):
            found[digest] = png_size(png, where=f"{path}: picture {digest}")
    return found
