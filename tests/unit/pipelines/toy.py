"""Toy stages behind the injectable registry: a small DAG whose work can be slow, broken or killed from a file.

`knobs.json` in the recipe folder steers them: {"fail": stage, "pause": stage, "salt": text}. It is deliberately no
declared input, so turning a knob changes no key.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from components.contracts.errors import DataError
from components.contracts.load_params import edit_text
from components.contracts.params import Params
from components.contracts.stage import StepContext
from pipelines.registry import StageDef
from pipelines.waiting import wait_until

STAGES = {
    "forge": StageDef("forge", "tests.unit.pipelines.toy:make", {}, {"tasks": "outputs/tasks"}, ("forge",)),
    "midtrain": StageDef(
        "midtrain",
        "tests.unit.pipelines.toy:train",
        {"tasks": "outputs/tasks", "base": "given"},
        {"checkpoint": "outputs/models/midtrain"},
        ("midtrain", "model"),
    ),
    "evaluate-midtrain": StageDef(
        "evaluate-midtrain",
        "tests.unit.pipelines.toy:make",
        {"checkpoint": "outputs/models/midtrain", "tasks": "outputs/tasks"},
        {"scores": "outputs/scores/midtrain"},
        ("evaluate",),
    ),
    "feedback": StageDef(
        "feedback",
        "tests.unit.pipelines.toy:make",
        {"tasks": "outputs/tasks"},
        {"feedback": "outputs/feedback"},
        ("feedback",),
    ),
}


def knobs() -> dict[str, Any]:
    path = Path("knobs.json")
    return json.loads(path.read_text()) if path.is_file() else {}


def params_text(params: Params) -> str:
    return json.dumps(params.model_dump(mode="json", warnings=False), sort_keys=True)


def make(params: Params, inputs: dict[str, Path], outputs: dict[str, Path], ctx: StepContext) -> dict[str, float]:
    """Writes what it saw: parameters and the text of its inputs."""
    print(f"{ctx.stage} says hello")
    turned = knobs()
    if turned.get("fail") == ctx.stage:
        raise DataError("the toy is broken", where="shard 3", remedy="turn the knob back")
    if turned.get("pause") == ctx.stage:
        _linger(ctx)
    seen = {name: sorted(p.read_text() for p in path.rglob("*") if p.is_file()) for name, path in inputs.items()}
    for path in outputs.values():
        path.mkdir(parents=True)
        salt = turned.get("salt", os.environ.get("TOY_SALT", "")) if ctx.stage == "forge" else ""
        (path / "data.txt").write_text(f"{ctx.stage} {params_text(params)} {json.dumps(seen, sort_keys=True)} {salt}\n")
    ctx.events.metric("size", 1.0, 0)
    ctx.events.progress(1, 1, "items")
    return {"items": 1.0}


def train(params: Params, inputs: dict[str, Path], outputs: dict[str, Path], ctx: StepContext) -> dict[str, float]:
    """Ten steps, each a line in the work directory: a killed stage goes on where it was."""
    steps = ctx.work / "steps.txt"
    done = len(steps.read_text().splitlines()) if steps.is_file() else 0
    for step in range(done, 10):
        if step == 5 and knobs().get("pause") == ctx.stage:
            _linger(ctx)
        with steps.open("a") as handle:
            handle.write(f"step {step} by {os.getpid()}\n")
        ctx.events.metric("loss", 1.0 / (step + 1), step)
        ctx.events.progress(step + 1, 10, "steps")
    target = outputs["checkpoint"]
    target.mkdir(parents=True)
    (target / "weights.txt").write_text(
        f"{ctx.stage} {params_text(params)} {(inputs['tasks'] / 'data.txt').read_text()}"
    )
    return {"resumed_at": float(done)}


def _linger(ctx: StepContext) -> None:
    """Wait to be killed, with a worker process of one's own; both leave their ids for the test."""
    worker = os.fork()
    if worker == 0:
        wait_until(lambda: False, 60)
        os._exit(0)
    note = {"stage": os.getpid(), "worker": worker, "parent": os.getppid()}
    Path("lingering.json").write_text(json.dumps(note))
    wait_until(lambda: not Path("knobs.json").is_file(), 60)
    os.kill(worker, 9)
    os.waitpid(worker, 0)


def write_recipe(root: Path, stages: dict[str, StageDef]) -> None:
    """A recipe folder for these stages: git, DVC, the repository's params.yaml, a given input."""
    import yaml

    source = Path(__file__).resolve().parents[3]
    root.mkdir(parents=True, exist_ok=True)
    definition = {
        name: {
            "cmd": f"cowork step {name}",
            **({"deps": list(stage.inputs.values())} if stage.inputs else {}),
            "params": ["seed", *stage.params, {"pipelines/codekeys.yaml": [name]}],
            "outs": list(stage.outputs.values()),
        }
        for name, stage in stages.items()
    }
    (root / "dvc.yaml").write_text(yaml.safe_dump({"stages": definition}, sort_keys=False))
    text = (source / "params.yaml").read_text()
    for key, value in (("model.base", "given"), ("midtrain.steps", 260), ("midtrain.lr", 0.0015)):
        text = edit_text(text, key, value)
    (root / "params.yaml").write_text(text)
    (root / "given").write_text("the base\n")
    (root / ".gitignore").write_text(".cowork/\n/outputs/\n/pipelines/\nknobs.json\nlingering.json\n")
    (root / "pipelines").mkdir(exist_ok=True)
    (root / ".dvc").mkdir(exist_ok=True)
    (root / ".dvc" / "config").write_text((source / ".dvc" / "config").read_text())
    for command in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "start"],
    ):
        subprocess.run(["git", "-C", str(root), *command], check=True, capture_output=True)


def environment() -> dict[str, str]:
    """For a `cowork` process on a toy recipe: these stages, nothing heavy preloaded."""
    source = str(Path(__file__).resolve().parents[3])
    env = {k: v for k, v in os.environ.items() if not k.startswith("COWORK_")}
    return {
        **env,
        "COWORK_REGISTRY": "tests.unit.pipelines.toy:STAGES",
        "COWORK_PRELOAD": "json",
        "PYTHONPATH": source,
        "COLUMNS": "120",
    }


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pipelines.cli", *arguments]


def cowork(root: Path, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), cwd=root, capture_output=True, text=True,
        **({"env": environment(), "timeout": 280} | options),
    )  # fmt: skip
