"""The harness duel: two teachers, equal budget, one student each.

`pruned` is the hybrid harness that the recipe's search chose; `overlapping` offers the accessibility route beside it.
Both arms collect with the same teacher on the same tasks, curate, train `hybrid-sft` from the same grounded checkpoint
with the same steps, and are evaluated on the same held-out tasks with all of their arm's tools. The stages are the
recipe's own functions; only the harness folder differs. Run a recipe first: the duel starts from its outputs.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from components.contracts.digests import digest_tree, digest_value
from components.contracts.errors import DataError
from components.contracts.load_params import load_params
from components.contracts.params import Params
from components.contracts.stage import StepContext
from components.evaluation.duel import ARMS, OVERLAPPING
from components.tracking.events import SpoolSink, next_attempt, spool_path
from pipelines.codekeys import code_keys
from pipelines.registry import STAGES, StageDef
from pipelines.stage_params import stage_params
from pipelines.step import WORKERS, load_function
from pipelines.workspace import SOURCE, Workspace, find_workspace

CHAIN = ("collect-hybrid", "curate-hybrid-sft", "hybrid-sft", "evaluate-hybrid-sft")


def fight(workspace: Workspace, arm: str, seed: int, folder: Path, unconfined: bool = False) -> Path:
    """Run one arm in `folder`; its score folder. Raises DataError before a recipe ran.

    What an earlier call finished is kept when parameters, code, tasks, harness and checkpoint are the same.
    """
    params = load_params(workspace.params_file).model_copy(update={"seed": seed})
    _clear_if_other(folder, _identity(workspace, params))
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
    return scores_of(folder)


def _identity(workspace: Workspace, params: Params) -> str:
    keys = code_keys(STAGES, SOURCE, cache_file=workspace.state / "codekeys.json")
    given = [workspace.root / _output(STAGES[name]) for name in ("forge", "harness", "midtrain")]
    for path in given:
        if not path.is_dir():
            raise DataError("not made yet", where=str(path), remedy="cowork run, then the duel")
    return digest_value(
        [params.model_dump(mode="json"), [keys[name] for name in CHAIN], [digest_tree(path) for path in given]]
    )


def _clear_if_other(folder: Path, identity: str) -> None:
    mark = folder / "identity"
    if not mark.is_file() or mark.read_text(encoding="utf-8") != identity:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        mark.write_text(identity, encoding="utf-8")


def scores_of(folder: Path) -> Path:
    """Where an arm's scores lie."""
    return folder / STAGES[CHAIN[-1]].outputs["scores"]


def _places(workspace: Workspace, arm: str, folder: Path) -> dict[str, Path]:
    """The harness folder of this arm: what its stages find under the name of the hybrid harness."""
    source = workspace.root / _output(STAGES["harness"])
    target = folder / "harness"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    if arm == OVERLAPPING:
        shutil.copyfile(source / "overlapping.json", target / "hybrid.json")
    return {"harness": target, "checkpoint": workspace.root / _output(STAGES["midtrain"])}


def _place(role: str, path: str, places: dict[str, Path], folder: Path, workspace: Workspace) -> Path:
    """An input: this arm's own where it makes one, else the recipe's; `places` overrides (harness, checkpoint)."""
    if (folder / path).exists():
        return folder / path
    return places.get(role, workspace.root / path)


def _output(stage: StageDef) -> str:
    return next(iter(stage.outputs.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description="One arm of the duel, in a process of its own.")
    parser.add_argument("arm", choices=ARMS)
    parser.add_argument("seed", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--unconfined", action="store_true")
    args = parser.parse_args()
    fight(find_workspace(), args.arm, args.seed, args.folder, args.unconfined)


if __name__ == "__main__":
    main()
