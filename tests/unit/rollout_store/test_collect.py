from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from components.contracts.arguments import arguments_of
from components.contracts.coords import ScreenSpace
from components.contracts.digests import digest_tree
from components.contracts.errors import DataError, ParamsError, SandboxError
from components.curation.corpora import typed_call
from components.harness.spec import default_spec
from components.rollout import slots as slots_module
from components.rollout.collect import Settings, choose_tasks, collect
from components.rollout.filters import mark
from components.rollout.slots import slots
from components.rollout.step import run
from components.rollout.store import load_screens, read_trajectories
from components.sandbox.minidesk.desktop import MiniDesk
from tests.unit.rollout_store.small import UNCONFINED, collected, context, params, tasks, write_inputs

SPACE = ScreenSpace("normalized_1000", (288, 224), step=25)


def settings(channel: str, **changes: Any) -> Settings:
    own = params(collect={channel: {"perturb": 0.3, **changes}})
    return Settings(
        f"collect-{channel}", 0, channel, default_spec(channel), getattr(own.collect, channel), own.context, own.model  # type: ignore[arg-type]
    )  # fmt: skip


def test_the_number_of_processes_changes_nothing(tmp_path: Path):
    inputs = write_inputs(tmp_path, tasks(each=1))
    chosen = params(collect={"hybrid": {"tasks": 7, "perturb": 0.3}})
    digests = []
    for workers in (1, 2, 3):
        out = tmp_path / f"store{workers}"
        run(chosen, inputs, {"trajectories": out}, context("collect-hybrid", tmp_path / "work", workers))
        digests.append(digest_tree(out))
    assert len(set(digests)) == 1


def test_kept_episodes_are_verified_and_dropped_ones_stay_with_their_reason():
    inputs, _ = collected("hybrid")
    made = read_trajectories(inputs["trajectories"])
    assert len(made) == 24
    kept = [t for t in made if not t.dropped]
    assert len(kept) >= 20
    assert all(t.verdict.success and t.ending == "terminated" for t in kept)
    assert any(t.meta["style"] == "verbose" for t in kept) and any(t.meta["style"] == "short" for t in kept)
    assert {s.channel for t in kept for s in t.steps} == {"gui", "terminal", "none"}


def test_every_screenshot_of_a_step_is_stored_and_perturbed_steps_are_marked():
    inputs, _ = collected("gui")
    made, table = read_trajectories(inputs["trajectories"]), load_screens(inputs["trajectories"])
    steps = [s for t in made for s in t.steps]
    assert all(s.screen in table and s.screen_after in table for s in steps)
    share = sum(s.perturbed for s in steps) / len(steps)
    assert 0.1 < share < 0.3
    for trajectory in made:
        for before, after in zip(trajectory.steps, trajectory.steps[1:], strict=False):
            assert before.screen_after == after.screen


def test_recorded_coordinates_are_exactly_those_a_policy_can_write():
    inputs, _ = collected("gui")
    for trajectory in read_trajectories(inputs["trajectories"]):
        for step in trajectory.steps:
            assert step.call is not None
            wire = arguments_of(typed_call(step.call), SPACE)
            if "coordinate" in wire:
                assert all(v % 25 == 0 for v in wire["coordinate"])
                assert SPACE.to_screen(wire["coordinate"]) == tuple(step.call["coordinate"])


def test_no_episode_leaves_a_directory_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(slots_module, "SHARED_MEMORY", tmp_path / "nowhere")
    own = settings("hybrid")
    factory = slots(tmp_path / "work", own.harness, unconfined=UNCONFINED)
    collect(tasks(("rename-file", "count-words")), own, factory)
    assert list((tmp_path / "work").iterdir()) == []
    with pytest.raises(RuntimeError), factory() as desktop:
        desktop.reset(tasks(("rename-file",))[0])
        raise RuntimeError
    assert list((tmp_path / "work").iterdir()) == []


class Broken(MiniDesk):
    def state(self) -> dict[str, Any]:
        raise SandboxError("the slot is gone", where="test")


def test_a_broken_sandbox_is_recorded_not_raised(tmp_path: Path):
    @contextmanager
    def factory() -> Iterator[MiniDesk]:
        def nothing(*_: Any) -> Any:
            return None

        yield Broken(tmp_path / "slot", prepare=nothing, grade=nothing)

    made = collect(tasks(("rename-file",)), settings("gui"), factory)
    (trajectory,) = mark(made.trajectories)
    assert trajectory.dropped == "infra_error" and "the slot is gone" in trajectory.meta["infra_error"]
    assert trajectory.reward is None and not trajectory.verdict.success


def test_tasks_are_taken_round_robin_over_skills_that_the_channel_can_do():
    pool = tasks(each=3)
    chosen = choose_tasks(pool, "terminal", 6)
    skills = sorted({t.skill for t in pool if ("terminal",) in t.channels})
    assert [t.skill for t in chosen] == (skills + skills)[:6]
    assert len(choose_tasks(pool, "hybrid", 1000)) == len(pool)
    assert choose_tasks(reversed(pool), "gui", 5) == choose_tasks(pool, "gui", 5)


def test_the_stage_reports_its_counts_and_refuses_what_it_cannot_do(tmp_path: Path):
    inputs = write_inputs(tmp_path, tasks(("toggle-pref",), each=2))
    chosen = params(collect={"gui": {"tasks": 9}})
    out = {"trajectories": tmp_path / "store"}
    metrics = run(chosen, inputs, out, context("collect-gui", tmp_path / "work"))
    assert metrics["tasks"] == 2 and metrics["kept"] + metrics["dropped"] == 2 and metrics["gui_share"] == 1
    json.dumps(metrics, allow_nan=False)
    with pytest.raises(DataError, match="terminal route"):
        run(chosen, inputs, out, context("collect-terminal", tmp_path / "work"))
    with pytest.raises(ParamsError, match="collect-web"):
        run(chosen, inputs, out, context("collect-web", tmp_path / "work"))
