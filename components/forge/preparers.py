"""Shared preparers: what a setup step puts into the episode's directory.

A preparer is a pure function `args -> Made` (files, folders and state files as values), so the same steps tell the
verifier what was there at the start without keeping a second copy. `prepare(task, root)` writes them:

    root/home           real files; what the Files app lists and the shell sees
    root/state/*.json   private state of the apps (prefs, forms, clipboard, what is open); the shell never sees it
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from components.contracts.errors import TaskError
from components.contracts.task import SetupStep, Task
from components.sandbox.minidesk.tables import Rows, to_csv, to_xlsx

HOME, STATE = "home", "state"


@dataclass
class Made:
    """What setup makes. `files`: path in home -> bytes; `sheets`: path of an .xlsx -> rows; `state`: name -> JSON."""

    files: dict[str, bytes] = field(default_factory=dict)
    sheets: dict[str, Rows] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    state: dict[str, Any] = field(default_factory=dict)

    def paths(self) -> set[str]:
        return {*self.files, *self.sheets, *self.folders}


def _text_file(path: str, text: str) -> Made:
    return Made(files={path: text.encode()})


def _sheet_file(path: str, rows: Rows) -> Made:
    rows = [[str(v) for v in row] for row in rows]
    return Made(sheets={path: rows}) if path.endswith(".xlsx") else Made(files={path: to_csv(rows)})


def _folder(path: str) -> Made:
    return Made(folders={path})


def _prefs(order: list[str], checks: dict[str, bool], volume: int, menu: dict[str, Any]) -> Made:
    """`order` is the order of the checkboxes on the screen: a task file sorts its keys."""
    values = {**{label: checks[label] for label in order}, "volume": volume, menu["label"]: menu["value"]}
    return Made(state={"prefs": {"values": values, "options": {menu["label"]: menu["options"]}}})


def _form(name: str, fields: list[dict[str, Any]]) -> Made:
    return Made(state={"forms": {"name": name, "fields": fields, "records": []}})


def _clipboard(text: str) -> Made:
    return Made(state={"clipboard": {"kind": "text", "text": text}})


def _open_apps(apps: list[str]) -> Made:
    """`app` or `app:path`, the last one on top; without this step the task's seed decides."""
    return Made(state={"desk": {"open": apps}})


PREPARERS: dict[str, Callable[..., Made]] = {
    "text_file": _text_file,
    "sheet_file": _sheet_file,
    "folder": _folder,
    "prefs": _prefs,
    "form": _form,
    "clipboard": _clipboard,
    "open_apps": _open_apps,
}


def made_by(setup: tuple[SetupStep, ...]) -> Made:
    """All steps together. Two steps that write one path, an unknown preparer or bad arguments are a `TaskError`."""
    total = Made()
    for step in setup:
        try:
            made = PREPARERS[step.preparer](**step.args)
        except KeyError:
            raise TaskError(
                f"unknown preparer {step.preparer!r}", where="setup", remedy=f"one of {sorted(PREPARERS)}"
            ) from None
        except (TypeError, ValueError, AttributeError) as error:
            raise TaskError(f"preparer {step.preparer!r} refused its arguments: {error}", where="setup") from error
        clash = (total.paths() & made.paths()) | (set(total.state) & set(made.state))
        if clash:
            raise TaskError(f"two setup steps make {sorted(clash)}", where="setup", remedy="name each path once")
        total.files |= made.files
        total.sheets |= made.sheets
        total.folders |= made.folders
        total.state |= made.state
    for path in total.paths():
        if path.startswith(("/", ".")) or ".." in path.split("/"):
            raise TaskError(f"setup path {path!r} leaves the home directory", where="setup")
    return total


def _empty(folder: Path) -> None:
    """Remove what is in `folder`, not the folder itself: a shell may stand in it. Links are removed, not followed."""
    folder.mkdir(parents=True, exist_ok=True)
    with os.scandir(folder) as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False):
                _force_remove(entry.path)
            else:
                os.unlink(entry.path)


def _force_remove(path: str) -> None:
    """Remove a tree even when an agent took its own write permission away."""
    os.chmod(path, stat.S_IRWXU)
    with os.scandir(path) as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False):
                _force_remove(entry.path)
            else:
                os.unlink(entry.path)
    os.rmdir(path)


@lru_cache(maxsize=256)
def _workbook(rows: tuple[tuple[str, ...], ...]) -> bytes:
    """Bytes of a workbook; the same rows give the same bytes, and a task is set up many times in a row."""
    return to_xlsx([list(row) for row in rows])


def sheet_bytes(rows: Rows) -> bytes:
    """What setup writes for an .xlsx of these rows."""
    return _workbook(tuple(map(tuple, rows)))


def prepare(task: Task, root: Path) -> None:
    """Make `root/home` and `root/state` for a task. Whatever an earlier episode left there goes first."""
    made = made_by(task.setup)
    home, state = str(root / HOME), str(root / STATE)
    _empty(root / HOME)
    _empty(root / STATE)
    for folder in sorted(made.folders | {path.rsplit("/", 1)[0] for path in made.paths() if "/" in path}):
        os.makedirs(f"{home}/{folder}", exist_ok=True)
    contents = {**made.files, **{path: sheet_bytes(rows) for path, rows in made.sheets.items()}}
    for path, data in contents.items():
        _write(f"{home}/{path}", data)
    for name, value in made.state.items():
        _write(f"{state}/{name}.json", json.dumps(value).encode())


def _write(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
