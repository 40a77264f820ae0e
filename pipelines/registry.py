"""The stages of the recipe by name: which function runs a stage, what it reads, what it writes, which params it sees.

`dvc.yaml` and `pipelines/recipe.py` are written by hand for people; a contract test holds all three together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

BASE = "components/training/base"
"""The aligned base checkpoint: stored with the repository, made by `components.training.make_base`."""

SFT_STAGES = ("midtrain", "gui-sft", "terminal-sft", "hybrid-sft")
TRAIN_STAGES = (*SFT_STAGES, "rl")
EVALUATED = ("base", *TRAIN_STAGES)
CHANNELS = ("gui", "terminal", "hybrid")


@dataclass(frozen=True)
class StageDef:
    """One stage. `inputs` and `outputs` map the function's argument names to paths in the working tree.

    `params` are dotted sections of params.yaml beside `seed`, which every stage sees. `libraries` are slow to import:
    the fork server loads them once, when the first stage asks for them.
    """

    name: str
    function: str
    inputs: dict[str, str]
    outputs: dict[str, str]
    params: tuple[str, ...]
    libraries: tuple[str, ...] = ()


def _gate(kind: str, inputs: dict[str, str], params: tuple[str, ...]) -> StageDef:
    """A data gate. Stages that read `outputs/gates/<kind>` start only after it was passed."""
    outputs = {"gate": f"outputs/gates/{kind}", "validation": f"outputs/validation/{kind}"}
    function = "components.curation.datagates.step:run"
    return StageDef(f"gate-{kind}", function, inputs, outputs, params, ("great_expectations",))


def makers(stages: Mapping[str, StageDef]) -> dict[str, str]:
    """Output path -> the stage that writes it."""
    return {path: stage.name for stage in stages.values() for path in stage.outputs.values()}


def _stages() -> dict[str, StageDef]:
    out: list[StageDef] = [
        StageDef("forge", "components.forge.step:run", {}, {"tasks": "outputs/tasks"}, ("forge",)),
        _gate("tasks", {"tasks": "outputs/tasks"}, ("forge",)),
        StageDef(
            "harness",
            "components.harness.step:run",
            {"tasks": "outputs/tasks", "gate": "outputs/gates/tasks"},
            {"harness": "outputs/harness"},
            ("harness", "context", "model"),
        ),
    ]
    for channel in CHANNELS:
        out.append(
            StageDef(
                f"collect-{channel}", "components.rollout.step:run",
                {"tasks": "outputs/tasks", "harness": "outputs/harness"},
                {"trajectories": f"outputs/trajectories/{channel}"},
                (f"collect.{channel}", "context", "model"),
            )
        )  # fmt: skip
    world = {"tasks": "outputs/tasks", "harness": "outputs/harness"}
    stores = {f"trajectories-{c}": f"outputs/trajectories/{c}" for c in CHANNELS}
    out.append(_gate("trajectories", world | stores, ("collect",)))
    for stage, channel in zip(SFT_STAGES, ("gui", *CHANNELS), strict=True):
        section = stage.replace("-", "_")
        out.append(
            StageDef(
                f"curate-{stage}", "components.curation.step:run",
                {
                    "trajectories": f"outputs/trajectories/{channel}",
                    "harness": "outputs/harness",
                    "gate": "outputs/gates/trajectories",
                },
                {"corpus": f"outputs/corpora/{stage}"},
                (f"curate.{section}", "context", "model"),
            )
        )  # fmt: skip
    corpora = {f"corpus-{s}": f"outputs/corpora/{s}" for s in SFT_STAGES}
    out.append(_gate("corpora", world | corpora, ("curate", "model")))
    previous = BASE
    for stage in SFT_STAGES:
        inputs = {"checkpoint": previous, "corpus": f"outputs/corpora/{stage}"}
        if stage != "midtrain":
            inputs["grounding"] = "outputs/corpora/midtrain"
        if stage in ("terminal-sft", "hybrid-sft"):
            inputs["gui"] = "outputs/corpora/gui-sft"
        inputs["gate"] = "outputs/gates/corpora"
        previous = f"outputs/models/{stage}"
        out.append(
            StageDef(
                stage, "components.training.step_sft:run", inputs, {"checkpoint": previous},
                (stage.replace("-", "_"), "context", "model"),
            )
        )  # fmt: skip
    out.append(
        StageDef(
            "rl", "components.training.step_rl:run",
            {"checkpoint": previous, "tasks": "outputs/tasks", "harness": "outputs/harness"},
            {"checkpoint": "outputs/models/rl"},
            ("rl", "context", "model"),
        )
    )  # fmt: skip
    for stage in EVALUATED:
        out.append(
            StageDef(
                f"evaluate-{stage}", "components.evaluation.step:run",
                {
                    "checkpoint": BASE if stage == "base" else f"outputs/models/{stage}",
                    "tasks": "outputs/tasks",
                    "harness": "outputs/harness",
                },
                {"scores": f"outputs/scores/{stage}"},
                ("evaluate", "context", "model"),
            )
        )  # fmt: skip
    scores = {f"scores-{s}": f"outputs/scores/{s}" for s in EVALUATED}
    out.append(_gate("scores", {"tasks": "outputs/tasks"} | scores, ("evaluate",)))
    out.append(
        StageDef(
            "feedback", "components.forge.feedback:run",
            {"tasks": "outputs/tasks", "scores": "outputs/scores/hybrid-sft", "gate": "outputs/gates/scores"},
            {"feedback": "outputs/feedback"},
            ("feedback",),
        )
    )  # fmt: skip
    report_inputs = {"tasks": "outputs/tasks", "harness": "outputs/harness", "feedback": "outputs/feedback"}
    report_inputs |= stores | corpora
    report_inputs |= {f"model-{s}": f"outputs/models/{s}" for s in TRAIN_STAGES}
    report_inputs |= scores | {"gate": "outputs/gates/scores"}
    out.append(
        StageDef("report", "components.tracking.step:run", report_inputs, {"report": "outputs/report"}, ("report",))
    )
    return {stage.name: stage for stage in out}


STAGES: dict[str, StageDef] = _stages()
