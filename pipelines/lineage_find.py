"""What a person means by a word: a stage, a path, a digest or its beginning, a run, a run of MLflow, an alias."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.contracts.errors import CoworkError, DataError
from components.tracking.lineage import Artifact, RunRecord
from components.tracking.lineage_graph import final_artifacts, find_artifacts
from pipelines import records
from pipelines.dvcfiles import content, read_lock
from pipelines.registry import StageDef
from pipelines.stage_params import pick
from pipelines.workspace import Workspace

LOCK = "dvc.lock"
"""Name of the stand-in record that `dvc.lock` gives: what plain `dvc repro` or `cowork step` made has no run."""
SHORTEST = 4
"""Digits of a digest that are taken for one."""
_HEX = re.compile(r"(md5:|sha256:)?[0-9a-f]+(\.dir)?")


@dataclass
class Target:
    """The artifacts that were meant, the records to trace them in (newest first), and the run that was named."""

    artifacts: list[Artifact]
    records: list[RunRecord]
    run: str = ""
    said: str = ""
    """How the word was understood, where that is not plain."""


@dataclass
class _Finder:
    workspace: Workspace
    stages: Mapping[str, StageDef]
    known: list[RunRecord]
    extra: list[RunRecord] = field(default_factory=list)
    asked_mlflow: bool = False

    @property
    def all(self) -> list[RunRecord]:
        return [*self.known, *self.extra]

    def find(self, text: str) -> Target:
        looks: tuple[Callable[[str], Target | None], ...] = (
            self._stage, self._alias, self._run, self._path, self._digest, self._mlflow,
        )  # fmt: skip
        for look in looks:
            if found := look(text.strip()):
                return found
        raise DataError(
            "no stage, path, run or recorded artifact of that name or digest", where=text,
            remedy="`cowork status --json` lists what the last run read and made; stages: " + ", ".join(self.stages),
        )  # fmt: skip

    def _target(self, artifacts: list[Artifact], run: str = "", said: str = "") -> Target:
        return Target(artifacts, self.all, run, said)

    def _stage(self, text: str) -> Target | None:
        if text not in self.stages:
            return None
        for record in self.all:
            if record.run_id == LOCK:
                entry = next((e for e in record.stages if e.name == text), None)
                if entry and entry.outputs:
                    return self._target(entry.outputs, said=f"what stage {text} made last here")
        for record in self.all:
            entry = next((e for e in record.stages if e.name == text and e.outputs), None)
            if entry:
                return self._target(entry.outputs, record.run_id, f"what stage {text} made in run {record.run_id}")
        raise DataError("this stage never ran here", where=text, remedy=f"cowork run --stage {text}")

    def _alias(self, text: str) -> Target | None:
        from components.tracking.mlflow_registry import CANDIDATE, CHAMPION, MODEL, resolve

        alias = text.removeprefix(f"{MODEL}@")
        if alias == text and text not in (CANDIDATE, CHAMPION):
            return None
        pinned = resolve(self._store(), alias)
        found = find_artifacts(self.all, pinned.digest) or find_artifacts(self._more(), pinned.digest)
        said = f"{alias} is version {pinned.version} of {MODEL}: {pinned.stage} of run {pinned.run}"
        unknown = Artifact(name="checkpoint", path=pinned.path, digest=pinned.digest, kind="checkpoint")
        return self._target(found or [unknown], pinned.run, said)

    def _run(self, text: str) -> Target | None:
        record = next((record for record in self.known if record.run_id == text), None)
        return self._whole_run(record) if record and text != LOCK else None

    def _whole_run(self, record: RunRecord) -> Target:
        ends = final_artifacts(record)
        if not ends:
            raise DataError(f"the run made nothing ({record.status})", where=record.run_id)
        return self._target(ends, record.run_id, f"run {record.run_id}: what it made that none of its stages read")

    def _path(self, text: str) -> Target | None:
        """A path as a shell completes it, or as the recipe names it; a file inside an artifact means the artifact."""
        candidates = [Path(text) if Path(text).is_absolute() else Path.cwd() / text, self.workspace.root / text]
        for candidate in candidates:
            try:
                inside = Path(os.path.abspath(candidate)).relative_to(self.workspace.root)
            except ValueError:
                continue
            for folder in (inside, *inside.parents):
                if folder.as_posix() in self._known_paths():
                    return self._at(folder.as_posix())
        return None

    def _known_paths(self) -> set[str]:
        return {path for stage in self.stages.values() for path in (*stage.inputs.values(), *stage.outputs.values())}

    def _at(self, path: str) -> Target:
        here = content(self.workspace.root / path)
        if here is None:
            newest = next((a for r in self.all for e in r.stages for a in e.outputs if a.path == path), None)
            if newest is None:
                raise DataError("nothing is there, and no run made it", where=path)
            return self._target([newest], said=f"{path} is not there; this is what a run made last")
        known = [a for a in find_artifacts(self.all, here.digest) if a.path == path] or [
            a for r in self.all for e in r.stages for a in (*e.outputs, *e.inputs)
            if a.path == path and a.digest == here.digest
        ][:1]  # fmt: skip
        if known:
            return self._target(known[:1])
        raise DataError(
            f"what lies there is {here.digest}, which no recorded run made or read", where=path,
            remedy="`cowork plan` says what was changed by hand; `cowork lineage STAGE` shows what should be there",
        )  # fmt: skip

    def _digest(self, text: str) -> Target | None:
        wanted = text.lower()
        if not _HEX.fullmatch(wanted):
            return None
        if len(wanted.rpartition(":")[2].removesuffix(".dir")) < SHORTEST:
            raise DataError(f"too short for a digest: give {SHORTEST} digits or more", where=text)
        found = find_artifacts(self.all, wanted)
        if len(found) > 1:
            lines = ", ".join(f"{a.digest} ({a.path or a.name})" for a in found[:5])
            what = f"ambiguous, {len(found)} artifacts begin like that: {lines}"
            raise DataError(what, where=text, remedy="add digits")
        if found:
            return self._target(found)
        return self._key(wanted) or self._tree(wanted)

    def _key(self, text: str) -> Target | None:
        """The key of a stage: what that stage made under it."""
        for record in self.all:
            for entry in record.stages:
                if entry.outputs and entry.key and (entry.key.startswith(text) or entry.key[7:].startswith(text)):
                    return self._target(entry.outputs, record.run_id, f"what {entry.name} made under key {entry.key}")
        return None

    def _tree(self, text: str) -> Target | None:
        """Our own digest of a checkpoint, as score files name it."""
        from components.contracts.digests import digest_tree

        if not text.startswith("sha256:"):
            return None
        for path in sorted(self._known_paths()):
            folder = self.workspace.root / path
            if folder.exists() and digest_tree(folder).startswith(text):
                return self._at(path)
        return None

    # MLflow: asked last, because that takes seconds.

    def _mlflow(self, text: str) -> Target | None:
        """A run of MLflow, by what was noted when it was sent, else by asking; or a digest known only there."""
        if not re.fullmatch(r"[0-9a-f]{32}(\.dir)?|md5:[0-9a-f]{32}(\.dir)?|[\w.-]{8,}", text):
            return None
        named = sent_as(self.workspace, text)
        if named is None:
            try:
                named = self._ask(text)
            except CoworkError:
                return None
        if named is None:
            if not (self.extra and _HEX.fullmatch(text)):
                return None
            found = find_artifacts(self.extra, text)
            return self._target(found) if len(found) == 1 else None
        run, stage = named
        record = next((record for record in self.all if record.run_id == run), None)
        record = record or next((record for record in self._more() if record.run_id == run), None)
        if record is None:
            raise DataError(f"a run of MLflow that belongs to run {run}, whose record is gone", where=text)
        if not stage:
            return self._whole_run(record)
        entry = record.stage(stage)
        if not entry.outputs:
            raise DataError(f"stage {stage} of run {run} made nothing ({entry.status})", where=text)
        return self._target(entry.outputs, run, f"what {stage} made in run {run}")

    def _store(self) -> Any:
        from components.tracking.mlflow_store import connect, default_uri, without_secrets

        uri = default_uri(self.workspace.runs / "any")
        database = Path(uri.removeprefix("sqlite:///"))
        if uri.startswith("sqlite:///") and not database.is_file():
            raise DataError("nothing was sent to MLflow from here yet", where="MLflow", remedy="cowork run")
        try:
            return connect(uri)
        except CoworkError:
            raise
        except Exception as error:
            raise DataError(f"no answer: {without_secrets(str(error), uri)[:300]}", where="MLflow") from None

    def _ask(self, text: str) -> tuple[str, str] | None:
        store = self._store()
        self._more()
        try:
            tags = store.client.get_run(text).data.tags
        except Exception:  # no such run, or none that it could be
            return None
        return (tags.get("cowork.run", ""), tags.get("cowork.stage", "")) if "cowork.run" in tags else None

    def _more(self) -> list[RunRecord]:
        """Records that only MLflow has: those of another machine, or of a `.cowork` that was deleted."""
        if not self.asked_mlflow:
            self.asked_mlflow = True
            have = {record.run_id for record in self.known}
            self.extra = [record for record in records_in_mlflow(self._store()) if record.run_id not in have]
        return self.extra


def find(workspace: Workspace, stages: Mapping[str, StageDef], text: str) -> Target:
    """What is meant by `text`. Raises DataError that says what was looked for, or what it could all mean."""
    known = [record for _, record in records.read_records(workspace)]
    return _Finder(workspace, stages, [*known, *lock_record(workspace, stages)]).find(text)


def lock_record(workspace: Workspace, stages: Mapping[str, StageDef]) -> list[RunRecord]:
    """`dvc.lock` as a record (none without one): what was made outside of `cowork run`, or by runs that are gone."""
    locked = read_lock(workspace.lock_file)
    if not locked:
        return []
    record = RunRecord(run_id=LOCK, status="finished", params={name: entry.params for name, entry in locked.items()})
    for name, entry in locked.items():
        if name in stages:
            records.note_reused(record, stages[name], entry, None)
    return [record]


def params_of(stages: Mapping[str, StageDef]) -> Callable[[RunRecord, str], dict[str, Any]]:
    """How to pick the parameters that a stage saw out of a record."""

    def pick_own(record: RunRecord, stage: str) -> dict[str, Any]:
        if record.run_id == LOCK:
            return dict(record.params.get(stage, {}))
        found = {}
        for section in ("seed", *(stages[stage].params if stage in stages else ())):
            try:
                found[section] = pick(record.params, section)
            except (KeyError, TypeError):
                continue
        return found

    return pick_own


def sent_as(workspace: Workspace, mlflow_run: str) -> tuple[str, str] | None:
    """(run, stage) that was sent as this run of MLflow; the stage is empty for a whole run. Needs no MLflow."""
    for path in sorted(workspace.runs.glob("*/ship/*/*.json")):
        try:
            sent = json.loads(path.read_text(encoding="utf-8")).get("mlflow_run")
        except (OSError, ValueError):
            continue
        if sent == mlflow_run:
            stage = "" if path.name == "parent.json" else path.name.rsplit(".", 2)[0]
            return path.parents[2].name, stage
    return None


def records_in_mlflow(store: Any, limit: int = 50) -> list[RunRecord]:
    """The run records that the newest recipe runs of MLflow hold, newest first."""
    found = []
    order = ["attributes.start_time DESC"]
    runs: Sequence[Any] = store.client.search_runs(
        [store.experiment_id], "tags.`cowork.kind` = 'recipe'", order_by=order, max_results=limit
    )
    for run in runs:
        try:
            folder = Path(store.client.download_artifacts(run.info.run_id, "run.json")).parent
            found.append(RunRecord.load(folder))
        except Exception:  # a run that never ended has no record; others may
            continue
    return found
