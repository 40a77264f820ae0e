"""The task bench: fixed held-out tasks, greedy, graded outside the sandbox."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.contracts.coords import ScreenSpace
from components.contracts.desktop import Screen
from components.contracts.outcome import Outcome
from components.contracts.rng import stream_seed
from components.contracts.task import Task, channel_class
from components.evaluation.statistics import EpisodeOutcome, summarise
from components.rollout.episodes import DesktopFactory, Episode, EpisodeSettings, run_episodes, wire_call
from components.rollout.policy import PolicyClient
from components.rollout.workers import fork_map

SLOTS = 64


def statistic(outcome: Outcome) -> EpisodeOutcome:
    """What the statistics need of an outcome."""
    return EpisodeOutcome(
        outcome.task_id,
        outcome.success,
        outcome.calls,
        outcome.tokens,
        outcome.gui_calls,
        outcome.terminal_calls,
        outcome.infra_error,
        outcome.repeat,
    )


@dataclass(frozen=True)
class Shown:
    """An episode to look at: its steps as plain data, and its screens."""

    data: dict[str, Any]
    screens: tuple[Screen, ...]


def outcome_of(episode: Episode, repeat: int) -> Outcome:
    channels = Counter(step.channel for step in episode.steps)
    task = episode.task
    return Outcome(
        task_id=task.task_id, repeat=repeat, skill=task.skill, split=task.split, apps=task.apps,
        channel=channel_class(task), success=episode.success, calls=episode.calls, tokens=episode.tokens,
        gui_calls=channels["gui"], terminal_calls=channels["terminal"], unparsable=episode.unparsable,
        ending=episode.ending, infra_error=episode.infra_error,
    )  # fmt: skip


def with_looks(task: Task, repeat: int) -> Task:
    """The same task on a desktop that looks different: theme, window places and icon order of another seed.

    Greedy episodes in a deterministic world repeat themselves exactly; other looks are what varies between repeats.
    """
    return task if repeat == 0 else task.model_copy(update={"seed": stream_seed(task.seed, "looks", repeat) % 2**31})


def run_tasks(
    tasks: Sequence[Task],
    client: PolicyClient,
    settings: EpisodeSettings,
    factory: DesktopFactory,
    *,
    repeats: int = 1,
    workers: int = 1,
    shown: Sequence[str] = (),
    on_done: Callable[[int, int], None] | None = None,
) -> tuple[list[Outcome], list[Shown]]:
    """Every task `repeats` times. `shown` lists task ids whose first episode is kept to look at."""
    jobs = [(with_looks(task, repeat), repeat) for repeat in range(repeats) for task in tasks]
    wanted = set(shown)

    def part(mine: list[tuple[Task, int]]) -> list[tuple[Outcome, Shown | None]]:
        report = (lambda n: on_done(n * workers, len(jobs))) if on_done is not None else None
        episodes = run_episodes([task for task, _ in mine], client, settings, factory, slots=SLOTS, on_done=report)
        out = []
        for episode, (task, repeat) in zip(episodes, mine, strict=True):
            keep = repeat == 0 and task.task_id in wanted
            out.append((outcome_of(episode, repeat), show(episode, settings) if keep else None))
        return out

    results = fork_map(part, jobs, workers)
    return [outcome for outcome, _ in results], [view for _, view in results if view is not None]


def show(episode: Episode, settings: EpisodeSettings) -> Shown:
    """An episode as data for a viewer; `screen` fields are positions in `screens`."""
    height, width = episode.steps[0].screen.shape[:2] if episode.steps else (0, 0)
    space = (
        ScreenSpace(settings.model.coord_space, (width, height), step=settings.model.coord_step)
        if episode.steps
        else None
    )
    steps = [
        {
            "screen": i, "screen_after": i + 1, "think": s.think, "action": s.action,
            "call": wire_call(s.call, space) if space else None, "raw": s.completion.text, "output": s.output,
            "error": s.error, "channel": s.channel, "tokens": len(s.completion.response_ids),
        }
        for i, s in enumerate(episode.steps)
    ]  # fmt: skip
    task = episode.task
    data = {
        "task_id": task.task_id, "skill": task.skill, "instruction": task.instruction, "split": task.split,
        "success": None if episode.infra_error else episode.success, "ending": episode.ending, "steps": steps,
        "checks": [r.model_dump(mode="json") for r in episode.verdict.results], "verdict_error": episode.verdict.error,
    }  # fmt: skip
    last = episode.last_screen
    screens = [s.screen for s in episode.steps] + ([last] if last is not None else [])
    return Shown(data, tuple(screens))


def slices(outcomes: Sequence[Outcome], key: Callable[[Outcome], Sequence[str]]) -> dict[str, dict[str, float]]:
    """Success and count by slice; an outcome may be in several slices (its applications)."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        for name in key(outcome):
            groups.setdefault(name, []).append(outcome)
    return {
        name: {"success": summarise([statistic(o) for o in group]).success or 0.0, "n": len(group)}
        for name, group in sorted(groups.items())
    }


def headline(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The figures of `tracking.scores.Scores` that come from task episodes."""
    summary = summarise([statistic(o) for o in outcomes])
    interval = summary.interval
    return {
        "success": summary.success,
        "success_interval": (interval.low, interval.high) if interval else None,
        "calls": summary.mean_calls,
        "tokens": summary.mean_tokens,
        "gui_share": summary.gui_share,
        "episodes": summary.episodes,
        "infra_errors": len(summary.infra_errors),
        "infra_error_tasks": sorted({task for task, _ in summary.infra_errors}),
        "by_skill": slices(outcomes, lambda o: (o.skill,)),
        "by_channel": slices(outcomes, lambda o: (o.channel,)),
        "by_app": slices(outcomes, lambda o: o.apps),
        "by_split": slices(outcomes, lambda o: (o.split,)),
        "endings": dict(sorted(Counter(o.ending for o in outcomes).items())),
    }


def outcome_row(outcome: Outcome) -> Mapping[str, Any]:
    return outcome.model_dump()
