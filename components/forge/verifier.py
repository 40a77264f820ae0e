"""The verifier: deterministic checks on files and state after the episode, outside the sandbox.

It fails closed. What a check finds wrong makes the verdict a failure with the reason; a check that itself breaks
(unknown name, bad arguments, unreadable state) makes it a failure with `Verdict.error`. Nothing an agent left
behind is followed: a symbolic link, a device or a file larger than 1 MiB is a finding, never opened.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from components.contracts.errors import CoworkError, VerifierError
from components.contracts.task import Check, CheckResult, Task, Verdict
from components.forge.preparers import HOME, STATE, Made, made_by, sheet_bytes
from components.sandbox.minidesk.store import Refused
from components.sandbox.minidesk.tables import Rows, from_csv, from_xlsx, trim

_LIMIT = 1 << 20
_ENTRIES = 2000

Finding = str
"""Why a check does not hold; "" when it holds."""


@lru_cache(maxsize=64)
def _workbook(data: bytes) -> Rows:
    """Rows of a workbook; many episodes end with the same bytes, and reading them is slow. Not to be changed."""
    return from_xlsx(data)


class Scene:
    """The end of an episode: what was there at the start (from the setup steps) and what is there now."""

    def __init__(self, task: Task, root: Path) -> None:
        self.task = task
        self.root = root

    @cached_property
    def start(self) -> Made:
        return made_by(self.task.setup)

    @cached_property
    def entries(self) -> dict[str, str]:
        """Path in home -> `file`, `folder` or `other` (links, devices...), hidden ones included."""
        found: dict[str, str] = {}
        pending = [""]
        while pending:
            folder = pending.pop()
            with os.scandir(self.root / HOME / folder) as listing:
                for entry in listing:
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        found[path] = "folder"
                        pending.append(path)
                    else:
                        found[path] = "file" if entry.is_file(follow_symlinks=False) else "other"
                    if len(found) > _ENTRIES:
                        raise VerifierError(f"more than {_ENTRIES} entries in the home directory", where="verifier")
        return found

    def read(self, path: str) -> bytes | None:
        """Bytes of a plain file in home, or None when there is none. Only opened when `entries` saw a plain file."""
        if self.entries.get(path) != "file":
            return None
        parts = path.split("/")
        handle = os.open(self.root / HOME, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for part in parts[:-1]:
                inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
                os.close(handle)
                handle = inner
            last = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=handle)
            with os.fdopen(last, "rb") as stream:
                status = os.fstat(last)
                if not stat.S_ISREG(status.st_mode) or status.st_size > _LIMIT:
                    return None
                return stream.read(_LIMIT)
        finally:
            os.close(handle)

    def rows(self, path: str) -> Rows | None:
        """Cells of a .csv or .xlsx as text, trimmed; None when it is no readable sheet."""
        data = self.read(path)
        if data is None:
            return None
        try:
            return _workbook(data) if path.endswith(".xlsx") else trim(from_csv(data))
        except Refused:  # whatever an agent wrote under a sheet's name is just not a sheet
            return None

    def state(self, name: str) -> Any:
        """State file of an app as JSON; None when there is none. Apps write these, never an agent."""
        path = self.root / STATE / f"{name}.json"
        return json.loads(path.read_bytes()) if path.exists() else None

    def unchanged(self, path: str) -> bool:
        """Whether a file of the setup is as it was: same bytes, or same cells for .xlsx."""
        if path in self.start.sheets:
            rows = self.start.sheets[path]
            return self.read(path) == sheet_bytes(rows) or self.rows(path) == trim(rows)
        return self.read(path) == self.start.files[path]


def _file_text(scene: Scene, path: str, text: str, loose: bool = False) -> Finding:
    """`loose` compares the words only (blanks and a missing last line end do not matter)."""
    data = scene.read(path)
    if data is None:
        return f"{path} is not a file"
    found = data.decode(errors="replace")
    same = found.split() == text.split() if loose else found == text
    return "" if same else f"{path} holds {found[:60]!r}, not {text[:60]!r}"


def _file_absent(scene: Scene, path: str) -> Finding:
    return f"{path} is still there" if path in scene.entries else ""


def _file_exists(scene: Scene, path: str) -> Finding:
    return "" if scene.entries.get(path) == "file" else f"{path} is not a file"


def _dir_exists(scene: Scene, path: str) -> Finding:
    return "" if scene.entries.get(path) == "folder" else f"{path} is not a folder"


def _same_bytes_as_setup(scene: Scene, path: str, source: str) -> Finding:
    """The file now at `path` holds what setup put at `source`."""
    if source in scene.start.sheets:
        same = scene.rows(path) == trim(scene.start.sheets[source])
    else:
        same = scene.read(path) == scene.start.files[source]
    return "" if same else f"{path} does not hold what {source} held at the start"


def _sheet_cell(scene: Scene, path: str, cell: str, value: str) -> Finding:
    """Cell `cell` ("b3") of a .csv or .xlsx reads `value`."""
    rows = scene.rows(path)
    if rows is None:
        return f"{path} is not a readable sheet"
    column, row = ord(cell[0]) - ord("a"), int(cell[1:]) - 1
    found = rows[row][column] if 0 <= row < len(rows) and column < len(rows[row]) else ""
    return "" if found == value else f"{cell} of {path} holds {found!r}, not {value!r}"


def _sheet_rows(scene: Scene, path: str, rows: Rows) -> Finding:
    """All cells of a .csv or .xlsx."""
    found = scene.rows(path)
    wanted = trim([[str(v) for v in row] for row in rows])
    if found is None:
        return f"{path} is not a readable sheet"
    return "" if found == wanted else f"{path} holds {str(found)[:80]}, not {str(wanted)[:80]}"


def _pref_equals(scene: Scene, key: str, value: Any) -> Finding:
    """The preference labelled `key`: true or false, a number, or the chosen option."""
    found = scene.state("prefs")["values"][key]
    return "" if found == value and type(found) is type(value) else f"{key} is {found!r}, not {value!r}"


def _form_record(scene: Scene, values: dict[str, Any]) -> Finding:
    """Exactly one record was sent; it holds these values, and what the form came with in every other field."""
    records = scene.state("forms")["records"]
    if len(records) != 1:
        return f"{len(records)} records were sent, not 1"
    wanted = {
        f["label"]: f.get("value") or (False if f["kind"] == "check" else "")
        for f in scene.start.state["forms"]["fields"]
    }
    wanted |= values
    return "" if records[0] == wanted else f"the record holds {records[0]}, not {wanted}"


def _others_unchanged(
    scene: Scene, files: list[str] | None = None, prefs: list[str] | None = None, forms: bool = False
) -> Finding:
    """Nothing else changed. `files` (paths), `prefs` (keys) and `forms` name what the task legitimately touches."""
    touched = set(files or ())
    start = scene.start
    before = dict.fromkeys((*start.files, *start.sheets), "file")
    for path in [*start.folders, *(p.rsplit("/", 1)[0] for p in before if "/" in p)]:
        before[path] = "folder"
    for path in sorted((set(before) | set(scene.entries)) - touched):
        if before.get(path) != scene.entries.get(path):
            return f"{path} was {before.get(path, 'absent')} and is {scene.entries.get(path, 'absent')}"
        if before[path] == "file" and not scene.unchanged(path):
            return f"{path} was changed"
    if "prefs" in start.state:
        was, now = start.state["prefs"]["values"], scene.state("prefs")["values"]
        changed = sorted(key for key in {*was, *now} - set(prefs or ()) if was.get(key) != now.get(key))
        if changed:
            return f"{changed[0]} was changed"
    if "forms" in start.state and not forms and scene.state("forms")["records"]:
        return "a form was sent"
    return ""


CHECKS: dict[str, Callable[..., Finding]] = {
    "file_text": _file_text,
    "file_absent": _file_absent,
    "file_exists": _file_exists,
    "dir_exists": _dir_exists,
    "same_bytes_as_setup": _same_bytes_as_setup,
    "sheet_cell": _sheet_cell,
    "sheet_rows": _sheet_rows,
    "pref_equals": _pref_equals,
    "form_record": _form_record,
    "others_unchanged": _others_unchanged,
}


def _run(check: Check, scene: Scene) -> CheckResult:
    function = CHECKS.get(check.check)
    if function is None:
        raise VerifierError(f"unknown check {check.check!r}", where="verifier", remedy=f"one of {sorted(CHECKS)}")
    finding = function(scene, **check.args)
    return CheckResult(check=check.check, passed=not finding, reason=finding)


def grade(task: Task, root: Path) -> Verdict:
    """Run all checks of a task. No checks at all is an error: nothing was promised, so nothing can be kept."""
    scene = Scene(task, root)
    results: list[CheckResult] = []
    if not task.verifier:
        return Verdict(success=False, error="the task has no checks")
    for check in task.verifier:
        try:
            results.append(_run(check, scene))
        except CoworkError as error:
            return Verdict(success=False, results=tuple(results), error=str(error))
        except Exception as error:  # fail closed: a broken check is never a success
            reason = str(VerifierError(f"{type(error).__name__}: {error}", where=f"check {check.check}"))
            return Verdict(success=False, results=tuple(results), error=reason)
    return Verdict(success=all(r.passed for r in results), results=tuple(results))
