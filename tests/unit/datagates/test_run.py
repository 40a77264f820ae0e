"""A gate in a run: what fails it stops the run, is told, and stays; what passes it goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from components.tracking.lineage import RunRecord
from components.tracking.mlflow_parent import run_parts
from tests.unit.datagates.toy_gate import STAGES
from tests.unit.pipelines import toy

SIZES = ("forge.train=25", "forge.dev=25", "forge.heldout=25", "forge.heldout_skills=10")

SECONDS = 600.0
"""Far above what a run of three small stages takes; only one that hangs meets it."""


def cowork(root: Path, *sets: str) -> subprocess.CompletedProcess[str]:
    arguments = [word for item in sets for word in ("--set", item)]
    return subprocess.run(
        [sys.executable, "-m", "pipelines.cli", "run", "--no-mlflow", "--json", *arguments],
        cwd=root, env=toy.environment() | {"COWORK_REGISTRY": "tests.unit.datagates.toy_gate:STAGES"},
        capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip


def record(root: Path, outcome: dict[str, Any]) -> RunRecord:
    return RunRecord.load(root / ".cowork" / "runs" / outcome["run"])


@pytest.mark.slow
@pytest.mark.timeout(2 * SECONDS)
def test_a_failed_gate_stops_the_run_with_its_rows_and_keeps_its_page_until_the_data_is_mended(tmp_path: Path) -> None:
    root = tmp_path / "recipe"
    toy.write_recipe(root, STAGES)
    (root / "knobs.json").write_text('{"leak": true}')
    failed = cowork(root, *SIZES)
    outcome = json.loads(failed.stdout)
    assert failed.returncode == 6 and outcome["failed"] == "gate-tasks" and outcome["executed"] == ["forge"]
    rows = [json.loads(line) for line in (root / "outputs/validation/tasks/failed_rows.jsonl").read_text().splitlines()]
    leaked = {row["row"]["task_id"] for row in rows if row["table"] == "heldout"}
    assert len(leaked) == 1 and leaked.pop() in failed.stderr
    states = {stage.name: stage.status for stage in record(root, outcome).stages}
    assert states == {"forge": "finished", "gate-tasks": "failed", "harness": "pending"}
    assert not (root / "outputs/gates/tasks").exists() and not (root / "outputs/harness").exists()
    kept = root / ".cowork" / "runs" / outcome["run"] / "validation" / "gate-tasks.html"
    assert kept.read_bytes() == (root / "outputs/validation/tasks/page.html").read_bytes()
    parts = run_parts(kept.parents[1], record(root, outcome))
    assert parts["validation/gate-tasks.html"] == kept.read_text()

    (root / "knobs.json").unlink()
    passed = cowork(root, "seed=1")
    outcome = json.loads(passed.stdout)
    assert passed.returncode == 0 and outcome["executed"] == ["forge", "gate-tasks", "harness"]
    assert json.loads((root / "outputs/harness/seen.json").read_text()) == {"gate": "pass"}
    stages = {stage.name: stage for stage in record(root, outcome).stages}
    assert stages["harness"].metrics["loaded"] == 1.0, "the server imports the slow library once, for every stage"
    assert stages["gate-tasks"].metrics["rules"] > 20
    assert {artifact.name for artifact in stages["gate-tasks"].outputs} == {"gate", "validation"}
    assert kept.is_file()
