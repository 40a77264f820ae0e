"""A backend whose setups start something that goes on until it is told to end."""

from __future__ import annotations

import os
from pathlib import Path

from components.contracts.task import Task
from components.sandbox.pool.backends import MiniDeskSlot, SlotSetup
from components.sandbox.pool.host import SlotHost
from components.sandbox.pool.serve import LocalBackend, build_host
from tests.unit.pool.kit import wait_for


def gated(setup: SlotSetup) -> MiniDeskSlot:
    slot = MiniDeskSlot(setup)

    def prepare(task: Task, root: Path) -> None:
        with setup.gate(), setup.gate():
            marks = Path(task.spec["marks"])
            (marks / str(os.getpid())).touch()
            assert wait_for((marks.parent / "go").exists, 30)

    slot.desktop._prepare = prepare  # type: ignore[attr-defined]
    return slot


def host_with_gate(state: Path, *, starts: int) -> SlotHost:
    return build_host(state, "gate-host", {"gated": LocalBackend("tests.unit.pool.starts_kit:gated")}, starts=starts)
