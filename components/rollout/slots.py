"""Slots: where an episode happens. A desktop over a fresh directory, with setup, verifier and shell wired in."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from components.contracts.errors import SandboxError
from components.harness.spec import HarnessSpec

if TYPE_CHECKING:
    from components.sandbox.minidesk.desktop import MiniDesk
    from components.sandbox.shell import ShellResult, ShellSession

COMMAND_TIMEOUT_S = 10.0
"""Seconds a command may take when the call does not say: the longest useful one of this profile takes a tenth."""
SHARED_MEMORY = Path("/dev/shm")
"""Files in memory where the system has them: an episode writes dozens of tiny files and keeps none."""


@lru_cache(maxsize=1)
def guest_library() -> tuple[Path, frozenset[str]]:
    """The folder of the guest library and the commands in it."""
    from components.sandbox.shell import GUEST_LIBRARY

    return GUEST_LIBRARY, frozenset(path.name for path in (GUEST_LIBRARY / "bin").iterdir() if path.is_file())


def guest_of(harness: HarnessSpec) -> Path | None:
    """The guest library a harness installs: all of it or nothing. `SandboxError` for a command it does not have."""
    if not harness.guest_commands:
        return None
    folder, commands = guest_library()
    missing = sorted(set(harness.guest_commands) - commands)
    if missing:
        raise SandboxError(
            f"the guest library has no command {missing[0]!r}", where=f"harness {harness.name}",
            remedy=f"it has {', '.join(sorted(commands))}",
        )  # fmt: skip
    return folder


class EpisodeShell:
    """The episode's shell with the harness's default timeout (`BashCall.timeout` None)."""

    def __init__(self, session: ShellSession, timeout: float = COMMAND_TIMEOUT_S) -> None:
        self._session = session
        self._timeout = timeout

    def run(self, command: str, timeout: float | None = None) -> ShellResult:
        return self._session.run(command, self._timeout if timeout is None else timeout)

    def restart(self) -> None:
        self._session.restart()

    def close(self) -> None:
        self._session.close()


def open_desktop(root: Path, harness: HarnessSpec, *, unconfined: bool = False) -> MiniDesk:
    """A desktop in `root` with the harness's tools. The shell starts with the first terminal call, confined."""
    from components.forge.preparers import prepare
    from components.forge.verifier import grade
    from components.sandbox.minidesk.desktop import MiniDesk
    from components.sandbox.shell import ShellSession

    guest = guest_of(harness)

    def shell(home: Path) -> EpisodeShell:
        return EpisodeShell(ShellSession(home, guest=guest, unconfined=unconfined))

    tools = frozenset(harness.tools)
    return MiniDesk(root, prepare=prepare, grade=grade, shell=shell if "bash" in tools else None, tools=tools)


def scratch_root(work: Path) -> Path:
    """Where episodes may write: memory when the machine has some to write to, else the stage's work directory."""
    if SHARED_MEMORY.is_dir() and os.access(SHARED_MEMORY, os.W_OK | os.X_OK):
        return SHARED_MEMORY
    work.mkdir(parents=True, exist_ok=True)
    return work


@contextmanager
def episode_dir(scratch: Path) -> Iterator[Path]:
    """A fresh directory that is gone afterwards, whatever the agent did to the permissions in it."""
    from components.sandbox.minidesk.desktop import remove_tree

    root = Path(tempfile.mkdtemp(prefix="cowork-episode-", dir=scratch))
    try:
        yield root
    finally:
        remove_tree(root)


@contextmanager
def slot(scratch: Path, harness: HarnessSpec, *, unconfined: bool = False) -> Iterator[MiniDesk]:
    """One desktop in a fresh directory; closed and removed at the end of the block."""
    with episode_dir(scratch) as root:
        desktop = open_desktop(root, harness, unconfined=unconfined)
        try:
            yield desktop
        finally:
            desktop.close()


def slots(
    work: Path, harness: HarnessSpec, *, unconfined: bool = False
) -> Callable[[], AbstractContextManager[MiniDesk]]:
    """A factory of slots for `run_episodes`: each call gives a desktop in a directory of its own."""
    scratch = scratch_root(work)
    return lambda: slot(scratch, harness, unconfined=unconfined)
