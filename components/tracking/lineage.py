"""A run's record, and a picture of which digest came from which.

`run.json` is the one file from which a run can be found, checked and repeated: commit, resolved parameters, and for
every stage its key, status and the full digests it read and wrote.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from components.contracts.digests import short
from components.contracts.errors import DataError

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
        text = json.dumps(self.model_dump(mode="json"), indent=1, sort_keys=True, ensure_ascii=False)
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

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 148, 58, 46, 16, 12


def _edges(stages: list[StageRecord]) -> list[tuple[int, int, str]]:
    """(from, to, digest) for every output of a stage that a later stage reads."""
    made = {artifact.digest: index for index, stage in enumerate(stages) for artifact in stage.outputs}
    edges: dict[tuple[int, int], str] = {}
    for index, stage in enumerate(stages):
        for artifact in stage.inputs:
            source = made.get(artifact.digest)
            if source is not None and source != index:
                edges.setdefault((source, index), artifact.digest)
    return [(source, target, digest) for (source, target), digest in sorted(edges.items())]


def _columns(count: int, edges: list[tuple[int, int, str]]) -> list[int]:
    """Column of each stage: one right of its furthest source. A loop (not possible in a DAG) stops growing."""
    column = [0] * count
    for _ in range(count):
        before = list(column)
        for source, target, _digest in edges:
            column[target] = min(max(column[target], column[source] + 1), count)
        if column == before:
            break
    return column


def _rows(column: list[int], edges: list[tuple[int, int, str]]) -> list[float]:
    """Vertical place of each stage, in boxes: near the mean of its sources, no two of a column closer than one."""
    place = [0.0] * len(column)
    for at in sorted(set(column)):
        wanted = []
        for index in (i for i, c in enumerate(column) if c == at):
            sources = [place[source] for source, target, _digest in edges if target == index]
            wanted.append((sum(sources) / len(sources) if sources else float(index), index))
        free = 0.0
        for want, index in sorted(wanted):
            place[index] = free = max(want, free)
            free += 1.0
    lowest = min(place, default=0.0)
    return [value - lowest for value in place]


def pipeline_picture(record: RunRecord) -> str:
    """The run's DAG from left to right as one SVG element, each stage with the short form of its first output.

    Colours are CSS classes (`lineage-*`) with defaults inside, so that the picture also stands alone.
    """
    from html import escape

    stages = record.stages
    edges = _edges(stages)
    column = _columns(len(stages), edges)
    row = _rows(column, edges)
    left = [_MARGIN + c * (_WIDTH + _GAP_X) for c in column]
    top = [_MARGIN + r * (_HEIGHT + _GAP_Y) for r in row]
    width = max(left, default=0) + _WIDTH + _MARGIN
    height = max(top, default=0) + _HEIGHT + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="lineage" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img" aria-label="stages and the digests between them">',
        "<style>.lineage-edge{fill:none;stroke:#8a94a6;stroke-width:1.4}.lineage-box{fill:#8a94a61f;stroke:#8a94a6}"
        ".lineage text{font:12px system-ui,sans-serif;fill:currentColor}.lineage .lineage-small{font-size:10.5px;"
        "opacity:.72}.lineage .lineage-hash{font-family:ui-monospace,monospace}.lineage-finished{stroke:#2f9e62}"
        ".lineage-failed,.lineage-killed{stroke:#d0443e}.lineage-reused{stroke-dasharray:4 3}</style>",
    ]
    for source, target, digest in edges:
        x0, y0 = left[source] + _WIDTH, top[source] + _HEIGHT / 2
        x1, y1 = left[target], top[target] + _HEIGHT / 2
        bend = max((x1 - x0) / 2, 24)
        parts.append(
            f'<path class="lineage-edge" d="M{x0:.0f} {y0:.1f} C{x0 + bend:.0f} {y0:.1f} {x1 - bend:.0f} {y1:.1f} '
            f'{x1:.0f} {y1:.1f}"><title>{escape(stages[source].name)} to {escape(stages[target].name)}: '
            f"{escape(digest)}</title></path>"
        )
    for index, stage in enumerate(stages):
        x, y = left[index], top[index]
        facts = stage.status if stage.status != "finished" else f"{stage.seconds:.0f} s"
        label = short(stage.outputs[0].digest, 10) if stage.outputs else "no output"
        whole = "\n".join(f"{a.name} {a.digest}" for a in stage.outputs)
        parts.append(
            f'<g><title>{escape(stage.name)} ({escape(stage.status)})\n{escape(whole)}</title>'
            f'<rect class="lineage-box lineage-{stage.status}" x="{x:.0f}" y="{y:.1f}" width="{_WIDTH}" '
            f'height="{_HEIGHT}" rx="7"/><text x="{x + 10:.0f}" y="{y + 19:.1f}">{escape(stage.name)}</text>'
            f'<text class="lineage-small" x="{x + 10:.0f}" y="{y + 34:.1f}">{escape(facts)}</text>'
            f'<text class="lineage-small lineage-hash" x="{x + 10:.0f}" y="{y + 49:.1f}">{escape(label)}</text></g>'
        )
    return "".join(parts) + "</svg>"
