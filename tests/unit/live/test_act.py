"""`cowork act`, as a person runs it: real command line, real minidesk, a real HTTP endpoint or a real checkpoint."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from components.contracts.errors import DataError
from components.contracts.task import Check, SetupStep, Task
from components.contracts.trajectory import Trajectory
from components.rollout.live.permission import Permission, Question
from components.rollout.live.plain import one_line, plain
from components.rollout.live.risk import NONE, irreversible, unknown
from components.rollout.store import read_trajectories
from pipelines.live_slots import find_task
from pipelines.waiting import wait_until
from tests.unit.live.kit import DONE, bash, gui, speaker

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 120.0


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "pipelines.cli", *args]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "NO_PROXY": "127.0.0.1", **more}


def act(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Without a terminal to ask on."""
    return subprocess.run(
        command("act", *args), cwd=ROOT, env=environment(**env), stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=SECONDS, check=False,
    )  # fmt: skip


def stored(folder: Path) -> Trajectory:
    (trajectory,) = read_trajectories(folder)
    return trajectory


def task_file(folder: Path, **changes: Any) -> Path:
    fields: dict[str, Any] = {
        "skill": "s", "workflow": "w", "apps": (), "channels": (("terminal",),), "instruction": "remove old.txt",
        "wording": "w", "spec": {}, "split": "dev",
        "setup": (SetupStep(preparer="text_file", args={"path": "old.txt", "text": "x\n"}),),
        "verifier": (Check(check="file_absent", args={"path": "old.txt"}),),
    }  # fmt: skip
    path = folder / "task.json"
    path.write_text(Task.build(**{**fields, **changes}).model_dump_json())
    return path


def test_an_endpoint_s_policy_works_on_a_real_desktop_and_every_step_is_told_and_stored(tmp_path: Path) -> None:
    with speaker(bash("ls"), "I would click.", bash("mkdir made; ls -d made"), DONE) as told:
        done = act("make a folder", "--policy", told.base, "--model", "m", "--key-variable", "MY_KEY", "--out",
                   str(tmp_path / "ep"), MY_KEY="key-of-the-test-1")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "$ ls  -> done" in done.stdout and "it said: I would click." in done.stdout and "| made" in done.stdout
    assert told.keys == ["Bearer key-of-the-test-1"] * 4 and "key-of-the-test-1" not in done.stdout + done.stderr
    assert "welcome.txt" in told.told(1) and "Task: make a folder" in told.told(0), "the folding of training"
    trajectory = stored(tmp_path / "ep")
    assert [s.error for s in trajectory.steps] == ["", "missing_tool_call", "", ""]
    assert trajectory.ending == "terminated" and trajectory.source.startswith("endpoint:m@127.0.0.1")
    assert [s.output for s in trajectory.steps][2] == "made" and trajectory.steps[0].screen_after
    assert all(info["seconds"]["model"] >= 0 for info in trajectory.meta["steps"])


def test_without_a_person_a_deletion_is_refused_and_the_model_is_told_as_its_tools_answer(tmp_path: Path) -> None:
    path = task_file(tmp_path)
    with speaker(bash("rm old.txt"), bash("ls"), DONE) as told:
        done = act("--task", str(path), "--policy", told.base, "--model", "m", "--out", str(tmp_path / "ep"))
    assert done.returncode == 10 and "rm deletes: old.txt" in done.stdout, done.stdout
    answer = told.told(1)
    assert "<tool_response>\nerror: refused: not done" in answer and "rm deletes: old.txt" in answer
    assert "old.txt" in told.told(2).split("<tool_response>")[-1], "it is still there"
    trajectory = stored(tmp_path / "ep")
    assert trajectory.steps[0].error == "refused" and trajectory.steps[0].call is not None
    decision = trajectory.meta["steps"][0]["decision"]
    assert (decision["allowed"], decision["by"], decision["risk"]["kind"]) == (False, "nobody", "delete")
    assert trajectory.meta["steps"][1]["decision"] is None and not trajectory.verdict.success


def test_yes_lets_it_through_and_says_so_in_the_trajectory(tmp_path: Path) -> None:
    path = task_file(tmp_path)
    with speaker(bash("rm old.txt"), DONE) as told:
        done = act("--task", str(path), "--policy", told.base, "--model", "m", "--yes", "--out", str(tmp_path / "ep"))
    assert done.returncode == 0 and "the verifier agrees" in done.stdout, done.stdout
    trajectory = stored(tmp_path / "ep")
    assert trajectory.verdict.success and trajectory.meta["steps"][0]["decision"]["by"] == "--yes"


def test_refusals_are_no_unreadable_answers(tmp_path: Path) -> None:
    with speaker(*[bash("rm welcome.txt")] * 5, DONE) as told:
        done = act("x", "--policy", told.base, "--model", "m", "--max-steps", "9", "--out", str(tmp_path / "ep"))
    assert done.returncode == 0 and len(stored(tmp_path / "ep").steps) == 6, done.stdout


def test_a_refused_click_is_told_to_the_model_too(tmp_path: Path) -> None:
    with speaker(gui("key", keys=["delete"]), DONE) as told:
        act("x", "--policy", told.base, "--model", "m", "--out", str(tmp_path / "ep"))
    assert "error: refused: not done" in told.told(1) and "presses delete" in told.told(1)


class Terminal:
    """`cowork act` on a terminal of its own, with a person who reads and types."""

    def __init__(self, *args: str) -> None:
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            command("act", *args), cwd=ROOT, env=environment(), stdin=slave, stdout=slave, stderr=slave, close_fds=True,
            start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        os.set_blocking(self.master, False)
        self.text = ""

    def read(self, words: str) -> bool:
        def there() -> bool:
            try:
                self.text += os.read(self.master, 65536).decode(errors="replace")
            except OSError:
                pass
            return words in self.text

        return wait_until(there, SECONDS)

    def answer(self, text: str) -> None:
        assert self.read("[s]top: "), self.text
        self.text = ""
        os.write(self.master, text.encode() + b"\n")

    def end(self) -> int:
        self.read("stored: ")
        try:
            return self.process.wait(SECONDS)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            os.close(self.master)


def test_a_person_is_asked_and_yes_no_and_always_mean_what_they_say(tmp_path: Path) -> None:
    (path := tmp_path / "t").mkdir()
    steps = [bash("rm a; ls"), bash("rm b; ls"), bash("chmod -R 700 ."), bash("rm c; rm d"), DONE]
    with speaker(*steps) as told:
        person = Terminal("clean up", "--policy", told.base, "--model", "m", "--out", str(path / "ep"))
        person.answer("what?")
        person.answer("n")
        person.answer("always")
        person.answer("y")
        assert person.end() == 0
    decided = [info["decision"] for info in stored(path / "ep").meta["steps"]]
    assert [(d["by"], d["allowed"]) if d else None for d in decided] == [
        ("person", False), ("person", True), ("person", True), ("always", True), None
    ]  # fmt: skip
    assert "the user did not allow it: rm deletes: a" in told.told(1)


def test_stop_ends_the_episode_at_once_and_it_is_stored_as_stopped(tmp_path: Path) -> None:
    with speaker(bash("ls"), bash("rm welcome.txt"), DONE) as told:
        person = Terminal("clean up", "--policy", told.base, "--model", "m", "--out", str(tmp_path / "ep"))
        person.answer("s")
        assert person.end() == 10
        assert len(told.requests) == 2
    trajectory = stored(tmp_path / "ep")
    assert trajectory.ending == "stopped" and trajectory.meta["steps"][1]["decision"]["stop"]


def test_ctrl_c_while_it_asks_stores_what_there_is(tmp_path: Path) -> None:
    with speaker(bash("ls"), bash("rm welcome.txt")) as told:
        person = Terminal("clean up", "--policy", told.base, "--model", "m", "--out", str(tmp_path / "ep"))
        assert person.read("[s]top: "), person.text
        person.process.send_signal(signal.SIGINT)
        assert person.end() == 130
    trajectory = stored(tmp_path / "ep")
    assert trajectory.ending == "stopped" and len(trajectory.steps) == 1


def test_a_kill_loses_the_step_under_way_and_no_other(tmp_path: Path) -> None:
    with speaker(bash("ls"), bash("rm welcome.txt")) as told:
        person = Terminal("clean up", "--policy", told.base, "--model", "m", "--out", str(tmp_path / "ep"))
        assert person.read("[s]top: "), person.text
        person.process.kill()
        person.process.wait()
        os.close(person.master)
    assert len(stored(tmp_path / "ep").steps) == 1


def test_an_endpoint_that_fails_for_good_is_said_so_and_what_there_was_is_stored(tmp_path: Path) -> None:
    with speaker(bash("ls"), 401) as told:
        done = act("x", "--policy", told.base, "--model", "m", "--out", str(tmp_path / "ep"))
    assert done.returncode == 1 and "answered 401" in done.stderr and "Traceback" not in done.stderr
    trajectory = stored(tmp_path / "ep")
    assert trajectory.ending == "infra_error" and "401" in trajectory.meta["infra_error"] and len(trajectory.steps) == 1


def test_a_secret_that_the_model_read_is_not_in_what_is_stored(tmp_path: Path) -> None:
    token = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7t"
    with speaker(bash(f"echo {token}"), DONE) as told:
        act("x", "--policy", told.base, "--model", "m", "--out", str(tmp_path / "ep"))
        assert token in told.told(1), "the model itself sees its own output"
    assert token not in stored(tmp_path / "ep").model_dump_json()
    assert token.encode() not in (tmp_path / "ep" / "trajectories.parquet").read_bytes()


def test_a_folder_that_takes_nothing_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with speaker(bash("ls")) as told:
        done = act("x", "--policy", told.base, "--model", "m", "--out", str(tmp_path / "file" / "ep"))
    assert done.returncode == 4 and "cannot be stored" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.slow
def test_the_repository_s_own_checkpoint_acts_on_a_real_desktop(tmp_path: Path) -> None:
    """The base is aligned to point, not yet to act: whatever it says, the episode runs, ends and is stored."""
    done = act("open notes", "--policy", "base", "--max-steps", "4", "--out", str(tmp_path / "ep"))
    assert done.returncode in (0, 10), done.stderr
    trajectory = stored(tmp_path / "ep")
    assert trajectory.source.startswith("sha256:") and trajectory.harness == "gui" and 1 <= len(trajectory.steps) <= 4
    assert "Action:" in done.stdout and "stored:" in done.stdout


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("x",), 2, "which policy?"),
        ((" ", "--policy", "base"), 2, "what shall it do?"),
        (("x", "--policy", "bse"), 5, "did you mean 'base'"),
        (("x", "--policy", "http://127.0.0.1:1/v1"), 1, "name one with --model"),
        (("x", "--policy", "base", "--backend", "windows"), 2, "minidesk, x11"),
        (("x", "--policy", "base", "--size", "10x10"), 2, "--backend x11"),
        (("x", "--policy", "base", "--task", "nothing-here"), 4, "no such file"),
        (("x", "--policy", "base", "--profile", "tinny"), 2, "no profile"),
        (("x", "--policy", "http://a:b@127.0.0.1:1/v1", "--model", "m"), 2, "password"),
        (("x", "--policy", "http://127.0.0.1:1/v1", "--model", "m", "--key-variable", "NOT_SET_1"), 2, "NOT_SET_1"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line_with_what_to_do(args: tuple[str, ...], code: int, words: str) -> None:
    done = act(*args)
    assert done.returncode == code, done.stderr
    assert words in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_open_desktop_is_served_until_it_is_stopped_and_then_nothing_is_left(sent: signal.Signals) -> None:
    process = subprocess.Popen(
        command("desktop", "open", "--no-open"), cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        address = next(line for line in process.stdout if line.startswith("live view: ")).split()[2]
        assert next(line for line in process.stdout if "Ctrl-C ends" in line)
        with httpx.Client(trust_env=False, follow_redirects=True) as browser:
            assert "Take control" in browser.get(address).text
        process.send_signal(sent)
        out, err = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0 and "closing the desktop" in out and not err, err
    with pytest.raises(httpx.ConnectError), httpx.Client(trust_env=False) as client:
        client.get(address)


def test_text_of_a_model_cannot_move_the_cursor_or_hide_a_command() -> None:
    assert plain("a\x1b[2Kb\rc\x07") == "a<1b>[2Kb<d>c<7>" and plain("x\u202ey\u200bz") == "x<202e>y<200b>z"
    assert one_line("ls\nrm x") == "ls ⏎ rm x" and plain("é 你 →\n") == "é 你 →\n"


def test_careful_asks_about_the_unknown_and_others_do_not() -> None:
    asked: list[Question] = []

    def no(question: Question) -> Any:
        asked.append(question)
        return "no"

    usual, careful = Permission(no), Permission(no, careful=True)
    assert usual.decide(unknown("?"), "x").allowed and not careful.decide(unknown("?"), "x").allowed
    assert careful.decide(NONE, "x").allowed and not usual.decide(irreversible("delete", "d"), "x").allowed
    assert len(asked) == 2 and len(usual.decisions) == 2


def test_always_is_for_one_kind_and_one_episode() -> None:
    answers = iter(["always", "no"])
    permission = Permission(lambda _: next(answers))  # type: ignore[arg-type,return-value]
    assert permission.decide(irreversible("delete", "d"), "x").by == "person"
    assert permission.decide(irreversible("delete", "d"), "y").by == "always"
    assert not permission.decide(irreversible("network", "n"), "z").allowed


def test_help_teaches_and_is_quick() -> None:
    start = time.monotonic()
    done = act("--help")
    assert time.monotonic() - start < 10 and "Examples:" in done.stdout and "--careful" in done.stdout
    listed = subprocess.run(command("desktop", "record", "list", "--json", "--in", "nowhere"), cwd=ROOT,
                            env=environment(), capture_output=True, text=True, check=False)  # fmt: skip
    assert listed.returncode == 4 and json.dumps("nowhere").strip('"') in listed.stderr


def test_a_task_over_real_applications_is_found_by_skill_and_by_id() -> None:
    task = find_task("files-rename", None, "x11")
    assert task.skill == "files-rename"
    assert find_task(task.task_id, None, "x11") == find_task(task.task_id[7:15], None, "x11") == task
    for backend, name in (("minidesk", "files-rename"), ("x11", "no-such-skill")):
        with pytest.raises(DataError, match="no task"):
            find_task(name, None, backend)
