"""From a hash to the run it belongs to: in the runs of this machine, the remote, git and MLflow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from components.contracts.errors import CoworkError, DataError, OrchestrationError
from components.tracking.lineage import RECORD_FILE, RunRecord
from pipelines.bundle import Bundle, load_bundle, md5_text, mlflow_runs, read_bundle
from pipelines.dvcfiles import parse_lock
from pipelines.git import ask
from pipelines.remote import find_remote, main_root
from pipelines.source_changes import Changes, git_top
from pipelines.stores import NotStored, Store, read_bytes, redact
from pipelines.workspace import Workspace

RUNS = "cowork/runs"
SHORTEST = 7
"""Digits of a short hash. Fewer would name something else tomorrow."""
NEAR = 10
"""Digits in common that make another hash worth naming when a whole one is unknown."""

Kind = Literal["output", "dvc.lock", "MLflow run", "commit", "run"]


@dataclass(frozen=True)
class Target:
    """What a hash means. `stage` is the stage to get to, empty for the whole run."""

    kind: Kind
    digest: str
    stage: str
    path: str
    bundle: Bundle
    source: str
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        what = {"output": f"{self.path} of {self.stage}"}.get(self.kind, self.kind)
        return f"{what} {self.digest}, run {self.bundle.run.run_id} ({self.source})"


@dataclass
class _Search:
    """`needle`: the hash without `md5:` and `.dir`. `looked`: places, for the message when there is nothing."""

    given: str
    needle: str
    hits: list[Target] = field(default_factory=list)
    looked: list[str] = field(default_factory=list)
    problems: list[CoworkError] = field(default_factory=list)
    near: set[str] = field(default_factory=set)
    commit_lock: str = ""
    """md5 of the `dvc.lock` that the commit of that hash holds: who commits the lock of a run means that run."""
    given_inputs: set[str] = field(default_factory=set)
    """Paths of that digest that stages read and none wrote."""


def run_key(run_id: str) -> str:
    """Where a run's record lies in a remote."""
    return f"{RUNS}/{run_id}.json"


def record_folders(workspace: Workspace) -> list[Path]:
    """Folders of this machine's runs, those of profiles and reruns included."""
    state = Workspace(main_root(workspace)).state
    return sorted([*state.glob("runs/*"), *state.glob("profiles/*/.cowork/runs/*")])


def find(workspace: Workspace, given: str, stage: str = "") -> Target:
    """What a hash means: a full or unambiguous short digest of an output, the md5 of a `dvc.lock`, an MLflow run id, a
    commit, or a run's name. `stage` narrows it. Raises OrchestrationError or DataError that says what is wrong."""
    search = _Search(given, _needle(given))
    store = remote.open() if (remote := find_remote(workspace)) else None
    commit = _commit(workspace, search)
    if commit and (lock := _git(workspace, "show", f"{commit}:./dvc.lock")):
        search.commit_lock = md5_text(lock)
    _scan_local(workspace, search, commit)
    if store is not None and not _whole(search):
        _scan_remote(store, search, commit)
    if not search.hits or commit:
        _scan_git(workspace, search, commit)
    if not search.hits and len(search.needle) == 32:
        _scan_mlflow(workspace, search, store)
    return _choose(search, stage)


def _needle(given: str) -> str:
    """Raises OrchestrationError for what can be no name of a run or of anything it made."""
    text = given.strip()
    algorithm, mark, rest = text.rpartition(":")
    if mark and algorithm != "md5":
        raise OrchestrationError(
            f"{algorithm} is not how outputs are named", where=given, remedy="DVC digests are md5:..., in full or short"
        )
    text = rest.removesuffix(".dir")
    if re.fullmatch(r"\d{8}-\d{6}-[\w.-]+", text) or re.fullmatch(r"commit-[0-9a-f]{40}", text):
        return text
    text = text.lower()
    if not re.fullmatch(r"[0-9a-f]+", text):
        raise OrchestrationError(
            "neither a hash nor the name of a run", where=given, remedy="hexadecimal digits; cowork status names runs"
        )
    if len(text) < SHORTEST:
        raise OrchestrationError(
            f"too short to name anything for sure: {len(text)} digits (ambiguous_or_short_hash)",
            where=given,
            remedy=f"give at least {SHORTEST}",
        )
    return text


def _whole(search: _Search) -> bool:
    """Whether what was found cannot become ambiguous by more of it."""
    return bool(search.hits) and len(search.needle) >= 32


# The places.


def _scan_local(workspace: Workspace, search: _Search, commit: str) -> None:
    search.looked.append("runs of this machine")
    for folder in record_folders(workspace):
        path = folder / RECORD_FILE
        if not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        named = any(known.startswith(search.needle) for known in mlflow_runs(folder))
        if named or _mentions(text, search, commit):
            try:
                bundle = load_bundle(folder)
            except CoworkError as error:
                search.problems.append(error)
                continue
            if bundle:
                _match(bundle, search, commit, "this machine")


def _scan_remote(store: Store, search: _Search, commit: str) -> None:
    search.looked.append(f"remote {store.url}")
    known = {hit.bundle.run.run_id for hit in search.hits}
    try:
        keys = store.names(f"{RUNS}/")
    except CoworkError as error:
        search.problems.append(error)
        return
    for key in keys:
        if Path(key).stem in known:
            continue
        try:
            text = read_bytes(store, key)
            if _mentions(text.decode(errors="replace"), search, commit):
                _match(read_bundle(text, key), search, commit, "remote")
        except NotStored:
            continue
        except CoworkError as error:
            search.problems.append(error)


def _mentions(text: str, search: _Search, commit: str) -> bool:
    """Whether parsing is worth it. On the way: hashes that begin like the wanted one."""
    if len(search.needle) >= 32:
        search.near |= set(re.findall(rf"\b{search.needle[:NEAR]}[0-9a-f]{{{32 - NEAR}}}\b", text))
    return any(name and name in text for name in (search.needle, commit, search.commit_lock))


def _match(bundle: Bundle, search: _Search, commit: str, source: str) -> None:
    needle, run = search.needle, bundle.run

    def hit(kind: Kind, digest: str, stage: str = "", path: str = "") -> None:
        search.hits.append(Target(kind, digest, stage, path, bundle, source))

    if run.run_id == needle:
        hit("run", run.run_id)
    if commit and (run.commit == commit or bundle.lock_md5 == search.commit_lock):
        hit("commit", commit)
    if bundle.lock_md5.startswith(needle):
        hit("dvc.lock", bundle.lock_md5)
    for known, stage in bundle.mlflow.items():
        if known.startswith(needle):
            hit("MLflow run", known, stage)
    try:
        stages = bundle.stages()
    except OrchestrationError as error:
        search.problems.append(error)
        return
    for name, entry in stages.items():
        for path, digest in entry.outs.items():
            if digest.removeprefix("md5:").startswith(needle):
                hit("output", digest, name, path)
        for path, digest in entry.deps.items():
            if digest.removeprefix("md5:").startswith(needle):
                search.given_inputs.add(path)


def _git(workspace: Workspace, *arguments: str) -> str:
    return ask(main_root(workspace), *arguments)


def _commit(workspace: Workspace, search: _Search) -> str:
    """The full id when the hash names a commit."""
    if not re.fullmatch(r"[0-9a-f]{7,40}", search.needle):
        return ""
    return _git(workspace, "rev-parse", "--verify", "--quiet", f"{search.needle}^{{commit}}").strip()


def _scan_git(workspace: Workspace, search: _Search, commit: str) -> None:
    """Locks that were committed: of this commit, and of those whose lock names the hash or is it."""
    if git_top(main_root(workspace)) is None:
        return
    search.looked.append("dvc.lock in git's history")
    seen: set[str] = set()
    for revision in _revisions(workspace, search, commit):
        if revision in seen:
            continue
        seen.add(revision)
        bundle = _from_git(workspace, revision)
        if bundle is None:
            continue
        _match(bundle, search, commit if revision == commit else "", "git")
        if search.hits and revision != commit:
            return  # the newest one that has it


def _revisions(workspace: Workspace, search: _Search, commit: str) -> Iterator[str]:
    if commit and not any(hit.kind == "commit" for hit in search.hits):
        yield commit
    if not search.hits:
        yield from _git(workspace, "log", "--all", "--format=%H", f"-S{search.needle}", "--", "dvc.lock").split()
    if not search.hits:
        for revision in _git(workspace, "log", "--all", "--format=%H", "--", "dvc.lock").split():
            if md5_text(_git(workspace, "show", f"{revision}:./dvc.lock")).startswith(search.needle):
                yield revision


def _from_git(workspace: Workspace, revision: str) -> Bundle | None:
    """What a commit alone says: lock and parameters, not the environment."""
    import yaml

    lock = _git(workspace, "show", f"{revision}:./dvc.lock")
    params = _git(workspace, "show", f"{revision}:./params.yaml")
    if not lock or not params:
        return None
    try:
        resolved = {
            key: value for entry in parse_lock(lock, "dvc.lock").values() for key, value in entry.params.items()
        }
        seed = int(resolved.get("seed", yaml.safe_load(params).get("seed", 0)))
    except (CoworkError, yaml.YAMLError, ValueError, AttributeError):
        return None
    nested: dict[str, object] = {}
    for dotted, value in resolved.items():
        *heads, last = dotted.split(".")
        place = nested
        for head in heads:
            place = place.setdefault(head, {})  # type: ignore[assignment]
        place[last] = value
    run = RunRecord(run_id=f"commit-{revision}", commit=revision, seed=seed, params=nested, status="finished")
    return Bundle(run=run, lock=lock, lock_md5=md5_text(lock), params=params, changes=Changes(state="none"))


def _scan_mlflow(workspace: Workspace, search: _Search, store: Store | None) -> None:
    """An MLflow run id whose run was recorded elsewhere: MLflow names our run, or keeps its record itself."""
    from components.tracking.mlflow_find import locate

    root = Workspace(main_root(workspace))
    for uri, found in locate(root.state, search.needle):
        search.looked.append(f"MLflow at {redact(uri)}")
        if found is None or not found.run:
            continue
        bundle = next((load_bundle(f) for f in record_folders(workspace) if f.name == found.run), None)
        source = "this machine"
        if bundle is None and store is not None:
            try:
                bundle, source = read_bundle(read_bytes(store, run_key(found.run)), run_key(found.run)), "remote"
            except NotStored:
                bundle = None
        if bundle is None and found.record:
            bundle, source = read_bundle(found.record, f"MLflow run {search.needle}"), "MLflow"
        if bundle is None:
            search.problems.append(
                DataError(f"its run {found.run} has no record here, in the remote or in MLflow", where=search.given)
            )
            continue
        search.hits.append(Target("MLflow run", search.needle, found.stage, "", bundle, source))


# The choice.


def _choose(search: _Search, stage: str) -> Target:
    if not search.hits:
        if search.problems:
            raise search.problems[0]
        raise _unknown(search)
    kinds = {(hit.kind, hit.digest) for hit in search.hits}
    outputs_of = {hit.stage for hit in search.hits if hit.kind == "output"}
    if len(kinds) > 1:
        raise _ambiguous(
            search, [f"{hit.kind} {hit.digest}" + (f" ({hit.path})" if hit.path else "") for hit in search.hits]
        )
    kind = search.hits[0].kind
    if kind == "output" and stage:
        search.hits = [hit for hit in search.hits if hit.stage == stage]
        if not search.hits:
            raise OrchestrationError(
                f"{stage} did not write it, {', '.join(sorted(outputs_of))} did", where=search.given
            )
    elif kind == "output" and len(outputs_of) > 1:
        raise _ambiguous(search, [f"{hit.path}, written by {hit.stage}" for hit in search.hits], "choose with --stage")
    elif kind in ("commit", "run") and len({(h.bundle.lock_md5, h.bundle.params) for h in search.hits}) > 1:
        raise _ambiguous(search, [f"run {hit.bundle.run.run_id}" for hit in search.hits], "give the name of a run")
    best = max(search.hits, key=_rank)
    chosen = stage or best.stage
    if chosen and chosen not in best.bundle.stages():
        raise OrchestrationError(f"run {best.bundle.run.run_id} has no stage {chosen}", where=search.given)
    notes = [str(problem) for problem in search.problems]
    return Target(best.kind, best.digest, chosen, best.path, best.bundle, best.source, tuple(notes))


def _rank(hit: Target) -> tuple[bool, bool, bool, str]:
    """Runs that really made it first, then whole runs, then known environments, then new ones."""
    run = hit.bundle.run
    made = any(entry.name == hit.stage and entry.status == "finished" for entry in run.stages)
    return made, run.status == "finished", bool(run.environment), run.run_id


def _ambiguous(search: _Search, choices: list[str], remedy: str = "give more of it") -> OrchestrationError:
    listed = "".join(f"\n  {choice}" for choice in sorted(set(choices))[:12])
    return OrchestrationError(
        f"ambiguous (ambiguous_or_short_hash), it may mean:{listed}\n", where=search.given, remedy=remedy
    )


def _unknown(search: _Search) -> OrchestrationError:
    looked = "; ".join(search.looked)
    if search.given_inputs:
        return OrchestrationError(
            f"that is {', '.join(sorted(search.given_inputs))}, which was given and not made: nothing to reproduce",
            where=search.given,
            remedy="it comes with the repository; give the hash of an output",
        )
    if search.near:
        near = sorted(search.near)[0]
        same = next(i for i, (a, b) in enumerate(zip(near, search.needle, strict=False)) if a != b)
        return OrchestrationError(
            f"no such hash, mistyped or forged (hash_not_found): {near} is known, it differs after {same} digits",
            where=search.given,
            remedy=f"looked in: {looked}",
        )
    return OrchestrationError(
        "nothing of that hash is known (hash_not_found)",
        where=search.given,
        remedy=f"looked in: {looked}; outputs and dvc.lock go by their md5",
    )
