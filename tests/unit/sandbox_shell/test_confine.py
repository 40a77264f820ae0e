"""Detection says what works and what to do; without confinement a session is refused unless told otherwise."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.contracts.errors import SandboxError
from components.sandbox.confine import Confinement, ShellLimits, detect, trial, wrap
from components.sandbox.shell import GUEST_LIBRARY, ShellSession

from .conftest import processes_with, wait_for


@pytest.fixture
def fresh_detection() -> Iterator[None]:
    detect.cache_clear()
    trial.cache_clear()
    yield
    detect.cache_clear()
    trial.cache_clear()


def test_detection_names_a_kind_that_really_works(home: Path) -> None:
    probe = detect()
    if probe.confinement == "none":
        assert probe.details and "bubblewrap" in probe.remedy
        return
    assert trial(probe.confinement)[0] == ""
    with ShellSession(home) as shell:
        assert shell.confinement == probe.confinement
        assert shell.run("echo ok").output == "ok\n"


def test_without_tools_detection_says_what_to_install(
    fresh_detection: None, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    probe = detect()
    assert probe.confinement == "none"
    assert "bwrap is not installed" in probe.details and "unshare is not installed" in probe.details
    with pytest.raises(SandboxError) as refusal:
        ShellSession(home)
    assert "bubblewrap" in refusal.value.remedy and "--unconfined" in refusal.value.remedy


def test_tool_that_fails_is_reported_with_its_words(
    fresh_detection: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bwrap", "unshare"):
        (tmp_path / name).write_text("#!/bin/sh\necho 'not permitted here' >&2\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    probe = detect()
    assert probe.confinement == "none"
    assert probe.details.count("not permitted here") == 2


def test_sandbox_that_cannot_be_set_up_is_an_infrastructure_error(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'no namespaces left' >&2\nexit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    shell = ShellSession(home, confinement="bwrap")
    with pytest.raises(SandboxError, match="no namespaces left"):
        shell.run("true")


def test_none_needs_to_be_said_twice(home: Path) -> None:
    with pytest.raises(SandboxError, match="unconfined=True"):
        ShellSession(home, confinement="none")


def test_unconfined_session_works_and_leaves_nothing_behind(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COWORK_SECRET_TOKEN", "planted")
    mark = f"34{uuid.uuid4().int % 10**9:09d}"
    with ShellSession(home, confinement="none", unconfined=True, guest=GUEST_LIBRARY) as shell:
        assert shell.run("pwd; env | grep -c planted; ulimit -c").output == f"{home}\n0\n0\n"
        assert shell.run("echo a,b > t.csv; sheet set t.csv b1 c; cat t.csv").output == "a,c\n"
        assert shell.run("cd /; sleep 1000", timeout=0.3).timed_out
        assert shell.run("exit 3").exit_code == 3
        assert shell.run("kill -9 $$").exit_code == 137
        shell.run(f"sleep {mark} &")
        assert wait_for(lambda: bool(processes_with(mark)))
    assert wait_for(lambda: processes_with(mark) == [])


def test_permission_to_be_unconfined_does_not_give_up_a_confinement_that_works(home: Path) -> None:
    if detect().confinement == "none":
        pytest.skip("no confinement works here")
    with ShellSession(home, unconfined=True) as shell:
        assert shell.confinement == detect().confinement


def test_guest_never_runs_as_the_real_root(home: Path, kind: Confinement) -> None:
    launch = wrap(["true"], home, limits=ShellLimits(), confinement=kind)
    assert (launch.owner is not None) == (os.geteuid() == 0)


def test_homes_with_odd_names_work(tmp_path: Path, kind: Confinement) -> None:
    odd = tmp_path / "a b\\c'\"\t$x=é\n"
    odd.mkdir()
    with ShellSession(odd, confinement=kind) as shell:
        assert shell.run("echo x > f; pwd").output == "/home/user\n"
    assert (odd / "f").read_text() == "x\n"
    assert (odd / "f").stat().st_uid == os.geteuid()
