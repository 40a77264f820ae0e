"""Tasks over real applications: from workflows, distinct, and with nothing shared between splits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from components.contracts.errors import TaskError
from components.contracts.task import Split, Task
from components.forge import words
from components.forge.generate import ATTEMPTS, content_key, make_task
from components.forge.realapps.catalog import BY_ID
from components.forge.realapps.preparers import made_by
from components.forge.realapps.workflows import WORKFLOWS
from components.forge.workflows.base import Workflow

COUNTS: dict[Split, int] = {"train": 1, "heldout": 1, "heldout_skills": 2}
"""Tasks a workflow, by split; the default of `generate`."""

_TOKEN = re.compile(r"[a-z]+")


def workflow_of(task: Task) -> Workflow:
    made = WORKFLOWS.get(task.skill)
    if made is None or task.workflow != f"{made.skill.id}@{made.version}":
        raise TaskError(f"task made by unknown workflow {task.workflow!r}", where=task.task_id, remedy="generate anew")
    return made


def generate(seed: int, counts: dict[Split, int] | None = None) -> list[Task]:
    """`counts` tasks of every workflow that a split takes, ordered by split and task id.

    Raises `TaskError` when a workflow has no more distinct tasks, a setup is no good, or splits share a word.
    """
    tasks: list[Task] = []
    for split, count in (counts or COUNTS).items():
        for skill, made in WORKFLOWS.items():
            if BY_ID[skill].held_out == (split == "heldout_skills"):
                tasks += _some(made, split, seed, count)
    for task in tasks:
        made_by(task.setup)
        guard(task)
    return sorted(tasks, key=lambda task: (task.split, task.task_id))


def _some(made: Workflow, split: Split, seed: int, count: int) -> list[Task]:
    found: dict[str, Task] = {}
    for item in range(ATTEMPTS * count):
        if len(found) == count:
            break
        task = make_task(made, split, seed, item)
        found.setdefault(content_key(task), task)
    if len(found) < count:
        raise TaskError(
            f"{made.skill.id} gives no more distinct tasks in {split}: {count} wanted", where="forge",
            remedy="ask for fewer, or widen what its workflow samples",
        )  # fmt: skip
    return list(found.values())


def guard(task: Task) -> None:
    """Raises `TaskError` when what a task asks for holds a word of another split, or its wording is another's."""
    group = words.bank_split(task.split)
    derived = workflow_of(task).derived
    args = {key: value for key, value in task.spec["args"].items() if key not in derived}
    used = {token for text in _texts(args) for token in _TOKEN.findall(text.lower())}
    for other, bank in words.BANK.items():
        shared = sorted(used & set(bank)) if other != group else []
        if shared:
            raise TaskError(
                f"{shared[0]!r} belongs to {other}", where=f"task {task.task_id}", remedy="fix the workflow"
            )
    template = task.wording.partition(": ")[2]
    if template not in workflow_of(task).wordings.by_split[group]:
        raise TaskError("the wording belongs to another split", where=f"task {task.task_id}")


def _texts(value: Any) -> Iterator[str]:
    """All texts in a JSON value, keys aside."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)
