"""The small parts of a run: lock, fork server, progress, checks, parameters of a stage."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.contracts.errors import OrchestrationError, ParamsError
from components.contracts.load_params import load_params
from components.tracking.events import SpoolSink, spool_path
from pipelines import doctor
from pipelines.console import PlainPicture, metrics_text, open_picture, seconds_text
from pipelines.follow import Follower, StageView
from pipelines.forkserver import open_listener
from pipelines.plan import differences
from pipelines.registry import STAGES
from pipelines.runlock import holder, read_owner, run_lock
from pipelines.stage_params import sections, stage_params
from pipelines.waiting import wait_until
from pipelines.workspace import Workspace, find_workspace, profile_path, stage_named
from tests.unit.pipelines import toy

ROOT = Path(__file__).resolve().parents[3]


# The lock.


def test_the_lock_is_held_by_one_and_free_after(tmp_path: Path) -> None:
    said: list[str] = []
    path = tmp_path / "lock"
    with run_lock(path, "first", 0, said.append) as owner:
        assert holder(path) == owner
        with pytest.raises(OrchestrationError, match="first"), run_lock(path, "second", 0.1, said.append):
            pytest.fail("two owners")
    assert holder(path) is None and read_owner(path) is None
    with run_lock(path, "third", 0, said.append):
        pass
    assert [line for line in said if "taking over" in line] == []


def test_a_lock_whose_owner_died_is_taken_over_visibly(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    code = (
        "import os, sys; from pathlib import Path; from pipelines.runlock import run_lock\n"
        "with run_lock(Path(sys.argv[1]), 'the dead one', 0, print): os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)], cwd=ROOT).returncode == -signal.SIGKILL
    assert holder(path) is None
    said: list[str] = []
    with run_lock(path, "next", 0, said.append):
        assert len(said) == 1 and said[0].startswith("taking over from the dead one")


def test_an_error_inside_the_lock_frees_it_and_leaves_the_name(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with pytest.raises(ZeroDivisionError), run_lock(path, "broken", 0, print):
        _ = 1 / 0
    owner = read_owner(path)
    assert holder(path) is None and owner is not None and owner.what == "broken"


# The fork server.


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[Path, subprocess.Popen[bytes], Path]]:
    toy.write_recipe(tmp_path / "recipe", toy.STAGES)
    listener = open_listener(tmp_path / "fork.sock")
    process = subprocess.Popen(
        [sys.executable, "-m", "pipelines.forkserver", str(listener.fileno()), str(os.getpid())],
        pass_fds=[listener.fileno()], env=toy.environment(), cwd=tmp_path,
    )  # fmt: skip
    listener.close()
    yield tmp_path / "fork.sock", process, tmp_path / "recipe"
    process.kill()
    process.wait()


def step(server: tuple[Path, subprocess.Popen[bytes], Path], stage: str) -> subprocess.CompletedProcess[str]:
    path, _, root = server
    env = {**toy.environment(), "COWORK_FORKSERVER": str(path)}
    return subprocess.run(
        [sys.executable, "-m", "pipelines.cli", "step", stage],
        cwd=root,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_fork_server_runs_stages_with_the_callers_output_and_exit_code(
    server: tuple[Path, subprocess.Popen[bytes], Path],
) -> None:
    done = step(server, "forge")
    assert done.returncode == 0 and done.stdout == "forge says hello\n"
    (server[2] / "knobs.json").write_text('{"fail": "forge"}')
    done = step(server, "forge")
    assert done.returncode == 4 and "the toy is broken" in done.stderr


def test_a_stage_is_the_same_through_the_server_and_alone(server: tuple[Path, subprocess.Popen[bytes], Path]) -> None:
    root = server[2]
    assert step(server, "forge").returncode == 0
    text = (root / "outputs/tasks/data.txt").read_text()
    shutil.rmtree(root / "outputs")
    assert toy.cowork(root, "step", "forge").returncode == 0
    assert (root / "outputs/tasks/data.txt").read_text() == text


def test_a_garbled_request_does_not_end_the_server(server: tuple[Path, subprocess.Popen[bytes], Path]) -> None:
    for garbage in (b"not json\n", b"[]\n", b""):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(server[0]))
            connection.sendall(garbage)
    assert step(server, "forge").returncode == 0
    assert server[1].poll() is None


def test_a_dead_server_does_not_keep_a_stage_from_running(server: tuple[Path, subprocess.Popen[bytes], Path]) -> None:
    server[1].kill()
    server[1].wait()
    assert step(server, "forge").returncode == 0


def test_the_socket_is_the_users_own(server: tuple[Path, subprocess.Popen[bytes], Path]) -> None:
    assert server[0].stat().st_mode & 0o077 == 0


# Progress.


def test_a_stage_is_followed_from_its_spool(tmp_path: Path) -> None:
    follower = Follower(tmp_path, ["rl"])
    with SpoolSink(spool_path(tmp_path, "rl", 1)) as sink:
        sink.start("rl", 1, "key")
        sink.metric("reward", 0.5, 1)
        sink.progress(10, 10, "iterations")
        follower.look()
        view = follower.views["rl"]
        assert (view.state, view.done, view.total, view.metrics) == ("running", 10, 10, {"reward": 0.5})
        assert follower.running is view
        sink.end("finished", metrics={"success": 0.75})
    assert [event["k"] for _, event in follower.look()] == ["end"]
    assert view.state == "finished" and view.metrics["success"] == 0.75 and follower.running is None


def test_rate_and_time_left_come_from_the_last_seconds() -> None:
    view = StageView("midtrain")
    view.feed({"k": "start", "t": 0})
    for second in range(60):
        done = second if second < 30 else 30 + 2 * (second - 30)
        view.feed({"k": "progress", "t": second * 1000, "done": done, "total": 188, "unit": "steps"})
    assert view.rate == pytest.approx(2.0)
    assert view.left == pytest.approx(50.0)


def test_nothing_is_promised_before_two_looks() -> None:
    view = StageView("midtrain")
    view.feed({"k": "progress", "t": 0, "done": 1, "total": 10})
    assert view.rate is None and view.left is None


def test_plain_lines_tell_start_progress_and_end() -> None:
    now = [0.0]
    out = io.StringIO()
    picture = PlainPicture(out, clock=lambda: now[0])
    view = StageView("rl")
    for at, event in (
        (0, {"k": "start", "t": 0, "attempt": 2}),
        (1, {"k": "progress", "t": 1000, "done": 1, "total": 9, "unit": "iterations"}),
        (20, {"k": "progress", "t": 20000, "done": 3, "total": 9, "unit": "iterations"}),
        (30, {"k": "end", "t": 30000, "status": "finished", "seconds": 30.0, "metrics": {"success": 0.5}}),
    ):
        now[0] = float(at)
        view.feed(event)
        picture.news(view, event)
    assert out.getvalue().splitlines() == [
        "rl: started, attempt 2",
        "rl: 3/9 iterations  6.3/min  57s left",
        "rl: finished in 30s  success 0.5",
    ]


def test_without_a_terminal_there_are_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert isinstance(open_picture({}), PlainPicture)


@pytest.mark.parametrize("seconds, text", [(None, ""), (0.4, "0s"), (59.6, "1m00s"), (3725, "1h02m")])
def test_durations_are_short(seconds: float | None, text: str) -> None:
    assert seconds_text(seconds) == text


def test_the_chief_figures_come_first() -> None:
    assert metrics_text({"by_skill.rename": 1.0, "loss": 0.25, "lr": 0.001}, 2) == "lr 0.001  loss 0.25"


# Checks of the machine.


def test_too_little_space_stops_a_run_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy.write_recipe(tmp_path / "recipe", toy.STAGES)
    workspace = Workspace(tmp_path / "recipe")
    assert {c.level for c in doctor.quick_checks(workspace, toy.STAGES, True)} <= {"ok", "warning"}
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**10, 10**10, 10**8))  # type: ignore[attr-defined]
    with pytest.raises(OrchestrationError, match="0.1 GB free.*\n.*free some space"):
        doctor.require(doctor.quick_checks(workspace, toy.STAGES, True))


def test_no_confinement_stops_a_run_unless_told_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from components.sandbox import confine

    monkeypatch.setattr(confine, "detect", lambda: confine.Probe("none", "bwrap: not installed", confine.REMEDY, False))
    toy.write_recipe(tmp_path / "recipe", toy.STAGES)
    workspace = Workspace(tmp_path / "recipe")
    with pytest.raises(OrchestrationError, match="apt install bubblewrap"):
        doctor.require(doctor.quick_checks(workspace, toy.STAGES, False))
    doctor.require(doctor.quick_checks(workspace, toy.STAGES, True))


def test_a_missing_base_and_a_missing_package_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy.write_recipe(tmp_path / "recipe", toy.STAGES)
    (tmp_path / "recipe" / "given").unlink()
    monkeypatch.setitem(doctor.NEEDED, "no_such_package", "train")
    text = doctor.text(doctor.quick_checks(Workspace(tmp_path / "recipe"), toy.STAGES, True))
    assert "missing: given" in text and "missing: no_such_package" in text and "make env" in text


# Parameters of a stage, places, names.


def test_a_stage_sees_its_own_sections_only() -> None:
    params = load_params(ROOT / "params.yaml")
    seen = stage_params(params, STAGES["collect-gui"])
    assert seen.collect.gui == params.collect.gui and seen.context == params.context and seen.seed == params.seed
    with pytest.raises(AttributeError):
        _ = seen.rl
    with pytest.raises(AttributeError):
        _ = seen.collect.hybrid
    assert set(sections(params, STAGES["collect-gui"])) == {"seed", "collect.gui", "context", "model"}


def test_a_difference_is_told_leaf_by_leaf() -> None:
    old = {"lr": 0.1, "group": 8, "routes": ["a"], "gone": 1, "small": "1e-05"}
    new = {"lr": 0.2, "group": 8, "routes": ["a", "b"], "fresh": 1, "small": 1e-05}
    assert differences(old, new, "rl") == [
        "rl.fresh is new", "rl.gone is gone", "rl.lr: 0.1 -> 0.2", "rl.routes: ['a'] -> ['a', 'b']",
    ]  # fmt: skip
    assert differences(True, 1, "x") == ["x: True -> 1"]


def test_the_recipe_is_found_from_a_folder_inside_it(tmp_path: Path) -> None:
    toy.write_recipe(tmp_path / "recipe", toy.STAGES)
    (tmp_path / "recipe" / "deep" / "er").mkdir(parents=True)
    assert find_workspace(tmp_path / "recipe" / "deep" / "er").root == (tmp_path / "recipe").resolve()
    with pytest.raises(OrchestrationError, match="no recipe here"):
        find_workspace(tmp_path)


def test_misspelt_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(OrchestrationError, match="did you mean 'hybrid-sft'"):
        stage_named("hybrid_sft", STAGES)
    with pytest.raises(ParamsError, match="did you mean 'smoke'"):
        profile_path("smok")


def test_waiting_ends_at_its_deadline_and_at_once_when_there_is_nothing_to_wait_for() -> None:
    answers = iter([False, False, True])
    assert wait_until(lambda: next(answers), 5.0, 0.001) is True
    assert wait_until(lambda: False, 0.01) is False


def test_the_status_of_a_recipe_that_never_ran_says_how_to_start(tmp_path: Path) -> None:
    toy.write_recipe(tmp_path / "recipe", toy.STAGES)
    assert "cowork run" in toy.cowork(tmp_path / "recipe", "status").stdout
    report = toy.cowork(tmp_path / "recipe", "report", "--json")
    assert report.returncode == 0
    assert json.loads(report.stdout)["stages"]["rl"]["success"] is None
