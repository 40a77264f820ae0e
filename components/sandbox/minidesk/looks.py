"""What a task's seed decides about the screen: theme, window place, dock order, an app that is already open."""

from __future__ import annotations

from dataclasses import dataclass

from components.contracts.rng import stream
from components.sandbox.minidesk.draw import APPS, THEMES, Theme

OPEN_SHARE = 0.4
"""Share of tasks that start with one app already open."""


@dataclass(frozen=True)
class Looks:
    theme: Theme
    window: tuple[int, int]
    """Left top corner of a new window: x on 8 px, y on 16 px."""
    dock: tuple[str, ...]
    """The five icons from top to bottom."""
    opened: str
    """App that is open at the start, or ""."""


def looks(seed: int) -> Looks:
    """The looks of a seed: a pure function, so a screen can be made again from its task alone."""
    rng = stream(seed, "minidesk-looks")
    theme = rng.choice(THEMES)
    window = (48 + 8 * rng.randrange(5), 16 * rng.randrange(2))
    dock = list(APPS)
    rng.shuffle(dock)
    opened = rng.choice(APPS) if rng.random() < OPEN_SHARE else ""
    return Looks(theme, window, tuple(dock), opened)
