"""Stage 5 as a step: online GRPO on the training tasks."""

from __future__ import annotations

from pathlib import Path

from components.contracts.params import Params
from components.contracts.stage import StepContext
from components.harness.spec import load_spec
from components.rollout.metering import metered_slots
from components.rollout.slots import slots
from components.training.rl import train_rl


def run(params: Params, inputs: dict[str, Path], outputs: dict[str, Path], ctx: StepContext) -> dict[str, float]:
    """Read `checkpoint`, `tasks`, `harness`; write `checkpoint`."""
    from components.forge.store import load_tasks

    harness = load_spec(inputs["harness"] / "hybrid.json")
    tasks = load_tasks(inputs["tasks"], "train")
    factory = metered_slots(slots(ctx.work, harness, unconfined=ctx.unconfined), ctx.events)
    return train_rl(params, inputs["checkpoint"], tasks, harness, factory, outputs["checkpoint"], ctx)
