"""A run's record, and a picture of which digest came from which.

`run.json` is the one file from which a run can be found, checked and repeated: commit, resolved parameters, and for
every stage its key, status and the full digests it read and wrote.
"""

from __future__ import annotations

import json
import os
from html import escape
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from components.contracts.digests import short
from components.contracts.errors import DataError
from components.contracts.secrets import scrub
from components.tracking.dag_layout import RAIL, layout, reduced

RUN_FILE = "run.json"
StageStatus = Literal["pending", "running", "finished", "failed", "killed", "reused"]
RunStatus = Literal["running", "finished", "failed", "killed"]


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


def find_digest(runs_dir: Path, digest: str) -> list[tuple[str, str, str]]:
    """(run id, stage, "input" or "output") of every run that read or wrote that digest; a unique prefix will do."""
    hits = []
    for target in sorted(runs_dir.glob(f"*/{RUN_FILE}")):
        record = RunRecord.load(target.parent)
        for stage in record.stages:
            for role, artifacts in (("input", stage.inputs), ("output", stage.outputs)):
                hits += [(record.run_id, stage.name, role) for a in artifacts if a.digest.startswith(digest)]
    return hits


# The picture.

_WIDTH, _HEIGHT, _GAP_X, _PITCH, _MARGIN = 148, 58, 44, 74, 12

_STYLE = (
    "<style>.lineage-edge{fill:none;stroke:#8a94a6;stroke-width:1.4}.lineage-box{fill:Canvas;stroke:#8a94a6;"
    "stroke-width:1.3}.lineage text{font:12px system-ui,'DejaVu Sans',sans-serif;fill:currentColor}"
    ".lineage .lineage-small{font-size:10.5px;opacity:.72}.lineage .lineage-hash{font-family:ui-monospace,monospace}"
    ".lineage-finished{stroke:#2f9e62}.lineage-failed,.lineage-killed{stroke:#d0443e;stroke-width:2}"
    ".lineage-reused{stroke:#2f9e62;stroke-dasharray:4 3}</style>"
)


def _edges(stages: list[StageRecord]) -> dict[tuple[int, int], str]:
    """(maker, reader) -> digest, for every output of a stage that another one reads."""
    made = {artifact.digest: index for index, stage in enumerate(stages) for artifact in stage.outputs}
    edges: dict[tuple[int, int], str] = {}
    for index, stage in enumerate(stages):
        for artifact in stage.inputs:
            source = made.get(artifact.digest)
            if source is not None and source != index:
                edges.setdefault((source, index), artifact.digest)
    return edges


def pipeline_picture(record: RunRecord) -> str:
    """The run's DAG from left to right as one SVG element, each stage with the short form of its first output.

    Lines that others imply are left out; a box's title lists everything the stage read and wrote, in full.
    """
    stages = record.stages
    edges = _edges(stages)
    shown = reduced(len(stages), edges)
    places = layout(len(stages), shown)

    def left_of(column: int) -> float:
        return _MARGIN + column * (_WIDTH + _GAP_X)

    left = [left_of(at) for at in places.column]
    top = [_MARGIN + at * _PITCH for at in places.row]
    width = max(left, default=0) + _WIDTH + _MARGIN
    height = max(places.rows * _PITCH, _HEIGHT) + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="lineage" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img" aria-label="stages and the digests between them">',
        _STYLE,
    ]
    for source, target in shown:
        passed = places.lines[source, target]
        stops = [(left_of(at), _MARGIN + (row + RAIL / 2) * _PITCH) for at, row in passed]
        start = (left[source] + _WIDTH, top[source] + _HEIGHT / 2)
        path = _line(start, stops, (left[target], top[target] + _HEIGHT / 2))
        says = f"{stages[source].name} to {stages[target].name}: {edges[source, target]}"
        parts.append(f'<path class="lineage-edge" d="{path}"><title>{escape(says)}</title></path>')
    parts += [_box(stage, x, y) for stage, x, y in zip(stages, left, top, strict=True)]
    return "".join(parts) + "</svg>"


def _line(start: tuple[float, float], stops: list[tuple[float, float]], end: tuple[float, float]) -> str:
    """A smooth path; at a stop it runs straight for the width of a box, between the boxes of that column."""
    path = [f"M{start[0]:.0f} {start[1]:.1f}"]
    at = start
    for x, y in [*stops, end]:
        bend = (x - at[0]) / 2
        path.append(f"C{at[0] + bend:.0f} {at[1]:.1f} {x - bend:.0f} {y:.1f} {x:.0f} {y:.1f}")
        at = (x, y)
        if (x, y) != end:
            at = (x + _WIDTH, y)
            path.append(f"H{at[0]:.0f}")
    return " ".join(path)


def _box(stage: StageRecord, x: float, y: float) -> str:
    facts = f"{stage.seconds:.0f} s" if stage.status == "finished" else stage.status
    label = short(stage.outputs[0].digest, 12) if stage.outputs else "no output"
    whole = [f"{stage.name} ({stage.status})"]
    whole += [f"reads {artifact.name} {artifact.digest}" for artifact in stage.inputs]
    whole += [f"writes {artifact.name} {artifact.digest}" for artifact in stage.outputs]
    return (
        f"<g><title>{escape(chr(10).join(whole))}</title>"
        f'<rect class="lineage-box lineage-{stage.status}" x="{x:.0f}" y="{y:.1f}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" rx="7"/><text x="{x + 10:.0f}" y="{y + 19:.1f}">{escape(stage.name)}</text>'
        f'<text class="lineage-small" x="{x + 10:.0f}" y="{y + 34:.1f}">{escape(facts)}</text>'
        f'<text class="lineage-small lineage-hash" x="{x + 10:.0f}" y="{y + 49:.1f}">{escape(label)}</text></g>'
    )
