"""Tasks over real applications: many, distinct, repeatable, split-guarded, and made of setups that fit."""

from __future__ import annotations

from collections import Counter

import pytest

from components.contracts.errors import TaskError
from components.contracts.task import SetupStep, Task
from components.forge.realapps.catalog import BY_ID, SKILLS
from components.forge.realapps.evidence import Evidence
from components.forge.realapps.generate import generate, guard, workflow_of
from components.forge.realapps.preparers import made_by
from components.forge.realapps.scene import judge
from components.forge.realapps.workflows import WORKFLOWS
from components.forge.workflows.base import routes


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    return generate(0)


def test_every_skill_has_a_workflow_and_there_are_enough_tasks(tasks: list[Task]) -> None:
    assert list(WORKFLOWS) == [skill.id for skill in SKILLS] and len(SKILLS) >= 25
    assert len(tasks) >= 60 and len({task.task_id for task in tasks}) == len(tasks)
    assert sum(len(skill.apps) > 1 for skill in SKILLS) >= 5


def test_every_application_has_a_plan_for_the_screen(tasks: list[Task]) -> None:
    by_hand = {app for task in tasks if ("gui",) in task.channels for app in task.apps}
    assert {"calc", "writer", "impress", "gimp", "files", "editor", "browser"} <= by_hand
    assert len({task.skill for task in tasks if ("gui",) in task.channels}) >= 8


def test_the_kind_of_a_skill_says_which_routes_its_tasks_have(tasks: list[Task]) -> None:
    for task in tasks:
        kind, offered = BY_ID[task.skill].kind, set(task.channels)
        wanted = {"gui": {("gui",)}, "terminal": {("terminal",)}, "both": {("gui",), ("terminal",)}}
        assert kind == "cross" or offered == wanted[kind], task.skill


def test_the_same_seed_gives_the_same_tasks_and_another_seed_others(tasks: list[Task]) -> None:
    again = generate(0)
    assert [task.task_id for task in again] == [task.task_id for task in tasks]
    assert not {task.task_id for task in generate(1)} & {task.task_id for task in tasks}


def test_an_instruction_names_every_value_that_its_checks_ask_for(tasks: list[Task]) -> None:
    for task in tasks:
        assert "{" not in task.instruction and task.instruction == task.instruction.strip()
        for step in task.setup:
            path = str(step.args.get("path", ""))
            noise = task.spec["args"].get("noise", [""])[0]
            if step.preparer in ("workbook", "document", "deck", "picture", "csv") and path != noise:
                assert path in task.instruction or task.skill == "writer-draft", task.skill


def test_setups_are_equal_byte_for_byte_each_time(tasks: list[Task]) -> None:
    from components.forge.realapps.documents import _made

    first = [made_by(task.setup) for task in tasks]
    _made.cache_clear()
    for made, task in zip(first, tasks, strict=True):
        again = made_by(task.setup)
        assert again.files == made.files and again.site == made.site, task.skill


def test_nothing_done_fails_every_task_and_no_verifier_breaks(tasks: list[Task]) -> None:
    """The scene as it was set up, without a desktop: the checks alone."""
    from components.sandbox.web.site import SiteRecord

    for task in tasks:
        start = made_by(task.setup)
        record = SiteRecord((), start.site, start.site) if start.site else None
        verdict = judge(task, Evidence(start, dict(start.files), record))
        assert not verdict.success and not verdict.error, (task.skill, verdict)


def test_a_word_of_another_split_in_a_task_is_found(tasks: list[Task]) -> None:
    task = next(task for task in tasks if task.split == "train" and task.skill == "editor-append")
    args = {**task.spec["args"], "line": "wolf 12"}
    with pytest.raises(TaskError, match="wolf"):
        guard(task.model_copy(update={"spec": {**task.spec, "args": args}}))
    with pytest.raises(TaskError, match="wording"):
        guard(task.model_copy(update={"wording": "editor-append: something else"}))


def test_a_wrong_value_asks_for_something_else_in_the_same_scene(tasks: list[Task]) -> None:
    from components.contracts.rng import stream
    from components.forge.workflows.base import Bank

    for task in tasks:
        made = workflow_of(task)
        rng = stream(task.seed, "forge/gate/wrong")
        other = made.branches(made.wrong(rng, Bank(task.split, rng), task.spec["args"]))
        mine = made.branches(task.spec["args"])
        assert other.plan != mine.plan and other.checks != mine.checks, task.skill
        assert routes(other.plan) == routes(mine.plan) and mine.shortcut != mine.plan


@pytest.mark.parametrize(
    "steps",
    [
        [("nothing", {})],
        [("text", {"path": "../x", "text": ""})],
        [("text", {"path": "/etc/x", "text": ""})],
        [("text", {"path": ".bashrc", "text": ""})],
        [("text", {"path": "a", "text": ""}), ("text", {"path": "a", "text": "b"})],
        [("workbook", {"path": "a.xlsx"})],
        [("picture", {"path": "a.png", "size": [1], "background": [], "boxes": []})],
        [("open", {"app": "nothing"})],
        [("shop", {"rows": {"products": [[1]]}})],
    ],
)
def test_a_setup_that_does_not_fit_is_a_task_error(steps: list[tuple[str, dict[str, object]]]) -> None:
    with pytest.raises(TaskError):
        made_by(tuple(SetupStep(preparer=name, args=args) for name, args in steps))


def test_skills_are_spread_over_the_splits(tasks: list[Task]) -> None:
    by_split = Counter((task.split, BY_ID[task.skill].held_out) for task in tasks)
    assert set(by_split) == {("train", False), ("heldout", False), ("heldout_skills", True)}
