"""From episodes to step samples: reward, choice of tasks, which trajectories carry a signal, minibatches.

Pure functions of episodes and settings; the loop that uses them is `rl`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from components.contracts.params import Rl
from components.contracts.rng import stream
from components.contracts.task import Task
from components.rollout.episodes import Episode
from components.training import grpo
from components.training.corpus import step_sequence
from components.training.samples import StepSample, check_sample
from components.training.sequences import Packed


def reward_of(episode: Episode, settings: Rl) -> float | None:
    """Verified reward: a success is worth less with every call and token, and bad endings cost.

    Every call takes the same share of what is left, so that of two routes the shorter one wins by as much on a long
    task as on a short one: a price off the whole would leave long tasks worth nothing, and the policy would drop them.
    None for an infrastructure failure: it is masked, never a zero.
    """
    if episode.ending == "infra_error":
        return None
    value = 0.0
    if episode.success:
        value = (1.0 - settings.call_cost) ** episode.calls * (1.0 - settings.token_cost) ** episode.tokens
    if episode.unparsable:
        value -= settings.unparsable_cost
    if episode.ending != "terminated":
        value -= settings.timeout_cost
    return value


@dataclass(frozen=True)
class Sample:
    """A step sample with its tensors' source and its trajectory's advantage."""

    step: StepSample
    packed: Packed
    advantage: float
    share: float
    """1 / steps of its trajectory: a trajectory counts once."""


def choose_tasks(tasks: Sequence[Task], skills: Sequence[str], seed: int, iteration: int) -> list[Task]:
    """A seeded task of each of these skills: the tasks of an iteration."""
    chosen = []
    for place, skill in enumerate(skills):
        pool = [task for task in tasks if task.skill == skill]
        chosen.append(stream(seed, "rl", f"task-{iteration}-{place}").choice(pool))
    return chosen


@dataclass
class GroupFigures:
    """Sums over an iteration's episodes and groups; additive over ranks."""

    episodes: float = 0.0
    success: float = 0.0
    reward: float = 0.0
    calls: float = 0.0
    tokens: float = 0.0
    terminal: float = 0.0
    acting: float = 0.0
    infra: float = 0.0
    groups: float = 0.0
    flat: float = 0.0
    all_fail: float = 0.0
    too_old: float = 0.0
    samples: float = 0.0

    def metrics(self) -> dict[str, float]:
        n, groups = max(1.0, self.episodes), max(1.0, self.groups)
        return {
            "success": self.success / n, "reward": self.reward / n, "calls": self.calls / n, "tokens": self.tokens / n,
            "gui_share": 1.0 - self.terminal / max(1.0, self.acting), "infra_errors": self.infra,
            "groups_without_signal": self.flat / groups, "groups_all_failed": self.all_fail / groups,
            "samples": self.samples, "samples_too_old": self.too_old,
        }  # fmt: skip


def samples_of(
    groups: Sequence[Sequence[Episode]], settings: Rl, version: int, seed: int, iteration: int, cap: int
) -> tuple[list[list[Sample]], GroupFigures]:
    """Trajectories with a non-zero advantage as lists of samples, at most `cap` samples in all (whole trajectories)."""
    figures = GroupFigures()
    trajectories: list[list[Sample]] = []
    for episodes in groups:
        rewards = [reward_of(e, settings) for e in episodes]
        scored = [e for e, r in zip(episodes, rewards, strict=True) if r is not None]
        _count(figures, episodes, rewards)
        if not any(e.success for e in scored) and settings.drop_all_fail:
            figures.all_fail += 1
            continue
        if grpo.group_signal([rewards]).without_signal:
            figures.flat += 1
            continue
        for episode, advantage in zip(episodes, grpo.advantages(rewards, settings.advantage), strict=True):
            if advantage is None or abs(advantage) < 1e-9:
                continue
            trajectories.append(_trajectory(episode, advantage, version, iteration))
    stream(seed, "rl", f"order-{iteration}").shuffle(trajectories)
    kept, total = [], 0
    for trajectory in trajectories:
        if total + len(trajectory) <= cap:
            kept.append(trajectory)
            total += len(trajectory)
    figures.samples = float(total)
    return kept, figures


def _count(figures: GroupFigures, episodes: Sequence[Episode], rewards: Sequence[float | None]) -> None:
    figures.groups += 1
    for episode, reward in zip(episodes, rewards, strict=True):
        if reward is None:
            figures.infra += 1
            continue
        figures.episodes += 1
        figures.success += episode.success
        figures.reward += reward
        figures.calls += episode.calls
        figures.tokens += episode.tokens
        channels = [step.channel for step in episode.steps]
        figures.terminal += channels.count("terminal")
        figures.acting += channels.count("terminal") + channels.count("gui")


def _trajectory(episode: Episode, advantage: float, version: int, iteration: int) -> list[Sample]:
    out = []
    for index, step in enumerate(episode.steps):
        done = step.completion
        sample = check_sample(
            StepSample(
                prompt_ids=done.prompt_ids, response_ids=done.response_ids, logprobs=done.logprobs,
                mask=(1,) * len(done.response_ids), policy_version=version,
                trajectory_id=f"{iteration}/{episode.index}", group_id=f"{episode.task.task_id}@{version}", step=index,
            )
        )  # fmt: skip
        weights = [1.0 / len(done.response_ids)] * len(done.response_ids)
        packed = step_sequence(list(done.prompt_ids), list(done.screens), list(done.response_ids), weights)
        out.append(Sample(sample, packed, advantage, 1.0 / len(episode.steps)))
    return out


def minibatches(trajectories: Sequence[list[Sample]], size: int, count: int) -> list[list[Sample]]:
    """`count` batches of whole trajectories with about `size` samples each; some may be empty."""
    out: list[list[Sample]] = [[] for _ in range(count)]
    for trajectory in trajectories:
        smallest = min(range(count), key=lambda k: (len(out[k]) >= size, len(out[k]), k))
        out[smallest].extend(trajectory)
    return out
