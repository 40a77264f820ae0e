"""What a killed run leaves of DVC's locks and of sockets does not stop the next one."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipelines.dvc_locks import release_dead_locks
from pipelines.forkserver import open_listener, socket_address
from pipelines.waiting import wait_until


def write_lock(root: Path, pid: int) -> Path:
    path = root / ".dvc" / "tmp" / "rwlock"
    path.parent.mkdir(parents=True)
    entry = {"pid": pid, "cmd": "dvc repro"}
    path.write_text(json.dumps({"write": {"/a": entry, "/b": {}}, "read": {"/c": [entry]}}))
    return path


def test_the_lock_of_a_zombie_is_released(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    try:
        stat = Path(f"/proc/{child}/stat")
        assert wait_until(lambda: ") Z " in stat.read_text(), 5), "the child never became a zombie"
        path = write_lock(tmp_path, child)
        assert release_dead_locks(tmp_path) == ["dvc repro"]
        assert json.loads(path.read_text()) == {"write": {}, "read": {}}
    finally:
        os.waitpid(child, 0)


def test_the_lock_of_a_process_id_that_another_program_got_is_released(tmp_path: Path) -> None:
    other = subprocess.Popen(["sleep", "60"])
    try:
        write_lock(tmp_path, other.pid)
        assert wait_until(lambda: Path(f"/proc/{other.pid}/cmdline").read_bytes().startswith(b"sleep"), 5)
        assert release_dead_locks(tmp_path) == ["dvc repro"]
    finally:
        other.kill()
        other.wait()


def test_the_lock_of_a_dvc_at_work_stays(tmp_path: Path) -> None:
    living = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "dvc", "repro"])
    try:
        path = write_lock(tmp_path, living.pid)
        before = path.read_text()
        time.sleep(0.2)  # until it is the program that it was started as
        assert release_dead_locks(tmp_path) == [] and path.read_text() == before
    finally:
        living.kill()
        living.wait()


@pytest.mark.parametrize("text", ["", '{"write": {"/a"', "[]", '{"write": {"/a": {"pid": "x"}}, "read": {}}'])
def test_a_lock_file_cut_off_by_a_kill_is_removed(tmp_path: Path, text: str) -> None:
    path = tmp_path / ".dvc" / "tmp" / "rwlock"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert release_dead_locks(tmp_path)
    assert not path.exists()


def test_a_folder_without_locks_is_left_alone(tmp_path: Path) -> None:
    assert release_dead_locks(tmp_path) == [] and list(tmp_path.iterdir()) == []


def test_a_socket_may_lie_deeper_than_the_kernel_takes_a_path(tmp_path: Path) -> None:
    path = tmp_path / ("deep" * 20) / ("deeper" * 10) / "fork.sock"
    path.parent.mkdir(parents=True)
    assert len(os.fsencode(path)) > 107
    with open_listener(path) as listener, socket.socket(socket.AF_UNIX) as client:
        assert path.stat().st_mode & 0o077 == 0
        with socket_address(path) as address:
            client.connect(address)
        accepted, _ = listener.accept()
        accepted.close()
