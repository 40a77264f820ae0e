"""Merging `dvc.lock` by stage, as a git merge driver does it: `cowork data merge-lock BASE OURS THEIRS`.

A lock's entry says what one run of one stage read and wrote, so an entry is taken whole from one side or not at all:
changed on one side, it comes from there; changed differently on both, it is left out and the stage runs again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.contracts.errors import OrchestrationError
from pipelines.dvcfiles import conflicted_stages


@dataclass
class Merged:
    """`entries` make the merged lock. `rerun`: changed on both sides, left out. `stale`: made from an input that the
    other side has made anew since, so DVC will run it again."""

    entries: dict[str, Any] = field(default_factory=dict)
    rerun: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)


def merge_entries(base: Mapping[str, Any], ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Merged:
    """Three-way merge of the `stages` of three locks."""
    merged = Merged()
    for name in [*ours, *(name for name in theirs if name not in ours)]:
        old, left, right = base.get(name), ours.get(name), theirs.get(name)
        if left == right or right == old:
            chosen = left
        elif left == old:
            chosen = right
        else:
            merged.rerun.append(name)
            continue
        if chosen is not None:
            merged.entries[name] = chosen
    wrote = {out["path"]: out["md5"] for entry in merged.entries.values() for out in entry.get("outs") or ()}
    for name, entry in merged.entries.items():
        reads = {dep["path"]: dep["md5"] for dep in entry.get("deps") or ()}
        if any(path in wrote and wrote[path] != md5 for path, md5 in reads.items()):
            merged.stale.append(name)
    return merged


def read_entries(path: Path) -> dict[str, Any]:
    """The stages of a lock as they are written; empty for an empty file. Raises OrchestrationError."""
    import yaml

    text = path.read_text(encoding="utf-8")
    if torn := conflicted_stages(text):
        raise OrchestrationError(f"unmerged already, in stage {', '.join(torn)}", where=path.name)
    try:
        raw = yaml.safe_load(text) or {}
        return dict(raw.get("stages") or {})
    except (yaml.YAMLError, AttributeError) as error:
        raise OrchestrationError(f"no dvc.lock: {str(error).splitlines()[0]}", where=path.name) from None


def merge_files(base: Path, ours: Path, theirs: Path) -> Merged:
    """Write the merged lock over `ours`."""
    import yaml

    merged = merge_entries(*(read_entries(path) for path in (base, ours, theirs)))
    ours.write_text(
        yaml.safe_dump({"schema": "2.0", "stages": merged.entries}, sort_keys=False, default_flow_style=False),
        encoding="utf-8",
    )
    return merged
