"""Turns of skills: in proportion to what there is to learn, and none forgotten."""

from __future__ import annotations

from collections import Counter

import pytest

from components.training.curriculum import SkillTurns

SKILLS = ("always", "never", "sometimes", "unseen")


def practised(turns: SkillTurns, rounds: int = 40, count: int = 3) -> Counter[str]:
    out: Counter[str] = Counter()
    for iteration in range(rounds):
        out.update(turns.choose(count, iteration))
    return out


def taught(focus: float) -> SkillTurns:
    turns = SkillTurns(SKILLS, focus, seed=1)
    for skill, success in (("always", 1.0), ("never", 0.0), ("sometimes", 0.5)):
        turns.saw(skill, success)
    return turns


def test_without_focus_every_skill_gets_as_many_turns_as_any_other() -> None:
    assert set(practised(taught(0.0)).values()) == {30}


def test_skills_that_sometimes_succeed_get_turns_in_proportion_and_the_others_keep_some() -> None:
    counts = practised(taught(0.7))
    assert counts["sometimes"] == pytest.approx(120 / 2.6, abs=1) == counts["unseen"]
    assert counts["always"] == pytest.approx(120 * 0.3 / 2.6, abs=1) == counts["never"]


def test_full_focus_with_nothing_to_learn_is_strict_turns() -> None:
    turns = SkillTurns(("a", "b"), 1.0, seed=1)
    turns.saw("a", 1.0)
    turns.saw("b", 0.0)
    assert practised(turns) == {"a": 60, "b": 60}


def test_a_skill_that_begins_to_succeed_gets_more_turns() -> None:
    turns = taught(0.7)
    before = turns.weight("never")
    turns.saw("never", 0.5)
    assert turns.weight("never") > before


def test_a_restored_state_goes_on_with_the_same_choices() -> None:
    one, other = taught(0.7), SkillTurns(SKILLS, 0.7, seed=1)
    one.choose(3, 0)
    other.restore(one.state())
    assert [one.choose(3, i) for i in range(1, 5)] == [other.choose(3, i) for i in range(1, 5)]


def test_turns_depend_on_the_seed_and_never_on_the_order_of_skills() -> None:
    same = SkillTurns(reversed(SKILLS), 0.0, 1).choose(4, 0)
    assert SkillTurns(SKILLS, 0.0, 1).choose(4, 0) == same
    assert {tuple(SkillTurns(SKILLS, 0.0, seed).choose(4, 0)) for seed in range(9)} != {tuple(same)}


def test_no_skills_is_an_error() -> None:
    with pytest.raises(ValueError, match="no skills"):
        SkillTurns((), 0.5, 0)
