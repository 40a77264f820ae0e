"""The harness duel: two teachers, equal budget, one student each.

`pruned` is the hybrid harness that the recipe's search chose; `overlapping` offers the accessibility route beside it.
Both arms collect with the same teacher on the same tasks, curate, train `hybrid-sft` from the same grounded checkpoint
with the same steps, and are evaluated on the same held-out tasks with all of their arm's tools. The stages are the
recipe's own functions; only the harness folder differs. Run a recipe first: the duel starts from its outputs.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from components.contracts.errors import DataError
from components.contracts.load_params import load_params
from components.contracts.stage import StepContext
from components.tracking.events import SpoolSink, next_attempt, spool_path
from components.tracking.scores import Scores
from pipelines.registry import STAGES, StageDef
from pipelines.stage_params import stage_params
from pipelines.step import WORKERS, load_function
from pipelines.workspace import Workspace

ARMS = ("pruned", "overlapping")
CHAIN = ("collect-hybrid", "curate-hybrid-sft", "hybrid-sft", "evaluate-hybrid-sft")


@dataclass(frozen=True)
class Arm:
    """One student's result: held-out success (0..1), mean calls, mean output tokens."""

    arm: str
    seed: int
    success: float | None
    calls: float | None
    tokens: float | None


def fight(workspace: Workspace, arm: str, seed: int, folder: Path, unconfined: bool = False) -> Arm:
    """Run one arm in `folder` (finished stages are not repeated). Raises DataError when the recipe has not run."""
    params = load_params(workspace.params_file).model_copy(update={"seed": seed})
    places = _places(workspace, arm, folder)
    for name in CHAIN:
        stage = STAGES[name]
        outputs = {role: folder / path for role, path in stage.outputs.items()}
        if all(path.exists() for path in outputs.values()):
            continue
        for path in outputs.values():
            path.parent.mkdir(parents=True, exist_ok=True)
        inputs = {role: _place(role, path, places, folder, workspace) for role, path in stage.inputs.items()}
        work = folder / "work" / name
        work.mkdir(parents=True, exist_ok=True)
        attempt = next_attempt(folder, name)
        with SpoolSink(spool_path(folder, name, attempt)) as sink:
            sink.start(name, attempt, f"{arm} {seed}")
            context = StepContext(name, seed, work, sink, unconfined=unconfined, workers=WORKERS)
            metrics = load_function(stage)(stage_params(params, stage), inputs, outputs, context)
            sink.end("finished", metrics=metrics)
        shutil.rmtree(work)
    path = folder / STAGES[CHAIN[-1]].outputs["scores"] / "scores.json"
    scores = Scores.model_validate_json(path.read_text(encoding="utf-8"))
    return Arm(arm, seed, scores.success, scores.calls, scores.tokens)


def _places(workspace: Workspace, arm: str, folder: Path) -> dict[str, Path]:
    """The harness folder of this arm: what its stages find under the name of the hybrid harness."""
    source = workspace.root / _output(STAGES["harness"])
    target = folder / "harness"
    shutil.rmtree(target, ignore_errors=True)
    if not source.is_dir():
        raise DataError("no harness yet", where=str(source), remedy="cowork run, then the duel")
    shutil.copytree(source, target)
    if arm == "overlapping":
        shutil.copyfile(source / "overlapping.json", target / "hybrid.json")
    return {"harness": target, "checkpoint": workspace.root / _output(STAGES["midtrain"])}


def _place(role: str, path: str, places: dict[str, Path], folder: Path, workspace: Workspace) -> Path:
    """An input: this arm's own where it makes one, else the recipe's; `places` overrides (harness, checkpoint)."""
    if (folder / path).exists():
        return folder / path
    return places.get(role, workspace.root / path)


def _output(stage: StageDef) -> str:
    return next(iter(stage.outputs.values()))


def main(workspace: Workspace, arm: str, seed: int, folder: Path) -> int:
    """One arm in a process of its own; the result as JSON in `folder/arm.json`."""
    result = fight(workspace, arm, seed, folder)
    (folder / "arm.json").write_text(json.dumps(result.__dict__), encoding="utf-8")
    return 0


if __name__ == "__main__":
    import sys

    from pipelines.workspace import find_workspace

    raise SystemExit(main(find_workspace(), sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))
