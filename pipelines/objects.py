"""DVC's objects in a store: checked, pushed and fetched all or nothing, with every missing or damaged file by name.

A file is the object `files/md5/ab/cdef...`; a directory is the object `...dir` beside it, the JSON listing of its
files. An object is believed only after its bytes were hashed, wherever it comes from.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from components.contracts.errors import DataError
from pipelines.dvcfiles import Content, content
from pipelines.stores import FolderStore, NotStored, Store

FILES = "files/md5"
PARALLEL = 4
SHOWN = 20
"""Names in a message; the JSON forms of the commands have all of them."""

What = Literal["missing", "corrupt"]


@dataclass(frozen=True)
class Fault:
    """One object that cannot be used. `name`: the file's path in the recipe; `whole` is set for a directory's
    listing, without which none of its files can be named or restored."""

    name: str
    digest: str
    what: What
    whole: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {'listing ' if self.whole else ''}{self.what} ({self.digest})"


@dataclass(frozen=True)
class Piece:
    """One object that a path needs. `name`: where its bytes belong, relative to the recipe."""

    digest: str
    name: str


@dataclass
class Report:
    """What was looked at. `pieces`: every object by path, listings first."""

    pieces: dict[str, list[Piece]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    objects: int = 0
    bytes: int = 0
    moved: int = 0
    """Objects that were sent or fetched, not found there already."""

    @property
    def state(self) -> Literal["complete", "incomplete", "corrupted", "cannot_restore"]:
        if any(fault.whole for fault in self.faults):
            return "cannot_restore"
        if any(fault.what == "corrupt" for fault in self.faults):
            return "corrupted"
        return "incomplete" if self.faults else "complete"

    def require(self, where: str, remedy: str) -> None:
        """Raises DataError that names what is missing or damaged."""
        if not self.faults:
            return
        shown = "".join(f"\n  {fault}" for fault in self.faults[:SHOWN])
        more = f"\n  and {len(self.faults) - SHOWN} more" if len(self.faults) > SHOWN else ""
        words = {"cannot_restore": "cannot be restored", "corrupted": "damaged", "incomplete": "incomplete"}
        raise DataError(
            f"the stored data is {words[self.state]}, nothing was written or started:{shown}{more}\n",
            where=where,
            remedy=remedy,
        )


def object_key(digest: str) -> str:
    """Raises DataError for what is no digest of DVC's."""
    algorithm, _, text = digest.rpartition(":")
    plain = text.removesuffix(".dir")
    if algorithm not in ("", "md5") or len(plain) != 32 or not set(plain) <= set("0123456789abcdef"):
        raise DataError(f"not a DVC digest: {digest!r}", remedy="md5:<32 hexadecimal digits>, with .dir for a folder")
    return f"{FILES}/{text[:2]}/{text[2:]}"


def _hex(digest: str) -> str:
    return digest.rpartition(":")[2].removesuffix(".dir")


def _listing(text: bytes, digest: str, path: str) -> list[Piece]:
    """The files of a directory. Raises DataError for a listing that would write outside of it."""
    try:
        rows = [(str(row["md5"]), str(row["relpath"])) for row in json.loads(text)]
    except (ValueError, TypeError, KeyError):
        raise DataError("the listing of a directory cannot be read", where=path, remedy=f"object {digest}") from None
    for _, name in rows:
        if name.startswith("/") or ".." in name.split("/") or not name:
            raise DataError(f"the listing names a file outside of its directory: {name!r}", where=path)
    return [Piece(f"md5:{md5}", f"{path}/{name}") for md5, name in rows]


def _hash(pieces: Iterable[bytes]) -> Content:
    hasher, size = hashlib.md5(usedforsecurity=False), 0
    for piece in pieces:
        hasher.update(piece)
        size += len(piece)
    return Content(hasher.hexdigest(), size)


def _each(work: Callable[[Piece], Any], pieces: Iterable[Piece]) -> Iterator[Any]:
    with ThreadPoolExecutor(PARALLEL) as pool:
        yield from pool.map(work, pieces)


def _expand(store: Store, wanted: Mapping[str, str], report: Report) -> list[Piece]:
    """The files that the wanted paths consist of; what is wrong with listings goes into the report."""
    files: list[Piece] = []
    for path, digest in sorted(wanted.items()):
        own = Piece(digest, path)
        report.pieces[path] = [own]
        if not digest.endswith(".dir"):
            files.append(own)
            continue
        report.objects += 1
        try:
            text = b"".join(store.stream(object_key(digest)))
        except NotStored:
            report.faults.append(Fault(path, digest, "missing", whole=True))
            continue
        if _hash([text]).digest != _hex(digest):
            report.faults.append(Fault(path, digest, "corrupt", whole=True))
            continue
        report.bytes += len(text)
        children = _listing(text, digest, path)
        report.pieces[path] += children
        files += children
    return files


def verify(store: Store, wanted: Mapping[str, str]) -> Report:
    """Read and hash every object that `wanted` (path -> digest) needs; nothing is kept."""
    report = Report()

    def look(piece: Piece) -> Fault | int:
        try:
            found = _hash(store.stream(object_key(piece.digest)))
        except NotStored:
            return Fault(piece.name, piece.digest, "missing")
        return found.size if found.digest == _hex(piece.digest) else Fault(piece.name, piece.digest, "corrupt")

    _take(report, _each(look, _expand(store, wanted, report)))
    return report


def _take(report: Report, found: Iterable[Fault | int]) -> None:
    for item in found:
        report.objects += 1
        if isinstance(item, Fault):
            report.faults.append(item)
        else:
            report.bytes += item


def fetch(store: Store, wanted: Mapping[str, str], cache: FolderStore, allow_missing: bool = False) -> Report:
    """Bring every object into `cache`, or none: with a fault in the report the cache is as it was.

    What the cache holds already is hashed too, and replaced where its bytes changed. `allow_missing` keeps what
    could be had.
    """
    report = Report()
    incoming = FolderStore(cache.root / f".incoming-{uuid.uuid4().hex}")
    try:
        whole = dict(wanted)
        for path, digest in sorted(wanted.items()):
            if digest.endswith(".dir"):
                found = _one(Piece(digest, path), store, cache, incoming)
                if isinstance(found, Fault):
                    report.faults.append(Fault(path, digest, found.what, whole=True))
                    report.pieces[path] = [Piece(digest, path)]
                    del whole[path]
        files = _expand(_Layered(incoming, cache), whole, report)
        _take(report, _each(lambda piece: _one(piece, store, cache, incoming), files))
        if not report.faults or allow_missing:
            for key in incoming.names(FILES) if incoming.root.exists() else []:
                target = cache.path(key)
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(incoming.path(key), target)
                report.moved += 1
    finally:
        shutil.rmtree(incoming.root, ignore_errors=True)
    return report


@dataclass
class _Layered:
    """What came in before what was there."""

    first: FolderStore
    second: FolderStore
    url: str = ""

    def stream(self, key: str) -> Iterator[bytes]:
        return self.first.stream(key) if self.first.size(key) is not None else self.second.stream(key)

    def size(self, key: str) -> int | None:
        return self.first.size(key) or self.second.size(key)

    def put(self, key: str, source: Path) -> None:
        self.first.put(key, source)

    def names(self, prefix: str) -> list[str]:
        return self.first.names(prefix)


def _one(piece: Piece, store: Store, cache: FolderStore, incoming: FolderStore) -> Fault | int:
    """The object into `incoming` unless the cache has it whole."""
    key = object_key(piece.digest)
    with suppress(NotStored):
        if (here := _hash(cache.stream(key))).digest == _hex(piece.digest):
            return here.size
    target = incoming.path(key)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    hasher, size = hashlib.md5(usedforsecurity=False), 0
    try:
        with draft.open("wb") as handle:
            for block in store.stream(key):
                hasher.update(block)
                size += handle.write(block)
    except NotStored:
        draft.unlink(missing_ok=True)
        return Fault(piece.name, piece.digest, "missing")
    if hasher.hexdigest() != _hex(piece.digest):
        draft.unlink()
        return Fault(piece.name, piece.digest, "corrupt")
    draft.chmod(0o444)
    os.replace(draft, target)
    return size


def push(cache: FolderStore, wanted: Mapping[str, str], store: Store, check: bool = False) -> Report:
    """Send every object that the store lacks. Nothing is sent when one is missing or damaged here.

    An object of the same size counts as there; `check` reads it and replaces it when its bytes differ. Listings
    go last: whoever sees one can have its files.
    """
    report = verify(cache, wanted)
    if report.faults:
        return report

    def send(piece: Piece) -> int:
        key = object_key(piece.digest)
        if store.size(key) == cache.size(key):
            if not check or _hash(store.stream(key)).digest == _hex(piece.digest):
                return 0
        store.put(key, cache.path(key))
        return 1

    every = {piece.digest: piece for pieces in report.pieces.values() for piece in pieces}
    files = [piece for digest, piece in every.items() if not digest.endswith(".dir")]
    report.moved = sum(_each(send, files))
    report.moved += sum(_each(send, [piece for digest, piece in every.items() if digest.endswith(".dir")]))
    return report


# Into the working tree.


def check_out(cache: FolderStore, report: Report, wanted: Mapping[str, str], root: Path) -> list[str]:
    """Put fetched paths into the recipe folder, each whole or not at all; the paths that were changed.

    `report` is that of `fetch`: its objects were hashed a moment ago. Files that could not be had are left out.
    """
    broken = {fault.name for fault in report.faults}
    changed = []
    for path, digest in sorted(wanted.items()):
        target = root / path
        now = content(target)
        if now is not None and now.digest == digest:
            continue
        pieces = [piece for piece in report.pieces[path] if not piece.digest.endswith(".dir")]
        if path in broken:
            continue
        draft = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        if digest.endswith(".dir"):
            draft.mkdir(parents=True)
        for piece in pieces:
            if piece.name not in broken:
                place = draft / os.path.relpath(piece.name, path) if digest.endswith(".dir") else draft
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(cache.path(object_key(piece.digest)), place)
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)
        os.replace(draft, target)
        changed.append(path)
    return changed


def unsaved(cache: FolderStore, wanted: Mapping[str, str], root: Path) -> list[str]:
    """Paths whose present bytes differ from `wanted` and are in no cache: replacing them would lose them."""
    lost = []
    for path, digest in sorted(wanted.items()):
        now = content(root / path)
        if now is not None and now.digest != digest and verify(cache, {path: now.digest}).faults:
            lost.append(path)
    return lost
