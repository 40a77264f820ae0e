"""The five-case gate on real desktops, resumable.

    python -m components.forge.realapps.gate --verdicts FILE [--workers N] [--seed N] [--only SKILL ...]

The cases are those of `components.forge.gate`: nothing done and claimed at once must fail, the oracle must pass by
every route, twice, with equal verdicts; the authored near miss and the plan of another value must fail. Every played
case has a sandbox of its own. One that is played in the terminal alone is played in the scene without its windows: no
such plan looks at the screen, and the start of the applications would be most of its time. A line of FILE is a task's
verdict; tasks whose line is there already are not tried again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from components.contracts.calls import ComputerUse
from components.contracts.errors import CoworkError, DataError
from components.contracts.rng import stream
from components.contracts.task import Channel, Task, Verdict
from components.forge.realapps import scene
from components.forge.realapps.generate import generate, workflow_of
from components.forge.realapps.moves import play
from components.forge.workflows.base import Bank, Plan, routes
from components.sandbox.x11.desktop import X11Desktop

DesktopFactory = Callable[[], X11Desktop]


@dataclass(frozen=True)
class Gated:
    """A task's outcome. `refused` is "" for a kept task, else the case and the reason. `seconds`: of the wall."""

    task_id: str
    skill: str
    refused: str
    seconds: float


def make_desktop() -> X11Desktop:
    """A desktop of this host's packages for tasks of this package."""
    from components.sandbox.x11.drivers.bwrap_host import BwrapHost

    return X11Desktop(BwrapHost(), prepare=scene.prepare, finish=scene.finish, grade=scene.grade)


def gate_tasks(
    tasks: Sequence[Task],
    desktop_factory: DesktopFactory = make_desktop,
    workers: int = 1,
    *,
    known: dict[str, Gated] | None = None,
    done: Callable[[Gated], None] = lambda gated: None,
) -> list[Gated]:
    """Tries all tasks, `workers` at once; results in the order of `tasks`. `done` hears of each new one as it comes.

    `known` (task id -> outcome) is what an earlier run found out: those tasks are not tried again.
    """
    found = dict(known or {})
    waiting = [task for task in tasks if task.task_id not in found]
    with ThreadPoolExecutor(max(1, workers)) as pool:
        for gated in pool.map(lambda task: _gate(task, desktop_factory, done), waiting):
            found[gated.task_id] = gated
    return [found[task.task_id] for task in tasks]


def _gate(task: Task, desktop_factory: DesktopFactory, done: Callable[[Gated], None]) -> Gated:
    start = time.monotonic()
    with closing(desktop_factory()) as desktop:
        try:
            refused = refuse(task, desktop)
        except CoworkError as error:
            refused = f"broken: {error}"
    gated = Gated(task.task_id, task.skill, refused, round(time.monotonic() - start, 2))
    done(gated)
    return gated


def refuse(task: Task, desktop: X11Desktop) -> str:
    """Why a task is refused, starting with the case; "" keeps it."""
    made = workflow_of(task)
    branches = made.branches(task.spec["args"])
    desktop.reset(task)
    if reason := _judge("noop", desktop.grade(), False):
        return reason
    desktop.reset(_without_windows(task))  # a look at the result ends an episode
    desktop.act(ComputerUse(action="terminate", status="success"))
    if reason := _judge("claimed", desktop.grade(), False):
        return reason
    for route in routes(branches.plan):
        verdicts = [run_plan(task, desktop, branches.plan, route) for _ in range(2)]
        for verdict in verdicts:
            if reason := _judge("oracle", verdict, True):
                return f"{reason} (route {'+'.join(route)})"
        if verdicts[0] != verdicts[1]:
            return f"oracle: two runs by {'+'.join(route)} give different verdicts"
    if reason := _judge("shortcut", run_plan(task, desktop, branches.shortcut), False):
        return reason
    rng = stream(task.seed, "forge/gate/wrong")
    other = made.branches(made.wrong(rng, Bank(task.split, rng), task.spec["args"]))
    return _judge("wrong", run_plan(task, desktop, other.plan, _fast(other.plan)), False)


def run_plan(task: Task, desktop: X11Desktop, plan: Plan, route: tuple[Channel, ...] | None = None) -> Verdict:
    """The verdict after `plan` in the scene of `task`, by `route` or the first one that the plan offers."""
    chosen = route or routes(plan)[0]
    desktop.reset(_without_windows(task) if chosen == ("terminal",) else task)
    play(desktop, plan, chosen)
    return desktop.grade()


def _without_windows(task: Task) -> Task:
    return task.model_copy(update={"setup": tuple(step for step in task.setup if step.preparer != "open")})


def _fast(plan: Plan) -> tuple[Channel, ...]:
    """The route of a plan that takes the least time."""
    offered = routes(plan)
    return ("terminal",) if ("terminal",) in offered else offered[0]


def _judge(case: str, verdict: Verdict, wanted: bool) -> str:
    if verdict.error:
        return f"{case}: the verifier broke: {verdict.error}"
    if verdict.success is wanted:
        return ""
    if not wanted:
        return f"{case}: passes and must not"
    return f"{case}: fails and must not: " + "; ".join(
        f"{r.check}: {r.reason}" for r in verdict.results if not r.passed
    )


# -- verdicts on disk ------------------------------------------------------------------------------------------------


def read_verdicts(path: Path) -> dict[str, Gated]:
    """Outcomes of an earlier run. A last line that a kill cut off is left out; any other bad line is a `DataError`."""
    found: dict[str, Gated] = {}
    lines = path.read_text(encoding="utf-8").split("\n") if path.is_file() else []
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            gated = Gated(**json.loads(line))
        except (ValueError, TypeError) as error:
            if number == len(lines):
                break
            raise DataError(f"bad verdict: {error}", where=f"{path}:{number}", remedy="delete the line") from error
        found[gated.task_id] = gated
    return found


def append_to(path: Path) -> Callable[[Gated], None]:
    """Writes each outcome as a whole line, after cutting off what a kill left of one."""
    if path.is_file():
        whole = path.read_bytes()
        path.write_bytes(whole[: whole.rfind(b"\n") + 1])

    def append(gated: Gated) -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(gated)) + "\n")

    return append


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Try every task over real applications in five cases.")
    parser.add_argument(
        "--verdicts", type=Path, required=True, help="file of verdicts; what is in it is not tried again"
    )
    parser.add_argument("--workers", type=int, default=1, help="desktops at once")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[], help="skills to try (default: all)")
    options = parser.parse_args(argv)
    tasks = [task for task in generate(options.seed) if not options.only or task.skill in options.only]
    known = read_verdicts(options.verdicts)
    append = append_to(options.verdicts)
    count = sum(task.task_id in known for task in tasks)

    def done(gated: Gated) -> None:
        nonlocal count
        count += 1
        append(gated)
        print(f"{count}/{len(tasks)} {gated.skill} {gated.seconds:.1f} s {gated.refused or 'kept'}", flush=True)

    results = gate_tasks(tasks, workers=options.workers, known=known, done=done)
    return _summary(results)


def _summary(results: Sequence[Gated]) -> int:
    refused: list[Any] = [one for one in results if one.refused]
    seconds = sum(one.seconds for one in results)
    print(f"{len(results) - len(refused)} of {len(results)} tasks kept, {seconds:.0f} s of desktops")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
