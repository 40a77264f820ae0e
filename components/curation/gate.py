"""The gate every corpus passes before it is written. The first violation is a `DataError` that names the sample.

Checked: pictures and placeholders agree and every picture is there; a response reads back through the parser of the
live agent, with the harness's tools, and its coordinates lie on the screen; nothing of another split is in any text
(words of the bank, and the phrasing of the instruction).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from components.contracts.coords import ScreenSpace
from components.contracts.errors import CallError, DataError
from components.contracts.response import parse_response
from components.curation.corpora import Sample
from components.curation.records import RecordError, check_record
from components.forge.words import BANK

_WORD = re.compile(r"[a-z]+")
FOREIGN = frozenset(word for split, words in BANK.items() if split != "train" for word in words)
"""Words that only other splits may use."""


def check_corpus(
    samples: Sequence[Sample],
    space: ScreenSpace,
    tools: Collection[str],
    exists: Callable[[str], bool],
    wording_allowed: Callable[[str, str], bool],
) -> int:
    """Check every distinct sample; the number checked. `wording_allowed(skill, wording)` tells a train phrasing."""
    done: set[str] = set()
    for number, sample in enumerate(samples, start=1):
        first = sample.sample_id.partition("#")[0]
        if first in done:
            continue
        done.add(first)
        try:
            _check(sample, number, space, tools, exists)
        except (RecordError, CallError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{error}", where=f"sample {sample.sample_id}", remedy="nothing was written") from error
        if sample.wording and not wording_allowed(sample.skill, sample.wording):
            raise _leak(sample, f"the wording {sample.wording!r}")
    return len(done)


@dataclass(frozen=True)
class Told:
    """What a stored sample says. `texts` are those that a person, a program or a generator wrote into the prompt."""

    messages: tuple[Mapping[str, Any], ...]
    """The prompt as a chat record has it, see `records.py`; the responses are not among them."""
    images: tuple[str, ...]
    texts: tuple[str, ...]
    responses: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """Prompt and responses as one chat record."""
        answer = {"role": "assistant", "content": "\n".join(self.responses)}
        return {"messages": [*self.messages, answer], "images": list(self.images)}


def tell(kind: str, messages: str, response: str) -> Told:
    """A sample's columns taken apart. ValueError, KeyError or TypeError for what no curation wrote."""
    content = json.loads(messages)
    if kind == "click_pack":
        texts = tuple(item["instruction"] for item in content["items"])
        parts = [{"type": "image"}, *({"type": "text", "text": text} for text in texts)]
        responses = tuple(item["response"] for item in content["items"])
        return Told(({"role": "user", "content": parts},), (content["screen"],), texts, responses)
    chat = tuple({"role": m["role"], "content": [_part(p) for p in m["parts"]]} for m in content)
    images = tuple(p["image"] for m in content for p in m["parts"] if "image" in p)
    # The system prompt is the harness's own text; what a model or a program wrote comes after it.
    texts = tuple(p["text"] for m in content if m["role"] != "system" for p in m["parts"] if "text" in p)
    return Told(chat, images, texts, (response,))


def _check(
    sample: Sample, number: int, space: ScreenSpace, tools: Collection[str], exists: Callable[[str], bool]
) -> None:
    told = tell(sample.kind, sample.messages, sample.response)
    if told.images != sample.images:
        raise ValueError("the pictures noted beside the sample are not those it shows")
    check_record(told.record(), number, exists=exists)
    for response in told.responses:
        parse_response(response, space, pointer=sample.pointer, tools=tools)
    for text in (*told.texts, *told.responses):
        if found := foreign_words(text):
            raise _leak(sample, f"the word {found[0]!r}")


def _part(part: dict[str, str]) -> dict[str, str]:
    return {"type": "image"} if "image" in part else {"type": "text", "text": part["text"]}


def _leak(sample: Sample, what: str) -> DataError:
    return DataError(
        f"{what} belongs to another split", where=f"sample {sample.sample_id}",
        remedy="the task generator's splits overlap; nothing was written",
    )  # fmt: skip


@lru_cache(maxsize=1 << 16)
def foreign_words(text: str) -> tuple[str, ...]:
    """Words of other splits in a text, sorted."""
    return tuple(sorted(FOREIGN.intersection(_WORD.findall(text.lower()))))


def train_wording(skill: str, wording: str) -> bool:
    """Whether the forge keeps this phrasing of a skill for the train split."""
    from components.forge.workflows import WORKFLOWS

    made = WORKFLOWS.get(skill)
    template = wording.removeprefix(f"{skill}: ")
    return made is not None and template in _train_templates(skill)


@lru_cache(maxsize=256)
def _train_templates(skill: str) -> frozenset[str]:
    from components.forge.workflows import WORKFLOWS

    return frozenset(WORKFLOWS[skill].wordings.by_split["train"])
