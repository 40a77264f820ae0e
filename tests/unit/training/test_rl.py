from __future__ import annotations

import json
import math
import os
import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from components.contracts.calls import BashCall, ComputerUse
from components.contracts.digests import digest_file, digest_tree
from components.contracts.errors import BudgetError, CheckpointError, PolicyError
from components.contracts.params import Params, Rl
from components.contracts.stage import NullMeter, StepContext
from components.contracts.task import Task, Verdict
from components.rollout.episodes import Episode, EpisodeStep
from components.rollout.policy import Completion, Request
from components.tracking.events import SpoolSink, spool_path
from components.tracking.ledger import run_costs
from components.training import checkpoint, rl, rl_samples
from components.training.curriculum import SkillTurns
from components.training.engine import LocalClient
from components.training.rl import train_rl
from components.training.rl_samples import choose_tasks, minibatches, reward_of, samples_of
from tests.unit.training.fake_desk import FakeDesk, desks, ending_policy, make_task
from tests.unit.training.kit import hybrid, params, screen
from tests.unit.training.test_sft import Events, StopAt, killed

TASKS = [make_task(i, skill) for i, skill in enumerate(("look", "look", "find", "find", "find"))]


def recipe(**changes: object) -> Params:
    fields = {
        "iterations": 3, "tasks_per_iteration": 4, "group": 6, "lr": 1e-3, "temperature": 1.0, "minibatch": 8,
        "max_steps": 2, "max_samples": 40, "warmup": 0, "checkpoint_every": 1, "focus": 0.7,
    }  # fmt: skip
    return params(model__max_new_tokens=24, **{f"rl__{k}": v for k, v in (fields | changes).items()})


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ending_policy(tmp_path_factory.mktemp("ending"))


def learn(own: Params, start: Path, folder: Path, workers: int = 1, events: Events | None = None) -> dict[str, float]:
    ctx = StepContext("rl", 5, folder / "work", events or Events(), workers=workers)
    return train_rl(own, start, TASKS, hybrid(), desks(), folder / "out", ctx)


def curve(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "out" / "curves.jsonl").read_text().splitlines()]


# -- the loop --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_killed_between_iterations_ends_with_the_weights_of_an_undisturbed_one(
    tmp_path: Path, start: Path, workers: int
) -> None:
    figures = learn(recipe(), start, tmp_path / "plain", workers)
    killed(lambda: learn(recipe(), start, tmp_path / "broken", workers, Events(kill_at=2)))
    newest, _ = checkpoint.latest(tmp_path / "broken" / "work")
    assert newest is not None and newest.step == 1
    events = Events()
    assert learn(recipe(), start, tmp_path / "broken", workers, events) == figures
    assert "resumed at iteration 1" in events.notes
    assert digest_tree(tmp_path / "broken" / "out") == digest_tree(tmp_path / "plain" / "out")
    assert digest_file(tmp_path / "plain/out/model.safetensors") != digest_file(start / "model.safetensors")


def test_success_that_is_rewarded_becomes_more_likely(tmp_path: Path, start: Path) -> None:
    """The policy ends about half of the episodes with success at first; nothing else is rewarded."""
    learn(recipe(iterations=6, lr=1e-3), start, tmp_path)
    points = curve(tmp_path)
    assert 0 < points[0]["success"] < 0.7
    assert sum(p["success"] for p in points[-3:]) / 3 > points[0]["success"] + 0.2
    assert points[0]["mean_ratio"] == pytest.approx(1.0, abs=0.05) and points[0]["logprob_misfit"] < 1e-4


def test_a_resume_with_other_tasks_is_refused(tmp_path: Path, start: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed(lambda: learn(recipe(), start, tmp_path, events=Events(kill_at=2)))
    monkeypatch.setattr("tests.unit.training.test_rl.TASKS", TASKS[1:])
    with pytest.raises(CheckpointError, match="data_digest was"):
        learn(recipe(), start, tmp_path)


def test_the_size_of_a_forward_pass_changes_nothing_but_rounding(
    tmp_path: Path, start: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from safetensors.numpy import load_file

    learn(recipe(iterations=1), start, tmp_path / "a")
    monkeypatch.setattr(rl, "FORWARD_BATCH", 3)
    learn(recipe(iterations=1), start, tmp_path / "b")
    before, a, b = (load_file(p / "model.safetensors") for p in (start, tmp_path / "a/out", tmp_path / "b/out"))
    moved = max(abs(a[n] - before[n]).max() for n in a)
    apart = max(abs(a[n] - b[n]).max() for n in a)
    assert apart < 0.05 * moved and moved > 5e-4


def test_samples_older_than_the_lag_bound_are_dropped_and_counted(tmp_path: Path, start: Path) -> None:
    """One sample a minibatch: each optimiser step makes the rest one version older."""
    own = recipe(iterations=1, minibatch=1, max_lag=2, max_steps=1)
    learn(own, start, tmp_path)
    (point,) = curve(tmp_path)
    assert point["updates"] == own.rl.max_lag + 1 and point["lag"] == own.rl.max_lag
    assert point["samples_too_old"] == point["samples"] - point["updates"] > 0


def test_nothing_is_updated_when_nothing_carries_a_signal(tmp_path: Path, start: Path) -> None:
    ctx = StepContext("rl", 5, tmp_path / "work", workers=1)
    failing = desks(lambda: FakeDesk(passes=False))
    figures = train_rl(recipe(iterations=2), start, TASKS, hybrid(), failing, tmp_path / "out", ctx)
    assert figures["groups_all_failed"] == 1.0 and figures["updates"] == figures["samples"] == 0.0
    assert digest_file(tmp_path / "out/model.safetensors") == digest_file(start / "model.safetensors")


class Doubtful(LocalClient):
    """Reports log-probabilities that are off by 0.05: another temperature, say, or other weights."""

    def complete(self, requests: Sequence[Request], temperature: float) -> list[Completion]:
        done = super().complete(requests, temperature)
        return [replace(c, logprobs=tuple(v - 0.05 for v in c.logprobs)) for c in done]


def test_the_first_update_stops_when_sampler_and_trainer_disagree(
    tmp_path: Path, start: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rl, "LocalClient", Doubtful)
    with pytest.raises(PolicyError, match="first update after a weight sync"):
        learn(recipe(), start, tmp_path)
    assert not (tmp_path / "out").exists()


def test_a_sandbox_that_breaks_is_masked_and_counted_and_the_run_goes_on(tmp_path: Path, start: Path) -> None:
    numbers = iter(range(10_000))
    ctx = StepContext("rl", 5, tmp_path / "work", workers=1)
    factory = desks(lambda: FakeDesk(breaks=("", "reset", "grade")[next(numbers) % 3]))
    own = recipe(iterations=1, max_steps=1)
    figures = train_rl(own, start, TASKS, hybrid(), factory, tmp_path / "out", ctx)
    attempts = own.rl.tasks_per_iteration * own.rl.group
    assert attempts / 3 <= figures["infra_errors"] < attempts
    assert figures["samples"] <= attempts - figures["infra_errors"]


def test_the_spend_cap_stops_between_iterations_and_every_call_is_entered_once(tmp_path: Path, start: Path) -> None:
    def run(folder: Path, attempt: int, meter: NullMeter) -> dict[str, float]:
        with SpoolSink(spool_path(folder / "run", "rl", attempt)) as sink:
            ctx = StepContext("rl", 5, folder / "work", sink, meter, workers=2)
            return train_rl(recipe(), start, TASKS, hybrid(), desks(), folder / "out", ctx)

    figures = run(tmp_path / "plain", 1, NullMeter())
    with pytest.raises(BudgetError, match="the cap is reached"):
        run(tmp_path / "capped", 1, StopAt(1))
    assert run(tmp_path / "capped", 2, NullMeter()) == figures
    assert digest_tree(tmp_path / "capped" / "out") == digest_tree(tmp_path / "plain" / "out")
    (plain,), (resumed,) = run_costs(tmp_path / "plain" / "run"), run_costs(tmp_path / "capped" / "run")
    counts = ("calls", "tokens_in", "tokens_out", "train_tokens", "flops")
    assert {n: getattr(plain, n) for n in counts} == {n: getattr(resumed, n) for n in counts}
    assert plain.flops == pytest.approx(figures["flops"]) and plain.models["local/policy"].calls == plain.calls > 0


# -- rewards and samples ---------------------------------------------------------------------------------------


def step(call: str = "gui", tokens: int = 10, error: str = "") -> EpisodeStep:
    made = {"gui": ComputerUse(action="wait", time=1.0), "terminal": BashCall(command="ls"), "none": None}[call]
    done = Completion("x", (5, 6), tuple(range(10, 10 + tokens)), (-0.5,) * tokens)
    return EpisodeStep(screen(1), done, made, "", "", error, "")


def episode(ending: str = "terminated", passed: bool = True, steps: int = 2, index: int = 0, **kw: object) -> Episode:
    broken = "reset is broken" if ending == "infra_error" else ""
    return Episode(
        TASKS[0], index, [step(**kw) for _ in range(steps)], Verdict(success=passed), ending, broken  # type: ignore[arg-type]
    )  # fmt: skip


REWARDS = [
    (episode(), 0.98**2 * 0.9995**20),
    (episode(steps=1, tokens=40), 0.98 * 0.9995**40),
    (episode(passed=False), 0.0),
    (episode("step_limit"), -0.05),
    (episode("unparsable", error="bad_json"), -0.1 - 0.05),
    (episode(error="bad_json"), 0.98**2 * 0.9995**20 - 0.1),
    (episode(passed=False, error="bad_json"), -0.1),
    (episode("infra_error"), None),
]


@pytest.mark.parametrize(("made", "wanted"), REWARDS)
def test_reward(made: Episode, wanted: float | None) -> None:
    own = recipe(call_cost=0.02, token_cost=0.0005, unparsable_cost=0.1, timeout_cost=0.05).rl
    got = reward_of(made, own)
    assert got is None if wanted is None else got == pytest.approx(wanted)


def test_a_saved_call_is_worth_the_same_share_of_a_long_task_as_of_a_short_one_and_no_success_is_worthless() -> None:
    own = recipe(call_cost=0.13, token_cost=0.0).rl
    worth = {calls: reward_of(episode(steps=calls, tokens=20), own) or 0.0 for calls in (1, 2, 9, 10)}
    assert worth[2] / worth[1] == pytest.approx(worth[10] / worth[9]) == pytest.approx(0.87)
    assert worth[10] > 0.2, "a price off the whole would make it -0.3"


def gather(groups: list[list[Episode]], own: Rl, cap: int = 100) -> tuple[list, rl_samples.GroupFigures]:
    return samples_of(groups, own, version=7, seed=1, iteration=2, cap=cap)


def test_groups_without_spread_or_success_are_dropped_and_counted() -> None:
    flat = [episode(index=i) for i in range(3)]
    failed = [episode(passed=False, index=3), episode("step_limit", passed=False, index=4)]
    mixed = [episode(index=5), episode(passed=False, index=6)]
    trajectories, figures = gather([flat, failed, mixed], recipe().rl)
    assert (figures.groups, figures.flat, figures.all_fail) == (3, 1, 1)
    assert {s.step.trajectory_id for t in trajectories for s in t} == {"2/5", "2/6"}
    assert figures.metrics()["groups_without_signal"] == pytest.approx(1 / 3)
    kept, again = gather([failed], recipe(drop_all_fail=False).rl)
    assert len(kept) == 2 and again.all_fail == 0, "a timeout cost is a spread when such groups are kept"


def test_an_infrastructure_failure_is_neither_a_zero_nor_a_sample() -> None:
    group = [episode(index=0), episode("infra_error", passed=False, index=1), episode(passed=False, index=2)]
    trajectories, figures = gather([group], recipe().rl)
    advantages = {s.step.trajectory_id: s.advantage for t in trajectories for s in t}
    assert set(advantages) == {"2/0", "2/2"} and advantages["2/0"] == -advantages["2/2"] > 0
    assert (figures.infra, figures.episodes, figures.success) == (1, 2, 1)
    broken, figures = gather([[episode("infra_error", index=i) for i in range(3)]], recipe().rl)
    assert broken == [] and figures.infra == 3 and figures.episodes == 0
    assert all(math.isfinite(v) for v in figures.metrics().values())


def test_a_trajectory_counts_once_whatever_its_length() -> None:
    group = [episode(steps=4, tokens=3, index=0), episode(steps=1, tokens=9, passed=False, index=1)]
    trajectories, _ = gather([group], recipe().rl)
    assert len(trajectories) == 2
    for trajectory in trajectories:
        weight = sum(s.share * float(s.packed.weights.sum()) for s in trajectory)
        assert weight == pytest.approx(1.0)
        assert {s.step.policy_version for s in trajectory} == {7}
        for sample in trajectory:
            assert sample.packed.ids.tolist() == [*sample.step.prompt_ids, *sample.step.response_ids]


def test_the_sample_cap_keeps_whole_trajectories_and_counts_what_it_keeps() -> None:
    groups = [[episode(steps=3, index=2 * k), episode(passed=False, steps=2, index=2 * k + 1)] for k in range(6)]
    trajectories, figures = gather(groups, recipe().rl, cap=12)
    lengths = Counter(len(t) for t in trajectories)
    assert set(lengths) <= {2, 3} and sum(len(t) for t in trajectories) == figures.samples <= 12
    assert figures.samples >= 10, "room is used up to less than a trajectory"
    assert figures.calls == 30, "what was generated is counted before the cap"


def test_channel_shares_count_calls_that_act() -> None:
    made = episode(steps=0)
    made.steps += [step("gui"), step("terminal"), step("terminal"), step("none", error="bad_json")]
    _, figures = gather([[made, episode(passed=False)]], recipe().rl)
    assert figures.metrics()["gui_share"] == pytest.approx(3 / 5)


def test_tasks_of_the_chosen_skills_are_seeded_and_all_get_their_turn() -> None:
    def chosen(seed: int, tasks: Sequence[Task] = TASKS) -> list[Task]:
        turns = SkillTurns((t.skill for t in tasks), 0.0, seed)
        return [task for i in range(8) for task in choose_tasks(tasks, turns.choose(3, i), seed, i)]

    assert Counter(task.skill for task in chosen(1)) == {"look": 12, "find": 12}
    assert len({task.task_id for task in chosen(1)}) == len(TASKS)
    assert chosen(1) == chosen(1, list(TASKS)) and chosen(1) != chosen(2)


def test_minibatches_hold_every_trajectory_once_and_whole() -> None:
    groups = [[episode(steps=1 + k % 4, index=2 * k), episode(passed=False, index=2 * k + 1)] for k in range(9)]
    trajectories, figures = gather(groups, recipe().rl)
    batches = minibatches(trajectories, 8, 5)
    assert len(batches) == 5 and sum(map(len, batches)) == figures.samples
    owners = [{s.step.trajectory_id for s in batch} for batch in batches]
    assert sum(map(len, owners)) == len(set().union(*owners)) == len(trajectories)
    assert max(map(len, batches)) <= 8 + 4


def test_kill_helper_would_notice_a_process_that_is_not_killed() -> None:
    with pytest.raises(AssertionError):
        killed(lambda: None)
    killed(lambda: os.kill(os.getpid(), signal.SIGKILL))
