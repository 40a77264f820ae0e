"""Base questions as sequences: token ids, what is supervised, and where its answers come from.

The base script trains on them with its auxiliary losses; the recipe's stages replay them with the plain one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from components.contracts.desktop import Box
from components.forge.words import BANK, INSTRUCTION_WORDS, UI_WORDS
from components.sandbox.minidesk.draw import HEIGHT, WIDTH
from components.sandbox.minidesk.synth import SynthScreen, SynthWords
from components.training.base_data import Question
from components.training.model import Policy
from components.training.sequences import Encoder, Packed

QUESTIONS = 8
"""Questions packed behind one screenshot."""


def base_words() -> SynthWords:
    """The base reads and copies every word; the splits of the recipe differ in what tasks are made of."""
    return SynthWords(
        tuple(w for words in BANK.values() for w in words), tuple(dict.fromkeys(UI_WORDS)), tuple(range(10, 100))
    )


GLUE = tuple(dict.fromkeys(w for w in INSTRUCTION_WORDS if len(w) > 1))


@dataclass(frozen=True)
class Answer:
    """What a test looks at: the columns that have to be right, or the box that a located point belongs in."""

    kind: str
    columns: tuple[int, ...]
    box: Box | None


@dataclass
class Item:
    """A packed sequence and what the auxiliary losses know about it. Links are (query column, key column)."""

    packed: Packed
    search: list[tuple[int, int]]
    copied: list[tuple[int, int]]
    answers: list[Answer]
    screen: SynthScreen


class Builder:
    """Questions to sequences, with the token positions of their links."""

    def __init__(self, policy: Policy) -> None:
        self.encoder = Encoder(policy)
        self.tokenizer = policy.tokenizer
        self.unit = policy.grid.patch * policy.grid.merge
        self.size = policy.grid.tokens(HEIGHT, WIDTH)

    def _encode(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        out = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        return out.input_ids, out.offset_mapping

    def visual(self, image_start: int, point: tuple[int, int]) -> int:
        """Column of the visual token that holds a pixel; `image_start` = column of the first visual token."""
        return image_start + point[1] // self.unit * self.size[1] + point[0] // self.unit

    def item(self, screen: SynthScreen, asked: Sequence[Question], task_first: bool) -> Item:
        e = self.encoder
        image = e.image(self.size)
        head = e.open("user")
        ids: list[int] = [] if task_first else [*head, *image]
        weights = [0.0] * len(ids)
        segments = [0] * len(ids)
        image_start = len(head) + 1
        search: list[tuple[int, int]] = []
        copied: list[tuple[int, int]] = []
        answers: list[Answer] = []
        for number, question in enumerate(asked, start=1):
            text, text_spans = self._encode(question.text)
            answer, answer_spans = self._encode(question.answer)
            start = len(ids)
            if task_first:
                ids += [*head, *text]
                question_at = start + len(head)
                image_start = len(ids) + 1
                ids += image
            else:
                question_at = start
                ids += text
            ids += [*e.close(), *e.open("assistant")]
            at = len(ids)
            ids += [*answer, e.close()[0]]
            learned = [float(b > question.free) for _, b in answer_spans]
            weights += [0.0] * (at - len(weights)) + learned + [1.0]
            segments += [0 if task_first else number] * (len(ids) - len(segments))
            low, high = question.judged or (0, len(question.answer) + 1)
            judged = [at + k for k, (a, b) in enumerate(answer_spans) if a < high and b > low and b > question.free]
            if question.judged is None:
                judged.append(len(ids) - 1)
            answers.append(Answer(question.kind, tuple(judged), question.box))
            for link in question.links:
                for k, (a, b) in enumerate(answer_spans):
                    if not (a < link.end and b > link.start):
                        continue
                    query = at + k - 1
                    if link.point is not None:
                        search.append((query, self.visual(image_start, link.point)))
                    elif link.source is not None:
                        place = link.source + a - link.start
                        key = next((j for j, (qa, qb) in enumerate(text_spans) if qa <= place < qb), None)
                        if key is not None:
                            copied.append((query, question_at + key))
        packed = Packed(
            np.array(ids, np.int64), np.array(segments, np.int64), np.array(weights, np.float32), (screen.screen,)
        )
        return Item(packed, search, copied, answers, screen)
