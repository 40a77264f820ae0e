"""The supervised stages as steps: midtrain, gui-sft, terminal-sft, hybrid-sft."""

from __future__ import annotations

from pathlib import Path

from components.contracts.params import Params
from components.contracts.stage import StepContext
from components.training.sft import SftInputs, train_sft


def run(params: Params, inputs: dict[str, Path], outputs: dict[str, Path], ctx: StepContext) -> dict[str, float]:
    """Read `checkpoint`, `corpus` (and replayed corpora), write `checkpoint`. `ctx.stage` picks the section."""
    settings = getattr(params, ctx.stage.replace("-", "_"))
    sources = SftInputs(inputs["checkpoint"], inputs["corpus"], inputs.get("grounding"), inputs.get("gui"))
    model = params.model
    return train_sft(settings, sources, outputs["checkpoint"], ctx, frozen=model.frozen, coord_step=model.coord_step)
