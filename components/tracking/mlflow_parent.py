"""The run of a whole recipe on the MLflow side: what its page holds, in parts that are sent when they change."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.tracking.events import VALIDATION, flatten, list_spools
from components.tracking.lineage import RECORD_FILE, RUN_FILE, RunRecord, find_faults
from components.tracking.lineage_graph import build_graph
from components.tracking.lineage_picture import graph_picture, pipeline_picture
from components.tracking.mlflow_child import EVALUATES, send_params, send_results, send_tags
from components.tracking.mlflow_links import link_runs, link_tags
from components.tracking.mlflow_names import PARAM_LIMIT, clean_name
from components.tracking.mlflow_store import Store

PAGE = "report.html"
"""Page of a run (`step.write_run_report`); goes up with the run's record when it is there."""
PICTURE = "lineage.svg"
GRAPH = "lineage.json"
RUN_FILES = (PAGE, PICTURE, GRAPH, RECORD_FILE)
"""What whoever drives a run may leave beside its record for people; goes up when the run is over."""
STAGE_PICTURE = "picture of "


def run_parts(run_dir: Path, record: RunRecord | None) -> dict[str, Any]:
    """What the recipe's run should hold by now. Files go up once, when the run is over."""
    if record is None:
        return {}
    facts = {
        "mlflow.source.git.commit": record.commit, "mlflow.source.name": "cowork run", "mlflow.source.type": "LOCAL",
        "cowork.dirty": str(record.dirty).lower(), "cowork.profile": record.profile, "cowork.seed": str(record.seed),
        "mlflow.note.content": note(record),
    }  # fmt: skip
    facts |= {f"cowork.reused.{stage.name}": stage.key for stage in record.stages if stage.status == "reused"}
    facts |= {f"cowork.{fault.code}": fault.text for fault in find_faults(record)}
    parts: dict[str, Any] = {"tags": {name: value for name, value in facts.items() if value}}
    if links := link_tags(record):
        parts["links"] = links
    if record.params:
        parts["params"] = flatten(record.params)
    if found := results(record):
        parts["metrics"] = found
    if record.status != "running":
        parts |= {RUN_FILE: record.model_dump_json(indent=1), PICTURE: pipeline_picture(record)}
        for name in RUN_FILES:
            if (run_dir / name).is_file():
                parts[name] = (run_dir / name).read_text(encoding="utf-8")
        gates = sorted((run_dir / VALIDATION).glob("*.html"))
        parts |= {f"{VALIDATION}/{gate.name}": gate.read_text(encoding="utf-8") for gate in gates}
    return parts


def stage_pictures(run_dir: Path, record: RunRecord | None) -> dict[str, str]:
    """What a checkpoint or scores came from, for the page of the stage's own run."""
    if record is None or record.status == "running":
        return {}
    sent = {spool.stage for spool in list_spools(run_dir)}
    pictures = {}
    for entry in record.stages:
        shown = [a for a in entry.outputs if a.kind == "checkpoint" or a.name == "scores"]
        if shown and entry.status == "finished" and entry.name in sent:
            graph = build_graph(shown, [record], prefer=record.run_id)
            pictures[STAGE_PICTURE + entry.name] = graph_picture(graph)
    return pictures


def send_part(
    store: Store, run_id: str, name: str, part: Any, record: RunRecord, param_limit: int = PARAM_LIMIT
) -> None:
    """Send one of `run_parts`. Doing it twice changes nothing."""
    if name == "tags":
        links = stage_links(store, run_id, record) if record.status != "running" else {}
        taken = [entry.name for entry in record.stages if entry.status == "reused" and entry.name in links]
        said = {f"cowork.reused_from.{stage}": links[stage] for stage in taken}
        said["mlflow.note.content"] = note(record, links, store.experiment_id)
        send_tags(store, run_id, part | said)
    elif name == "links":
        send_tags(store, run_id, part)
        link_runs(store, run_id, record)
    elif name == "params":
        # A parameter of a run cannot change: what a resumed run was given anew is in its run.json.
        known = store.client.get_run(run_id).data.params
        send_params(store, run_id, {k: v for k, v in part.items() if clean_name(k) not in known}, param_limit)
    elif name == "metrics":
        send_results(store, run_id, part)
    else:
        store.client.log_text(run_id, part, name)


def stage_links(store: Store, run_id: str, record: RunRecord) -> dict[str, str]:
    """Stage -> its run of MLflow: the child of this run, or the run that a reused stage was really made in."""
    links = {}
    for entry in record.stages:
        if entry.status == "reused" and entry.key:
            asked = f"tags.`cowork.stage` = '{entry.name}' and tags.`cowork.stage_key` = '{entry.key}'"
        elif entry.status in ("finished", "failed", "killed"):
            asked = f"tags.`cowork.stage` = '{entry.name}' and tags.`mlflow.parentRunId` = '{run_id}'"
        else:
            continue
        found = store.client.search_runs(
            [store.experiment_id], asked, order_by=["attributes.start_time DESC"], max_results=1
        )
        if found:
            links[entry.name] = str(found[0].info.run_id)
    return links


def results(record: RunRecord) -> dict[str, float]:
    """What the evaluations found, so that whole recipe runs can be compared: `success.rl`, `calls.rl`..."""
    found = {}
    for entry in record.stages:
        if entry.name.startswith(EVALUATES):
            for name, value in entry.metrics.items():
                if math.isfinite(value):
                    found[clean_name(f"{name}.{entry.name.removeprefix(EVALUATES)}")] = value
    return found


def note(record: RunRecord, links: Mapping[str, str] | None = None, experiment: str = "") -> str:
    """What the run's page in MLflow says on top: what was made, by which stage, in the order of the recipe."""
    rows = ["| stage | status | made | digest |", "| --- | --- | --- | --- |"]
    for entry in record.stages:
        run = (links or {}).get(entry.name)
        stage = f"[{entry.name}](#/experiments/{experiment}/runs/{run})" if run else entry.name
        for artifact in entry.outputs:
            rows.append(f"| {stage} | {entry.status} | {artifact.path or artifact.name} | `{artifact.digest}` |")
    return "\n".join([f"What came from which is drawn in the artifact `{PICTURE}`.", "", *rows])
