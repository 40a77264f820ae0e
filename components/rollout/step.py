"""The stages `collect-gui`, `collect-terminal` and `collect-hybrid`: one teacher configuration each."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from components.contracts.errors import DataError, ParamsError
from components.contracts.params import Params
from components.contracts.stage import StepContext
from components.harness.spec import load_spec
from components.rollout.collect import Settings, choose_tasks, collect, summary
from components.rollout.filters import mark, reason_counts
from components.rollout.metering import metered_slots
from components.rollout.slots import slots
from components.rollout.store import write_store
from components.rollout.teacher import Policy

POLICIES = ("gui", "terminal", "hybrid")
SCRIPTED = "local/scripted-teacher"
"""The teacher's name in the price table."""


def run(params: Params, inputs: dict[str, Path], outputs: dict[str, Path], ctx: StepContext) -> dict[str, float]:
    """Reads `tasks` and `harness/<channel>.json`, writes the store `trajectories` (see `store.py`).

    Metrics: tasks, kept, dropped, success, mean_calls, gui_share, perturbed_share, screens, and `dropped_<reason>`.
    """
    from components.forge.store import load_tasks

    channel = ctx.stage.removeprefix("collect-")
    if channel not in POLICIES:
        raise ParamsError(
            f"{ctx.stage!r} is no collection", where="collect", remedy="collect-gui, -terminal or -hybrid"
        )
    policy = cast(Policy, channel)
    settings = Settings(
        stage=ctx.stage, seed=ctx.seed, policy=policy, harness=load_spec(inputs["harness"] / f"{channel}.json"),
        collect=getattr(params.collect, channel), context=params.context, model=params.model,
    )  # fmt: skip
    tasks = choose_tasks(load_tasks(inputs["tasks"], "train"), policy, settings.collect.tasks)
    if not tasks:
        raise DataError(f"no train task has a {channel} route", where=str(inputs["tasks"]), remedy="raise forge.train")
    if len(tasks) < settings.collect.tasks:
        ctx.events.note(f"only {len(tasks)} of {settings.collect.tasks} tasks have a {channel} route")
    workers = max(1, min(ctx.workers, len(tasks)))

    def progress(own: int) -> None:
        """Every process takes every `workers`-th task, so this one's count stands for all."""
        ctx.events.progress(min(len(tasks), own * workers), len(tasks), "episodes")

    factory = metered_slots(slots(ctx.work, settings.harness, unconfined=ctx.unconfined), ctx.events)
    collected = collect(tasks, settings, factory, workers=workers, on_done=progress)
    trajectories = mark(collected.trajectories)
    write_store(outputs["trajectories"], trajectories, collected.screens)
    ctx.events.ledger("sandbox", steps=collected.steps)
    ctx.events.ledger("teacher", model=SCRIPTED, calls=collected.steps, tokens_in=0, tokens_out=0)
    metrics = dict(summary(trajectories)) | {"screens": float(len(collected.screens))}
    metrics |= {f"dropped_{reason}": float(count) for reason, count in reason_counts(trajectories).items()}
    for name, value in metrics.items():
        ctx.events.metric(name, value)
    if not metrics["kept"]:
        raise DataError(
            f"none of {len(tasks)} episodes was kept: {reason_counts(trajectories)}", where=ctx.stage,
            remedy="look at their verdicts in the store; `cowork doctor` checks the sandbox",
        )  # fmt: skip
    return metrics
