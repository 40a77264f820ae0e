"""Real desktops lent by the slot host: ready in advance, one for each episode, and none left whatever is killed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.contracts.calls import BashCall, ComputerUse
from components.contracts.errors import SandboxError
from components.contracts.task import CheckResult, Task, Verdict
from components.sandbox.x11.guest_calls import GuestCalls
from tests.unit.pool.kit import Service, http, make_task, service, start_service

from .conftest import wait_for
from .test_lifecycle import groups, sandboxes

ARGUMENTS = (
    "--backend", "x11", "--slots", "3", "--standby", "1",
    "--prepare", "tests.x11.test_pool:prepare", "--finish", "tests.x11.test_pool:finish",
    "--grade", "tests.x11.test_pool:grade",
)  # fmt: skip


def prepare(task: Task, guest: GuestCalls) -> None:
    guest.put("note.txt", task.instruction.encode())
    if task.spec.get("open"):
        assert guest.open(["mousepad", "note.txt"], "note.txt") is not None


def finish(task: Task, guest: GuestCalls) -> None:
    guest.act(ComputerUse(action="key", keys=("ctrl", "s")))


def grade(task: Task, guest: GuestCalls) -> Verdict:
    text = guest.get("note.txt").decode()
    passed = text.startswith("typed")
    return Verdict(success=passed, results=(CheckResult(check="note", passed=passed, reason=text),))


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(tmp_path_factory.mktemp("pool") / "state", *ARGUMENTS) as running:
        yield running


def standby(host: Service) -> int:
    with http(host.url) as client:
        return int(client.get("/status").json()["standby"]["x11"])


def test_an_episode_through_the_pool_is_an_episode_at_a_desktop(host: Service) -> None:
    with host.desktop(backend="x11") as desktop:
        seen = desktop.reset(make_task("text", open=True))
        assert seen.screen.shape == (720, 1280, 3) and desktop.size == (1280, 720)
        assert [window["app"].lower() for window in desktop.state()["windows"]] == ["mousepad"]
        desktop.act(ComputerUse(action="key", keys=("ctrl", "home")))
        assert desktop.act(ComputerUse(action="type", text="typed ")).effect
        assert (desktop.observe().screen != seen.screen).any()
        verdict = desktop.grade()
        assert verdict.success and verdict.results[0].reason.startswith("typed text")
        # The next task is prepared meanwhile, in a sandbox of its own, and taken over as it is.
        desktop.prefetch(make_task("next"))
        desktop.reset(make_task("next"))
        assert desktop.act(BashCall(command="cat note.txt")).output == "next"
        assert desktop.state()["windows"] == []


@pytest.mark.parametrize("count", [12, pytest.param(200, marks=[pytest.mark.full, pytest.mark.timeout(1200)])])
def test_random_ends_of_real_desktops_leave_nothing(host: Service, count: int) -> None:
    rng = random.Random(3)
    for number in range(count):
        desktop = host.desktop(backend="x11", ttl=1.0)
        desktop.open()
        way = rng.choice(("close", "lost", "agent", "kill"))
        if way == "agent":
            desktop.reset(make_task(str(number)))
            with pytest.raises(SandboxError):
                desktop.act(BashCall(command="kill -9 2"))
        elif way == "kill":
            with http(host.url) as client:
                assert client.delete(f"/leases/{desktop.open().lease}").status_code == 200
        elif way == "lost":
            desktop._stop_heart()  # as if the client were gone: nothing is heard from it any more
            continue
        desktop.close()
    with http(host.url) as client:
        assert wait_for(lambda: client.get("/status").json()["leases"] == [], 30)
        assert wait_for(lambda: client.get("/status").json()["sandboxes"] == standby(host) == 1, 30)
    assert wait_for(lambda: sum(1 for _ in (host.state / "slots" / "x11").iterdir()) == 1)


def test_kill_9_of_the_service_leaves_no_desktop(tmp_path: Path) -> None:
    before = sandboxes()
    running = start_service(tmp_path / "state", *ARGUMENTS)
    desktop = running.desktop(backend="x11", patience=0.2)
    desktop.reset(make_task("lost"))
    assert wait_for(lambda: standby(running) == 1, 30)
    assert len(sandboxes()) > len(before)
    running.kill()
    assert wait_for(lambda: sandboxes() <= before, 30)
    with pytest.raises(SandboxError):
        desktop.observe()
        desktop.act(BashCall(command="true"))
    desktop.close()
    # The next life removes what the kernel does not: folders, rows, and control groups of owners that are gone.
    again = start_service(tmp_path / "state", *ARGUMENTS, "--standby", "0")
    assert list((tmp_path / "state" / "slots" / "x11").iterdir()) == []
    assert again.stop() == 0
    assert sandboxes() <= before
    assert not [name for name in groups() if f"-{running.process.pid}-" in name]
