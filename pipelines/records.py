"""Run records as a run goes on, and what earlier runs say about the artifacts that are here now."""

from __future__ import annotations

import os
import platform
import secrets
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from components.contracts.errors import DataError
from components.contracts.params import Params
from components.tracking.costs import maker_of
from components.tracking.events import Event
from components.tracking.lineage import Artifact, RunRecord, StageRecord
from pipelines.codekeys import LIBRARIES, version
from pipelines.doctor import git_state
from pipelines.dvcfiles import Locked, read_lock
from pipelines.follow import StageView
from pipelines.registry import StageDef
from pipelines.workspace import Workspace


def now_text() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def run_directories(workspace: Workspace) -> list[Path]:
    """Folders of recorded runs, oldest first. A run's name begins with its time."""
    return sorted(path.parent for path in workspace.runs.glob("*/run.json"))


def read_records(workspace: Workspace) -> list[tuple[Path, RunRecord]]:
    """Recorded runs, newest first; records that cannot be read are left out."""
    found = []
    for folder in reversed(run_directories(workspace)):
        try:
            found.append((folder, RunRecord.load(folder)))
        except (DataError, OSError):
            continue
    return found


def open_record(workspace: Workspace, params: Params, stages: Iterable[str]) -> tuple[Path, RunRecord, bool]:
    """The record to go on with: the last run when it did not finish and had these parameters, else a new one.

    Returns (folder, record, whether it goes on).
    """
    plain = params.model_dump(mode="json")
    commit, dirty = git_state(workspace.root)
    last = next(iter(read_records(workspace)), None)
    if last and last[1].status in ("running", "failed", "killed") and last[1].params == plain:
        folder, record = last
        record.status, record.commit, record.dirty = "running", commit, dirty
        for entry in record.stages:
            if entry.status == "running":
                entry.status = "killed"
        record.save(folder)
        return folder, record, True
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    run_id = f"{stamp}-{params.profile}-{secrets.token_hex(2)}"
    record = RunRecord(
        run_id=run_id,
        profile=params.profile,
        commit=commit,
        dirty=dirty,
        seed=params.seed,
        params=plain,
        stages=[StageRecord(name=name) for name in stages],
        environment=environment(),
        started=now_text(),
    )
    folder = workspace.runs / run_id
    (folder / "logs").mkdir(parents=True)
    record.save(folder)
    return folder, record, False


def environment() -> dict[str, str]:
    """Facts about this machine and its libraries, for people who compare figures."""
    facts = {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count() or 0),
        "cpu": _cpu_name(),
    }
    if image := os.environ.get("COWORK_IMAGE_DIGEST"):
        facts["image"] = image  # set in the images, by the digest they were deployed with
    return facts | {package: version(package) for package in sorted({*LIBRARIES.values(), "dvc", "mlflow"})}


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def note_event(record: RunRecord, view: StageView, event: Event) -> bool:
    """Take a spool's record into the run record; whether it is worth saving now."""
    entry = record.stage(view.name)
    if event["k"] == "start":
        entry.status, entry.key, entry.attempt, entry.error = "running", view.key, view.attempt, ""
        entry.inputs, entry.outputs, entry.metrics = [], [], {}
        return True
    if event["k"] == "artifact":
        fields = {name: event[name] for name in ("name", "path", "digest", "kind", "size")}
        (entry.inputs if event["role"] == "input" else entry.outputs).append(Artifact(**fields))
    if event["k"] == "end":
        entry.status, entry.seconds, entry.error = event["status"], view.seconds, view.error
        entry.metrics = {name: float(value) for name, value in event.get("metrics", {}).items()}
        return True
    return False


def note_reused(record: RunRecord, stage: StageDef, locked: Locked, earlier: StageRecord | None) -> None:
    """A stage whose outputs were taken as they were: from `dvc.lock`, with time and figures of its real run."""
    entry = record.stage(stage.name)
    entry.status, entry.error = "reused", ""
    entry.inputs = [_artifact(role, path, locked.deps) for role, path in stage.inputs.items() if path in locked.deps]
    entry.outputs = [_artifact(role, path, locked.outs) for role, path in stage.outputs.items() if path in locked.outs]
    if earlier:
        entry.key, entry.seconds, entry.metrics = earlier.key, earlier.seconds, dict(earlier.metrics)


def _artifact(role: str, path: str, digests: Mapping[str, str]) -> Artifact:
    return Artifact(name=role, path=path, digest=digests[path], kind="checkpoint" if role == "checkpoint" else "data")


def origin(workspace: Workspace, stage: str, outs: Mapping[str, str]) -> tuple[Path, StageRecord] | None:
    """The newest run that really made these outputs of the stage: its folder and entry."""
    wanted = sorted(outs.values())
    for folder, record in read_records(workspace):
        for entry in record.stages:
            made = sorted(artifact.digest for artifact in entry.outputs)
            if entry.name == stage and entry.status == "finished" and made == wanted:
                return folder, entry
    return None


def made_by(workspace: Workspace, entry: StageRecord) -> Path | None:
    """Folder of the run that really made a stage's outputs, None when no recorded one did."""
    found = maker_of(entry, read_records(workspace)) if entry.outputs else None
    return found[0] if found else None


def stage_seconds(workspace: Workspace, stages: Mapping[str, StageDef]) -> dict[str, float]:
    """Wall seconds of the stages whose present outputs some recorded run made."""
    found = {}
    locked = read_lock(workspace.lock_file)
    for name in stages:
        if name in locked and (made := origin(workspace, name, locked[name].outs)):
            found[name] = made[1].seconds
    return found


def load_summary(workspace: Workspace, stages: Mapping[str, StageDef]) -> dict[str, Any]:
    """Scores of every evaluated checkpoint (see `components.tracking.scores.summary`). Missing ones are None.

    Raises DataError when a score file is damaged.
    """
    from pydantic import ValidationError

    from components.tracking.scores import SCORED, Scores, summary

    scores = {}
    for name in SCORED:
        stage = stages.get(f"evaluate-{name}")
        path = workspace.root / (stage.outputs["scores"] if stage else f"outputs/scores/{name}") / "scores.json"
        if not path.is_file():
            continue
        try:
            scores[name] = Scores.model_validate_json(path.read_text(encoding="utf-8"))
        except ValidationError as error:
            raise DataError(
                f"not a score file: {error.errors()[0]['msg']}",
                where=str(path.relative_to(workspace.root)),
                remedy=f"cowork rerun evaluate-{name}",
            ) from error
    return summary(scores, stage_seconds(workspace, stages))  # type: ignore[arg-type]


def report_page(workspace: Workspace, stages: Mapping[str, StageDef]) -> Path | None:
    """The newest run's page, else the report stage's; None before there is one."""
    pages = [folder / "report.html" for folder in reversed(run_directories(workspace))]
    if found := next((page for page in pages if page.is_file()), None):
        return found
    stage = stages.get("report")
    folder = workspace.root / (next(iter(stage.outputs.values())) if stage else "outputs/report")
    return next(iter(sorted(folder.glob("*.html"))), None)
