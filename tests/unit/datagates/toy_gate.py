"""A recipe of three stages around the real task gate. `knobs.json` with `{"leak": true}` lets the forge leak a task."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from components.contracts.params import Params
from components.contracts.stage import StepContext
from components.contracts.task import Task
from components.forge.generate import SPLITS, Generated, generate
from components.forge.store import save
from pipelines.registry import STAGES as REAL
from pipelines.registry import StageDef

STAGES = {
    "forge": StageDef("forge", "tests.unit.datagates.toy_gate:make", {}, {"tasks": "outputs/tasks"}, ("forge",)),
    "gate-tasks": REAL["gate-tasks"],
    "harness": StageDef(
        "harness",
        "tests.unit.datagates.toy_gate:look",
        {**REAL["harness"].inputs, "base": "given"},
        REAL["harness"].outputs,
        ("harness", "model"),
    ),
}


def make(params: Params, inputs: dict[str, Path], outputs: dict[str, Path], ctx: StepContext) -> dict[str, float]:
    """Real tasks; with the knob turned, one of the training tasks under the held-out split's name too."""
    made = generate(
        ctx.seed, {split: getattr(params.forge, split) for split in SPLITS}, lambda batch: [""] * len(batch)
    )
    if Path("knobs.json").is_file():
        source = next(task for task in made.tasks if task.split == "train")
        fields: dict[str, Any] = {name: getattr(source, name) for name in Task.model_fields if name != "task_id"}
        where = next(index for index, task in enumerate(made.tasks) if task.split == "heldout")
        made = Generated([*made.tasks[:where], Task.build(**fields | {"split": "heldout"}), *made.tasks[where + 1 :]])
    save(made, outputs["tasks"])
    return {}


def look(params: Params, inputs: dict[str, Path], outputs: dict[str, Path], ctx: StepContext) -> dict[str, float]:
    """What the gate said, and whether this process found the slow library loaded."""
    outputs["harness"].mkdir(parents=True)
    seen = {"gate": json.loads((inputs["gate"] / "passed.json").read_text())["verdict"]}
    (outputs["harness"] / "seen.json").write_text(json.dumps(seen))
    return {"loaded": float("great_expectations" in sys.modules)}
