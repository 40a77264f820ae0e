"""What MLflow holds after the worst: a server killed in mid-run, and everything killed at once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.tracking.lineage import RunRecord
from components.tracking.mlflow_registry import CANDIDATE, CHAMPION
from pipelines.lineage_show import show_lineage
from pipelines.processes import alive
from pipelines.waiting import wait_until
from tests.unit.pipelines import toy
from tests.unit.tracking import toy_policy
from tests.unit.tracking.mlflow_kit import SECONDS, aliases_of, client_of, free_port, runs_of, serving, uri_of

STAGES = set(toy_policy.STAGES)


@pytest.fixture
def recipe(memory: Path) -> Path:
    """A recipe in which nothing ran yet, and whose run will stop in the middle of `midtrain`."""
    toy.write_recipe(memory / "recipe", toy_policy.STAGES)
    (memory / "recipe" / "knobs.json").write_text('{"pause": "midtrain"}')
    return memory / "recipe"


@pytest.fixture
def started(recipe: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes of the test; none of them, nor of theirs, is left."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()
    kill_all(recipe)


def start(recipe: Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        toy_policy.command("run"), cwd=recipe, env=toy_policy.environment(**environment), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip


def cowork(recipe: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        toy_policy.command(*arguments), cwd=recipe, env=toy_policy.environment(**environment),
        capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip


def told(database: Path) -> dict[str, str]:
    """Stage -> status of what the store was told, read past MLflow: it is asked often, and while others write."""
    try:
        with sqlite3.connect(database, timeout=10) as connection:
            return dict(connection.execute("select name, status from runs").fetchall())
    except sqlite3.OperationalError:
        return {}


def pids_in(folder: Path) -> list[int]:
    """Processes that work in the folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cwd").resolve().is_relative_to(folder) and alive(int(entry.name)):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def kill_all(folder: Path) -> None:
    """kill -9 of everything that works in the folder, and of what it started meanwhile."""

    def none_left() -> bool:
        pids = pids_in(folder)
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return not pids

    assert wait_until(none_left, 30), pids_in(folder)


def record_of(recipe: Path) -> RunRecord:
    (folder,) = (path.parent for path in (recipe / ".cowork" / "runs").glob("*/run.json"))
    return RunRecord.load(folder)


def assert_whole(uri: str, run_id: str) -> dict[str, Any]:
    """Every stage finished, every metric of every stage there once, in order."""
    runs = runs_of(uri)
    assert set(runs) == STAGES | {run_id}
    assert {name: run.info.status for name, run in runs.items()} == {name: "FINISHED" for name in runs}
    client = client_of(uri)
    for stage in ("midtrain", "rl"):
        history = client.get_metric_history(runs[stage].info.run_id, "loss")
        assert [(m.step, m.value) for m in history] == [(step, 1.0 / (step + 1)) for step in range(10)], stage
    assert aliases_of(uri) == {CANDIDATE: 2, CHAMPION: 2}
    return runs


@pytest.mark.slow
@pytest.mark.timeout(5 * SECONDS)
def test_kill_9_of_the_mlflow_server_in_mid_run_loses_no_metric_and_no_stage(
    recipe: Path, root: Path, started: list[subprocess.Popen[str]]
) -> None:
    port = free_port()
    with serving(root, port) as server:
        where = {"MLFLOW_TRACKING_URI": server.uri}
        started.append(start(recipe, **where))
        assert wait_until(lambda: told(root / "mlflow.db").get("midtrain") == "RUNNING", SECONDS, 0.2), told(
            root / "mlflow.db"
        )
        server.kill()
    (recipe / "knobs.json").unlink()
    output, _ = started[0].communicate(timeout=SECONDS)
    assert started[0].returncode == 0, output
    assert "MLflow has not everything yet" in output
    record = record_of(recipe)
    assert {entry.status for entry in record.stages} == {"finished"} and record.status == "finished"
    assert "rl" not in told(root / "mlflow.db"), "the server was dead before"
    with serving(root, port):
        done = cowork(recipe, "run", **where)
        assert done.returncode == 0 and "nothing to do" in done.stdout, done.stdout + done.stderr
        assert "sending to MLflow what is left" in done.stdout
    assert_whole(uri_of(root), record.run_id)
    assert cowork(recipe, "status", **where).stderr == "", "all is told: the server is not asked again"


@pytest.mark.slow
@pytest.mark.timeout(5 * SECONDS)
def test_after_kill_9_of_everything_the_next_command_ends_the_run_as_failed_and_the_next_run_goes_on(
    recipe: Path,
    empty_store: Path,
    started: list[subprocess.Popen[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    database = recipe / ".cowork" / "mlflow.db"
    database.parent.mkdir()
    shutil.copy(empty_store / "mlflow.db", database)
    started.append(start(recipe))
    assert wait_until(lambda: told(database).get("midtrain") == "RUNNING", SECONDS, 0.2), told(database)
    kill_all(recipe)
    run_id = record_of(recipe).run_id
    assert told(database)[run_id] == told(database)["midtrain"] == "RUNNING", "killed before it could say a word"
    status = cowork(recipe, "status")
    assert status.returncode == 0, status.stderr
    assert "ended without a word" in status.stderr and f"run {run_id}: failed" in status.stdout
    ends = told(database)
    assert ends[run_id] == ends["midtrain"] == "FAILED" and "RUNNING" not in ends.values(), status.stderr
    record = record_of(recipe)
    assert (record.status, record.stage("midtrain").status) == ("failed", "killed")
    assert "without a word" in record.stage("midtrain").error
    (recipe / "knobs.json").unlink()
    done = cowork(recipe, "run")
    assert done.returncode == 0 and f"goes on with {run_id}" in done.stdout, done.stdout + done.stderr
    runs = assert_whole(uri_of(recipe / ".cowork"), run_id)
    assert runs["midtrain"].data.tags["cowork.attempt"] == "2"
    monkeypatch.chdir(recipe)
    monkeypatch.setenv("COWORK_REGISTRY", "tests.unit.tracking.toy_policy:STAGES")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert_lineage_from_mlflow(recipe, {name: run.info.run_id for name, run in runs.items()}, run_id, capsys)


def assert_lineage_from_mlflow(
    recipe: Path, mlflow_runs: dict[str, str], run_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run of MLflow and an alias lead to the tree, also when nothing but MLflow knows of the run any more."""

    def roots(word: str) -> list[str]:
        assert show_lineage(word, as_json=True) == 0, capsys.readouterr().out
        answer = json.loads(capsys.readouterr().out)
        assert {node["state"] for node in answer["nodes"].values()} == {"verified"}
        assert {step["run"] for step in answer["steps"].values()} == {run_id}
        return [item.partition("@")[0] for item in answer["roots"]]

    rl = ["outputs/models/rl"]
    assert roots(mlflow_runs["rl"]) == roots("champion") == roots("cowork-policy@candidate") == rl
    assert roots(mlflow_runs[run_id]) == ["outputs/scores/midtrain", "outputs/scores/rl"]
    shutil.rmtree(recipe / ".cowork" / "runs")
    (recipe / "dvc.lock").rename(recipe / "elsewhere.lock")
    assert roots(mlflow_runs["rl"]) == roots("champion") == rl
