"""A toy recipe with two trained stages and their evaluations, for tests of lineage and MLflow: real runs, toy work.

`knobs.json` steers it as in `tests.unit.pipelines.toy`; {"success": {"rl": 0.5}} sets what an evaluation finds.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from components.contracts.params import Params
from components.contracts.stage import StepContext
from components.tracking.scores import Scores
from pipelines.registry import StageDef
from tests.unit.pipelines import toy

_HERE = "tests.unit.tracking.toy_policy"
_TOY = "tests.unit.pipelines.toy"


def _evaluate(name: str) -> StageDef:
    inputs = {"checkpoint": f"outputs/models/{name}", "tasks": "outputs/tasks"}
    scores = {"scores": f"outputs/scores/{name}"}
    return StageDef(f"evaluate-{name}", f"{_HERE}:evaluate", inputs, scores, ("evaluate",))


STAGES = {
    stage.name: stage
    for stage in (
        StageDef("forge", f"{_TOY}:make", {}, {"tasks": "outputs/tasks"}, ("forge",)),
        StageDef(
            "curate-midtrain", f"{_TOY}:make", {"tasks": "outputs/tasks"}, {"corpus": "outputs/corpora/midtrain"},
            ("curate.midtrain",),
        ),
        StageDef(
            "midtrain", f"{_HERE}:train", {"checkpoint": "given", "corpus": "outputs/corpora/midtrain"},
            {"checkpoint": "outputs/models/midtrain"}, ("midtrain", "model"),
        ),
        StageDef(
            "rl", f"{_HERE}:train", {"checkpoint": "outputs/models/midtrain", "tasks": "outputs/tasks"},
            {"checkpoint": "outputs/models/rl"}, ("rl", "model"),
        ),
        _evaluate("midtrain"),
        _evaluate("rl"),
    )
}  # fmt: skip


def train(params: Params, inputs: dict[str, Path], outputs: dict[str, Path], ctx: StepContext) -> dict[str, float]:
    """The toy's training with whatever it reads as its tasks."""
    other = next(path for name, path in inputs.items() if name != "checkpoint")
    return toy.train(params, {"tasks": other}, outputs, ctx)


def evaluate(params: Params, inputs: dict[str, Path], outputs: dict[str, Path], ctx: StepContext) -> dict[str, float]:
    """Scores of a whole held-out set, with the success that the knobs say (0.25 without any)."""
    if toy.knobs().get("fail") == ctx.stage:
        raise ValueError("the toy is broken")
    name = ctx.stage.removeprefix("evaluate-")
    success = toy.knobs().get("success", {}).get(name, 0.25)
    count = params.evaluate.tasks
    target = outputs["scores"]
    target.mkdir(parents=True)
    scores = Scores(stage=name, success=success, episodes=count, infra_errors=toy.knobs().get("infra", 0))
    (target / "scores.json").write_text(scores.model_dump_json() + "\n")
    rows: list[dict[str, Any]] = [{"task_id": f"task {n}", "repeat": 0, "split": "heldout"} for n in range(count)]
    (target / "episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ctx.events.metric("progress", 1.0, count)
    return {"success": success, "calls": 4.0}


def environment(**more: str) -> dict[str, str]:
    """For a `cowork` process on this recipe."""
    return {**toy.environment(), "COWORK_REGISTRY": f"{_HERE}:STAGES", **more}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pipelines.cli", *arguments]
