"""kfp.local itself on the compiled recipe, with toy stages: processes, caching, failures, leftovers."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from components.contracts.errors import OrchestrationError, ParamsError
from pipelines.local_kfp import plain_log, run_local
from pipelines.processes import group_alive
from pipelines.registry import STAGES
from pipelines.waiting import wait_until
from pipelines.workspace import SOURCE


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COWORK_REGISTRY", "tests.unit.kfp.toys:STAGES")
    monkeypatch.setenv("COWORK_PRELOAD", "json")
    (tmp_path / "system-tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "system-tmp"))
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "model.safetensors").write_bytes(b"weights")
    text = (SOURCE / "params.yaml").read_text().replace("base: components/training/base", f"base: {tmp_path / 'base'}")
    (tmp_path / "toy.yaml").write_text(text.replace("profile: tiny", "profile: toy"))
    return str(tmp_path / "toy.yaml")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_second_run_executes_only_what_a_changed_parameter_touches(profile: str, tmp_path: Path) -> None:
    first = run_local(profile, tmp_path / "kfp", seed=3, caching=True)
    assert set(first.digests) == {"base", *STAGES}
    assert first.reused == ()
    assert (tmp_path / "kfp" / "run" / "spool" / "rl.1.jsonl").is_file()

    second = run_local(profile, tmp_path / "kfp", seed=3, caching=True, overrides={"rl.lr": 0.0002}, preload=False)
    touched = {"rl", "evaluate-rl", "gate-scores", "feedback", "report"}  # a toy gate tells what it saw, a real one not
    assert set(second.reused) == {"base", *STAGES} - touched
    assert set(second.digests) == touched
    assert all(second.digests[name] != first.digests[name] for name in touched)
    assert list((tmp_path / "system-tmp").iterdir()) == []


@pytest.mark.slow
def test_a_failing_task_ends_the_run_with_its_own_words(profile: str, tmp_path: Path) -> None:
    with pytest.raises(OrchestrationError, match="task forge failed: .*VerifierError: .*this will not change"):
        run_local(profile, tmp_path / "kfp", seed=13)


def test_bad_parameters_are_refused_before_any_stage(profile: str, tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match="overrides"):
        run_local(profile, tmp_path / "kfp", overrides={"a": "x" * 20_000})
    assert not (tmp_path / "kfp").exists()
    with pytest.raises(OrchestrationError, match=r"task configure failed: .*rl\.iterations"):
        run_local(profile, tmp_path / "kfp", overrides={"rl.iteration": 3}, preload=False)
    assert not (tmp_path / "kfp" / "store").exists()


def test_an_interrupted_run_leaves_no_process(profile: str, tmp_path: Path) -> None:
    code = (
        f"from pathlib import Path; from pipelines import local_kfp as k; import signal; signal.signal(15, k._stop); \
k.run_local({profile!r}, Path({str(tmp_path / 'kfp')!r}), preload=False)"
    )
    runner = subprocess.Popen(
        [sys.executable, "-c", code], cwd=SOURCE, start_new_session=True, stderr=subprocess.DEVNULL
    )
    log = tmp_path / "kfp" / "log.txt"
    assert wait_until(lambda: log.exists() and "Executing task" in plain_log(log), 240)
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(runner.pid)], capture_output=True, text=True)
    (child,) = map(int, children.stdout.split())
    runner.send_signal(signal.SIGTERM)
    assert runner.wait(60) != 0
    assert not group_alive(child)
