"""Paths that were pulled although files were missing: a run that begins with them says so in its record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from pipelines.dvcfiles import content
from pipelines.workspace import Workspace


def _file(workspace: Workspace) -> Path:
    return workspace.state / "incomplete.json"


def note_incomplete(workspace: Workspace, missing: Mapping[str, list[str]]) -> None:
    """Remember these paths (with the names that are missing) by the bytes they have now; none clears the note."""
    if not missing:
        _file(workspace).unlink(missing_ok=True)
        return
    noted = {}
    for path, names in missing.items():
        found = content(workspace.root / path)
        noted[path] = {"digest": found.digest if found else "", "missing": names}
    _file(workspace).parent.mkdir(parents=True, exist_ok=True)
    _file(workspace).write_text(json.dumps(noted, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def incomplete_paths(workspace: Workspace) -> list[str]:
    """Noted paths that are still what they were then."""
    try:
        noted = json.loads(_file(workspace).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    found = {path: content(workspace.root / path) for path in noted}
    return sorted(path for path, what in found.items() if (what.digest if what else "") == noted[path]["digest"])
