"""Slots for people: which backend, which task in it, and how it is opened and closed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contracts.errors import DataError, ParamsError, TaskError
from components.contracts.task import SetupStep, Task, Verdict

if TYPE_CHECKING:
    from components.contracts.desktop import Desktop
    from components.harness.spec import HarnessSpec

BACKENDS = ("minidesk", "x11")
_LEAST = 4
_SIZE = re.compile(r"(\d{2,4})x(\d{2,4})")

_PLAYGROUND = (
    SetupStep(preparer="text_file", args={"path": "welcome.txt", "text": "Files here are real.\n"}),
    SetupStep(preparer="text_file", args={"path": "notes/ideas.txt", "text": "one\ntwo\n"}),
    SetupStep(preparer="sheet_file", args={
        "path": "fruit.csv", "rows": [["item", "count"], ["apple", "12"], ["pear", "7"], ["plum", "30"]],
    }),
    SetupStep(preparer="open_apps", args={"apps": ["files"]}),
)  # fmt: skip
"""What lies in the home of a minidesk that has no task."""


def free_task(instruction: str, backend: str, max_steps: int) -> Task:
    """A task in a person's own words: nothing checks it."""
    return Task.build(
        skill="free", workflow="free", apps=(), channels=(("gui",), ("terminal",)), instruction=instruction,
        wording="free", spec={}, setup=_PLAYGROUND if backend == "minidesk" else (), verifier=(), split="dev",
        max_steps=max_steps,
    )  # fmt: skip


def find_task(name: str, tasks: Path | None, backend: str = "minidesk") -> Task:
    """A task file (one JSON task, or the first line of JSON lines), or a task by the beginning of its id.

    Ids are those of the recipe's tasks in the folder `tasks`; with backend `x11` those of the tasks over real
    applications first, which a skill's name gives as well. Raises DataError or TaskError with what is there instead.
    """
    path = Path(name)
    if path.is_file():
        try:
            text = path.read_text(encoding="utf-8")
            lines = text.strip().splitlines()
            return Task.model_validate_json(lines[0] if path.suffix == ".jsonl" and lines else text)
        except (OSError, ValueError) as error:
            raise TaskError(f"no task: {str(error).splitlines()[0]}", where=name, remedy="see cowork forge") from error
    if backend == "x11" and (real := _real_task(name)) is not None:
        return real
    if tasks is None or not (tasks / "tasks.jsonl").is_file():
        from components.forge.realapps.workflows import WORKFLOWS

        skills = f", or a skill: {', '.join(sorted(WORKFLOWS))}" if backend == "x11" else ""
        raise DataError(f"no task {name!r}: no such file, and no tasks of a run here", where="--task",
                        remedy=f"cowork run --stage forge, or give a file{skills}")  # fmt: skip
    from components.forge.store import load_tasks

    if len(name.removeprefix("sha256:")) < _LEAST:
        raise DataError(f"{name!r} is too short for an id", where="--task", remedy=f"give {_LEAST} digits or more")
    found = [task for task in load_tasks(tasks) if _begins(task, name)]
    if len(found) == 1:
        return found[0]
    some = ", ".join(task.task_id[7:19] for task in found[:5])
    raise DataError(
        f"{len(found)} tasks begin with {name!r}" + (f": {some}" if found else ""), where=str(tasks),
        remedy="give more digits" if found else "ids stand in tasks.jsonl",
    )  # fmt: skip


def _real_task(name: str) -> Task | None:
    """The task over real applications whose id begins so, or the first one of that skill."""
    from components.forge.realapps.generate import generate

    return next((task for task in generate(0) if task.skill == name or _begins(task, name)), None)


def _begins(task: Task, name: str) -> bool:
    """Whether `name` is the beginning of the task's id, long enough to mean it."""
    plain = name.removeprefix("sha256:")
    return len(plain) >= _LEAST and task.task_id.removeprefix("sha256:").startswith(plain)


def screen_size(text: str) -> tuple[int, int]:
    """`1280x720` -> (1280, 720). Raises ParamsError."""
    found = _SIZE.fullmatch(text)
    if not found:
        raise ParamsError(f"not a size: {text!r}", where="--size", remedy="e.g. 1280x720")
    width, height = int(found[1]), int(found[2])
    if not (64 <= width <= 4096 and 64 <= height <= 4096):
        raise ParamsError(f"{text} is too small or too large", where="--size", remedy="64x64 to 4096x4096")
    return width, height


def open_slot(
    backend: str, harness: HarnessSpec, work: Path, *, size: str, apps: Sequence[str], unconfined: bool
) -> AbstractContextManager[Desktop]:  # fmt: skip
    """One slot; everything of it is gone at the end of the block. Raises ParamsError, SandboxError."""
    if backend == "minidesk":
        if apps or size:
            raise ParamsError("--app and --size are for real desktops", where="--backend", remedy="add --backend x11")
        from components.rollout.slots import scratch_root, slot

        return slot(scratch_root(work), harness, unconfined=unconfined)
    if backend == "x11":
        return _x11(harness, screen_size(size or "1280x720"), tuple(apps))
    raise ParamsError(f"there is no backend {backend!r}", where="--backend", remedy=f"one of {', '.join(BACKENDS)}")


@contextmanager
def _x11(harness: HarnessSpec, size: tuple[int, int], apps: tuple[str, ...]) -> Iterator[Desktop]:
    import shlex

    from components.forge.realapps import scene
    from components.sandbox.x11.desktop import X11Desktop
    from components.sandbox.x11.drivers.base import Screen
    from components.sandbox.x11.drivers.bwrap_host import BwrapHost

    words = [shlex.split(app) for app in apps]

    def prepare(task: Task, guest: Any) -> None:
        if _is_real(task):
            scene.prepare(task, guest)
        else:
            put_files(task, guest)
        for argv in words:
            guest.open(argv, "")

    def finish(task: Task, guest: Any) -> None:
        if _is_real(task):
            scene.finish(task, guest)

    def grade(task: Task, guest: Any) -> Verdict:
        if _is_real(task):
            return scene.grade(task, guest)
        return Verdict(success=False, error="nothing checks this task on a real desktop")

    desktop = X11Desktop(
        BwrapHost(), screen=Screen(*size), prepare=prepare, finish=finish, grade=grade, tools=frozenset(harness.tools)
    )
    try:
        yield desktop
    finally:
        desktop.close()


def _is_real(task: Task) -> bool:
    """Whether a task is one over real applications: who made it can set it up and judge it."""
    from components.forge.realapps.workflows import WORKFLOWS

    return task.skill in WORKFLOWS


def put_files(task: Task, guest: Any) -> None:
    """A task's files, in a real desktop's home. State of minidesk's own applications has no place there."""
    from components.forge.preparers import made_by, sheet_bytes

    made = made_by(task.setup)
    if set(made.state) - {"desk"}:
        raise TaskError(
            f"the task sets up {', '.join(sorted(made.state))} of minidesk's own applications", where="--task",
            remedy="open it with --backend minidesk",
        )  # fmt: skip
    for path, data in sorted(made.files.items()):
        guest.put(path, data)
    for path, rows in sorted(made.sheets.items()):
        guest.put(path, sheet_bytes(rows))
    for path in sorted(made.folders):
        guest.put(f"{path}/.keep", b"")
