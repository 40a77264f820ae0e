"""`cowork rerun`: one stage alone, with what follows, or on the outputs of another run; and data for a fresh clone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from components.contracts.errors import DataError, OrchestrationError
from components.tracking.lineage import RunRecord
from components.tracking.mlflow_sink import drain
from pipelines.bundle import load_bundle, mlflow_runs
from pipelines.data import pull_data, push_data, show_remote, verify_data
from pipelines.drive import Options, run
from pipelines.dvcfiles import content, read_lock
from pipelines.find import find
from pipelines.incomplete import incomplete_paths
from pipelines.workspace import Workspace
from tests.unit.pipelines import toy
from tests.unit.pipelines.conftest import Server, python, secret_found

MODEL, SCORES = "outputs/models/midtrain", "outputs/scores/midtrain"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("finished") / "recipe"
    toy.write_recipe(root, toy.STAGES)
    done = toy.cowork(root, "run", "--no-mlflow")
    assert done.returncode == 0, done.stdout + done.stderr
    return root


@pytest.fixture
def recipe(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy to disturb, in which commands of this process work too."""
    shutil.copytree(finished, tmp_path / "recipe", symlinks=True, ignore=shutil.ignore_patterns("fork.sock"))
    monkeypatch.chdir(tmp_path / "recipe")
    for name in ("COWORK_REMOTE", "COWORK_RUN_DIR", "COWORK_FORKSERVER", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COWORK_REGISTRY", "tests.unit.pipelines.toy:STAGES")
    return tmp_path / "recipe"


def first_run(root: Path) -> RunRecord:
    return RunRecord.load(min((root / ".cowork" / "runs").iterdir()))


def digests(root: Path) -> dict[str, str]:
    found = {path: content(root / path) for stage in toy.STAGES.values() for path in stage.outputs.values()}
    return {path: what.digest for path, what in found.items() if what}


def rerun(root: Path, *arguments: str) -> tuple[dict[str, Any], str]:
    done = toy.cowork(root, "rerun", *arguments, "--no-mlflow", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_only_runs_the_one_stage_and_leaves_what_follows(recipe: Path) -> None:
    before, base = digests(recipe), first_run(recipe)
    outcome, _ = rerun(recipe, "midtrain", "--only", "--set", "midtrain.steps=99")
    assert outcome["executed"] == ["midtrain"]
    after = digests(recipe)
    assert {path for path in before if before[path] != after[path]} == {MODEL}
    record = RunRecord.load(recipe / ".cowork" / "runs" / outcome["run"])
    assert (record.rerun, record.from_run) == ("midtrain", base.run_id)
    assert {entry.name: entry.status for entry in record.stages} == {
        "forge": "reused", "midtrain": "finished", "evaluate-midtrain": "pending", "feedback": "pending",
    }  # fmt: skip
    bundle = load_bundle(recipe / ".cowork" / "runs" / outcome["run"])
    assert bundle is not None and bundle.origins == {"forge": base.run_id}


def test_only_with_a_missing_input_names_it_and_who_makes_it(recipe: Path) -> None:
    shutil.rmtree(recipe / "outputs" / "tasks")
    with pytest.raises(DataError, match="input outputs/tasks is missing.*cowork run --stage forge"):
        run(Options(force="midtrain", downstream=False, ship=False))
    assert len(list((recipe / ".cowork" / "runs").iterdir())) == 1


def test_from_a_run_takes_its_outputs_by_digest_and_touches_nothing_else(recipe: Path, tmp_path: Path) -> None:
    base, old = first_run(recipe), digests(recipe)
    assert toy.cowork(recipe, "data", "remote", "../remote").returncode == 0
    assert toy.cowork(recipe, "data", "push").returncode == 0
    (recipe / "params.yaml").write_text((recipe / "params.yaml").read_text().replace("steps: 260", "steps: 11"))
    (recipe / "outputs" / "tasks" / "data.txt").write_text("another state of the folder")
    shutil.rmtree(recipe / ".dvc" / "cache")
    here = {path: (recipe / path).read_bytes() for path in ("params.yaml", "dvc.lock", "outputs/tasks/data.txt")}
    outcome, said = rerun(recipe, "midtrain", "--from", base.run_id, "--set", "midtrain.lr=0.5")
    assert outcome["executed"] == ["midtrain", "evaluate-midtrain"], "and feedback keeps its output"
    assert {path: (recipe / path).read_bytes() for path in here} == here
    side = recipe / ".cowork" / "profiles" / f"from-{base.run_id}"
    assert "4 outputs by digest, 4 restored" in said and str(side.relative_to(recipe)) in said
    new = digests(side)
    assert {path for path in old if old[path] != new[path]} == {MODEL, SCORES}
    text = (side / MODEL / "weights.txt").read_text()
    assert '"lr": 0.5' in text and '"steps": 260' in text, "that run's parameters, and what was set"
    record = RunRecord.load(side / ".cowork" / "runs" / outcome["run"])
    assert (record.rerun, record.from_run) == ("midtrain", base.run_id)
    (reused,) = [entry for entry in record.stages if entry.name == "forge"]
    assert reused.status == "reused" and reused.key == base.stage("forge").key and reused.seconds > 0
    assert find(Workspace(recipe), new[MODEL]).bundle.run.run_id == outcome["run"]
    status = toy.cowork(recipe, "status", "--profile", side.name)
    assert outcome["run"] in status.stdout and new[MODEL].removeprefix("md5:")[:12] in status.stdout


def test_a_dry_run_from_a_run_gives_reasons_and_writes_nothing(recipe: Path) -> None:
    base = first_run(recipe)
    lock = next(iter(read_lock(recipe / "dvc.lock")["midtrain"].outs.values()))
    arguments = ("rerun", "midtrain", "--from", lock, "--set", "midtrain.lr=0.5", "--dry-run", "--json")
    done = toy.cowork(recipe, *arguments)
    assert done.returncode == 0, done.stderr
    stages = {item["stage"]: item for item in json.loads(done.stdout)["stages"]}
    assert stages["midtrain"]["reasons"] == ["asked for", "param midtrain.lr: 0.0015 -> 0.5"]
    assert stages["evaluate-midtrain"]["action"] == "maybe" and set(stages) == {"midtrain", "evaluate-midtrain"}
    assert not (recipe / ".cowork" / "profiles").exists() and first_run(recipe) == base
    only = toy.cowork(recipe, *arguments, "--only")
    assert [item["stage"] for item in json.loads(only.stdout)["stages"]] == ["midtrain"]


def test_a_partial_remote_never_starts_a_stage(recipe: Path, tmp_path: Path) -> None:
    base = first_run(recipe)
    assert show_remote(str(tmp_path / "remote"), "", "", "") == 0
    assert push_data("", "", False, False, True) == 0
    lost = [path for path in (tmp_path / "remote" / "files").rglob("*") if path.is_file() and path.suffix != ".dir"][:2]
    for path in lost:
        path.unlink()
    shutil.rmtree(recipe / ".dvc" / "cache")
    with pytest.raises(DataError, match="nothing was written or started") as error:
        run(Options(force="midtrain", from_run=base.run_id, ship=False))
    assert all(f"{path.parent.name}{path.name}" in str(error.value) for path in lost)
    side = recipe / ".cowork" / "profiles" / f"from-{base.run_id}"
    assert not (side / "outputs").exists() and not list((side / ".cowork").glob("runs/*"))
    with pytest.raises(OrchestrationError, match="hash_not_found"):
        run(Options(force="midtrain", from_run="20200101-000000-tiny-0000", ship=False))


def test_data_of_a_run_is_in_place_in_a_fresh_clone(
    recipe: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert show_remote(server.url, server.endpoint, "", "") == 0
    assert push_data("", "", False, False, False) == 0
    assert verify_data("", "", False, True) == 0
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qam", "remote"]
    subprocess.run(command, cwd=recipe, check=True)
    subprocess.run(["git", "clone", "-q", str(recipe), str(tmp_path / "clone")], check=True)
    monkeypatch.chdir(tmp_path / "clone")
    capfd.readouterr()
    assert pull_data("", "", False, False, 0, True) == 0
    assert json.loads(capfd.readouterr().out)["moved"] == 8
    assert digests(tmp_path / "clone") == digests(recipe)
    assert (tmp_path / "clone" / "dvc.lock").read_bytes() == (recipe / "dvc.lock").read_bytes()
    assert first_run(tmp_path / "clone") == first_run(recipe), "the run is known here now"
    # The same objects for those who use DVC alone.
    shutil.rmtree(tmp_path / "clone" / "outputs")
    shutil.rmtree(tmp_path / "clone" / ".dvc" / "cache")
    environment = {**os.environ, **Workspace(tmp_path / "clone").dvc_environment()}
    done = subprocess.run(
        python("dvc", "pull"), cwd=tmp_path / "clone", env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert digests(tmp_path / "clone") == digests(recipe)
    assert secret_found(recipe, tmp_path / "clone") == [], "the credential is written nowhere"


def test_pulling_does_not_replace_bytes_that_are_nowhere_else(recipe: Path, tmp_path: Path) -> None:
    assert show_remote(str(tmp_path / "remote"), "", "", "") == 0
    assert push_data("", "", False, False, True) == 0
    (recipe / SCORES / "data.txt").write_text("by hand")
    with pytest.raises(DataError, match=f"nowhere else: {SCORES}"):
        pull_data("", "", False, False, 0, False)
    assert (recipe / SCORES / "data.txt").read_text() == "by hand"
    assert pull_data("", "", True, False, 0, False) == 0
    assert digests(recipe)[SCORES] == read_lock(recipe / "dvc.lock")["evaluate-midtrain"].outs[SCORES]


def test_incomplete_data_is_taken_only_when_asked_and_marks_what_starts_from_it(recipe: Path, tmp_path: Path) -> None:
    assert show_remote(str(tmp_path / "remote"), "", "", "") == 0
    assert push_data("", "", False, False, True) == 0
    locked = read_lock(recipe / "dvc.lock")["forge"].outs["outputs/tasks"].removeprefix("md5:")
    (tmp_path / "remote" / "files" / "md5" / locked[:2] / locked[2:]).unlink()
    shutil.rmtree(recipe / "outputs")
    shutil.rmtree(recipe / ".dvc" / "cache")
    with pytest.raises(DataError, match="outputs/tasks: listing missing"):
        pull_data("", "", False, False, 0, False)
    assert not (recipe / "outputs").exists()
    assert pull_data("", "", False, True, 0, False) == 0
    assert (recipe / MODEL).is_dir() and not (recipe / "outputs" / "tasks").exists()
    assert incomplete_paths(Workspace(recipe)) == ["outputs/tasks"]


def test_two_runs_are_linked_in_mlflow_and_an_mlflow_run_leads_back(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    uri = f"sqlite:///{recipe}/.cowork/mlflow.db"
    outcome, _ = rerun(recipe, "midtrain", "--only")
    folders = sorted((recipe / ".cowork" / "runs").iterdir())
    assert [drain(folder, uri).error for folder in folders] == ["", ""]
    parents = [next(known for known, stage in mlflow_runs(folder).items() if not stage) for folder in folders]
    client = MlflowClient(tracking_uri=uri)
    earlier, later = (client.get_run(parent).data.tags for parent in parents)
    assert later["cowork.from_run"] == folders[0].name and later["cowork.rerun_stage"] == "midtrain"
    assert later["cowork.from_mlflow_run"] == parents[0]
    assert earlier[f"cowork.rerun.{outcome['run']}"] == parents[1]
    child = next(known for known, stage in mlflow_runs(folders[0]).items() if stage == "midtrain")
    main = Workspace(recipe)
    assert (find(main, child).stage, find(main, child).source) == ("midtrain", "this machine")
    shutil.rmtree(folders[0])
    target = find(main, child)
    assert (target.kind, target.stage, target.source) == ("MLflow run", "midtrain", "MLflow")
    assert target.bundle.run.run_id == folders[0].name
