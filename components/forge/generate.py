"""From workflows to tasks: sampled, content-addressed, deduplicated, split-guarded, gated, balanced over skills."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from components.contracts.digests import canonical_json
from components.contracts.errors import TaskError
from components.contracts.rng import stream
from components.contracts.task import Split, Task
from components.forge import words
from components.forge.workflows import WORKFLOWS, Bank, Workflow, routes

SPLITS: tuple[Split, ...] = get_args(Split)
ATTEMPTS = 40
"""Tries for one wanted task before the skill counts as exhausted: duplicates and refused tasks cost one each."""


@dataclass(frozen=True)
class Rejected:
    """A task that was made and not kept. `reason` starts with the gate's case or with `duplicate`."""

    task: Task
    reason: str


@dataclass
class Generated:
    tasks: list[Task] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)


Gate = Callable[[Sequence[Task]], list[str]]
"""For each task the reason to refuse it, or "" (see `gate.py`)."""


def make_task(made: Workflow, split: Split, seed: int, item: int) -> Task:
    """The task of one named random stream: same arguments, same task."""
    rng = stream(seed, f"forge/{split}/{made.skill.id}", item)
    args = made.sample(rng, Bank(split, rng))
    branches = made.branches(args)
    template = made.wordings.draw(rng, split)
    return Task.build(
        skill=made.skill.id,
        workflow=f"{made.skill.id}@{made.version}",
        apps=made.skill.apps,
        channels=routes(branches.plan),
        instruction=template.format(**args),
        wording=f"{made.skill.id}: {template}",
        spec={"args": args, "plan": [dict(stage) for stage in branches.plan]},
        setup=branches.setup,
        verifier=branches.checks,
        split=split,
        max_steps=made.max_steps,
        seed=rng.randrange(1 << 31),
    )


def workflow_of(task: Task) -> Workflow:
    made = WORKFLOWS.get(task.skill)
    if made is None or task.workflow != f"{made.skill.id}@{made.version}":
        raise TaskError(f"task made by unknown workflow {task.workflow!r}", where=task.task_id, remedy="generate anew")
    return made


def content_key(task: Task) -> str:
    """Two tasks with equal keys ask for the same thing in the same scene; looks and wording aside."""
    return canonical_json([task.skill, task.spec["args"]])


def shares(total: int, skills: Sequence[str]) -> dict[str, int]:
    """`total` spread evenly over skills; the first ones get one more."""
    base, extra = divmod(total, len(skills))
    return {skill: base + (index < extra) for index, skill in enumerate(skills)}


def skills_of(split: Split) -> tuple[str, ...]:
    held_out = split == "heldout_skills"
    return tuple(skill for skill, made in WORKFLOWS.items() if made.skill.held_out == held_out)


def generate(seed: int, counts: dict[Split, int], gate: Gate) -> Generated:
    """The wanted number of tasks of every split. Order: split, then task id.

    Candidates are made in rounds of one batch, so a gate may spread a batch over processes. Raises `TaskError` when
    a skill has no more distinct tasks to offer or the splits share anything.
    """
    result = Generated()
    seen: dict[str, set[str]] = {skill: set() for skill in WORKFLOWS}
    for split in SPLITS:
        result.tasks += _fill(seed, split, counts.get(split, 0), seen, gate, result.rejected)
    result.tasks.sort(key=lambda t: (t.split, t.task_id))
    result.rejected.sort(key=lambda r: (r.task.split, r.task.task_id, r.reason))
    guard_splits(result.tasks)
    return result


def _fill(
    seed: int, split: Split, total: int, seen: dict[str, set[str]], gate: Gate, rejected: list[Rejected]
) -> list[Task]:
    kept: list[Task] = []
    missing = Counter(shares(total, skills_of(split)) if total else {})
    tried: Counter[str] = Counter()
    wanted = Counter(missing)
    while missing:
        batch: list[Task] = []
        for skill, count in sorted(missing.items()):
            for _ in range(count):
                if tried[skill] >= ATTEMPTS * wanted[skill]:
                    raise TaskError(
                        f"skill {skill!r} gives no more distinct tasks in {split}: {wanted[skill]} wanted",
                        where="forge",
                        remedy=f"ask for fewer {split} tasks, or widen what its workflow samples",
                    )
                task = make_task(WORKFLOWS[skill], split, seed, tried[skill])
                tried[skill] += 1
                key = content_key(task)
                if key in seen[skill]:
                    rejected.append(Rejected(task, "duplicate: another task asks the same in the same scene"))
                else:
                    seen[skill].add(key)
                    batch.append(task)
        for task, reason in zip(batch, gate(batch), strict=True):
            if reason:
                rejected.append(Rejected(task, reason))
            else:
                kept.append(task)
                missing[task.skill] -= 1
        missing = +missing
    return kept


# -- what must never cross a split -----------------------------------------------------------------------------

_TOKEN = re.compile(r"[a-z]+|\d+")
_ALL_BANK = {word for group in words.BANK.values() for word in group}


def values_of(task: Task) -> set[str]:
    """Bank words and two-digit numbers that a task shows or asks for. What follows from others (a sum) is left out."""
    derived = workflow_of(task).derived
    args = {k: v for k, v in task.spec["args"].items() if k not in derived}
    tokens = set(_TOKEN.findall(task.instruction))
    for text in _strings([args, [s.args for s in task.setup]]):
        tokens.update(_TOKEN.findall(text))
    return {t for t in tokens if t in _ALL_BANK or (t.isdigit() and len(t) == 2)}


def _strings(value: Any) -> Iterator[str]:
    """Every text and number in a JSON value, keys aside."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _strings(inner)
    elif not isinstance(value, bool) and value is not None:
        yield str(value)


def guard_splits(tasks: Iterable[Task]) -> None:
    """Raises `TaskError` when train, dev and held-out tasks share a value, a file name or a wording.

    Tasks of `heldout_skills` use the held-out words: they count as held out.
    """
    owner: dict[tuple[str, str], str] = {}
    for task in tasks:
        group = words.bank_split(task.split)
        used = [("wording", task.wording), *(("value", v) for v in values_of(task))]
        used += [("file", str(s.args["path"])) for s in task.setup if "path" in s.args]
        for kind, name in used:
            first = owner.setdefault((kind, name), group)
            if first != group:
                raise TaskError(
                    f"{kind} {name!r} is in {first} and in {group}", where=f"task {task.task_id}", remedy="fix the bank"
                )
