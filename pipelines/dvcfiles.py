"""What DVC keeps in files: digests as it computes them, and `dvc.lock`. No DVC is imported here.

The format is DVC 3's (`hash: md5`): a file's MD5 over its bytes; a directory's MD5 over the JSON list of its files as
`{"md5": ..., "relpath": ...}` in the order of their paths, marked `.dir`. A test compares both with the real DVC.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.contracts.errors import OrchestrationError
from pipelines.workspace import CODEKEYS

_CHUNK = 1 << 20
_STAGE = re.compile(r"  (?P<name>[^\s#][^:]*):\s*")


@dataclass(frozen=True)
class Content:
    """A path's identity (`md5:<hex>` or `md5:<hex>.dir`, as in dvc.lock) and its size in bytes."""

    digest: str
    size: int


def _md5(path: Path) -> tuple[str, int]:
    hasher = hashlib.md5(usedforsecurity=False)
    size = 0
    with path.open("rb") as handle:
        while chunk := handle.read(_CHUNK):
            hasher.update(chunk)
            size += len(chunk)
    return hasher.hexdigest(), size


def content(path: Path) -> Content | None:
    """Identity of a file or directory, None when there is neither."""
    if path.is_file():
        digest, size = _md5(path)
        return Content(f"md5:{digest}", size)
    if not path.is_dir():
        return None
    rows, total = [], 0
    for folder, _, names in os.walk(path):
        for name in names:
            file = Path(folder) / name
            digest, size = _md5(file)
            rows.append({"md5": digest, "relpath": file.relative_to(path).as_posix()})
            total += size
    rows.sort(key=lambda row: row["relpath"])
    listing = json.dumps(rows, sort_keys=True).encode()
    return Content(f"md5:{hashlib.md5(listing, usedforsecurity=False).hexdigest()}.dir", total)


@dataclass(frozen=True)
class Locked:
    """One stage as `dvc.lock` remembers its last run. Paths to digests; params by file and dotted key."""

    cmd: str
    deps: dict[str, str] = field(default_factory=dict)
    outs: dict[str, str] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    code_key: str = ""


def read_lock(path: Path) -> dict[str, Locked]:
    """The stages of `dvc.lock`; empty when it is not there. Raises OrchestrationError when it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    return parse_lock(text, path.name)


def parse_lock(text: str, where: str) -> dict[str, Locked]:
    """The stages of the text of a `dvc.lock`. Raises OrchestrationError, for an unfinished merge by stage name."""
    import yaml

    if torn := conflicted_stages(text):
        raise OrchestrationError(
            f"two branches' entries stand side by side in stage {', '.join(torn)}",
            where=where,
            remedy="cowork data merge-lock BASE OURS THEIRS, or take those entries out: the stages run again",
        )
    try:
        raw = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)) or {}
        return {name: _locked(entry, name) for name, entry in (raw.get("stages") or {}).items()}
    except (yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
        first = str(error).splitlines()[0]
        raise OrchestrationError(
            f"cannot be read: {first}", where=where, remedy="restore it from git, or delete it to rerun everything"
        ) from None


def conflicted_stages(text: str) -> list[str]:
    """Stages in which git left its marks of a conflict, in order; "(above the stages)" for a place that is in none."""
    found: list[str] = []
    stage, inside = "(above the stages)", False
    for line in text.splitlines():
        if line.startswith(("<<<<<<< ", ">>>>>>> ")):
            inside = line.startswith("<")
            continue
        if name := _STAGE.fullmatch(line):
            stage = name["name"].strip("'\"")
        if inside and stage not in found:
            found.append(stage)
    return found


def _locked(entry: Mapping[str, Any], name: str) -> Locked:
    params = entry.get("params") or {}
    return Locked(
        cmd=entry["cmd"],
        deps={item["path"]: f"md5:{item['md5']}" for item in entry.get("deps") or []},
        outs={item["path"]: f"md5:{item['md5']}" for item in entry.get("outs") or []},
        params=dict(params.get("params.yaml") or {}),
        code_key=str((params.get(CODEKEYS) or {}).get(name, "")),
    )
