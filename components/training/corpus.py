"""Reads a curated corpus into packed sequences: each step its own (prompt, response), a pack one screenshot."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from components.contracts.desktop import Screen
from components.contracts.errors import DataError
from components.contracts.folding import ImagePart, Message, Part, TextPart
from components.contracts.schemas import THINK_CLOSE, THINK_OPEN
from components.training.engine import render_ids
from components.training.screen_features import ScreenFeatures
from components.training.sequences import Encoder, Packed, pack

if TYPE_CHECKING:
    from components.rollout.store import ScreenTable


class Samples(Sequence[Packed]):
    """A corpus's rows as sequences, each encoded when it is first asked for: of a replayed corpus few ever are."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], screens: ScreenTable, encoder: Encoder, where: str) -> None:
        self._rows, self._screens, self._encoder, self._where = rows, screens, encoder, where
        self._made: dict[int, Packed] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        if not 0 <= index < len(self):
            raise IndexError(index)
        if index not in self._made:
            self._made[index] = self._make(self._rows[index])
        return self._made[index]

    def _make(self, row: Mapping[str, Any]) -> Packed:
        build = _click_pack if row["kind"] == "click_pack" else _agent_step
        try:
            return build(row, json.loads(row["messages"]), self._screens, self._encoder)
        except (KeyError, ValueError, TypeError) as error:
            raise DataError(
                f"sample {row.get('sample_id')} cannot be read: {error!r}",
                where=self._where,
                remedy="run its curate stage again",
            ) from error


@dataclass(frozen=True)
class Corpus:
    """Sequences of one corpus, in the order of its file. Pictures stay compressed until an item is taken."""

    items: Samples
    """As read: `screens` are digests."""
    pictures: ScreenTable | ScreenFeatures

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Packed:
        item: Packed = self.items[index]
        return replace(item, screens=tuple(self.pictures[digest] for digest in item.screens))

    def length(self, index: int) -> int:
        """Tokens of a sample."""
        return len(self.items[index])


def load_corpus(path: Path, encoder: Encoder) -> Corpus:
    """Open `samples.parquet` and `screens.parquet`. A sample that cannot be read is named when it is asked for."""
    from components.curation.corpora import read_corpus

    rows, screens = read_corpus(path)
    if not rows:
        raise DataError("the corpus is empty", where=str(path), remedy="run its curate stage again")
    return Corpus(Samples(rows, screens, encoder, str(path)), screens)


def message_of(entry: Mapping[str, Any], screens: ScreenTable) -> Message:
    """One stored message. Its image parts have the size of the picture and none of its pixels: ids need no more."""
    parts: list[Part] = [
        ImagePart(_blank(screens.shape(p["image"]))) if "image" in p else TextPart(p["text"]) for p in entry["parts"]
    ]
    return Message(entry["role"], tuple(parts))


def _blank(size: tuple[int, int]) -> Screen:
    """(height, width, 3) that takes no memory."""
    return np.broadcast_to(np.uint8(0), (*size, 3))


def response_weights(text: str, ids: list[int], encoder: Encoder, mask_think: bool, weight: float) -> list[float]:
    """Loss weights of a response and its end token; the interior of `<think>` is left out when `mask_think`."""
    weights = [weight] * len(ids)
    if mask_think and text.startswith(THINK_OPEN):
        end = text.index(THINK_CLOSE)
        inner = len(encoder.text(text[:end]))
        opening = len(encoder.text(THINK_OPEN))
        weights[opening:inner] = [0.0] * (inner - opening)
    return weights


def _response(text: str, encoder: Encoder, mask_think: bool, weight: float) -> tuple[list[int], list[float]]:
    ids = [*encoder.text(text), encoder.close()[0]]
    return ids, response_weights(text, ids, encoder, mask_think, weight)


def _agent_step(row: Mapping[str, Any], messages: Any, screens: ScreenTable, encoder: Encoder) -> Packed:
    prompt, _ = render_ids(encoder, [message_of(entry, screens) for entry in messages])
    shown = [part["image"] for entry in messages for part in entry["parts"] if "image" in part]
    ids, weights = _response(row["response"], encoder, row["mask_think"], row["weight"])
    return step_sequence(prompt, shown, ids, weights)


def step_sequence(prompt: list[int], screens: Sequence[Any], response: list[int], weights: list[float]) -> Packed:
    """One (prompt, response) sample as a sequence without branches."""
    count = len(prompt) + len(response)
    padded: NDArray[np.float32] = np.array([0.0] * len(prompt) + weights, np.float32)
    return Packed(np.array(prompt + response, np.int64), np.zeros(count, np.int64), padded, tuple(screens))


def _click_pack(row: Mapping[str, Any], pack_row: Any, screens: ScreenTable, encoder: Encoder) -> Packed:
    """Several questions behind one screenshot; the click-only prompt stands in front, each question is a branch."""
    prefix, branches = click_prefix(pack_row["system"], _blank(screens.shape(pack_row["screen"])), encoder), []
    for item in pack_row["items"]:
        question = click_question(item["instruction"], encoder)
        ids, weights = _response(item["response"], encoder, row["mask_think"], row["weight"])
        branches.append(([*question, *ids], [0.0] * len(question) + weights))
    return pack(prefix, branches, [pack_row["screen"]])


def click_prefix(system: str, screen: Screen, encoder: Encoder) -> list[int]:
    """System prompt and screenshot of a grounding question."""
    return [
        *encoder.open("system"), *encoder.text(system), *encoder.close(), *encoder.open("user"),
        *encoder.image(encoder.grid.tokens(*screen.shape[:2])),
    ]  # fmt: skip


def click_question(instruction: str, encoder: Encoder) -> list[int]:
    return [*encoder.text(instruction), *encoder.close(), *encoder.open("assistant")]
