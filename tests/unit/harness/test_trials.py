from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from components.contracts.digests import digest_tree
from components.contracts.errors import DataError, ParamsError
from components.contracts.task import Task
from components.forge.generate import skills_of
from components.harness.spec import HarnessName, default_spec, load_spec
from components.harness.step import run
from components.harness.trials import (
    Candidate,
    Decision,
    Trial,
    better,
    children,
    entropy,
    evolve,
    start_of,
    untried_skills,
)
from tests.unit.rollout_store.small import context, params, tasks, write_inputs

ROUTES = ("gui", "terminal", "accessibility")
SKILLS = ("toggle-pref", "rename-file", "set-cell", "sort-sheet", "count-words")


def trial(success: float, steps: float, overlap: float = 0.0, tools: int = 1, episodes: int = 20) -> Trial:
    spec = default_spec("hybrid").model_copy(update={"tools": ("computer_use", "bash", "accessibility")[:tools]})
    return Trial(Candidate(spec), "hybrid", episodes, success, steps, overlap, 0.0, 0.0)


def test_success_comes_first_where_it_differs_by_more_than_one_task():
    assert better(trial(0.9, 9.0), trial(0.8, 2.0))
    assert not better(trial(0.8, 2.0), trial(0.9, 9.0))
    assert better(trial(0.95, 4.0), trial(1.0, 5.0))


def test_then_fewer_steps_and_less_overlap_then_fewer_tools():
    assert better(trial(1.0, 4.0), trial(1.0, 5.0))
    assert better(trial(1.0, 5.0, overlap=0.0), trial(1.0, 4.8, overlap=0.4))
    assert better(trial(1.0, 4.0, tools=1), trial(1.0, 4.0, tools=2))
    assert not better(trial(1.0, 4.0), trial(1.0, 4.0))


def test_the_search_starts_with_every_allowed_tool_and_a_bare_guest():
    assert start_of("hybrid", ROUTES).tools == ("computer_use", "bash", "accessibility")
    assert start_of("hybrid", ("gui", "terminal")).tools == ("computer_use", "bash")
    assert start_of("gui", ROUTES).tools == ("computer_use", "accessibility")
    assert start_of("terminal", ("gui",)).tools == ("computer_use", "bash")
    assert start_of("terminal", ROUTES).guest_commands == ()


def test_a_child_is_one_operator_away_and_never_loses_what_an_episode_needs():
    made = children(Candidate(start_of("hybrid", ROUTES)), "hybrid")
    assert {c.operator for c in made} == {"leave out bash", "leave out accessibility", "install the guest library"}
    for target in ("gui", "terminal"):
        for child in children(Candidate(start_of(target, ROUTES)), target):  # type: ignore[arg-type]
            assert "computer_use" in child.spec.tools
            assert target == "gui" or "bash" in child.spec.tools
    without = next(c for c in made if c.operator == "leave out bash")
    assert without.spec.channels == ("gui",) and without.spec.guest_commands == ()


def test_entropy_is_bits_of_choice_between_tools():
    one, two = frozenset({"bash"}), frozenset({"bash", "computer_use"})
    assert entropy([Decision("a", one, "bash")] * 4) == 0
    mixed = [Decision("a", two, "bash"), Decision("a", two, "computer_use")]
    assert entropy(mixed) == pytest.approx(1.0)
    assert entropy([*mixed, *[Decision("b", one, "bash")] * 2]) == pytest.approx(0.5)
    assert entropy([]) == 0


def test_evolution_stops_at_a_harness_that_no_operator_improves():
    def figures(candidate: Candidate, target: HarnessName, chosen: Sequence[Task]) -> Trial:
        tools, guest = candidate.spec.tools, bool(candidate.spec.guest_commands)
        success = (0.6 + 0.2 * ("bash" in tools) + 0.2 * guest) * 1.0
        overlap = 0.4 if "accessibility" in tools else 0.0
        return Trial(candidate, target, 20, success, 5.0, overlap, 0.0, 0.0)

    found = evolve("hybrid", ROUTES, tasks(("rename-file",)), 3, figures)
    assert found.chosen.candidate.spec.tools == ("computer_use", "bash")
    assert found.chosen.candidate.spec.guest_commands == ("sheet",)
    keys = [t.candidate.key for t in found.trials]
    assert len(keys) == len(set(keys)) and found.chosen in found.trials


def test_the_stage_prunes_the_overlapping_route_and_installs_the_library(tmp_path: Path):
    inputs = write_inputs(tmp_path, tasks(SKILLS, split="dev"))
    small = params(harness={"trial_tasks": 5})
    for name, workers in (("one", 1), ("two", 2)):
        metrics = run(small, inputs, {"harness": tmp_path / name}, context("harness", tmp_path / "work", workers))
    assert digest_tree(tmp_path / "one") == digest_tree(tmp_path / "two")
    assert sorted(p.name for p in (tmp_path / "one").iterdir()) == [
        "gui.json", "hybrid.json", "overlapping.json", "terminal.json", "trials.json",
    ]  # fmt: skip
    for name in ("gui", "terminal", "hybrid"):
        spec = load_spec(tmp_path / "one" / f"{name}.json")
        assert spec.name == name and "accessibility" not in spec.tools
    assert load_spec(tmp_path / "one" / "hybrid.json").guest_commands == ("sheet",)
    assert "accessibility" in load_spec(tmp_path / "one" / "overlapping.json").tools
    book = json.loads((tmp_path / "one" / "trials.json").read_text())
    assert sum(row["chosen"] for row in book["trials"]) == 3 and len(book["trials"]) == metrics["trials"]
    assert metrics["hybrid_start_overlap"] > 0 == metrics["hybrid_overlap"]
    assert metrics["hybrid_steps"] < metrics["hybrid_start_steps"]
    gui_only = next(r for r in book["trials"] if r["harness"] == "hybrid" and "bash" not in r["tools"])
    assert gui_only["teacher_success"] < 1, "what its tools cannot do counts against a harness"


def test_skills_that_no_trial_shows_are_named():
    dev = tasks(SKILLS, split="dev")
    assert untried_skills("hybrid", dev, len(dev)) == []
    left = untried_skills("hybrid", dev, 5)
    assert len(left) == len(SKILLS) - 5 and set(left) < set(SKILLS)
    assert set(untried_skills("terminal", dev, 1)) < set(SKILLS) - {"set-volume"}, "only skills of the channel count"


def test_the_tiny_profile_tries_every_skill():
    assert params().harness.trial_tasks >= 2 * len(skills_of("dev"))


def test_an_unknown_route_and_a_missing_dev_split_are_refused(tmp_path: Path):
    inputs = write_inputs(tmp_path, tasks(("rename-file",)))
    out = {"harness": tmp_path / "h"}
    with pytest.raises(ParamsError, match="voice"):
        run(params(harness={"routes": ["voice"]}), inputs, out, context("harness", tmp_path))
    with pytest.raises(DataError, match="dev"):
        run(params(), inputs, out, context("harness", tmp_path))
