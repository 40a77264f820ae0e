"""`cowork run` on a small recipe of toy stages: real processes, real DVC, real kills."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.tracking.lineage import RunRecord
from pipelines.dvcfiles import content, read_lock
from pipelines.processes import alive
from pipelines.waiting import wait_until
from tests.unit.pipelines import toy

MODELS = "outputs/models/midtrain"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe that ran through, undisturbed."""
    root = tmp_path_factory.mktemp("finished") / "recipe"
    toy.write_recipe(root, toy.STAGES)
    done = toy.cowork(root, "run", "--no-mlflow", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["executed"] == list(toy.STAGES)
    return root


@pytest.fixture
def recipe(finished: Path, tmp_path: Path) -> Path:
    """A copy of it for a test to disturb."""
    shutil.copytree(finished, tmp_path / "recipe", symlinks=True, ignore=shutil.ignore_patterns("fork.sock"))
    return tmp_path / "recipe"


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """A recipe in which nothing ran yet."""
    toy.write_recipe(tmp_path / "recipe", toy.STAGES)
    return tmp_path / "recipe"


@pytest.fixture
def paused(fresh: Path) -> Iterator[tuple[Path, subprocess.Popen[str], dict[str, int]]]:
    """A run whose `midtrain` hangs in its sixth step, with a worker of its own."""
    (fresh / "knobs.json").write_text('{"pause": "midtrain"}')
    process = subprocess.Popen(
        [sys.executable, "-m", "pipelines.cli", "run", "--no-mlflow"],
        cwd=fresh, env=toy.environment(), text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        # Who runs the tests in the background ignores Ctrl-C, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    note = fresh / "lingering.json"
    try:
        assert wait_until(lambda: note.is_file() and note.read_text().endswith("}"), 60), (
            "the stage never came to its pause"
        )
        yield fresh, process, json.loads(note.read_text())
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def result(root: Path, *arguments: str) -> dict[str, Any]:
    done = toy.cowork(root, *arguments, "--no-mlflow", "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def all_gone(*pids: int) -> bool:
    return wait_until(lambda: not any(alive(pid) for pid in pids), 10)


def model_text(root: Path) -> str:
    return (root / MODELS / "weights.txt").read_text()


# What is run.


def test_a_second_run_does_nothing(recipe: Path) -> None:
    before = sorted((recipe / ".cowork" / "runs").iterdir())
    outcome = result(recipe, "run")
    assert outcome["status"] == "nothing" and outcome["executed"] == []
    assert sorted((recipe / ".cowork" / "runs").iterdir()) == before, "a run that does nothing leaves no record"


def test_a_changed_parameter_reruns_its_stage_and_what_depends_on_it_only(recipe: Path) -> None:
    outcome = result(recipe, "run", "--set", "midtrain.steps=99")
    assert outcome["executed"] == ["midtrain", "evaluate-midtrain"]
    assert outcome["reused"] == ["forge", "feedback"]


def test_the_old_parameter_brings_the_old_outputs_back_without_work(recipe: Path) -> None:
    before = content(recipe / MODELS)
    result(recipe, "run", "--set", "midtrain.steps=99")
    outcome = result(recipe, "run", "--set", "midtrain.steps=260")
    assert outcome["executed"] == [] and content(recipe / MODELS) == before


def test_a_bad_parameter_stops_everything_before_any_work(recipe: Path) -> None:
    text = (recipe / "params.yaml").read_text()
    (recipe / "params.yaml").write_text(text.replace("  gate:", "  gates:"))
    done = toy.cowork(recipe, "run", "--no-mlflow")
    assert done.returncode == 2
    assert "forge.gates" in done.stderr and "did you mean 'forge.gate'" in done.stderr
    done = toy.cowork(recipe, "run", "--set", "rl.lr=quick")
    assert done.returncode == 2 and (recipe / "params.yaml").read_text() == text.replace("  gate:", "  gates:")


def test_one_stage_brings_only_what_it_needs_up_to_date(fresh: Path) -> None:
    outcome = result(fresh, "run", "--stage", "feedback")
    assert outcome["executed"] == ["forge", "feedback"]


def test_an_unknown_stage_is_refused_with_the_nearest_name(recipe: Path) -> None:
    done = toy.cowork(recipe, "rerun", "midtrian")
    assert done.returncode == 6 and "did you mean 'midtrain'" in done.stderr


def test_a_forced_stage_with_the_same_output_moves_nothing_after_it(recipe: Path) -> None:
    outcome = result(recipe, "rerun", "forge")
    assert outcome["executed"] == ["forge"]


def test_a_forced_stage_with_another_output_moves_what_depends_on_it(recipe: Path) -> None:
    (recipe / "knobs.json").write_text('{"salt": "another"}')
    outcome = result(recipe, "rerun", "forge")
    assert sorted(outcome["executed"]) == sorted(toy.STAGES)


def test_forcing_a_stage_whose_input_was_deleted_makes_the_input_first(recipe: Path) -> None:
    shutil.rmtree(recipe / "outputs" / "tasks")
    outcome = result(recipe, "rerun", "midtrain")
    assert "midtrain" in outcome["executed"] and (recipe / "outputs" / "tasks").is_dir()


def test_a_profile_runs_beside_and_leaves_the_outputs_alone(recipe: Path) -> None:
    before = content(recipe / MODELS)
    text = (recipe / "params.yaml").read_text().replace("profile: tiny", "profile: other")
    (recipe / "other.yaml").write_text(text)
    outcome = result(recipe, "run", "--profile", "other.yaml", "--set", "midtrain.steps=3")
    assert "midtrain" in outcome["executed"]
    side = recipe / ".cowork" / "profiles" / "other"
    assert '"steps": 3' in model_text(side)
    assert content(recipe / MODELS) == before and "steps: 260" in (recipe / "params.yaml").read_text()


def test_a_recorded_profile_is_refused_with_the_reason(recipe: Path) -> None:
    done = toy.cowork(recipe, "run", "--profile", "b200")
    assert done.returncode == 2 and "microsoft/Mage-VL" in done.stderr


def test_the_plan_gives_reasons(recipe: Path) -> None:
    def plan(*arguments: str) -> dict[str, dict[str, Any]]:
        return {s["stage"]: s for s in json.loads(toy.cowork(recipe, *arguments, "--json").stdout)["stages"]}

    assert {s["action"] for s in plan("plan").values()} == {"keep"}
    changed = plan("plan", "--set", "midtrain.lr=0.001")
    assert changed["midtrain"]["reasons"] == ["param midtrain.lr: 0.0015 -> 0.001"]
    assert changed["evaluate-midtrain"]["action"] == "maybe" and changed["feedback"]["action"] == "keep"
    (recipe / "outputs" / "tasks" / "data.txt").write_text("edited")
    edited = plan("plan")
    assert edited["forge"]["reasons"] == ["output outputs/tasks was changed by hand"]
    assert "input outputs/tasks changed" in edited["feedback"]["reasons"]
    forced = plan("rerun", "feedback", "--dry-run")
    assert forced["feedback"]["reasons"][0] == "asked for" and "midtrain" not in forced


# What is recorded.


def test_digests_are_those_of_dvc(finished: Path) -> None:
    locked = read_lock(finished / "dvc.lock")
    seen = {path: digest for stage in locked.values() for path, digest in (stage.outs | stage.deps).items()}
    assert set(seen) == {"outputs/tasks", MODELS, "outputs/scores/midtrain", "outputs/feedback", "given"}
    for path, digest in seen.items():
        found = content(finished / path)
        assert found is not None and found.digest == digest


def test_the_run_record_names_every_digest_and_where_the_work_was_done(recipe: Path) -> None:
    outcome = result(recipe, "run", "--set", "midtrain.steps=99")
    record = RunRecord.load(recipe / ".cowork" / "runs" / outcome["run"])
    assert record.status == "finished" and record.commit and record.params["midtrain"]["steps"] == 99
    states = {entry.name: entry.status for entry in record.stages}
    assert states == {"forge": "reused", "midtrain": "finished", "evaluate-midtrain": "finished", "feedback": "reused"}
    train = record.stage("midtrain")
    assert [a.digest for a in record.stage("forge").outputs] == [a.digest for a in train.inputs if a.name == "tasks"]
    assert train.outputs[0].kind == "checkpoint" and train.outputs[0].digest.startswith("md5:")
    assert record.stage("forge").seconds > 0, "a reused stage keeps the time of its real run"


def test_nothing_of_the_work_is_left_after_success(finished: Path) -> None:
    assert list((finished / ".cowork" / "work").rglob("*.txt")) == []


def test_a_step_alone_gives_what_it_gives_in_a_run(recipe: Path) -> None:
    before = content(recipe / MODELS)
    shutil.rmtree(recipe / MODELS)
    done = toy.cowork(recipe, "step", "midtrain")
    assert done.returncode == 0, done.stderr
    assert content(recipe / MODELS) == before
    assert result(recipe, "run")["status"] == "nothing"


def test_a_step_without_its_input_names_the_stage_that_makes_it(recipe: Path) -> None:
    shutil.rmtree(recipe / "outputs" / "tasks")
    done = toy.cowork(recipe, "step", "midtrain")
    assert done.returncode == 4 and "cowork run --stage forge" in done.stderr


# What goes wrong.


def test_a_failing_stage_is_told_with_its_log_and_the_next_command_and_keeps_the_others(fresh: Path) -> None:
    (fresh / "knobs.json").write_text('{"fail": "evaluate-midtrain"}')
    done = toy.cowork(fresh, "run", "--no-mlflow")
    assert done.returncode == 6
    assert "stage evaluate-midtrain failed" in done.stdout
    assert "shard 3: the toy is broken (turn the knob back)" in done.stdout
    assert "evaluate-midtrain says hello" in done.stdout and "`cowork run`" in done.stdout
    (fresh / "knobs.json").unlink()
    outcome = result(fresh, "run")
    assert outcome["executed"] == ["evaluate-midtrain", "feedback"]


def test_a_killed_stage_goes_on_where_it_was_and_ends_as_if_nothing_had_happened(
    paused: tuple[Path, subprocess.Popen[str], dict[str, int]], finished: Path
) -> None:
    root, process, pids = paused
    os.kill(pids["stage"], signal.SIGKILL)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 6 and "stage midtrain killed" in output
    assert all_gone(pids["stage"], pids["worker"], pids["parent"])
    (root / "knobs.json").unlink()
    outcome = result(root, "run")
    assert outcome["executed"] == ["midtrain", "evaluate-midtrain", "feedback"]
    record = RunRecord.load(root / ".cowork" / "runs" / outcome["run"])
    assert record.stage("midtrain").metrics["resumed_at"] == 5.0 and record.stage("midtrain").attempt == 2
    assert record.stage("forge").status == "finished", "made by this run, before the kill"
    assert len(list((root / ".cowork" / "runs").glob("*/run.json"))) == 1, "the run goes on, it is not another one"
    assert model_text(root) == model_text(finished)
    assert read_lock(root / "dvc.lock") == read_lock(finished / "dvc.lock")


def test_a_killed_cowork_leaves_nothing_running_and_the_next_run_goes_on(
    paused: tuple[Path, subprocess.Popen[str], dict[str, int]], finished: Path
) -> None:
    root, process, pids = paused
    process.kill()
    process.wait()
    assert all_gone(pids["stage"], pids["worker"], pids["parent"])
    assert wait_until(lambda: not processes_of(root), 10), processes_of(root)
    (root / "knobs.json").unlink()
    done = toy.cowork(root, "run", "--no-mlflow", "--json")
    assert done.returncode == 0 and "taking over from" in done.stderr
    assert json.loads(done.stdout)["executed"] == ["midtrain", "evaluate-midtrain", "feedback"]
    assert model_text(root) == model_text(finished)


def test_a_run_stopped_by_the_user_says_so_and_leaves_nothing_running(
    paused: tuple[Path, subprocess.Popen[str], dict[str, int]],
) -> None:
    root, process, pids = paused
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 130 and "`cowork run` continues" in output
    assert all_gone(pids["stage"], pids["worker"], pids["parent"])


def test_two_runs_at_once_the_second_waits_then_stops_with_a_message(
    paused: tuple[Path, subprocess.Popen[str], dict[str, int]],
) -> None:
    root, process, _ = paused
    done = toy.cowork(root, "run", "--no-mlflow", "--wait", "0.3")
    assert done.returncode == 6
    assert "waiting for" in done.stdout and f"process {process.pid}" in done.stderr
    status = toy.cowork(root, "status")
    assert "midtrain" in status.stdout and "running" in status.stdout and "/10 steps" in status.stdout


def test_a_machine_that_is_not_ready_is_refused_with_the_remedy(fresh: Path) -> None:
    shutil.rmtree(fresh / ".git")
    done = toy.cowork(fresh, "run", "--no-mlflow")
    assert done.returncode == 6 and "git init" in done.stderr
    assert not (fresh / "outputs").exists()
    assert toy.cowork(fresh, "doctor").returncode == 6


def processes_of(root: Path) -> list[str]:
    """Command lines of processes that work in this recipe folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cwd").resolve().is_relative_to(root):
                    found.append((entry / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
    return found
