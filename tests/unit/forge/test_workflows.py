from __future__ import annotations

import itertools
import json
from collections import Counter
from random import Random

import pytest

from components.forge.skills import SKILLS
from components.forge.workflows import WORKFLOWS, Bank, routes

TRAINED = [s for s in SKILLS if not s.held_out]


def test_every_skill_has_a_workflow_and_no_workflow_is_without_skill():
    assert set(WORKFLOWS) == {s.id for s in SKILLS}


def test_there_are_enough_skills_of_every_class():
    kinds = Counter(s.kind for s in TRAINED)
    assert len(TRAINED) >= 20
    assert kinds["gui"] >= 5 and kinds["both"] >= 8 and kinds["terminal"] >= 4 and kinds["cross"] >= 4
    assert sum(s.held_out for s in SKILLS) == 10


def test_every_skill_has_many_wordings_and_splits_share_none():
    for made in WORKFLOWS.values():
        parts = made.wordings.by_split
        assert len(set(made.wordings.templates)) == len(made.wordings.templates) >= 24, made.skill.id
        assert sorted(itertools.chain(*parts.values())) == sorted(made.wordings.templates)
        assert all(len(part) >= 3 for part in parts.values())
        assert all(not set(a) & set(b) for a, b in itertools.combinations(parts.values(), 2))


@pytest.mark.parametrize("skill", list(WORKFLOWS))
def test_a_specification_gives_branches_that_fit_the_skill(skill):
    made = WORKFLOWS[skill]
    for item in range(20):
        split = ("train", "dev", "heldout")[item % 3]
        rng = Random(item)
        args = made.sample(rng, Bank(split, rng))
        assert json.loads(json.dumps(args)) == args
        branches = made.branches(args)
        assert branches == made.branches(args)
        assert branches.setup and branches.checks and branches.plan and branches.shortcut
        offered = routes(branches.plan)
        assert {"gui": (("gui",),), "terminal": (("terminal",),)}.get(made.skill.kind, offered) == offered
        if made.skill.kind == "both":
            assert offered == (("gui",), ("terminal",))
        made.wordings.draw(rng, split).format(**args)


@pytest.mark.parametrize("skill", list(WORKFLOWS))
def test_a_wrong_value_keeps_the_scene_and_changes_the_goal(skill):
    made = WORKFLOWS[skill]
    for item in range(12):
        split = ("train", "dev", "heldout")[item % 3]
        rng = Random(item)
        args = made.sample(rng, Bank(split, rng))
        other = made.wrong(rng, Bank(split, rng), args)
        assert made.branches(other).plan != made.branches(args).plan


def test_a_quarter_of_the_toggles_need_nothing():
    made = WORKFLOWS["toggle-pref"]
    right = 0
    for item in range(400):
        rng = Random(item)
        right += made.branches(made.sample(rng, Bank("train", rng))).needs_nothing
    assert 60 <= right <= 140


def test_commands_are_short_and_plain():
    for made in WORKFLOWS.values():
        rng = Random(1)
        for stage in made.branches(made.sample(rng, Bank("train", rng))).plan:
            command = stage.get("terminal", {}).get("command", "")
            assert len(command.split()) <= 8 and not set(command) & set("|;&$`(){}"), command
