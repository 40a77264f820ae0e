"""Which samples a supervised stage's steps take: a pure function of settings, seed and the corpora's lengths.

Batches are of samples of like length: without that every seventh token of the tiny recipe would be padding, and the
ranks would wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice
from random import Random
from typing import Protocol

from components.contracts.params import Sft
from components.contracts.rng import stream

WINDOW = 4
"""Batches that are cut together, by length, from one stretch of a seeded walk. More saves little padding and makes the
samples of a batch more alike."""
BASE_DENSITY = 2
"""A step of replayed base questions has by this factor fewer screens than another has samples, and that many more
questions behind each than the base script packs: a screen that is shown once costs more than the questions on it."""
_STRIDE = 7919
"""A prime: replay walks a whole corpus before it comes back."""


class Lengths(Protocol):
    """What a plan must know of a corpus: how many samples, and how many tokens each."""

    def __len__(self) -> int: ...

    def length(self, index: int) -> int: ...


@dataclass(frozen=True)
class PlannedStep:
    """Source of a step's batch and the item indices within it."""

    source: str
    items: tuple[int, ...]


def plan_steps(settings: Sft, seed: int, stage: str, corpora: Mapping[str, Lengths]) -> list[PlannedStep]:
    """The whole stage's batches.

    Replay steps are spread evenly (their shares are exact, not random). The stage's own `corpus` is walked in seeded
    epochs, the replayed `grounding` and `gui` in long strides, and `base` questions are numbered as they come.
    """
    shares = {"base": settings.replay_base, "grounding": settings.replay_grounding, "gui": settings.replay_gui}
    owed = dict.fromkeys(shares, 0.0)
    order: list[str] = []
    for _ in range(settings.steps):
        for name, share in shares.items():
            owed[name] += share
        name = max(owed, key=lambda n: owed[n])
        if owed[name] >= 1.0:
            owed[name] -= 1.0
        else:
            name = "corpus"
        order.append(name)
    batches: dict[str, Iterator[tuple[int, ...]]] = {}
    for name in dict.fromkeys(order):
        items = order.count(name) * settings.batch
        if name == "base":
            batches[name] = _plain(max(1, settings.batch // BASE_DENSITY))
            continue
        corpus = corpora[name]
        walk = _epochs(seed, stage, len(corpus)) if name == "corpus" else _strides(seed, stage, name, len(corpus))
        shuffler = stream(seed, stage, f"batches-{name}")
        batches[name] = _alike(islice(walk, items), settings.batch, corpus.length, shuffler)
    return [PlannedStep(name, next(batches[name])) for name in order]


def _epochs(seed: int, stage: str, size: int) -> Iterator[int]:
    for epoch in count():
        block = list(range(size))
        stream(seed, stage, f"epoch-{epoch}").shuffle(block)
        yield from block


def _strides(seed: int, stage: str, name: str, size: int) -> Iterator[int]:
    offset = stream(seed, stage, f"replay-{name}").randrange(size)
    return ((offset + i * _STRIDE) % size for i in count())


def _plain(screens: int) -> Iterator[tuple[int, ...]]:
    return (tuple(range(start, start + screens)) for start in count(0, screens))


def _alike(
    walk: Iterator[int], batch: int, length: Callable[[int], int], shuffler: Random
) -> Iterator[tuple[int, ...]]:
    """Batches of samples of like length, in random order; the shortest first within each."""
    while window := list(islice(walk, WINDOW * batch)):
        window.sort(key=length)
        cut = [tuple(window[start : start + batch]) for start in range(0, len(window), batch)]
        shuffler.shuffle(cut)
        yield from cut
