"""kill -9 of a client, of the service, of both: no sandbox is left. The service is the command that users start."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from components.contracts.calls import BashCall
from components.contracts.errors import SandboxError
from components.sandbox.pool.errors import LeaseEndedError, UnreachableError
from tests.unit.pool.kit import (
    ROOT,
    TOKEN,
    Service,
    descendants,
    environment,
    http,
    make_task,
    service,
    start_service,
    wait_for,
)

CLIENT = """
import signal, sys
from components.contracts.calls import BashCall
from components.sandbox.pool.client import PooledDesktop
from tests.unit.pool.kit import TOKEN, make_task
desktop = PooledDesktop(sys.argv[1], TOKEN, "minidesk", ttl=3.0)
desktop.reset(make_task("client"))
desktop.act(BashCall(command="setsid sleep 1000 & true"))
print("up", flush=True)
signal.pause()
"""


def start_client(url: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", CLIENT, url], cwd=ROOT, stdout=subprocess.PIPE, text=True,
        env=environment(),
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "up\n"
    return process


def status(running: Service) -> dict[str, object]:
    with http(running.url) as client:
        return dict(client.get("/status").json())


def folders(state: Path) -> list[str]:
    runs = state / "slots" / "minidesk"
    return sorted(os.listdir(runs)) if runs.exists() else []


def rows(state: Path) -> int:
    with sqlite3.connect(state / "leases.sqlite") as db:
        return int(db.execute("select (select count(*) from slots) + (select count(*) from leases)").fetchone()[0])


def test_kill_9_of_a_client_ends_its_lease_and_sandbox(tmp_path: Path) -> None:
    with service(tmp_path / "state", "--standby", "0") as running:
        client = start_client(running.url)
        before = descendants(running.process.pid)
        client.kill()
        client.wait()
        assert wait_for(lambda: status(running)["leases"] == [] and status(running)["sandboxes"] == 0, 30)
        assert wait_for(lambda: len(descendants(running.process.pid)) < len(before) and folders(running.state) == [])
        assert running.stop() == 0


def test_kill_9_of_the_service_and_its_client_leaves_nothing_that_the_next_life_does_not_remove(tmp_path: Path) -> None:
    running = start_service(tmp_path / "state", "--standby", "2")
    assert wait_for(lambda: status(running)["standby"] == {"minidesk": 2}, 30)
    client = start_client(running.url)
    everything = descendants(running.process.pid)
    assert len(everything) >= 6  # zygote, three slots, a confined shell and what it started
    client.kill()
    running.kill()
    client.wait()
    # The kernel ends the processes; nobody has to come by.
    assert wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in everything), 30)
    assert len(folders(tmp_path / "state")) == 3 and rows(tmp_path / "state") == 4
    again = start_service(tmp_path / "state", "--standby", "0")
    assert folders(again.state) == [] and rows(again.state) == 0
    with http(again.url) as look:
        text = look.get("/metrics").text
    assert 'cowork_pool_reaped_total{what="slot"} 3.0' in text and 'cowork_pool_reaped_total{what="lease"} 1.0' in text
    assert again.stop() == 0


def test_a_client_of_a_killed_service_is_told_and_may_lease_from_its_next_life(tmp_path: Path) -> None:
    running = start_service(tmp_path / "state", "--standby", "0")
    port = int(running.url.rpartition(":")[2])
    desktop = running.desktop(patience=0.3)
    desktop.reset(make_task("one"))
    running.kill()
    with pytest.raises(UnreachableError):
        desktop.act(BashCall(command="true"))
    again = start_service(tmp_path / "state", "--standby", "0", port=port)
    with pytest.raises(LeaseEndedError, match="restarted"):
        desktop.act(BashCall(command="true"))
    with pytest.raises(SandboxError):
        desktop.observe()
    desktop.reset(make_task("two"))
    assert desktop.act(BashCall(command="cat name.txt")).output == "two"
    desktop.close()
    assert again.stop() == 0


def test_the_death_of_the_process_that_makes_slots_costs_the_running_episodes_and_nothing_else(tmp_path: Path) -> None:
    with service(tmp_path / "state", "--standby", "1") as running:
        desktop = running.desktop()
        desktop.reset(make_task("one"))
        children = {p for p in descendants(running.process.pid) if b"zygote" in Path(f"/proc/{p}/cmdline").read_bytes()}
        os.kill(min(children), signal.SIGKILL)  # the zygote; its slots were forked later
        with pytest.raises(SandboxError):
            desktop.act(BashCall(command="true"))
        desktop.reset(make_task("two"))
        assert desktop.act(BashCall(command="cat name.txt")).output == "two"
        desktop.close()
        assert wait_for(lambda: status(running)["standby"] == {"minidesk": 1} and status(running)["sandboxes"] == 1, 30)


def test_one_state_folder_has_one_service_and_a_stop_ends_everything(tmp_path: Path) -> None:
    with service(tmp_path / "state", "--standby", "1") as running:
        second = subprocess.run(
            [*running.process.args[:-2], "--standby", "0"],  # type: ignore[index]
            cwd=ROOT, env=environment(COWORK_POOL_TOKEN=TOKEN), capture_output=True,
            text=True, timeout=60,
        )  # fmt: skip
        assert second.returncode == 3 and "another slot host" in second.stderr
        desktop = running.desktop()
        desktop.reset(make_task("x"))
        below = descendants(running.process.pid)
        assert running.stop() == 0
        assert not any(Path(f"/proc/{pid}").exists() for pid in below)
        assert folders(running.state) == [] and rows(running.state) == 0
        desktop.close()  # nobody answers any more; that is no error
