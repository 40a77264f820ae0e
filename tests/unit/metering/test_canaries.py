"""Canaries: secrets planted in the environment, said by a stage wherever it can, are in nothing that was written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from components.contracts.secrets import HIDDEN
from pipelines.waiting import wait_until
from tests.unit.metering import paid_recipe
from tests.unit.pipelines import toy

WORDS = ("canary-opaque-words-77", "canarypassword88", "Y2FuYXJ5LWtleS05OQ", "sk-canary-0123456789", "canaryuri55")
"""What may be found nowhere."""
PLANTED = {
    "MY_OPAQUE_TOKEN": WORDS[0],
    "DATABASE_URL": f"postgresql://canary:{WORDS[1]}@db.local:5432/x",
    "AZURE_STORAGE_CONNECTION_STRING": f"DefaultEndpointsProtocol=https;AccountName=canary;AccountKey={WORDS[2]}==",
    "OPENAI_API_KEY": WORDS[3],
}


def environment(**more: str) -> dict[str, str]:
    return toy.environment() | {"COWORK_REGISTRY": f"{paid_recipe.HERE}:LEAKY"} | PLANTED | more


def cowork(root: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    done = toy.cowork(root, *arguments, env=environment(**more))
    clean(done.stdout, "stdout")
    clean(done.stderr, "stderr")
    return done


def clean(text: str, where: str) -> None:
    assert not [word for word in WORDS if word in text], where


def found_in(root: Path) -> list[str]:
    """Files under `root`, whatever they are, that hold a canary; also those whose name does."""
    hits = []
    for path in root.rglob("*"):
        if any(word in path.name for word in WORDS):
            hits.append(f"name of {path}")
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            hits += [f"{path.relative_to(root)}: {word}" for word in WORDS if word.encode() in data]
    return hits


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    toy.write_recipe(tmp_path / "recipe", paid_recipe.LEAKY)
    return tmp_path / "recipe"


def leaks(root: Path, todo: str) -> None:
    (root / "leaks.json").write_text(f'{{"do": "{todo}"}}')


def test_nothing_that_a_run_writes_holds_a_secret(recipe: Path) -> None:
    database = f"sqlite:///{recipe}/.cowork/mlflow.db"
    # A server that is not there, whose address has a password in it.
    dead = f"http://canary:{WORDS[4]}@127.0.0.1:9"
    for todo, code, uri in (("fail", 6, dead), ("", 0, database)):
        leaks(recipe, todo)
        done = cowork(recipe, "run", MLFLOW_TRACKING_URI=uri)
        assert done.returncode == code, done.stdout + done.stderr
    runs = sorted(path for path in (recipe / ".cowork" / "runs").iterdir() if (path / "run.json").is_file())
    for run in runs:
        command = [sys.executable, "-m", "components.tracking.ship", str(run)]
        sent = subprocess.run(
            command, cwd=os.getcwd(), env=environment(MLFLOW_TRACKING_URI=database), capture_output=True, text=True
        )
        clean(sent.stdout + sent.stderr, "ship")

    def arrived() -> bool:
        return b"cowork.last_note" in (recipe / ".cowork" / "mlflow.db").read_bytes()

    assert wait_until(arrived, 120), "the store was really written"
    logs = "".join(path.read_text() for path in (recipe / ".cowork").rglob("feedback.log"))
    assert logs.count("child: " + HIDDEN) == 6 and f"MY_OPAQUE_TOKEN {HIDDEN}" in logs, "the log was really written"
    spools = "".join(path.read_text() for path in (recipe / ".cowork").rglob("feedback.*.jsonl"))
    assert f"MY_OPAQUE_TOKEN is {HIDDEN}" in spools and "refused by" in spools
    assert (recipe / "dvc.lock").is_file() and (recipe / "outputs" / "feedback").is_dir()
    assert found_in(recipe) == []


def test_an_output_with_a_secret_in_it_is_refused_and_removed(recipe: Path) -> None:
    leaks(recipe, "write")
    done = cowork(recipe, "run", "--no-mlflow")
    assert done.returncode == 6
    assert "data.txt holds the value of the environment variable" in done.stdout
    assert not (recipe / "outputs" / "feedback").exists()
    assert found_in(recipe) == []


def test_a_secret_as_a_parameter_is_refused_before_anything_is_written(recipe: Path) -> None:
    before = sorted(recipe.rglob("*"))
    done = cowork(recipe, "run", "--set", f"model.base={PLANTED['DATABASE_URL']}")
    assert done.returncode == 2 and "looks like a secret" in done.stderr
    assert sorted(recipe.rglob("*")) == before and found_in(recipe) == []
