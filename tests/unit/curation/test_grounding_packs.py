from __future__ import annotations

import json

import pytest

from components.contracts.calls import ComputerUse
from components.contracts.coords import ScreenSpace
from components.contracts.desktop import Element
from components.contracts.response import parse_response
from components.contracts.rng import stream
from components.curation.grounding_packs import (
    MOST_OF_A_KIND,
    Shot,
    click_pack,
    pack_items,
    synth_shot,
    targets,
    train_words,
)
from components.curation.rationale import ScriptedWriter, unknown_words
from components.forge.words import BANK
from components.harness.spec import CLICK_PROMPT
from components.rollout.store import load_screens
from tests.unit.rollout_store.small import collected

SPACE = ScreenSpace("normalized_1000", (288, 224), step=25)


def shots(kind: str) -> list[Shot]:
    if kind == "synth":
        return [synth_shot(stream(0, "test", i), train_words())[0] for i in range(60)]
    table = load_screens(collected("gui")[0]["trajectories"])
    return [Shot(digest, table.elements(digest), "app") for digest in list(table)[:60]]


def element_named(shot: Shot, name: str) -> Element:
    return next(e for e in shot.elements if f"{e.label} {e.kind}" == name)


@pytest.mark.parametrize("kind", ["synth", "app"])
def test_answers_hit_what_the_question_names_and_no_target_is_asked_twice(kind: str):
    asked = 0
    for number, shot in enumerate(shots(kind)):
        items = pack_items(stream(0, "questions", number), shot, 8, SPACE, ScriptedWriter())
        points = set()
        for item in items:
            parsed = parse_response(item["response"], SPACE, pointer=None, tools=("computer_use",))
            assert isinstance(parsed.call, ComputerUse) and parsed.call.coordinate is not None
            assert not unknown_words(" ".join((item["instruction"], parsed.think, parsed.action)))
            name = parsed.action.partition(" the ")[2]
            x0, y0, x1, y1 = element_named(shot, name).box
            assert x0 <= parsed.call.coordinate[0] < x1 and y0 <= parsed.call.coordinate[1] < y1
            label, _, widget = name.rpartition(" ")
            assert label in item["instruction"] and widget in item["instruction"]
            assert parsed.call.coordinate not in points
            points.add(parsed.call.coordinate)
            asked += 1
        assert len(items) <= 8
    assert asked > 150


def test_no_kind_of_widget_crowds_out_the_others():
    for number, shot in enumerate(shots("synth")):
        items = pack_items(stream(0, "questions", number), shot, 30, SPACE, ScriptedWriter())
        cells = sum(" cell" in i["instruction"] or "cell " in i["instruction"] for i in items)
        # a scroll over a cell names one too; a drag is about rows
        assert cells <= MOST_OF_A_KIND + 1


def _items() -> list[dict[str, str]]:
    return [
        item
        for number, shot in enumerate(shots("synth"))
        for item in pack_items(stream(0, "q", number), shot, 10, SPACE, ScriptedWriter())
    ]


def test_the_click_only_prompt_is_asked_for_left_clicks_only() -> None:
    answers = [item["response"] for item in _items()]
    assert len(answers) > 100
    assert all('"action": "left_click", "coordinate": [' in answer for answer in answers)


def test_about_half_of_the_answers_have_no_rationale() -> None:
    answers = [item["response"] for item in _items()]
    bare = sum(answer.startswith("<think></think>") for answer in answers)
    assert 0.4 < bare / len(answers) < 0.6


def test_a_pack_stands_under_the_click_prompt_and_shows_its_screen_once():
    shot = shots("synth")[0]
    pack = click_pack(stream(0, "q", 0), shot, 5, SPACE, ScriptedWriter(), name="p", mask_think=True)
    assert pack is not None and pack.mask_think and pack.images == (shot.digest,)
    body = json.loads(pack.messages)
    assert body["system"] == CLICK_PROMPT and body["screen"] == shot.digest and len(body["items"]) == 5
    again = click_pack(stream(0, "q", 0), shot, 5, SPACE, ScriptedWriter(), name="p", mask_think=True)
    assert again == pack


def test_a_screen_with_nothing_to_ask_about_gives_no_pack():
    shot = Shot("d", (Element("text", "hello", (0, 0, 9, 9)),), "app")
    assert click_pack(stream(0, "q", 0), shot, 5, SPACE, ScriptedWriter(), name="p", mask_think=True) is None


def test_ambiguous_and_unreadable_names_are_no_targets():
    twice = [Element("button", "ok", (0, 0, 9, 9)), Element("button", "ok", (20, 0, 29, 9))]
    odd = Element("row", "quokka.txt", (0, 40, 90, 60))
    fine = Element("row", "tax.txt", (0, 60, 90, 80))
    assert targets([*twice, odd, fine, Element("slider", "volume", (0, 0, 9, 9))]) == [fine]


def test_layout_free_screens_of_training_use_no_word_of_another_split():
    foreign = {w for split, words in BANK.items() if split != "train" for w in words}
    words = train_words()
    assert not foreign & {*words.stems, *words.labels}
