"""The filter in front of a log: what a process and its children write, without secrets, also when it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from components.contracts.secrets import HIDDEN
from pipelines.waiting import wait_until

CANARY = "canary-4711-in-the-mine"
HEAD = """
import os, sys
from components.tracking.output import OutputFilter
output = OutputFilter().start()
"""


def run(tmp_path: Path, body: str, wait: bool = True) -> tuple[Path, subprocess.Popen[bytes]]:
    log = tmp_path / "log"
    env = {**os.environ, "MY_TOKEN": CANARY, "PYTHONPATH": os.getcwd()}
    with log.open("wb") as handle:
        process = subprocess.Popen([sys.executable, "-c", HEAD + body], stdout=handle, stderr=handle, env=env)
    if wait:
        assert process.wait(60) == 0, log.read_text()
    return log, process


def test_output_of_the_process_its_children_and_its_libraries_is_filtered(tmp_path: Path) -> None:
    body = """
token = os.environ["MY_TOKEN"]
print("printed", token)
print("err", token, file=sys.stderr)
os.write(2, b"raw " + token.encode() + b"\\n")
os.system("echo child $MY_TOKEN")
print("half of a line", end="")
output.finish()
"""
    log, _ = run(tmp_path, body)
    text = log.read_text()
    assert sorted(text.splitlines()) == sorted(
        [f"printed {HIDDEN}", f"err {HIDDEN}", f"raw {HIDDEN}", f"child {HIDDEN}", "half of a line"]
    )


def test_all_is_on_disk_when_finish_returns_though_a_child_holds_on(tmp_path: Path) -> None:
    body = f"""
pid = os.fork()
if pid == 0:
    import time
    time.sleep(600)
print("last words")
output.finish()
assert open({str(tmp_path / "log")!r}).read() == "last words\\n"
os.kill(pid, 9)
os.waitpid(pid, 0)
"""
    run(tmp_path, body)


def test_the_last_words_of_a_killed_process_are_kept(tmp_path: Path) -> None:
    body = f"""
print("before the end", os.environ["MY_TOKEN"], flush=True)
open({str(tmp_path / "ready")!r}, "w").close()
import signal
signal.pause()
"""
    log, process = run(tmp_path, body, wait=False)
    assert wait_until(lambda: (tmp_path / "ready").exists(), 60)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert wait_until(lambda: log.read_text() == f"before the end {HIDDEN}\n", 60), log.read_text()


def test_a_private_key_over_many_lines_is_hidden_whole(tmp_path: Path) -> None:
    body = """
print("a\\n-----BEGIN EC PRIVATE KEY-----\\nMIIE1\\nMIIE2\\n-----END EC PRIVATE KEY-----\\nb")
output.finish()
"""
    log, _ = run(tmp_path, body)
    assert log.read_text() == f"a\n{HIDDEN}\nb\n"


def test_bytes_that_are_no_text_and_very_long_lines_pass(tmp_path: Path) -> None:
    body = """
os.write(1, b"\\xff\\xfe\\n" + b"x" * 300000 + b"\\n")
output.finish()
"""
    log, _ = run(tmp_path, body)
    data = log.read_bytes()
    assert data.startswith(b"\xff\xfe\n") and data.replace(b"\n", b"").count(b"x") == 300000


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_group_ends_the_process_and_not_the_filter(tmp_path: Path, signal_number: int) -> None:
    """As from a terminal: the goodbye of the process still arrives."""
    body = f"""
import signal
def bye(*_):
    print("bye", flush=True)
    output.finish()
    os._exit(0)
signal.signal({signal_number}, bye)
open({str(tmp_path / "ready")!r}, "w").close()
while True:
    signal.pause()
"""
    log, process = run(tmp_path, body, wait=False)
    assert wait_until(lambda: (tmp_path / "ready").exists(), 60)
    process.send_signal(signal_number)
    assert process.wait(60) == 0 and log.read_text() == "bye\n"
