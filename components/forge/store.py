"""Task files. Sorted, canonical JSON, one record a line: the same tasks give the same bytes.

tasks.jsonl      kept tasks, by split and id
rejected.jsonl   {"reason": ..., "task": {...}} of what the gate or the duplicate check refused
summary.json     counts by split, skill, class, route and reason
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from components.contracts.digests import canonical_json
from components.contracts.errors import DataError
from components.contracts.task import Split, Task
from components.forge.generate import Generated
from components.forge.skills import BY_ID

TASKS, REJECTED, SUMMARY = "tasks.jsonl", "rejected.jsonl", "summary.json"


def summarise(made: Generated) -> dict[str, Any]:
    splits: dict[str, Any] = {}
    for task in made.tasks:
        entry = splits.setdefault(
            task.split, {"tasks": 0, "skills": Counter(), "classes": Counter(), "routes": Counter(), "wordings": set()}
        )
        entry["tasks"] += 1
        entry["skills"][task.skill] += 1
        entry["classes"][BY_ID[task.skill].kind] += 1
        entry["routes"].update("+".join(route) for route in task.channels)
        entry["wordings"].add(task.wording)
    return {
        "splits": {
            name: {key: len(value) if isinstance(value, set) else value for key, value in entry.items()}
            for name, entry in splits.items()
        },
        "rejected": len(made.rejected),
        "rejected_by_case": Counter(r.reason.split(":")[0] for r in made.rejected),
        "rejected_by_skill": Counter(r.task.skill for r in made.rejected),
        "skills": {
            s.id: {"kind": s.kind, "apps": s.apps, "version": s.version, "held_out": s.held_out} for s in BY_ID.values()
        },
    }


def save(made: Generated, folder: Path) -> None:
    """Write the three files into `folder`, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    _lines(folder / TASKS, (t.model_dump(mode="json") for t in made.tasks))
    _lines(folder / REJECTED, ({"reason": r.reason, "task": r.task.model_dump(mode="json")} for r in made.rejected))
    (folder / SUMMARY).write_text(json.dumps(summarise(made), sort_keys=True, indent=1) + "\n")


def _lines(path: Path, records: Iterable[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(canonical_json(record) + "\n" for record in records)


def load_tasks(folder: Path, *splits: Split) -> list[Task]:
    """Tasks of the given splits (all when none is named), in file order. Raises `DataError` naming file and line."""
    path = folder / TASKS
    if not path.is_file():
        raise DataError("no task file", where=str(path), remedy="run the forge stage")
    tasks = []
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                task = Task.model_validate_json(line)
            except ValueError as error:
                raise DataError(
                    f"bad task: {error}", where=f"{path}:{number}", remedy="run the forge stage anew"
                ) from error
            if not splits or task.split in splits:
                tasks.append(task)
    return tasks
