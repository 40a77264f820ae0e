"""Whether the bytes of recorded artifacts are still there: hashed again, in the working tree and in DVC's cache."""

from __future__ import annotations

from typing import NamedTuple

from components.contracts.digests import bare
from components.contracts.errors import DataError
from components.tracking.lineage_graph import Graph, State
from pipelines.dvcfiles import Content, content, read_lock
from pipelines.objects import object_key, verify
from pipelines.remote import cache_store
from pipelines.workspace import Workspace


class Checked(NamedTuple):
    """What was found, and a word on where, or on what is there instead."""

    state: State
    note: str = ""


class Checker:
    """Looks for artifacts of one recipe folder. Every path and every artifact is hashed once."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._cache = cache_store(workspace)
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

    def _look(self, digest: str) -> State:
        try:
            object_key(digest)
        except DataError:
            return "missing"  # no digest of DVC's: its cache cannot hold it
        found = {fault.what for fault in verify(self._cache, {"artifact": digest}).faults}
        return "different" if "corrupt" in found else "missing" if found else "verified"


def check_graph(workspace: Workspace, graph: Graph) -> None:
    """Fill in the state of every artifact of the graph."""
    checker = Checker(workspace)
    for node in graph.nodes.values():
        node.state, node.note = checker.check(node.path, node.digest, given=not node.maker)
