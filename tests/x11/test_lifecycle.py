"""Fresh desktops, their ends, and what is left afterwards: nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from components.contracts.errors import SandboxError
from components.contracts.task import CheckResult, Task, Verdict
from components.sandbox.x11.desktop import X11Desktop
from components.sandbox.x11.drivers.bwrap_host import BwrapHost
from components.sandbox.x11.drivers.cgroups import own_groups, sweep
from components.sandbox.x11.guest_calls import GuestCalls

from .conftest import Person, make_task, wait_for

ROOT = Path(__file__).resolve().parents[2]


def sandboxes() -> set[int]:
    """Processes, on the host, of all sandboxes: those whose command line holds the agent's, and the X servers."""
    found = set()
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{entry}/cmdline").read_bytes()
        except OSError:
            continue
        if b"x11.guest.agent import main" in line or line.startswith(b"/usr/bin/Xvfb\0:0"):
            found.add(int(entry))
    return found


def groups() -> set[str]:
    own = own_groups(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())
    return {folder.name for parent in own.values() for folder in parent.glob("cowork-x11-*")}


def test_a_fresh_desktop_is_painted_settled_and_empty(person: Person) -> None:
    state = person.desktop.state()
    assert state["windows"] == [] and state["health"]["settled"]["settled"] and not state["done"]
    screen = person.desktop.observe().screen
    assert screen.shape == (720, 1280, 3) and (screen[200, 300] == (0x2F, 0x5D, 0x7C)).all()


def test_reset_leaves_nothing_of_the_last_episode(person: Person) -> None:
    person.bash("echo secret > left.txt; echo alias > .bashrc; cp left.txt /tmp; cp left.txt /dev/shm; sleep 996 &")
    person.edit("open.txt")
    first = person.desktop.reset(make_task())
    assert person.guest.windows() == []
    assert person.bash("ls /home/user /tmp /dev/shm; ls .bashrc; pgrep -c sleep").output.split("\n")[0] == "/dev/shm:"
    assert [file.path for file in person.guest.files() if not file.path.startswith(".")] == []
    assert (person.desktop.observe().screen == first.screen).all()


def test_close_leaves_no_process_and_no_group() -> None:
    before, groups_before = sandboxes(), groups()
    desktop = X11Desktop(BwrapHost())
    desktop.reset(make_task())
    desktop.guest.bash("setsid sleep 1000 & nohup sleep 1000 & disown -a; trap '' TERM")
    assert sandboxes() > before
    desktop.close()
    desktop.close()
    assert sandboxes() == before and groups() == groups_before
    with pytest.raises(SandboxError):
        desktop.observe()


def test_a_killed_host_process_takes_its_desktop_along(tmp_path: Path) -> None:
    before, temporary = sandboxes(), set(os.listdir("/tmp"))
    code = """
        import signal, sys
        from components.sandbox.x11.desktop import X11Desktop
        from components.sandbox.x11.drivers.bwrap_host import BwrapHost
        from tests.x11.conftest import make_task
        desktop = X11Desktop(BwrapHost())
        desktop.reset(make_task())
        desktop.guest.bash("setsid sleep 1000 &")
        print("up", flush=True)
        signal.pause()
    """
    host = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None and host.stdout.readline() == "up\n"
    assert sandboxes() > before
    host.send_signal(signal.SIGKILL)
    host.wait()
    assert wait_for(lambda: sandboxes() <= before, 30)

    def swept() -> bool:
        sweep()  # what the next start of a sandbox does first
        return not [name for name in groups() if name.startswith(f"cowork-x11-{host.pid}-")]

    assert wait_for(swept)
    assert {name for name in os.listdir("/tmp") if "x11" in name.lower()} <= temporary


def test_the_death_of_the_agent_is_told_at_once_and_a_reset_helps(person: Person) -> None:
    start = time.monotonic()
    with pytest.raises(SandboxError, match="agent is gone"):
        person.bash("kill -9 2")
    with pytest.raises(SandboxError, match="agent is gone"):
        person.act("mouse_move", coordinate=(1, 1))
    assert time.monotonic() - start < 15  # not by a timeout
    person.desktop.reset(make_task())
    assert person.bash("echo back").output == "back\n"


def test_grading_looks_at_a_desktop_that_stands_still() -> None:
    def prepare(task: Task, guest: GuestCalls) -> None:
        guest.put("count.sh", b"while :; do echo x >> count.txt; sleep 0.1; done\n")
        guest.launch(["/bin/bash", "count.sh"])

    def finish(task: Task, guest: GuestCalls) -> None:
        guest.bash("echo finished > finished.txt")

    def grade(task: Task, guest: GuestCalls) -> Verdict:
        same = guest.get("count.txt") == guest.get("count.txt")
        return Verdict(success=same, results=(CheckResult(check=guest.get("finished.txt").decode(), passed=same),))

    desktop = X11Desktop(BwrapHost(), prepare=prepare, finish=finish, grade=grade)
    try:
        desktop.reset(make_task())
        verdict = desktop.grade()
        assert verdict.success and verdict.results[0].check == "finished\n"
        size = len(desktop.guest.get("count.txt"))
        assert wait_for(lambda: len(desktop.guest.get("count.txt")) > size)  # it goes on afterwards
    finally:
        desktop.close()


def test_without_a_verifier_nothing_succeeds(person: Person) -> None:
    verdict = person.desktop.grade()
    assert not verdict.success and verdict.error


def test_a_failing_setup_is_an_error_of_the_sandbox_and_leaves_nothing() -> None:
    before = sandboxes()

    def prepare(task: Task, guest: GuestCalls) -> None:
        raise RuntimeError("no such thing")

    with pytest.raises(SandboxError, match="no such thing"):
        X11Desktop(BwrapHost(), prepare=prepare).reset(make_task())
    assert sandboxes() == before


def test_files_go_in_and_out_and_links_are_refused(person: Person) -> None:
    data = bytes(range(256)) * 5000
    person.guest.put("a/b/data.bin", data)
    assert person.guest.get("a/b/data.bin") == data
    person.bash("ln -s /etc/passwd a/link; mkfifo a/pipe")
    for path, kind in (("a/link", "os"), ("a/pipe", "os"), ("a", "os"), ("a/none", "missing")):
        with pytest.raises(SandboxError) as caught:
            person.guest.get(path)
        assert getattr(caught.value, "kind", "") == kind
    with pytest.raises(SandboxError):
        person.guest.get("a/b/data.bin", limit=1000)
    assert [(file.path, file.size) for file in person.guest.files("a")] == [("b/data.bin", len(data))]
