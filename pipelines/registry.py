"""The stages of the recipe by name: which function runs a stage, what it reads, what it writes, which params it sees.

`dvc.yaml` and `pipelines/recipe.py` are written by hand for people; a contract test holds all three together.
"""

from __future__ import annotations

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

    `params` are dotted sections of params.yaml beside `seed`, which every stage sees.
    """

    name: str
    function: str
    inputs: dict[str, str]
    outputs: dict[str, str]
    params: tuple[str, ...]


def _stages() -> dict[str, StageDef]:
    out: list[StageDef] = [
        StageDef("forge", "components.forge.step:run", {}, {"tasks": "outputs/tasks"}, ("forge",)),
        StageDef(
            "harness",
            "components.harness.step:run",
            {"tasks": "outputs/tasks"},
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
    for stage, channel in zip(SFT_STAGES, ("gui", *CHANNELS), strict=True):
        section = stage.replace("-", "_")
        out.append(
            StageDef(
                f"curate-{stage}", "components.curation.step:run",
                {"trajectories": f"outputs/trajectories/{channel}", "harness": "outputs/harness"},
                {"corpus": f"outputs/corpora/{stage}"},
                (f"curate.{section}", "context", "model"),
            )
        )  # fmt: skip
    previous = BASE
    for stage in SFT_STAGES:
        inputs = {"checkpoint": previous, "corpus": f"outputs/corpora/{stage}"}
        if stage != "midtrain":
            inputs["grounding"] = "outputs/corpora/midtrain"
        if stage == "terminal-sft":
            inputs["gui"] = "outputs/corpora/gui-sft"
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
    out.append(
        StageDef(
            "feedback", "components.forge.feedback:run",
            {"tasks": "outputs/tasks", "scores": "outputs/scores/hybrid-sft"},
            {"feedback": "outputs/feedback"},
            ("feedback",),
        )
    )  # fmt: skip
    report_inputs = {"tasks": "outputs/tasks", "harness": "outputs/harness", "feedback": "outputs/feedback"}
    report_inputs |= {f"trajectories-{c}": f"outputs/trajectories/{c}" for c in CHANNELS}
    report_inputs |= {f"corpus-{s}": f"outputs/corpora/{s}" for s in SFT_STAGES}
    report_inputs |= {f"model-{s}": f"outputs/models/{s}" for s in TRAIN_STAGES}
    report_inputs |= {f"scores-{s}": f"outputs/scores/{s}" for s in EVALUATED}
    out.append(
        StageDef("report", "components.tracking.step:run", report_inputs, {"report": "outputs/report"}, ("report",))
    )
    return {stage.name: stage for stage in out}


STAGES: dict[str, StageDef] = _stages()
