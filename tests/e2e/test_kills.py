"""Every training stage of the real recipe, killed in the middle: the next run ends with the same weights."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from components.contracts.digests import digest_tree
from components.contracts.load_params import edit_text
from components.tracking.events import list_spools, read_events, start_of
from pipelines.processes import alive
from pipelines.registry import BASE, SFT_STAGES, STAGES, TRAIN_STAGES
from pipelines.step import stage_environment
from pipelines.waiting import wait_until
from pipelines.workspace import SOURCE, Workspace

SECONDS = 600.0
"""Far above what a stage takes; only one that hangs meets it."""


@pytest.fixture
def recipe(tmp_path: Path) -> Workspace:
    """A recipe folder with nearly the smoke profile's parameters, for the repository's code."""
    root = tmp_path / "recipe"
    (root / ".dvc").mkdir(parents=True)
    for name in ("dvc.yaml", ".dvc/config"):
        shutil.copyfile(SOURCE / name, root / name)
    text = (SOURCE / "pipelines/profiles/smoke.yaml").read_text(encoding="utf-8")
    for stage in SFT_STAGES:  # longer than smoke's, so that there is a middle to be killed in
        text = edit_text(text, f"{stage.replace('-', '_')}.steps", 12)
    (root / "params.yaml").write_text(edit_text(text, "rl.iterations", 4), encoding="utf-8")
    shutil.copytree(SOURCE / BASE, root / BASE)
    (root / ".gitignore").write_text("/.cowork/\n/outputs/\n/pipelines/\n")
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "t"]):
        subprocess.run(["git", "-C", str(root), *command], check=True, capture_output=True)
    return Workspace(root)


def environment() -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("COWORK_")}
    from components.sandbox.confine import detect

    if detect().confinement == "none":
        env["COWORK_UNCONFINED"] = "1"
    return stage_environment(env)


def command(*arguments: str) -> list[str]:
    unconfined = ["--unconfined"] if environment().get("COWORK_UNCONFINED") and arguments[0] == "run" else []
    return [sys.executable, "-m", "pipelines.cli", *arguments, *unconfined]


def stage_pid(workspace: Workspace, stage: str, done: int) -> int:
    """The process of a stage that has done so many of its units; 0 before it is that far."""
    for run in workspace.runs.glob("*"):
        for spool in reversed([s for s in list_spools(run) if s.stage == stage]):
            events = read_events(spool.path).events
            reached = max((int(e["done"]) for e in events if e["k"] == "progress"), default=0)
            pid = int(start_of(events).get("pid", 0))
            if reached >= done and alive(pid):
                return pid
    return 0


def kill_in(workspace: Workspace, stage: str, whom: str) -> None:
    """Start a run, and kill the stage's process, the run's, or both, once a first checkpoint must be written."""
    process = subprocess.Popen(
        command("run", "--stage", "rl", "--no-mlflow"), cwd=workspace.root, env=environment(),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    half = 2 if stage == "rl" else 4
    found = wait_until(lambda: stage_pid(workspace, stage, half) > 0 or process.poll() is not None, SECONDS)
    pid = stage_pid(workspace, stage, half)
    if not found or not pid:
        process.kill()
        pytest.fail(f"{stage} was never seen at work:\n{process.communicate()[0]}")
    if whom in ("run", "both"):
        process.kill()
    if whom in ("stage", "both"):
        os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert wait_until(lambda: not alive(pid), 10), "the stage outlived the run"


@pytest.mark.full
@pytest.mark.timeout(6 * SECONDS)
def test_killed_training_stages_end_with_the_weights_of_undisturbed_ones(recipe: Workspace) -> None:
    for stage, whom in zip(TRAIN_STAGES, ("stage", "run", "both", "stage", "run"), strict=True):
        kill_in(recipe, stage, whom)
    done = subprocess.run(
        command("run", "--stage", "rl", "--no-mlflow"), cwd=recipe.root, env=environment(),
        capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    attempts = {s.stage for run in recipe.runs.glob("*") for s in list_spools(run) if s.attempt > 1}
    assert attempts == set(TRAIN_STAGES), "each stage was killed once, and nothing else ran twice"
    disturbed = {stage: digest_tree(recipe.root / f"outputs/models/{stage}") for stage in TRAIN_STAGES}
    for stage in TRAIN_STAGES:
        shutil.rmtree(recipe.root / STAGES[stage].outputs["checkpoint"])
        alone = subprocess.run(
            command("step", stage), cwd=recipe.root, env=environment(), capture_output=True, text=True, timeout=SECONDS
        )
        assert alone.returncode == 0, alone.stdout + alone.stderr
        assert digest_tree(recipe.root / f"outputs/models/{stage}") == disturbed[stage], stage
