"""The smoke profile by DVC and by Kubeflow's local runner: the same bytes in every output of every stage."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from components.contracts.digests import digest_tree
from pipelines.local_kfp import run_local
from pipelines.registry import STAGES
from pipelines.workspace import SOURCE

PROFILE = "smoke"
SECONDS = 3600.0
"""Far above what either run takes, on a busy machine too; only a run that hangs meets it."""


def _git(root: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    done = subprocess.run(["git", "-C", str(root), *identity, *arguments], check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The working tree as it stands, without its outputs and caches, as a repository of its own."""
    root = tmp_path / "clone"
    for name in _git(SOURCE, "ls-files", "-co", "--exclude-standard", "-z").split("\0"):
        if name and (SOURCE / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(SOURCE / name, root / name)
    _git(root, "init", "-q")
    _git(root, "add", ".")
    _git(root, "commit", "-q", "-m", "as it stands")
    return root


def _run_by_dvc(root: Path, unconfined: list[str]) -> dict[str, dict[str, str]]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("COWORK_")}
    env["PYTHONPATH"] = str(root)
    done = subprocess.run(
        [sys.executable, "-m", "pipelines.cli", "run", "--profile", PROFILE, "--no-mlflow", *unconfined],
        cwd=root, env=env, capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    side = root / ".cowork" / "profiles" / PROFILE
    return {
        name: {role: digest_tree(side / path) for role, path in stage.outputs.items()} for name, stage in STAGES.items()
    }


@pytest.mark.full
@pytest.mark.timeout(2 * SECONDS)
def test_dvc_and_kubeflow_make_the_same_bytes(clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from components.sandbox.confine import detect

    unconfined = ["--unconfined"] if detect().confinement == "none" else []
    if unconfined:
        monkeypatch.setenv("COWORK_UNCONFINED", "1")
    by_dvc = _run_by_dvc(clone, unconfined)
    by_kubeflow = run_local(PROFILE, tmp_path / "kfp", seconds=SECONDS).digests
    assert {name: by_kubeflow[name] for name in STAGES} == by_dvc
