"""Word substitution: consistent, never a word of another split, never against the screen."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

from components.contracts.response import render_response
from components.curation.corpora import Sample
from components.curation.substitution import POOL, substituted
from components.forge.words import BANK


def sample(response: str, primitive: str, task: str = "rename tax.txt to plan.txt") -> Sample:
    messages = [
        {"role": "system", "parts": [{"text": "a plan of tools"}]},
        {"role": "user", "parts": [{"text": f"Task: {task}\n"}, {"image": "d"}]},
    ]
    return Sample(
        sample_id="s", kind="agent", skill="rename-file", trajectory_id="t", step=0, messages=json.dumps(messages),
        response=response, mask_think=False, primitive=primitive,
    )  # fmt: skip


TYPED = render_response("the dialog is open", "type plan.txt", "computer_use", {"action": "type", "text": "plan.txt"})
CLICK = render_response(
    "tax.txt is shown", "right click the tax.txt row", "computer_use", {"action": "right_click", "coordinate": [5, 5]}
)


def changed(given: Sample) -> Sample:
    """The first changed sample of several draws (a share of them is left alone)."""
    return next((s for seed in range(50) if (s := substituted(given, Random(seed))) != given), given)


def test_prompt_and_response_get_the_same_other_word_and_the_system_prompt_none() -> None:
    given = sample(TYPED, "type")
    made = changed(given)
    task = json.loads(made.messages)[1]["parts"][0]["text"]
    word = task.split(" to ")[1].removesuffix(".txt\n")
    assert word != "plan" and f'"text": "{word}.txt"' in made.response and f"type {word}.txt" in made.response
    assert json.loads(made.messages)[0] == json.loads(given.messages)[0]
    assert made.sample_id != given.sample_id


def test_a_step_that_points_at_a_named_row_keeps_its_words() -> None:
    given = sample(CLICK, "right_click")
    assert changed(given) == given


def test_a_word_that_was_read_off_the_screen_keeps_the_sample() -> None:
    given = replace(sample(TYPED, "type", task="put the word of the note in the form"))
    assert changed(given) == given


def test_no_word_of_another_split_is_ever_put_in() -> None:
    assert not set(POOL) & {*BANK["dev"], *BANK["heldout"]}
    assert set(BANK["train"]) <= set(POOL)
