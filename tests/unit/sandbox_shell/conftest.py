"""Sessions under a real confinement. Whoever asks for a kind that this machine refuses is skipped, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from components.sandbox.confine import trial
from components.sandbox.shell import GUEST_LIBRARY, Confinement, ShellLimits, ShellSession, detect
from pipelines.waiting import wait_until

Open = Callable[..., ShellSession]


@pytest.fixture(params=["bwrap", "userns"])
def kind(request: pytest.FixtureRequest) -> Confinement:
    problem, _ = trial(request.param)
    if problem:
        pytest.skip(f"{request.param} does not work here: {problem}")
    return request.param


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    return path


@pytest.fixture
def open_session(home: Path) -> Iterator[Open]:
    """Opens sessions in `home` under the best confinement, or the one named; closes them after the test."""
    opened = []

    def open_(confinement: Confinement | None = None, **limits: int) -> ShellSession:
        if confinement is None and detect().confinement == "none":
            pytest.skip(f"no confinement works here: {detect().details}")
        session = ShellSession(home, limits=ShellLimits(**limits), confinement=confinement, guest=GUEST_LIBRARY)
        opened.append(session)
        return session

    yield open_
    for session in opened:
        session.close()


@pytest.fixture
def shell(open_session: Open) -> ShellSession:
    return open_session()


def wait_for(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Poll until the condition holds; False when it did not in time."""
    return wait_until(condition, seconds, 0.02)


def processes_with(mark: str) -> list[int]:
    """Host pids whose command line has `mark`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark in path.read_bytes().decode(errors="replace"):
                found.append(int(path.parent.name))
        except OSError:  # it ended meanwhile
            continue
    return found
