"""`cowork costs`: what a run cost, by stage, by model and by what came of it."""

from __future__ import annotations

import json
from pathlib import Path

from components.contracts.errors import OrchestrationError
from components.contracts.load_params import nearest
from components.tracking.costs import Costs, gather_costs, text
from components.tracking.lineage import RunRecord
from pipelines import records
from pipelines.inspection import existing_workspace
from pipelines.pricing import prices_of
from pipelines.workspace import Workspace


def show_costs(profile: str, run: str, as_json: bool) -> int:
    """Raises OrchestrationError for a run that is not there."""
    workspace = existing_workspace(profile)
    found = choose_run(workspace, run)
    if found is None:
        print(json.dumps({"run": None}) if as_json else "no run yet; `cowork run` starts one")
        return 0
    costs = costs_of(workspace, *found)
    if as_json:
        print(json.dumps(costs.model_dump(mode="json"), indent=1, sort_keys=True, allow_nan=False))
    else:
        print(text(costs))
    return 0


def choose_run(workspace: Workspace, run: str) -> tuple[Path, RunRecord] | None:
    """The run of that name (a beginning will do), without a name the last one; None when nothing ran yet."""
    every = records.read_records(workspace)
    if not run:
        return next(iter(every), None)
    hits = [(folder, record) for folder, record in every if record.run_id == run] or [
        (folder, record) for folder, record in every if record.run_id.startswith(run)
    ]
    if len(hits) == 1:
        return hits[0]
    names = [record.run_id for _, record in hits or every]
    what = f"{len(hits)} runs begin with {run!r}" if hits else f"no run {run!r}"
    near = "" if hits or not names else f"; did you mean {nearest(run, names)!r}?"
    remedy = f"runs: {', '.join(names[:8])}" if names else "cowork run"
    raise OrchestrationError(what + near, where="--run", remedy=remedy)


def costs_of(workspace: Workspace, folder: Path, record: RunRecord) -> Costs:
    """A run's costs; for what it reused, those of the run that did the work."""

    return gather_costs(
        folder, record, prices_of(workspace), lambda stage: records.made_by(workspace, record.stage(stage))
    )
