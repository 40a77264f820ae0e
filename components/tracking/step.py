"""The `report` stage, and the fuller page of a whole run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.contracts.digests import canonical_json
from components.contracts.params import Params
from components.contracts.stage import StepContext
from components.tracking.costs import gather_costs
from components.tracking.gather import gather
from components.tracking.lineage import RunRecord
from components.tracking.lineage_graph import State
from components.tracking.mlflow_parent import PAGE
from components.tracking.prices import PriceTable
from components.tracking.report.build import build_report
from components.tracking.report.data import ReportData
from components.tracking.report.views import duration
from components.tracking.scores import summary


def run(params: Params, inputs: dict[str, Path], outputs: dict[str, Path], ctx: StepContext) -> dict[str, float]:
    """Write `report`: report.html and summary.json, both from the inputs alone (equal inputs, equal bytes).

    Times, costs and lineage belong to a run, not to its artifacts: `write_run_report` adds them.
    """
    from components.contracts.artifacts import output_dir

    data = gather(inputs, params.model_dump(mode="json"), params.report.episodes)
    page = build_report(data)
    with output_dir(outputs["report"]) as folder:
        (folder / PAGE).write_text(page, encoding="utf-8")
        (folder / "summary.json").write_text(canonical_json(summary(data.scores)) + "\n", encoding="utf-8")
    ctx.events.progress(1, 1, "page")
    return {
        "stages": float(len(data.scores)),
        "episodes": float(len(data.episodes)),
        "bytes": float(len(page.encode())),
    }


def add_run(
    data: ReportData, run_dir: Path, made_by: Mapping[str, Path] | None = None, table: PriceTable | None = None
) -> ReportData:
    """The page's data with what only a run knows. `made_by`: reused stage -> folder of the run that did its work."""
    record = RunRecord.load(run_dir)
    costs = gather_costs(run_dir, record, table or PriceTable(), (made_by or {}).get)
    data.record = record
    data.costs, data.spent, data.per_unit = costs.stages, costs.spent, costs.per_unit
    data.seconds = {stage.name: stage.seconds for stage in record.stages if stage.seconds}
    data.params = data.params or record.params
    data.facts = _facts(record) | data.facts
    failed = [f"{stage.name} {stage.status}: {stage.error}" for stage in record.stages if stage.error]
    data.notes = failed + data.notes
    return data


def _facts(record: RunRecord) -> dict[str, str]:
    facts: dict[str, Any] = {
        "run": record.run_id, "profile": record.profile, "status": record.status,
        "commit": record.commit[:10] + (" + changes" if record.dirty else ""), "seed": record.seed,
        "started": record.started, "stage time": duration(sum(stage.seconds for stage in record.stages)),
    }  # fmt: skip
    return {name: str(value) for name, value in facts.items() if value != ""}


def write_run_report(
    run_dir: Path,
    inputs: Mapping[str, Path],
    params: Mapping[str, Any],
    episodes: int,
    made_by: Mapping[str, Path] | None = None,
    table: PriceTable | None = None,
    checked: Mapping[str, State] | None = None,
) -> Path:
    """The whole page of a run, `<run_dir>/report.html`: the report stage's with costs, times and lineage.

    `checked`: digest -> what hashing the files again has found.

    Inputs that do not exist (yet) are left out, so a failed or running recipe has a page too.
    """
    present = {name: path for name, path in inputs.items() if path.exists()}
    data = add_run(gather(present, params, episodes), run_dir, made_by, table)
    data.checked = dict(checked or {})
    page = build_report(data)
    target = run_dir / PAGE
    draft = run_dir / f".{PAGE}.{os.getpid()}"
    draft.write_text(page, encoding="utf-8")
    os.replace(draft, target)
    return target
