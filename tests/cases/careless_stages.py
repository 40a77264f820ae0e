"""Stages that do what a stage must not: write to an input, put a link into an output."""

from __future__ import annotations

from pathlib import Path

from components.contracts.params import Params
from components.contracts.stage import StepContext
from pipelines.registry import StageDef


def append_to_input(
    params: Params, inputs: dict[str, Path], outputs: dict[str, Path], ctx: StepContext
) -> dict[str, float]:
    with inputs["data"].open("a") as handle:
        handle.write("more\n")
    outputs["out"].mkdir(parents=True)
    return {}


def link_out(params: Params, inputs: dict[str, Path], outputs: dict[str, Path], ctx: StepContext) -> dict[str, float]:
    outputs["out"].mkdir(parents=True)
    (outputs["out"] / "data").symlink_to(inputs["data"].resolve())
    return {}


STAGES = {
    name: StageDef(
        name,
        f"tests.cases.careless_stages:{function.__name__}",
        {"data": "given"},
        {"out": f"outputs/{name}"},
        ("forge",),
    )
    for name, function in (("append", append_to_input), ("link", link_out))
}
