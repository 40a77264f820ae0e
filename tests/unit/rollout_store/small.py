"""A small recipe for tests: real tasks, the real desktop and shell, the tiny profile with small numbers."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from components.contracts.load_params import load_params
from components.contracts.params import Params
from components.contracts.stage import StepContext
from components.contracts.task import Split, Task
from components.forge.generate import Generated, make_task
from components.forge.store import save
from components.forge.workflows import WORKFLOWS
from components.harness.spec import default_spec
from components.sandbox.shell import detect

ROOT = Path(__file__).resolve().parents[3]
UNCONFINED = detect().confinement == "none"
SKILLS = (
    "toggle-pref",
    "set-volume",
    "rename-file",
    "write-note",
    "set-cell",
    "form-choice",
    "count-words",
    "move-file",
)


def params(**changes: dict[str, Any]) -> Params:
    """The tiny profile with some sections changed: `params(collect={"gui": {"tasks": 3}})`."""
    values = load_params(ROOT / "params.yaml").model_dump()
    _update(values, changes)
    return Params.model_validate(values)


def _update(values: dict[str, Any], changes: dict[str, Any]) -> None:
    for key, value in changes.items():
        if isinstance(value, dict):
            _update(values[key], value)
        else:
            values[key] = value


def tasks(skills: Iterable[str] = SKILLS, each: int = 1, split: Split = "train") -> list[Task]:
    return [make_task(WORKFLOWS[skill], split, 0, i) for skill in skills for i in range(each)]


def context(stage: str, work: Path, workers: int = 1) -> StepContext:
    return StepContext(stage, 0, work, unconfined=UNCONFINED, workers=workers)


def write_inputs(root: Path, made: list[Task]) -> dict[str, Path]:
    """`tasks` and `harness` directories as the forge and harness stages leave them."""
    save(Generated(sorted(made, key=lambda t: (t.split, t.task_id))), root / "tasks")
    harness = root / "harness"
    harness.mkdir(exist_ok=True)
    for name in ("gui", "terminal", "hybrid", "overlapping"):
        (harness / f"{name}.json").write_text(default_spec(name).model_dump_json())  # type: ignore[arg-type]
    return {"tasks": root / "tasks", "harness": harness}


@functools.cache
def collected(channel: str) -> tuple[dict[str, Path], Params]:
    """A store of that channel (eight skills, three tasks each), made once for the test session; inputs for curation."""
    from components.rollout.step import run

    root = Path(_keep().name) / channel
    root.mkdir()
    inputs = write_inputs(root, tasks(each=3))
    chosen = params(
        collect={channel: {"tasks": 24, "perturb": 0.2}},
        curate={
            "midtrain": {"screens": 12, "synth_screens": 12, "questions": 6},
            "gui_sft": {"steps": 90}, "terminal_sft": {"steps": 40}, "hybrid_sft": {"steps": 90},
        },
    )  # fmt: skip
    store = root / "trajectories"
    run(chosen, inputs, {"trajectories": store}, context(f"collect-{channel}", root / "work"))
    return {"trajectories": store, "harness": inputs["harness"]}, chosen


@functools.cache
def _keep() -> tempfile.TemporaryDirectory[str]:
    """A folder that lives as long as the test process."""
    return tempfile.TemporaryDirectory(prefix="cowork-tests-")
