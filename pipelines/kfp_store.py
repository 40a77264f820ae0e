"""Data between Kubeflow steps: small manifests as artifacts, the data itself in a content-addressed store.

The store is a folder today. An entry `<store>/sha256-<hex>` is a file or a directory whose `digest_tree` is the entry's
name; beside it `sha256-<hex>.files.json` lists a directory's files with their digests. The listing's own digest is the
entry's name too, so a damaged file can be named.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from components.contracts.digests import canonical_json, digest_file, digest_value
from components.contracts.errors import DataError

SCHEMA = "cowork-manifest/1"
Listing = list[list[str]]
"""Sorted `[relative path, digest]` of a directory's files."""


class Manifest(BaseModel):
    """What a Kubeflow artifact of ours holds. `digest` is the identity, `uri` says where the data lay when written."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    schema_: str = Field(default=SCHEMA, alias="schema")
    stage: str
    output: str
    digest: str
    uri: str
    files: int
    bytes: int
    counts: dict[str, int] = Field(default_factory=dict)
    """Rows of tables and lines of .jsonl files by relative path without its shard number; other files by suffix."""

    def text(self) -> str:
        return json.dumps(self.model_dump(by_alias=True), indent=1, sort_keys=True) + "\n"


def read_manifest(path: Path) -> Manifest:
    """Raises DataError when the file is missing or is no manifest of ours."""
    try:
        manifest = Manifest.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"no manifest can be read: {error}", where=str(path), remedy="rerun the step") from error
    except ValidationError as error:
        raise DataError(f"not a manifest: {error.errors()[0]['msg']}", where=str(path)) from error
    if manifest.schema_ != SCHEMA:
        raise DataError(f"manifest of schema {manifest.schema_!r}, this code reads {SCHEMA!r}", where=str(path))
    return manifest


def list_tree(root: Path) -> Listing:
    """The listing whose `digest_value` is `digest_tree(root)`."""
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    return [[path.relative_to(root).as_posix(), digest_file(path)] for path in files]


def entry_path(store: Path, digest: str) -> Path:
    return store / digest.replace(":", "-")


def _listing_path(store: Path, digest: str) -> Path:
    return store / f"{digest.replace(':', '-')}.files.json"


def publish(path: Path, store: Path, *, move: bool = False) -> str:
    """Put a file or directory into the store; returns its digest. Publishing the same bytes twice is harmless.

    With `move` the source is renamed in (it must lie on the store's file system), else copied. An entry whose
    bytes no longer fit its name is replaced.

    Raises DataError when there is nothing at `path`.
    """
    if not path.exists():
        raise DataError("nothing was written here", where=str(path), remedy="the stage must write every output")
    listing = list_tree(path) if path.is_dir() else None
    digest = digest_file(path) if listing is None else digest_value(listing)
    store.mkdir(parents=True, exist_ok=True)
    target = entry_path(store, digest)
    if target.exists() and not damage(target, digest):
        return digest
    incoming = _side(store, "incoming")
    if move:
        os.rename(path, incoming)
    elif listing is None:
        shutil.copy2(path, incoming)
    else:
        shutil.copytree(path, incoming)
    _protect(incoming)
    if listing is not None:
        draft = _side(store, "listing")
        draft.write_text(canonical_json(listing), encoding="utf-8")
        os.replace(draft, _listing_path(store, digest))
    _swap_in(incoming, target)
    return digest


def _side(store: Path, kind: str) -> Path:
    return store / f".{kind}-{uuid.uuid4().hex}"


def _protect(path: Path) -> None:
    """Entries are read by many steps: their files are read-only."""
    for file in [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]:
        file.chmod(0o444)


def _swap_in(incoming: Path, target: Path) -> None:
    """Rename into place. Whatever lies there is damaged, or the same bytes from a step that was faster."""
    if target.is_dir():
        aside = _side(target.parent, "replaced")
        os.rename(target, aside)
        os.rename(incoming, target)
        shutil.rmtree(aside)
    else:
        os.replace(incoming, target)


def fetch(digest: str, store: Path) -> Path:
    """The store's copy of `digest`, read completely and checked.

    Raises DataError when it is missing, or when bytes changed (the files are named).
    """
    target = entry_path(store, digest)
    if not target.exists():
        raise DataError(
            f"no entry {digest}", where=str(store), remedy="rerun the step that made it, or name the right store"
        )
    if changed := damage(target, digest):
        raise DataError(
            f"the bytes of {digest} changed: {', '.join(changed[:5])}{' and more' if len(changed) > 5 else ''}",
            where=str(target),
            remedy="remove the entry and rerun the step that made it",
        )
    return target


def damage(target: Path, digest: str) -> list[str]:
    """Names of files that are changed, missing or foreign in an entry; empty when it is whole."""
    if target.is_file():
        return [] if digest_file(target) == digest else [target.name]
    found = list_tree(target)
    if digest_value(found) == digest:
        return []
    written = _read_listing(_listing_path(target.parent, digest), digest)
    if written is None:
        return ["(the listing is lost too, so the file cannot be named)"]
    return sorted({name for name, _ in {tuple(row) for row in found} ^ {tuple(row) for row in written}})


def _read_listing(path: Path, digest: str) -> Listing | None:
    try:
        listing = json.loads(path.read_text(encoding="utf-8"))
        return listing if digest_value(listing) == digest else None
    except (OSError, ValueError):
        return None


def describe(stage: str, output: str, digest: str, store: Path) -> Manifest:
    """The manifest of an entry."""
    target = entry_path(store, digest)
    files = [target] if target.is_file() else [path for path in sorted(target.rglob("*")) if path.is_file()]
    counts: dict[str, int] = {}
    for file in files:
        label, number = _count(file, target)
        counts[label] = counts.get(label, 0) + number
    return Manifest(
        stage=stage,
        output=output,
        digest=digest,
        uri=str(target),
        files=len(files),
        bytes=sum(file.stat().st_size for file in files),
        counts=dict(sorted(counts.items())),
    )


def _count(file: Path, root: Path) -> tuple[str, int]:
    """(label, number): rows of a table under its name without the shard number, or one more file of its suffix."""
    if file.suffix not in (".jsonl", ".parquet"):
        return f"files{file.suffix}", 1
    name = file.name if file == root else file.relative_to(root).as_posix()
    label = name[: -len(file.suffix)].rstrip("0123456789").rstrip("-_.") or name
    if file.suffix == ".jsonl":
        with file.open("rb") as handle:
            return label, sum(1 for line in handle if line.strip())
    from pyarrow import parquet

    return label, int(parquet.read_metadata(file).num_rows)
