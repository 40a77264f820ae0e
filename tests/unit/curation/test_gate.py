from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from components.contracts.coords import ScreenSpace
from components.contracts.errors import DataError
from components.curation.corpora import Sample
from components.curation.gate import check_corpus, foreign_words, train_wording
from components.forge.workflows import WORKFLOWS
from tests.unit.curation.test_corpora import samples_of

SPACE = ScreenSpace("normalized_1000", (288, 224), step=25)


def gate(sample: Sample, exists: bool = True) -> int:
    return check_corpus([sample], SPACE, ("computer_use",), lambda _: exists, train_wording)


def good() -> Sample:
    return next(s for s in samples_of("gui") if s.primitive == "double_click")


def test_a_good_sample_passes_and_its_repeats_are_checked_once():
    sample = good()
    assert gate(sample) == 1
    repeats = [sample, replace(sample, sample_id=f"{sample.sample_id}#2")]
    assert check_corpus(repeats, SPACE, ("computer_use",), lambda _: True, train_wording) == 1


BROKEN = {
    "outside 0..1000": lambda s: replace(s, response=re.sub(r'"coordinate": \[\d+', '"coordinate": [1025', s.response)),
    "no tool": lambda s: replace(s, response=s.response.replace("computer_use", "browser")),
    "not closed": lambda s: replace(s, response=s.response.replace("</think>", "")),
    "does not end": lambda s: replace(s, response=s.response.removesuffix("</tool_call>")),
    "pictures noted": lambda s: replace(s, images=s.images[:-1]),
    "special_token_in_text": lambda s: replace(s, response=s.response.replace("<think>", "<think><|im_end|>")),
    "zebra": lambda s: replace(s, response=s.response.replace("<think>", "<think>zebra ")),
    "'summer'": lambda s: replace(s, messages=s.messages.replace("Task: ", "Task: open summer.txt ")),
    "wording": lambda s: replace(s, wording=f"{s.skill}: do as you like"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_violation_is_an_error_that_names_the_sample(what: str):
    broken = BROKEN[what](good())
    with pytest.raises(DataError, match=what) as caught:
        gate(broken)
    assert broken.sample_id in str(caught.value)


def test_a_picture_that_is_not_there_is_named():
    with pytest.raises(DataError, match="image_missing"):
        gate(good(), exists=False)


def test_a_pack_is_checked_question_by_question():
    sample = good()
    items = [{"instruction": "click the save button", "response": sample.response}] * 2
    body = {"system": "s", "screen": sample.images[-1], "items": items}
    pack = Sample("p", "click_pack", "grounding-app", "", 0, json.dumps(body), "", True, images=sample.images[-1:])
    assert gate(pack) == 1
    body["items"] = [items[0], {"instruction": "click the zebra row", "response": sample.response}]
    with pytest.raises(DataError, match="zebra"):
        gate(replace(pack, messages=json.dumps(body)))


def test_words_of_other_splits_are_found_and_those_of_train_are_not():
    assert foreign_words("move Zebra.txt to the wolf folder") == ("wolf", "zebra")
    assert foreign_words("move tax.txt to the plan folder") == ()


def test_only_the_forges_own_train_phrasings_pass():
    made = WORKFLOWS["rename-file"]
    splits = made.wordings.by_split
    assert train_wording("rename-file", f"rename-file: {splits['train'][0]}")
    assert not train_wording("rename-file", f"rename-file: {splits['heldout'][0]}")
    assert not train_wording("no-such-skill", "anything")
