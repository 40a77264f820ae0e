from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import pytest

from components.contracts.errors import TaskError
from components.contracts.task import Task
from components.forge import generate as forge
from components.forge import words
from components.forge.generate import content_key, generate, guard_splits, make_task, skills_of, values_of
from components.forge.workflows import WORKFLOWS
from tests.unit.forge.test_words import known

COUNTS = {"train": 96, "dev": 32, "heldout": 64, "heldout_skills": 10}


def keep_all(tasks):
    return [""] * len(tasks)


@pytest.fixture(scope="module")
def made():
    return generate(3, COUNTS, keep_all)


def test_every_split_gets_its_number_spread_evenly_over_its_skills(made):
    assert Counter(t.split for t in made.tasks) == COUNTS
    for split in COUNTS:
        counts = Counter(t.skill for t in made.tasks if t.split == split)
        assert set(counts) == set(skills_of(split))
        assert max(counts.values()) - min(counts.values()) <= 1


def test_the_same_seed_gives_the_same_tasks_and_another_seed_gives_others(made):
    again, other = generate(3, COUNTS, keep_all), generate(4, COUNTS, keep_all)
    assert again.tasks == made.tasks
    assert not {t.task_id for t in other.tasks} & {t.task_id for t in made.tasks}


def test_an_id_is_the_digest_of_the_content(made):
    for task in made.tasks[:20]:
        fields = {k: getattr(task, k) for k in type(task).model_fields if k != "task_id"}
        assert Task.build(**fields).task_id == task.task_id
        assert Task.build(**(fields | {"instruction": "x"})).task_id != task.task_id


def test_no_task_asks_the_same_in_the_same_scene_twice(made):
    keys = [content_key(t) for t in made.tasks]
    assert len(keys) == len(set(keys))


def test_splits_share_no_value_no_file_and_no_wording(made):
    def used(group):
        tasks = [t for t in made.tasks if words.bank_split(t.split) == group]
        files = {s.args["path"] for t in tasks for s in t.setup if "path" in s.args}
        return {t.wording for t in tasks} | files | {v for t in tasks for v in values_of(t)}

    for a, b in itertools.combinations(("train", "dev", "heldout"), 2):
        assert not used(a) & used(b)


def test_values_of_a_task_are_found_in_instruction_and_setup(made):
    task = next(t for t in made.tasks if t.skill == "set-cell")
    assert {task.spec["args"]["value"], task.spec["args"]["file"].split(".")[0]} <= values_of(task)


def test_the_guard_names_what_crosses_a_border(made):
    train = next(t for t in made.tasks if t.split == "train" and t.skill == "new-folder")
    moved = train.model_copy(update={"split": "heldout", "wording": "new-folder: another"})
    with pytest.raises(TaskError, match="is in train and in heldout"):
        guard_splits([train, moved])
    dev = next(t for t in made.tasks if t.split == "dev")
    with pytest.raises(TaskError, match="wording"):
        guard_splits([train, dev.model_copy(update={"wording": train.wording})])


def test_instructions_use_known_words_only(made):
    assert [known(t.instruction) for t in made.tasks if known(t.instruction)] == []


def test_refused_tasks_are_replaced_and_kept_with_the_reason():
    seen = []

    def gate(tasks):
        seen.extend(tasks)
        return ["noop: passes and must not" if t.seed % 3 == 0 else "" for t in tasks]

    made = generate(3, {"train": 64}, gate)
    assert len(made.tasks) == 64 and made.rejected
    assert len(seen) == len(made.tasks) + len(made.rejected)
    assert {r.reason for r in made.rejected} == {"noop: passes and must not"}
    assert not {t.task_id for t in made.tasks} & {r.task.task_id for r in made.rejected}


def test_duplicates_are_kept_apart_with_the_reason(monkeypatch):
    few = WORKFLOWS["new-folder"]
    short = replace(few, sample=lambda rng, bank: {"name": rng.choice(("tax", "plan", "memo")), "noise": []})
    monkeypatch.setattr(forge, "WORKFLOWS", {"new-folder": short})
    made = generate(0, {"train": 3}, keep_all)
    assert len(made.tasks) == 3
    assert all(r.reason.startswith("duplicate") for r in made.rejected)


def test_a_skill_that_runs_dry_is_an_error_that_names_it(monkeypatch):
    few = WORKFLOWS["new-folder"]
    monkeypatch.setattr(
        forge, "WORKFLOWS", {"new-folder": replace(few, sample=lambda rng, bank: {"name": "tax", "noise": []})}
    )
    with pytest.raises(TaskError, match="new-folder"):
        generate(0, {"train": 2}, keep_all)


def test_a_task_of_an_unknown_workflow_version_is_refused():
    task = make_task(WORKFLOWS["new-folder"], "train", 0, 0)
    with pytest.raises(TaskError, match="unknown workflow"):
        forge.workflow_of(task.model_copy(update={"workflow": "new-folder@99"}))
