"""The work of `cowork osworld`: serving a slot, looking at task files, playing recorded actions."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from components.contracts.errors import SandboxError, TaskError
from components.sandbox.osworld.guest import Guest
from components.sandbox.osworld.loading import Loaded, load, success_rate
from components.sandbox.osworld.scoring import always_infeasible
from components.sandbox.osworld.slot import Slot, served
from components.sandbox.osworld.sources import Sources

DAMAGED = 4


def open_slot(size: tuple[int, int] = (1280, 720)) -> Slot:
    """A slot on this host's packages. Raises `SandboxError` when it cannot be had; `close` ends it."""
    from components.sandbox.x11.desktop import X11Desktop
    from components.sandbox.x11.drivers.base import Screen
    from components.sandbox.x11.drivers.bwrap_host import BwrapHost

    driver = BwrapHost()
    problem = driver.problem()
    if problem:
        raise SandboxError(problem, where="osworld", remedy="make desktops")
    slot = Slot(lambda: X11Desktop(driver, screen=Screen(*size)))
    try:
        slot.reset()
    except BaseException:
        slot.close()
        raise
    return slot


def serve_slot(port: int, files: Path | None, size: tuple[int, int]) -> int:
    """Serves until a signal ends it; the desktop ends too."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    slot = open_slot(size)
    try:
        with served(slot, Sources(files), port) as address:
            print(f"OSWorld's guest API: {address} (POST /slot/reset for a fresh desktop)", flush=True)
            stop.wait()
    finally:
        slot.close()
    return 0


def check_tasks(path: Path, *, as_json: bool) -> int:
    """0, or `DAMAGED` when a task cannot be used."""
    from components.sandbox.osworld.coverage import unsupported

    loaded = load(path)
    missing: dict[str, list[str]] = {}
    for key, task in loaded.tasks.items():
        configs = [c for probe in task.evaluator.probes for c in (probe.result, probe.expected) if c]
        named = [
            *(("setup", step.type) for step in (*task.config, *task.evaluator.postconfig)),
            *(("getter", str(config["type"])) for config in configs),
            *(("metric", probe.func) for probe in task.evaluator.probes),
        ]
        reasons = [f"{kind} {name}: {reason}" for kind, name in named if (reason := unsupported(kind, name))]
        if reasons:
            missing[key] = list(dict.fromkeys(reasons))
    report = {
        "tasks": len(loaded.tasks), "infeasible": sum(not task.feasible for task in loaded.tasks.values()),
        "rejected": {error.key: str(error) for error in loaded.rejected}, "shared_ids": list(loaded.shared_ids),
        "not_covered": missing,
    }  # fmt: skip
    if as_json:
        print(json.dumps(report))
    else:
        print(f"{report['tasks']} tasks, {report['infeasible']} infeasible, {len(loaded.rejected)} rejected")
        for name in loaded.shared_ids:
            print(f"  id {name} is shared by several folders (told apart by FOLDER/ID)")
        for text in [*map(str, loaded.rejected), *(f"{key}: {'; '.join(why)}" for key, why in missing.items())]:
            print(f"  {text}")
    return DAMAGED if loaded.rejected else 0


def run_tasks(path: Path, actions: Path, files: Path | None, address: str, *, as_json: bool) -> int:
    """Plays every task in a fresh desktop. 0, or `SandboxError`'s code when some task has no score."""
    from components.sandbox.osworld.judge import Judge
    from components.sandbox.osworld.runner import actions_of, play

    loaded = _usable(path)
    try:
        recorded: Any = json.loads(actions.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TaskError(f"{actions.name} cannot be read: {error}", where="osworld",
                        remedy="give a JSON file") from error  # fmt: skip
    if not isinstance(recorded, dict):
        raise TaskError(f"{actions.name} is no object of tasks", where="osworld", remedy='write {"FOLDER/ID": [...]}')
    played = {key: actions_of(recorded.get(key, [])) for key in loaded.tasks}
    results: dict[str, float | None] = {}
    errors: dict[str, str] = {}
    judge = Judge()
    try:
        with _guest(address) as (guest, reset):
            for key, task in loaded.tasks.items():
                reset()
                outcome = play(task, guest, played[key], Sources(files), judge)
                results[key] = outcome.score
                if outcome.error:
                    errors[key] = outcome.error
                if not as_json:
                    said = f"no score: {outcome.error}" if outcome.score is None else f"{outcome.score:.4g}"
                    print(f"{key}: {said}", flush=True)
    finally:
        judge.close()
    score, tasks = success_rate(results, loaded.tasks)
    infeasible = sum(not task.feasible for task in loaded.tasks.values())
    baseline = always_infeasible(tasks - infeasible, infeasible)
    if as_json:
        print(json.dumps({"score": score, "tasks": tasks, "always_infeasible": baseline, "results": results,
                          "no_score": errors}))  # fmt: skip
    else:
        print(f"score {score:.4f} over {tasks} tasks; trivial baseline (always infeasible) {baseline:.4f}; "
              f"{len(errors)} without a score")  # fmt: skip
    return SandboxError.exit_code if errors else 0


def _usable(path: Path) -> Loaded:
    loaded = load(path)
    if loaded.rejected:
        for error in loaded.rejected:
            print(str(error), file=sys.stderr)
        raise TaskError(f"{len(loaded.rejected)} tasks cannot be used", where="osworld",
                        remedy="a benchmark is run whole: repair them or take them off the list")  # fmt: skip
    return loaded


@contextmanager
def _guest(address: str) -> Iterator[tuple[Guest, Callable[[], None]]]:
    """A guest, and what brings it back to its clean state."""
    from components.sandbox.osworld.client import HttpGuest

    if address:
        remote = HttpGuest(address)
        try:
            yield remote, remote.reset
        finally:
            remote.close()
        return
    slot = open_slot()
    try:
        yield cast(Guest, _Latest(slot)), slot.reset
    finally:
        slot.close()


class _Latest:
    """The slot's present guest: each reset makes a new one."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot

    def __getattr__(self, name: str) -> Any:
        return getattr(self._slot.guest(), name)
