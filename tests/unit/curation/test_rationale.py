from __future__ import annotations

import pytest

from components.contracts.desktop import Element
from components.curation.rationale import (
    SHORT,
    VERBOSE,
    RationaleRequest,
    ScreenState,
    ScriptedWriter,
    Style,
    unknown_words,
)
from components.rollout.filters import step_infos
from components.rollout.store import load_screens, read_trajectories
from tests.unit.rollout_store.small import collected

BOUNDS = {"short": SHORT, "verbose": VERBOSE}
SAVE = Element("button", "save", (0, 0, 40, 20))
DIALOG = Element("title", "rename", (0, 0, 40, 20))
CLICK = {"tool": "computer_use", "action": "left_click"}


@pytest.mark.parametrize("channel", ["gui", "hybrid"])
@pytest.mark.parametrize("style", ["short", "verbose"])
def test_every_rationale_has_the_length_of_its_style_and_only_known_words(channel: str, style: Style):
    inputs, _ = collected(channel)
    table, writer = load_screens(inputs["trajectories"]), ScriptedWriter()
    low, high = BOUNDS[style]
    written = 0
    for trajectory in read_trajectories(inputs["trajectories"]):
        for step, info in zip(trajectory.steps, step_infos(trajectory), strict=True):
            request = RationaleRequest(
                trajectory.instruction, ScreenState(step.screen, table.elements(step.screen)),
                ScreenState(step.screen_after, table.elements(step.screen_after)), step.call or {}, step.action,
                info["intent"], style, step.output,
            )  # fmt: skip
            text = writer.write(request)
            assert low <= len(text.split()) <= high, text
            assert not unknown_words(text), text
            assert text == writer.write(request) and "\n" not in text
            written += 1
    assert written > 80


def test_the_fact_the_teacher_saw_is_what_a_short_rationale_says():
    request = RationaleRequest("t", ScreenState("a"), ScreenState("b"), CLICK, "click", {"why": "the dialog is open"})
    assert ScriptedWriter().write(request) == "the dialog is open"


def test_without_a_fact_only_what_is_on_the_screen_is_claimed():
    intent = {"target": ["button", "save"]}
    shown = RationaleRequest("t", ScreenState("a", (SAVE,)), ScreenState("b"), CLICK, "click the save button", intent)
    hidden = RationaleRequest("t", ScreenState("a"), ScreenState("b"), CLICK, "click the save button", intent)
    assert ScriptedWriter().write(shown) == "the save button is shown"
    assert "save" not in ScriptedWriter().write(hidden)


def test_a_fact_in_words_the_tokenizer_does_not_have_is_left_out():
    intent = {"why": "the quokka is selected", "target": ["button", "save"]}
    request = RationaleRequest("t", ScreenState("a", (SAVE,)), ScreenState("b"), CLICK, "click", intent)
    assert ScriptedWriter().write(request) == "the save button is shown"


def test_a_verbose_rationale_tells_what_the_step_brought():
    intent = {"why": "it is open", "aim": ""}
    before, after = ScreenState("a", (SAVE,)), ScreenState("b", (SAVE, DIALOG))
    request = RationaleRequest("t", before, after, CLICK, "wait", intent, "verbose")
    assert "then rename is shown" in ScriptedWriter().write(request)
    same = RationaleRequest("t", before, before, CLICK, "wait", intent, "verbose")
    assert "rename" not in ScriptedWriter().write(same)
