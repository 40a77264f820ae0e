"""The five cases on the real desktop with the real shell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from components.contracts.stage import StepContext
from components.contracts.task import Check
from components.forge import generate as forge
from components.forge.gate import Bench, open_gate, sampled
from components.forge.generate import generate, make_task
from components.forge.step import play, run
from components.forge.store import load_tasks
from components.forge.workflows import WORKFLOWS
from components.sandbox.shell import detect

UNCONFINED = detect().confinement == "none"


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    bench = Bench(tmp_path_factory.mktemp("slot"), play, unconfined=UNCONFINED)
    yield bench
    bench.close()


@pytest.mark.parametrize("skill", list(WORKFLOWS))
def test_the_authored_workflows_pass_all_five_cases(bench, skill):
    task = make_task(WORKFLOWS[skill], "dev", 11, 0)
    assert bench.refuse(task) == ""


def changed(monkeypatch, skill, **parts):
    """A task of a workflow whose branches were spoiled."""
    made = WORKFLOWS[skill]

    def branches(args):
        found = made.branches(args)
        return replace(found, **{name: value(found, args) for name, value in parts.items()})

    spoiled = replace(made, branches=branches)
    monkeypatch.setattr(forge, "WORKFLOWS", {**WORKFLOWS, skill: spoiled})
    return make_task(spoiled, "train", 5, 0)


def test_a_check_that_holds_from_the_start_is_refused_as_noop(bench, monkeypatch):
    task = changed(monkeypatch, "delete-file", checks=lambda b, a: (Check(check="file_absent", args={"path": "none"}),))
    assert bench.refuse(task).startswith("noop")


def test_a_plan_that_does_not_do_it_is_refused_as_oracle(bench, monkeypatch):
    task = changed(monkeypatch, "new-folder", plan=lambda b, a: ({"terminal": {"goal": "bash", "command": "ls"}},))
    assert bench.refuse(task).startswith("oracle")


def test_a_verifier_that_looks_away_is_refused_as_shortcut(bench, monkeypatch):
    task = changed(monkeypatch, "delete-file", checks=lambda b, a: b.checks[:1])
    assert bench.refuse(task).startswith("shortcut")


def test_a_verifier_that_takes_any_value_is_refused_as_wrong(bench, monkeypatch):
    task = changed(
        monkeypatch, "set-volume", checks=lambda b, a: (Check(check="sheet_cell", args={}),), plan=lambda b, a: b.plan
    )
    assert bench.refuse(task).startswith("noop: the verifier broke")
    task = changed(
        monkeypatch,
        "write-note",
        checks=lambda b, a: (Check(check="file_exists", args={"path": a["file"]}),),
        shortcut=lambda b, a: ({"terminal": {"goal": "bash", "command": "ls"}},),
    )
    assert bench.refuse(task).startswith("wrong")


def test_doing_nothing_is_right_only_where_nothing_is_needed(bench, monkeypatch):
    made = WORKFLOWS["toggle-pref"]
    tasks = (make_task(made, "train", 0, item) for item in range(100))
    task = next(t for t in tasks if made.branches(t.spec["args"]).needs_nothing)
    assert bench.refuse(task) == ""
    lazy = replace(made, branches=lambda args: replace(made.branches(args), needs_nothing=False))
    monkeypatch.setattr(forge, "WORKFLOWS", {**WORKFLOWS, "toggle-pref": lazy})
    assert bench.refuse(task).startswith("noop: passes")


def test_a_setup_that_cannot_be_made_is_refused_not_raised(bench):
    task = make_task(WORKFLOWS["new-folder"], "train", 0, 0)
    assert bench.refuse(task.model_copy(update={"setup": task.setup + task.setup})).startswith("broken")


def test_two_workers_say_what_one_says():
    made = generate(2, {"dev": 32}, lambda tasks: [""] * len(tasks)).tasks[:8]
    broken = made[0].model_copy(update={"verifier": ()})
    reasons = []
    for workers in (1, 2):
        with open_gate(play, workers=workers, unconfined=UNCONFINED) as gate:
            reasons.append(gate([broken, *made[1:]]))
    assert reasons[0] == reasons[1]
    assert reasons[0][0].startswith("noop: the verifier broke") and not any(reasons[0][1:])


def test_the_share_of_fully_gated_tasks_is_by_identity():
    tasks = generate(2, {"train": 96}, lambda tasks: [""] * len(tasks)).tasks
    chosen = [sampled(t, 0.5) for t in tasks]
    assert chosen == [sampled(t, 0.5) for t in tasks] and 25 < sum(chosen) < 75
    assert all(sampled(t, 1.0) for t in tasks) and not any(sampled(t, 0.0) for t in tasks)


class Section:
    def __init__(self, **values):
        self.__dict__.update(values)


def test_the_stage_writes_the_same_bytes_twice_and_reads_them_back(tmp_path):
    params = Section(forge=Section(train=16, dev=8, heldout=8, heldout_skills=3, gate=0.25))
    for name in ("a", "b"):
        ctx = StepContext("forge", 7, tmp_path / "work", unconfined=UNCONFINED, workers=1)
        metrics = run(params, {}, {"tasks": tmp_path / name}, ctx)
    assert metrics["tasks_train"] == 16 and metrics["tasks_heldout_skills"] == 3
    for file in ("tasks.jsonl", "rejected.jsonl", "summary.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    tasks = load_tasks(tmp_path / "a")
    assert [(t.split, t.task_id) for t in tasks] == sorted((t.split, t.task_id) for t in tasks)
    assert {t.split for t in load_tasks(tmp_path / "a", "dev", "heldout")} == {"dev", "heldout"}
