"""Word substitution: the same step with other content words, so that arguments are copied and not remembered.

A tiny policy sees a few dozen content words in training. Left alone it learns them by heart and answers a held-out
name with a familiar one. Where a step has its words in its text alone (typing, terminal calls, buttons), they may be
any words: each is replaced, in the prompt and in the response alike, by a random word that belongs to no
other split. Steps that point at a named row stay as they are: there the word is on the screen.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from random import Random

from components.contracts.response import action_line
from components.curation.corpora import Sample
from components.forge import words

SHARE = 0.8
"""Share of the steps that qualify which get other words."""

POOL = tuple(
    dict.fromkeys(
        w
        for group in (
            words.BANK["train"], words.CHECKS, words.MENUS, *words.MENUS.values(), words.FORM_NAMES, words.FORM_TEXTS,
            words.FORM_CHOICES, *words.FORM_CHOICES.values(), words.FORM_CHECKS, words.HEADERS,
        )
        for w in group
    )
)  # fmt: skip
"""Words to put in: training words and the labels of forms and preferences. Verbs and command names stay out: with them
among the arguments a tiny policy loses the command."""

_CONTENT = re.compile(rf"\b({'|'.join(sorted(words.BANK['train']))})\b")
_FREE = frozenset({"type", "bash", "key", "wait", "terminate"})
"""Primitives that point at nothing on the screen."""


def substituted(sample: Sample, rng: Random) -> Sample:
    """The sample with other content words, or the sample itself where that would contradict its screen."""
    if sample.kind != "agent" or rng.random() >= SHARE:
        return sample
    messages = json.loads(sample.messages)
    told = " ".join(p["text"] for m in messages if m["role"] != "system" for p in m["parts"] if "text" in p)
    answered = set(_CONTENT.findall(sample.response))
    known = set(_CONTENT.findall(told))
    if not known or answered - known:
        return sample  # nothing to replace, or a word that was read off the screen
    if sample.primitive not in _FREE and _CONTENT.search(action_line(sample.response)):
        return sample
    used = set(re.findall(r"[a-z]+", told + " " + sample.response))
    fresh = rng.sample([w for w in POOL if w not in used], len(known))
    other = dict(zip(sorted(known), fresh, strict=True))

    def change(text: str) -> str:
        return _CONTENT.sub(lambda found: other[found.group(1)], text)

    for message in messages:
        if message["role"] != "system":
            for part in message["parts"]:
                if "text" in part:
                    part["text"] = change(part["text"])
    name = f"{sample.sample_id}~{'-'.join(fresh)}"
    return replace(
        sample, sample_id=name, messages=json.dumps(messages, ensure_ascii=False), response=change(sample.response)
    )
