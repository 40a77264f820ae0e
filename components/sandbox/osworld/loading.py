"""Task lists and folders in OSWorld's layout: `{folder: [id, ...]}` and `folder/id.json`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.contracts.errors import TaskError
from components.sandbox.osworld.task import OsworldTask, TaskFileError, read_task

_MAX_FILE = 8 << 20


@dataclass
class Loaded:
    """Tasks by key in the order of the list; `rejected` are those that cannot be used, each with its reason."""

    tasks: dict[str, OsworldTask] = field(default_factory=dict)
    rejected: list[TaskFileError] = field(default_factory=list)

    @property
    def shared_ids(self) -> tuple[str, ...]:
        """Ids that two listed tasks have in common, usable or not: by id alone they could not be told apart."""
        return shared_ids([*self.tasks, *(error.key for error in self.rejected)])


def shared_ids(keys: Iterable[str]) -> tuple[str, ...]:
    """Ids that stand in more than one folder."""
    folders: dict[str, set[str]] = {}
    for key in keys:
        folder, _, name = key.rpartition("/")
        folders.setdefault(name, set()).add(folder)
    return tuple(sorted(name for name, found in folders.items() if len(found) > 1))


def listed_keys(task_list: Mapping[str, Any]) -> list[str]:
    """The keys of a list, in order. Raises `TaskFileError`: task_listed_twice, damaged_file."""
    keys: list[str] = []
    for folder, names in task_list.items():
        if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
            raise TaskFileError("damaged_file", str(folder), "a folder's entry is no list of ids")
        for name in names:
            key = f"{folder}/{name}"
            if ".." in key or key.startswith("/") or "\0" in key:
                raise TaskFileError("damaged_file", key, "an id is no path")
            if key in keys:
                raise TaskFileError("task_listed_twice", key, "the same task stands twice in the list")
            keys.append(key)
    return keys


def load_entries(entries: Iterable[tuple[str, bytes | Mapping[str, Any]]]) -> Loaded:
    """Task files as (key, contents). One that is damaged is rejected by name; the others are kept."""
    loaded = Loaded()
    for key, data in entries:
        try:
            loaded.tasks[key] = read_task(key, data)
        except TaskFileError as error:
            loaded.rejected.append(error)
    return loaded


def load_list(path: Path) -> Loaded:
    """A list's tasks. Files are looked for beside the list, in `examples/` too (OSWorld's own layout).

    Every listed file must be there: a benchmark never gets smaller by itself. Raises `TaskFileError`, `TaskError`.
    """
    raw = _json(path)
    if not isinstance(raw, dict):
        raise TaskFileError("damaged_file", path.name, "the list is no JSON object of folders")
    keys = listed_keys(raw)
    found: list[tuple[str, bytes]] = []
    for key in keys:
        places = [path.parent / f"{key}.json", path.parent / "examples" / f"{key}.json"]
        place = next((place for place in places if place.is_file()), None)
        if place is None:
            raise TaskFileError("task_file_missing", key, f"there is no {key}.json beside {path.name}")
        found.append((key, _bytes(place)))
    return load_entries(found)


def load_folder(folder: Path) -> Loaded:
    """All `folder/id.json` below a folder, sorted. Raises `TaskError` when there are none."""
    files = sorted(path for path in folder.glob("*/*.json") if path.is_file())
    if not files:
        raise TaskError(f"no task files in {folder.name}", where="osworld", remedy="give a folder of FOLDER/ID.json")
    return load_entries((f"{path.parent.name}/{path.stem}", _bytes(path)) for path in files)


def load(path: Path) -> Loaded:
    """A folder of tasks, or a list."""
    return load_folder(path) if path.is_dir() else load_list(path)


def success_rate(results: Mapping[str, float | None], expected: Iterable[str]) -> tuple[float, int]:
    """(mean score, number of tasks) over all tasks that were to be run, by key.

    A task without a score (its sandbox failed, or it was not run) counts 0. Raises `TaskError` for a result of no task.
    """
    keys = list(expected)
    unknown = sorted(set(results) - set(keys))
    if unknown:
        raise TaskError(f"results of tasks that are not listed: {', '.join(unknown[:5])}", where="osworld")
    if not keys:
        raise TaskError("no tasks", where="osworld", remedy="give a list with at least one")
    return sum(results.get(key) or 0.0 for key in keys) / len(keys), len(keys)


def _bytes(path: Path) -> bytes:
    try:
        if path.stat().st_size > _MAX_FILE:
            raise TaskError(f"{path.name} is larger than {_MAX_FILE} bytes", where="osworld")
        return path.read_bytes()
    except OSError as error:
        raise TaskError(f"{path.name} cannot be read: {error.strerror}", where="osworld") from error


def _json(path: Path) -> Any:
    try:
        return json.loads(_bytes(path))
    except ValueError as error:
        raise TaskFileError("damaged_file", path.name, f"no JSON: {error}") from error
