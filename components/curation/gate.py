"""The gate every corpus passes before it is written. The first violation is a `DataError` that names the sample.

Checked: pictures and placeholders agree and every picture is there; a response reads back through the parser of the
live agent, with the harness's tools, and its coordinates lie on the screen; nothing of another split is in any text
(words of the bank, and the phrasing of the instruction).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache

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


def _check(
    sample: Sample, number: int, space: ScreenSpace, tools: Collection[str], exists: Callable[[str], bool]
) -> None:
    content = json.loads(sample.messages)
    if sample.kind == "click_pack":
        responses = [item["response"] for item in content["items"]]
        texts = [item["instruction"] for item in content["items"]]
        parts = [{"type": "image"}, *({"type": "text", "text": text} for text in texts)]
        messages = [{"role": "user", "content": parts}]
        images = [content["screen"]]
    else:
        responses = [sample.response]
        messages = [{"role": m["role"], "content": [_part(p) for p in m["parts"]]} for m in content]
        images = [p["image"] for m in content for p in m["parts"] if "image" in p]
        # The system prompt is the harness's own text; what a model or a program wrote comes after it.
        texts = [p["text"] for m in content if m["role"] != "system" for p in m["parts"] if "text" in p]
    if tuple(images) != sample.images:
        raise ValueError("the pictures noted beside the sample are not those it shows")
    messages.append({"role": "assistant", "content": "\n".join(responses)})
    check_record({"messages": messages, "images": images}, number, exists=exists)
    for response in responses:
        parse_response(response, space, pointer=sample.pointer, tools=tools)
    for text in (*texts, *responses):
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
