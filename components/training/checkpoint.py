"""Checkpoints that are either whole or visibly not there.

A checkpoint is a folder `step-XXXXXXXX` with the state's files, `meta.json`, `manifest.json` (size and sha256 of each
file) and, written last, `STABLE`. It is written under a hidden name, flushed to disk, renamed, and only then marked, so
a kill at any moment leaves the previous checkpoint untouched and the new one recognisably unfinished. What goes into
the folder is the caller's: see `tensor_state` for modules and optimizers without pickle.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.contracts.digests import canonical_json, digest_bytes, digest_file
from components.contracts.errors import CheckpointError
from components.training.tensor_state import load_state, safetensors_check, safetensors_report, save_state

__all__ = [
    "STABLE", "Checkpoint", "atomic_dir", "atomic_write", "free_space_check", "latest", "load", "load_state",
    "require_same", "safetensors_check", "safetensors_report", "save", "save_state",
]  # fmt: skip

STABLE = "STABLE"
_MANIFEST = "manifest.json"
_META = "meta.json"
_PREFIX = "step-"
_PARTIAL = ".partial-"
_REMOVED = ".removed-"

Writer = Callable[[Path], None]


# --------------------------------------------------------------------------------------------------- atomic outputs


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _fsync_tree(root: Path) -> None:
    """Flush every file, then every folder from the deepest up: a rename must not overtake the data it names."""
    for path in sorted(root.rglob("*"), reverse=True):
        if not path.is_symlink():
            _fsync(path)
    _fsync(root)


def atomic_write(path: Path, data: bytes | str) -> None:
    """Write a file so that a reader sees the old content or the whole new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{_PARTIAL}{path.name}")
    with partial.open("wb") as handle:
        handle.write(data.encode() if isinstance(data, str) else data)
        handle.flush()
        os.fsync(handle.fileno())
    partial.replace(path)
    _fsync(path.parent)


@contextmanager
def atomic_dir(final: Path) -> Iterator[Path]:
    """Yield an empty sibling folder to write into; on a clean exit it is flushed and takes the place of `final`.

    An exception or a kill leaves `final` as it was (an old result, or nothing). Leftovers of an earlier kill are
    cleared on entry. An existing `final` is moved aside before it is replaced.
    """
    final = Path(final)
    final.parent.mkdir(parents=True, exist_ok=True)
    partial = final.with_name(f"{_PARTIAL}{final.name}")
    removed = final.with_name(f"{_REMOVED}{final.name}")
    if removed.exists() and not final.exists():
        removed.rename(final)  # killed between the two renames below: the old result is still the valid one
    for left in (partial, removed):
        shutil.rmtree(left, ignore_errors=True)
    partial.mkdir()
    try:
        yield partial
        _fsync_tree(partial)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    if final.exists():
        final.rename(removed)
    partial.rename(final)
    _fsync(final.parent)
    if removed.is_dir():
        shutil.rmtree(removed, ignore_errors=True)
    else:
        removed.unlink(missing_ok=True)


def free_space_check(path: Path, needed: int) -> None:
    """Raise CheckpointError, with both numbers, when the file system of `path` lacks `needed` bytes."""
    place = Path(path)
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < needed:
        raise CheckpointError(
            f"{needed} bytes are needed and {free} are free", where=str(path), remedy="free disk space, then run again"
        )


# ------------------------------------------------------------------------------------------------------ checkpoints


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint: its folder, its step and the `meta` it was saved with."""

    path: Path
    step: int
    meta: dict[str, Any]

    @property
    def digest(self) -> str:
        """Digest of its manifest, hence of all content."""
        return (self.path / STABLE).read_text().strip()


def _folder(root: Path, step: int) -> Path:
    return root / f"{_PREFIX}{step:08d}"


def _manifest(folder: Path) -> str:
    files = {
        p.relative_to(folder).as_posix(): {"bytes": p.stat().st_size, "digest": digest_file(p)}
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }
    return canonical_json({"files": files}) + "\n"


def save(
    root: Path, step: int, state: Writer | Mapping[str, bytes | str], meta: Mapping[str, Any], *, keep: int = 2
) -> Checkpoint:
    """Write the checkpoint of `step` under `root` and remove all but the newest `keep` complete ones.

    `state` writes files into the folder it is given, or is a mapping of file name to content. `meta` is plain JSON:
    digests of data and params, data position, metric position and whatever else a resume must know. A half-written
    folder of the same step is replaced, a complete one refused (CheckpointError).
    """
    root = Path(root)
    final = _folder(root, step)
    if (final / STABLE).exists():
        raise CheckpointError(
            f"checkpoint of step {step} is already complete", where=str(final), remedy="resume from it or remove it"
        )
    with atomic_dir(final) as partial:
        if callable(state):
            state(partial)
        else:
            for name, content in state.items():
                target = partial / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content.encode() if isinstance(content, str) else content)
        for reserved in (_META, _MANIFEST, STABLE):
            if (partial / reserved).exists():
                raise CheckpointError(f"the state wrote {reserved}, a name of the checkpoint itself", where=str(final))
        (partial / _META).write_text(canonical_json({**meta, "step": step}) + "\n")
        manifest = _manifest(partial)
        (partial / _MANIFEST).write_text(manifest)
    atomic_write(final / STABLE, digest_bytes(manifest.encode()) + "\n")
    _retain(root, keep)
    return Checkpoint(final, step, _read_meta(final))


def _retain(root: Path, keep: int) -> None:
    complete = [folder for folder in _step_folders(root) if _missing(folder) == ""]
    for folder in complete[: max(0, len(complete) - max(keep, 1))]:
        doomed = folder.with_name(f"{_REMOVED}{folder.name}")
        folder.rename(doomed)  # one step takes it out of sight: a kill here leaves no half-removed checkpoint
        shutil.rmtree(doomed, ignore_errors=True)
    for left in root.glob(f"{_REMOVED}{_PREFIX}*"):
        shutil.rmtree(left, ignore_errors=True)


def _step_folders(root: Path) -> list[Path]:
    found = [p for p in root.glob(f"{_PREFIX}*") if p.is_dir() and p.name[len(_PREFIX) :].isdigit()]
    return sorted(found, key=lambda p: int(p.name[len(_PREFIX) :]))


def _missing(folder: Path) -> str:
    """Why a folder is not a complete checkpoint, or "" when its marker stands on its manifest."""
    if not (folder / STABLE).is_file():
        return f"no {STABLE} marker: it was never finished"
    manifest = folder / _MANIFEST
    if not manifest.is_file():
        return f"{_MANIFEST} is missing"
    if digest_bytes(manifest.read_bytes()) != (folder / STABLE).read_text().strip():
        return f"{_MANIFEST} does not match {STABLE}"
    return ""


def _read_meta(folder: Path) -> dict[str, Any]:
    try:
        meta = json.loads((folder / _META).read_text())
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"{_META} cannot be read: {error}", where=str(folder), remedy="remove this checkpoint to use an older one"
        ) from error
    return dict(meta)


def latest(root: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest complete checkpoint under `root` (None when there is none), and a warning per unfinished one, by name.

    Content is not read here: `load` verifies it, and a damaged newest checkpoint is an error there, never a silent
    fall-back to an older step.
    """
    root = Path(root)
    warnings = [f"{p.name}: half written, ignored" for p in sorted(root.glob(f"{_PARTIAL}{_PREFIX}*"))]
    newest: Path | None = None
    for folder in _step_folders(root):
        if reason := _missing(folder):
            warnings.append(f"{folder.name}: {reason}, ignored")
        else:
            newest = folder
    if newest is None:
        return None, warnings
    return Checkpoint(newest, int(newest.name[len(_PREFIX) :]), _read_meta(newest)), warnings


def load(path: Path) -> Checkpoint:
    """Verify every file of a checkpoint against its manifest. CheckpointError names the first bad file."""
    path = Path(path)
    if not path.is_dir():
        raise CheckpointError("checkpoint not found", where=str(path), remedy="check the path; nothing was started")
    if reason := _missing(path):
        raise CheckpointError(reason, where=str(path), remedy="use an older checkpoint or restart the stage")
    files = json.loads((path / _MANIFEST).read_text())["files"]
    for name, entry in files.items():
        file = path / name
        remedy = "nothing was overwritten: restore the file, or remove this checkpoint to use an older one"
        if not file.is_file():
            raise CheckpointError(f"{name} is missing", where=str(path), remedy=remedy)
        if file.stat().st_size != entry["bytes"]:
            raise CheckpointError(
                f"{name} has {file.stat().st_size} bytes, {entry['bytes']} were written", where=str(path), remedy=remedy
            )
        if digest_file(file) != entry["digest"]:
            raise CheckpointError(f"{name} does not match its digest", where=str(path), remedy=remedy)
    return Checkpoint(path, int(path.name[len(_PREFIX) :]), _read_meta(path))


def require_same(
    meta: Mapping[str, Any], expected: Mapping[str, Any], *, required: Sequence[str] = (), where: str = ""
) -> None:
    """Refuse a resume under other conditions: every differing name is listed with both values.

    `expected` is what this run has now, e.g. {"data_digest": ..., "params_digest": ..., "world_size": 8}; a name the
    checkpoint does not know differs. `required` names must be in `meta` whatever their value, e.g. "data_position".
    """
    problems = [f"{name} is missing" for name in required if name not in meta]
    for name, now in expected.items():
        if name not in meta:
            problems.append(f"{name} was not saved, now {now}")
        elif meta[name] != now:
            problems.append(f"{name} was {meta[name]}, now {now}")
    if problems:
        raise CheckpointError(
            "cannot resume: " + "; ".join(problems), where=where, remedy="restore the old inputs or restart the stage"
        )
