"""A run's record, and what can be wrong with the identities in it.

`run.json` is the one file from which a run can be found, checked and repeated: commit, resolved parameters, and for
every stage its key, status and the full digests it read and wrote.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from components.contracts.errors import DataError
from components.contracts.secrets import scrub

RUN_FILE = "run.json"
RECORD_FILE = "record.json"
"""Beside it once the run is over: everything needed to repeat it (`pipelines/bundle.py`)."""
StageStatus = Literal["pending", "running", "finished", "failed", "killed", "reused"]
RunStatus = Literal["running", "finished", "failed", "killed"]

FULL_DIGEST = re.compile(r"(md5:)?[0-9a-f]{32}(\.dir)?|sha256:[0-9a-f]{64}")
"""A whole digest, as DVC or we write it. Anything shorter is a label for people."""


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Artifact(_Record):
    """A DVC-tracked file or directory. `digest` is the full one, never shortened."""

    name: str
    path: str = ""
    digest: str
    kind: Literal["data", "checkpoint"] = "data"
    size: int = 0


class StageRecord(_Record):
    """One stage of a run. `reused` = its key was known and its outputs were taken as they were."""

    name: str
    key: str = ""
    attempt: int = 0
    status: StageStatus = "pending"
    seconds: float = 0.0
    inputs: list[Artifact] = Field(default_factory=list)
    outputs: list[Artifact] = Field(default_factory=list)
    metrics: dict[str, float] = Field(default_factory=dict)
    error: str = ""


class RunRecord(_Record):
    """One run of the recipe. Times are ISO 8601 UTC text, filled in by whoever drives the run."""

    run_id: str
    profile: str = ""
    commit: str = ""
    dirty: bool = False
    seed: int = 0
    params: dict[str, Any] = Field(default_factory=dict)
    stages: list[StageRecord] = Field(default_factory=list)
    environment: dict[str, str] = Field(default_factory=dict)
    """Versions and machine facts: python, torch, transformers, cpu, cores, platform..."""
    status: RunStatus = "running"
    started: str = ""
    finished: str = ""
    rerun: str = ""
    """The stage that was asked to run again; `from_run` is the run whose outputs it was given."""
    from_run: str = ""
    incomplete: list[str] = Field(default_factory=list)
    """Paths that were pulled with files missing and were still so when the run began."""

    def stage(self, name: str) -> StageRecord:
        """The entry of that stage, made when it is not there yet."""
        for entry in self.stages:
            if entry.name == name:
                return entry
        entry = StageRecord(name=name)
        self.stages.append(entry)
        return entry

    def save(self, run_dir: Path) -> Path:
        """Write `run.json` so that a reader sees the old or the new record, never a half."""
        run_dir.mkdir(parents=True, exist_ok=True)
        target = run_dir / RUN_FILE
        draft = run_dir / f".{RUN_FILE}.{os.getpid()}"
        text = json.dumps(scrub(self.model_dump(mode="json")), indent=1, sort_keys=True, ensure_ascii=False)
        with draft.open("w", encoding="utf-8") as handle:
            handle.write(text + "\n")
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(draft, target)
        return target

    @staticmethod
    def load(run_dir: Path) -> RunRecord:
        """Raises DataError when `run.json` is missing or is not a record of ours."""
        target = run_dir / RUN_FILE
        try:
            return RunRecord.model_validate_json(target.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise DataError("no run record", where=str(target), remedy="name the folder of a run") from None
        except ValidationError as error:
            raise DataError(f"not a run record: {error.errors()[0]['msg']}", where=str(target)) from error


class Fault(_Record):
    """Something about a record's identities that a reader must know. `severe`: what it says cannot be relied on."""

    code: Literal["weak_identity", "train_equals_eval"]
    text: str
    severe: bool


def find_faults(record: RunRecord) -> list[Fault]:
    """Digests that identify nothing, and evaluations on the very data that a stage was trained on.

    A task set that serves both is no fault: its splits are in it, and the data gates look at them.
    """
    found = []
    trained: dict[str, tuple[str, str]] = {}
    for stage in record.stages:
        for artifact in (*stage.inputs, *stage.outputs):
            if not FULL_DIGEST.fullmatch(artifact.digest):
                text = f"{stage.name}: {artifact.name} is known by {artifact.digest!r} only, which is no full digest"
                found.append(Fault(code="weak_identity", text=text, severe=True))
        if any(artifact.kind == "checkpoint" for artifact in stage.outputs):
            for artifact in stage.inputs:
                if artifact.kind == "data":
                    trained.setdefault(artifact.digest, (stage.name, artifact.path or artifact.name))
    for stage in record.stages:
        if any(artifact.kind == "checkpoint" for artifact in stage.outputs):
            continue
        measures = any(artifact.kind == "checkpoint" for artifact in stage.inputs)
        for artifact in stage.inputs if measures else ():
            trainer, path = trained.get(artifact.digest, ("", ""))
            own = artifact.path or artifact.name
            if artifact.kind == "data" and trainer and path != own:
                text = f"{stage.name} measures on {own}, which is what {trainer} was trained on as {path}"
                found.append(Fault(code="train_equals_eval", text=text, severe=False))
    return list({fault.text: fault for fault in found}.values())
