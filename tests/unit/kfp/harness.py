"""Runs a component in this process the way Kubeflow does: real artifacts, executor input and executor output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kfp import dsl
from kfp.dsl.executor import Executor
from kfp.dsl.python_component import PythonComponent

KINDS = {kind.schema_title: kind for kind in (dsl.Artifact, dsl.Dataset, dsl.Model, dsl.Metrics, dsl.HTML)}


def execute(
    component: PythonComponent,
    folder: Path,
    parameters: dict[str, Any],
    artifacts: dict[str, dsl.Artifact] | None = None,
) -> dict[str, Any]:
    """Outputs by name: artifacts as objects, parameters as values. `folder` becomes the task's output folder."""
    spec = component.component_spec
    kinds = {name: output.type.split("@")[0] for name, output in (spec.outputs or {}).items()}
    made = {name: kind for name, kind in kinds.items() if kind in KINDS}
    written = folder / "executor_output.json"
    executor_input = {
        "inputs": {
            "parameterValues": parameters,
            "artifacts": {name: {"artifacts": [_wire(artifact)]} for name, artifact in (artifacts or {}).items()},
        },
        "outputs": {
            "artifacts": {
                name: {"artifacts": [{"name": name, "uri": str(folder / name), "type": {"schemaTitle": kind}}]}
                for name, kind in made.items()
            },
            "parameters": {name: {"outputFile": str(folder / name)} for name in kinds if name not in made},
            "outputFile": str(written),
        },
    }
    Executor(executor_input, component).execute()
    result = json.loads(written.read_text())
    outputs: dict[str, Any] = dict(result.get("parameterValues", {}))
    for name, listed in result.get("artifacts", {}).items():
        entry = listed["artifacts"][0]
        outputs[name] = KINDS[kinds[name]](name=name, uri=entry["uri"], metadata=entry["metadata"])
    return outputs


def _wire(artifact: dsl.Artifact) -> dict[str, Any]:
    return {
        "name": artifact.name,
        "uri": artifact.uri,
        "metadata": artifact.metadata,
        "type": {"schemaTitle": type(artifact).schema_title},
    }
