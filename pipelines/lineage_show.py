"""`cowork lineage`: find it, trace it, hash it again, show it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from components.contracts.errors import DataError
from components.tracking.lineage import RunRecord
from components.tracking.lineage_graph import Graph, State, build_graph, final_artifacts, text_tree
from components.tracking.lineage_picture import graph_picture, pipeline_picture
from components.tracking.mlflow_parent import GRAPH, PICTURE
from pipelines import records
from pipelines.lineage_check import check_graph
from pipelines.lineage_find import find, params_of
from pipelines.registry import StageDef
from pipelines.workspace import Workspace, registry


def show_lineage(
    text: str, profile: str = "", *, as_json: bool = False, svg: str = "", verify: bool = True, params: bool = False
) -> int:
    """Exit code 0, or DataError's when bytes are not what their digest says or a digest identifies nothing."""
    from pipelines.inspection import existing_workspace

    workspace, stages = existing_workspace(profile), registry()
    target = find(workspace, stages, text)
    graph = build_graph(target.artifacts, target.records, params_of(stages), target.run)
    if verify:
        check_graph(workspace, graph)
    if svg:
        Path(svg).write_text(graph_picture(graph) + "\n", encoding="utf-8")
    if as_json:
        print(json.dumps({"asked": text, "means": target.said, **graph.model_dump(mode="json")}, indent=1))
    else:
        if target.said:
            print(target.said)
        print(text_tree(graph, whole_params=params))
        if svg:
            print(f"picture: {svg}")
    return DataError.exit_code if is_broken(graph) else 0


def write_lineage(
    workspace: Workspace, stages: Mapping[str, StageDef], run_dir: Path, record: RunRecord
) -> dict[str, State]:
    """A finished or broken run's picture and graph, beside its record; what the look at its files found, by digest."""
    known = [record, *(r for _, r in records.read_records(workspace) if r.run_id != record.run_id)]
    graph = build_graph(final_artifacts(record), known, params_of(stages), record.run_id)
    check_graph(workspace, graph)
    checked = {node.digest: node.state for node in graph.nodes.values()}
    (run_dir / PICTURE).write_text(pipeline_picture(record, checked) + "\n", encoding="utf-8")
    (run_dir / GRAPH).write_text(graph.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return checked


def is_broken(graph: Graph) -> bool:
    return bool(graph.count("different")) or any(fault.severe for fault in graph.faults)
