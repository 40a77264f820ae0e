"""Train/held-out leakage: the same task under another split, the same specification, nearly the same text."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable

from components.contracts.digests import canonical_json, digest_value
from components.contracts.task import Task

_TOKEN = re.compile(r"\w+")
Shingles = frozenset[tuple[str, str]]


def content_digest(task: Task) -> str:
    """Digest of a task without its identity, its split and its looks: relabelling a task does not change it."""
    return digest_value(task.model_dump(mode="json", exclude={"task_id", "split", "seed"}))


def spec_key(task: Task) -> str:
    """What a task asks for, whatever its words and looks: skill and sampled arguments."""
    return canonical_json([task.skill, task.spec.get("args", task.spec)])


def shingles(text: str) -> Shingles:
    """Pairs of neighbouring words, borders included. Case, punctuation, spacing and letter forms make no difference."""
    words = ["", *_TOKEN.findall(unicodedata.normalize("NFKC", text).casefold()), ""]
    return frozenset(zip(words, words[1:], strict=False))


FLOOR = 0.5
"""Similarities below it are not looked for and count as 0: no two such texts are nearly the same."""


class TextIndex:
    """Texts to compare with. Similarity = shared word pairs / all word pairs of both (Jaccard), `FLOOR` to 1 or 0."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = tuple(dict.fromkeys(texts))
        self._shingles = [shingles(text) for text in self.texts]
        self._where: dict[tuple[str, str], list[int]] = {}
        for number, own in enumerate(self._shingles):
            for pair in own:
                self._where.setdefault(pair, []).append(number)
        self._known: dict[Shingles, tuple[float, str]] = {}

    def nearest(self, text: str) -> tuple[float, str]:
        """(similarity, text) of the most similar one; (0.0, "") when none is similar."""
        own = shingles(text)
        if own not in self._known:
            self._known[own] = self._nearest(own)
        return self._known[own]

    def _nearest(self, own: Shingles) -> tuple[float, str]:
        # A text as similar as FLOOR lacks at most this many of our pairs, so it has one of any more than that: the
        # rarest ones lead to few candidates.
        lacking = len(own) - math.ceil(FLOOR * len(own))
        rarest = sorted(own, key=lambda pair: len(self._where.get(pair, ())))[: lacking + 1]
        best, found = 0.0, ""
        for number in {number for pair in rarest for number in self._where.get(pair, ())}:
            other = self._shingles[number]
            shared = len(own & other)
            likeness = shared / (len(own) + len(other) - shared)
            if likeness >= FLOOR and (likeness, self.texts[number]) > (best, found):
                best, found = likeness, self.texts[number]
        return best, found
