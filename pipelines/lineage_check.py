"""Whether the bytes of recorded artifacts are still there: hashed again, in the working tree and in DVC's cache.

The cache's layout is DVC 3's: `files/md5/<2 digits>/<rest>`, a directory as a JSON list of its files.
"""

from __future__ import annotations

import configparser
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from components.tracking.lineage import Artifact
from components.tracking.lineage_graph import Graph, State
from pipelines.dvcfiles import Content, content, read_lock
from pipelines.workspace import Workspace


class Checked(NamedTuple):
    """What was found, and a word on where, or on what is there instead."""

    state: State
    note: str = ""


class Checker:
    """Looks for artifacts of one recipe folder. Every path and every object is hashed once."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._cache = cache_folder(workspace.root)
        self._paths: dict[str, Content | None] = {}
        self._objects: dict[str, State] = {}
        locked = read_lock(workspace.lock_file).values()
        self._present = {path: bare(digest) for stage in locked for path, digest in stage.outs.items()}

    def check(self, path: str, digest: str, given: bool = False) -> Checked:
        """`given`: nobody made it, so the working tree is the only place where it should lie.

        An output that `dvc.lock` says should be at its path now and is other bytes is `different`, whatever the cache
        holds; of an earlier run's output nobody expects more than that the cache has it.
        """
        here = self._here(path)
        if here and bare(here.digest) == bare(digest):
            return Checked("verified")
        expected = given or self._present.get(path) == bare(digest)
        if here and expected:
            return Checked("different", f"{path} is now {here.digest}")
        state = self._cached(bare(digest))
        if state == "verified":
            return Checked(state, "in the cache")
        if state == "different":
            return Checked(state, "the cache holds other bytes under its name")
        return Checked("missing", f"{path} now holds {here.digest}" if here else "")

    def _here(self, path: str) -> Content | None:
        if path not in self._paths:
            self._paths[path] = content(self._workspace.root / path) if path else None
        return self._paths[path]

    def _cached(self, name: str) -> State:
        if name not in self._objects:
            self._objects[name] = self._look(name)
        return self._objects[name]

    def _look(self, name: str) -> State:
        file = self._cache / "files" / "md5" / name[:2] / name[2:]
        if not file.is_file():
            return "missing"
        if _md5(file) != name.removesuffix(".dir"):
            return "different"
        if not name.endswith(".dir"):
            return "verified"
        try:
            members = {str(row["md5"]) for row in json.loads(file.read_text(encoding="utf-8"))}
        except (ValueError, KeyError, TypeError):
            return "different"
        states = {self._cached(member) for member in members}
        return next((state for state in ("different", "missing") if state in states), "verified")  # type: ignore[return-value]


def bare(digest: str) -> str:
    """A digest without the name of its algorithm, as DVC's files have it."""
    return digest.rpartition(":")[2]


def _md5(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def cache_folder(root: Path) -> Path:
    """DVC's cache of a recipe folder: `cache.dir` of `.dvc/config.local` or `.dvc/config`, else `.dvc/cache`."""
    folder = root / ".dvc"
    for name in ("config.local", "config"):
        config = configparser.ConfigParser(interpolation=None, strict=False)
        try:
            config.read(folder / name, encoding="utf-8")
        except configparser.Error:
            continue
        if config.has_option("cache", "dir"):
            return folder / config.get("cache", "dir")
    return folder / "cache"


def check_graph(workspace: Workspace, graph: Graph) -> None:
    """Fill in the state of every artifact of the graph."""
    checker = Checker(workspace)
    for node in graph.nodes.values():
        node.state, node.note = checker.check(node.path, node.digest, given=not node.maker)


def check_artifacts(workspace: Workspace, artifacts: Iterable[Artifact]) -> dict[str, State]:
    """Digest -> state."""
    checker = Checker(workspace)
    return {item.digest: checker.check(item.path, item.digest).state for item in artifacts}
