"""The five-case gate: a task is kept only when its verifier tells work from no work, on the real desktop.

| case     | what is done in the task's own scene                                    | must       |
| -------- | ----------------------------------------------------------------------- | ---------- |
| noop     | nothing; looked at twice                                                | fail, with equal verdicts |
| claimed  | `terminate` with status success at once                                 | fail       |
| oracle   | the plan, by every declared route, twice                                | pass, with equal verdicts |
| shortcut | the workflow's authored near miss: half of the work, a decoy, too much  | fail       |
| wrong    | the plan of another target value                                        | fail       |

Tasks that need nothing (a toggle that already is as wanted, see `prefs.ALREADY_RIGHT`) turn the first two round: doing
nothing and saying so is right and must pass, while shortcut and wrong value, both a needless click, must fail.

A verifier that breaks in any case, or a desktop that does, refuses the task too. Who plays the plans is given from
outside (`Player`): the scripted teacher of `components.rollout`, which forge itself does not know.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Literal

from components.contracts.admission import UNSTABLE, stable
from components.contracts.calls import ComputerUse
from components.contracts.desktop import Desktop
from components.contracts.errors import CoworkError
from components.contracts.rng import stream
from components.contracts.task import Channel, Task, Verdict
from components.forge.generate import workflow_of
from components.forge.preparers import prepare
from components.forge.verifier import grade
from components.forge.workflows import Bank, Plan, routes
from components.sandbox.minidesk.desktop import MiniDesk
from components.sandbox.shell import GUEST_LIBRARY, ShellResult, ShellSession

Player = Callable[[Desktop, Task, tuple[Channel, ...]], None]
"""Plays `task.spec["plan"]` by a route on a desktop that was reset to the task. Must be importable by name."""

Case = Literal["noop", "claimed", "oracle", "shortcut", "wrong"]
COMMAND_SECONDS = 20.0


class GateShell:
    """One confined shell for many episodes of one slot: a start costs more than most commands.

    The session's world is the slot; each command runs in a fresh child in the slot's present home. Only plans that the
    gate itself plays come here, never an agent.
    """

    def __init__(self, slot: Path, *, unconfined: bool = False) -> None:
        self._session = ShellSession(slot, guest=GUEST_LIBRARY, unconfined=unconfined)

    def run(self, command: str, timeout: float = COMMAND_SECONDS) -> ShellResult:
        return self._session.run(f'(cd "$HOME/home" && {command})', timeout)

    def restart(self) -> None:
        self._session.restart()

    def close(self) -> None:
        """An episode's end; the session lives on until `quit`."""

    def quit(self) -> None:
        self._session.close()


class Bench:
    """One slot in which tasks are tried."""

    def __init__(self, slot: Path, player: Player, *, unconfined: bool = False) -> None:
        self._player = player
        self._shell = GateShell(slot, unconfined=unconfined)
        self._desktop = MiniDesk(slot, prepare=prepare, grade=grade, shell=lambda _home: self._shell)

    def close(self) -> None:
        self._desktop.close()
        self._shell.quit()

    def refuse(self, task: Task, *, full: bool = True) -> str:
        """Why a task is refused, starting with the case; "" keeps it. `full` False tries only noop and claimed."""
        try:
            return self._idle(task) or (self._played(task) if full else "")
        except CoworkError as error:
            return f"broken: {error}"

    def _idle(self, task: Task) -> str:
        nothing = workflow_of(task).branches(task.spec["args"]).needs_nothing
        self._desktop.reset(task)
        looks = [self._desktop.grade() for _ in range(2)]
        if reason := _judge("noop", looks[0], nothing):
            return reason
        if not stable(looks):
            return f"noop: {UNSTABLE}: two looks at one state give different verdicts"
        self._desktop.act(ComputerUse(action="terminate", status="success"))
        return _judge("claimed", self._desktop.grade(), nothing)

    def _played(self, task: Task) -> str:
        made = workflow_of(task)
        branches = made.branches(task.spec["args"])
        for route in routes(branches.plan):
            verdicts = [self._play(task, branches.plan, route) for _ in range(2)]
            for verdict in verdicts:
                if reason := _judge("oracle", verdict, True):
                    return f"{reason} (route {'+'.join(route)})"
            if not stable(verdicts):
                return f"oracle: two runs by {'+'.join(route)} give different verdicts"
        if reason := _judge("shortcut", self._play(task, branches.shortcut), False):
            return reason
        rng = stream(task.seed, "forge/gate/wrong")
        other = made.branches(made.wrong(rng, Bank(task.split, rng), task.spec["args"]))
        return _judge("wrong", self._play(task, other.plan), False)

    def _play(self, task: Task, plan: Plan, route: tuple[Channel, ...] | None = None) -> Verdict:
        """`plan` in the scene of `task`, by `route` or the first one it offers."""
        offered = routes(plan)
        played = task.model_copy(update={"spec": {**task.spec, "plan": list(plan)}, "channels": offered})
        self._desktop.reset(task)
        self._player(self._desktop, played, route or offered[0])
        return self._desktop.grade()


def _judge(case: Case, verdict: Verdict, wanted: bool) -> str:
    if verdict.error:
        return f"{case}: the verifier broke: {verdict.error}"
    if verdict.success is wanted:
        return ""
    if not wanted:
        return f"{case}: passes and must not"
    missed = "; ".join(f"{r.check}: {r.reason}" for r in verdict.results if not r.passed)
    return f"{case}: fails and must not: {missed}"


def sampled(task: Task, share: float) -> bool:
    """Whether a task is among the `share` that gets the full gate: decided by its identity."""
    number = int.from_bytes(hashlib.sha256(task.task_id.encode()).digest()[:4], "big")
    return number < share * 2**32


@contextmanager
def open_gate(
    player: Player, *, share: float = 1.0, workers: int = 1, unconfined: bool = False
) -> Iterator[Callable[[Sequence[Task]], list[str]]]:
    """A gate for `generate`: tasks in, reasons out, in order, whatever the number of worker processes."""
    with tempfile.TemporaryDirectory(prefix="gate-", dir=_memory_disk()) as scratch:
        if workers <= 1:
            bench = Bench(Path(scratch), player, unconfined=unconfined)
            try:
                yield lambda tasks: [bench.refuse(t, full=sampled(t, share)) for t in tasks]
            finally:
                bench.close()
            return
        with ProcessPoolExecutor(
            workers,
            mp_context=get_context("spawn"),
            initializer=_start_worker,
            initargs=(scratch, player, share, unconfined),
        ) as pool:
            yield lambda tasks: list(pool.map(_refuse, tasks, chunksize=16))


def _memory_disk() -> str | None:
    """A file system in memory where there is one: a gate makes and removes tens of thousands of small files."""
    shared = "/dev/shm"
    return shared if os.access(shared, os.W_OK | os.X_OK) else None


_worker: tuple[Bench, float] | None = None


def _start_worker(scratch: str, player: Player, share: float, unconfined: bool) -> None:
    """Runs once in each worker process: its own slot and its own shell."""
    global _worker
    slot = Path(tempfile.mkdtemp(dir=scratch))
    bench = Bench(slot, player, unconfined=unconfined)
    atexit.register(bench.close)
    _worker = (bench, share)


def _refuse(task: Task) -> str:
    assert _worker is not None, "the pool starts every process with _start_worker"
    bench, share = _worker
    return bench.refuse(task, full=sampled(task, share))
