"""Tables of the task gate: `tasks` (one row a task), `heldout` (one row a task that is not for training), `splits`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.contracts.digests import digest_value
from components.contracts.params import Params
from components.contracts.task import Task
from components.curation.datagates.border import read_lines
from components.curation.datagates.leaks import TextIndex, content_digest, spec_key
from components.curation.datagates.loaded import Loaded, Table, shares
from components.forge.store import TASKS

ROUTES = ("gui", "terminal", "either", "hybrid")
"""Classes of tasks by how they can be solved: one channel only, each alone, or both together."""


def load(inputs: Mapping[str, Path], params: Params) -> Loaded:
    """Reads `tasks`."""
    read = read_lines(inputs["tasks"] / TASKS, Task)
    tasks = [task for _, task in read.records]
    loaded = Loaded(
        {"tasks": _tasks(read.records), "heldout": _heldout(read.records), "splits": _splits(tasks)}, read.violations
    )
    for name in ("tasks", "splits"):
        loaded.tables[name].files[TASKS] = len(tasks)
    return loaded


def route_class(task: Task) -> str:
    """One of `ROUTES`."""
    alone = {route[0] for route in task.channels if len(route) == 1}
    if not alone:
        return "hybrid"
    return "either" if len(alone) == 2 else next(iter(alone))


def _tasks(records: list[tuple[int, Task]]) -> Table:
    table = Table(
        (
            "line", "task_id", "content_is_its_id", "split", "skill", "spec", "instruction", "instruction_chars",
            "routes", "checks", "max_steps",
        )
    )  # fmt: skip
    for line, task in records:
        table.add(
            line=line, task_id=task.task_id, split=task.split, skill=task.skill, spec=digest_value(spec_key(task)),
            content_is_its_id=task.task_id == digest_value(task.model_dump(mode="json", exclude={"task_id"})),
            instruction=task.instruction, instruction_chars=len(task.instruction), routes=len(task.channels),
            checks=len(task.verifier), max_steps=task.max_steps,
        )  # fmt: skip
    return table


def _heldout(records: list[tuple[int, Task]]) -> Table:
    """Each against all training tasks. `same_task`, `same_specification`: the training task that is, "" for none."""
    table = Table(
        ("line", "task_id", "split", "same_task", "same_specification", "same_wording", "similarity", "nearest")
    )
    train = [task for _, task in records if task.split == "train"]
    contents = {content_digest(task): task.task_id for task in train}
    specs = {spec_key(task): task.task_id for task in train}
    wordings = {task.wording for task in train}
    texts = TextIndex(task.instruction for task in train)
    for line, task in records:
        if task.split != "train":
            similarity, nearest = texts.nearest(task.instruction)
            table.add(
                line=line, task_id=task.task_id, split=task.split, same_task=contents.get(content_digest(task), ""),
                same_specification=specs.get(spec_key(task), ""), same_wording=task.wording in wordings,
                similarity=similarity, nearest=nearest,
            )  # fmt: skip
    return table


def _splits(tasks: list[Task]) -> Table:
    """`skill_balance`: tasks of the rarest skill / tasks of the most frequent one."""
    table = Table(("split", "tasks", "skills", "skill_balance", *(f"{name}_share" for name in ROUTES)))
    for split in sorted({task.split for task in tasks}):
        own = [task for task in tasks if task.split == split]
        skills = Counter(task.skill for task in own)
        parts: dict[str, Any] = {f"{k}_share": v for k, v in shares(Counter(map(route_class, own)), ROUTES).items()}
        table.add(
            split=split, tasks=len(own), skills=len(skills),
            skill_balance=min(skills.values()) / max(skills.values()), **parts,
        )  # fmt: skip
    return table
