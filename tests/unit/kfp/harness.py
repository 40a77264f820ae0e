"""Runs compiled Kubeflow tasks in this process, as a pod would: the embedded source, real artifacts, executor files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kfp import dsl
from kfp.dsl.executor import Executor

from pipelines.kfp_compile import COMPILED
from tests.contract.kfp_graph import Task, load_document, tasks_of

KINDS = {kind.schema_title: kind for kind in (dsl.Artifact, dsl.Dataset, dsl.Model, dsl.Metrics, dsl.HTML)}
TASKS = tasks_of(load_document(COMPILED))

Outputs = dict[str, dsl.Artifact]


def execute(task: Task, folder: Path, parameters: dict[str, Any], artifacts: Outputs | None = None) -> Outputs:
    """The task's output artifacts. `folder` becomes its output folder."""
    namespace: dict[str, Any] = {}
    exec(compile(task.source, task.name, "exec", dont_inherit=True), namespace)
    written = folder / "executor_output.json"
    executor_input = {
        "inputs": {
            "parameterValues": parameters,
            "artifacts": {name: {"artifacts": [_wire(artifact)]} for name, artifact in (artifacts or {}).items()},
        },
        "outputs": {
            "artifacts": {
                name: {"artifacts": [{"name": name, "uri": str(folder / name), "type": {"schemaTitle": kind}}]}
                for name, kind in task.outputs.items()
            },
            "outputFile": str(written),
        },
    }
    Executor(executor_input, namespace[task.function]).execute()
    listed = json.loads(written.read_text())["artifacts"]
    return {
        name: KINDS[kind](name=name, uri=entry["uri"], metadata=entry["metadata"])
        for name, kind in task.outputs.items()
        for entry in listed[name]["artifacts"]
    }


def execute_all(settings: dict[str, str], store: Path, root: Path) -> dict[str, Outputs]:
    """Every task but `configure`, in order, wired as compiled. `settings`: stage -> encoded settings."""
    done: dict[str, Outputs] = {}
    for name, task in TASKS.items():
        if name == "configure":
            continue
        artifacts = {argument: done[source][output] for argument, (source, output) in task.inputs.items()}
        done[name] = execute(task, root / name, {"settings": settings[name], "store": str(store)}, artifacts)
    return done


def _wire(artifact: dsl.Artifact) -> dict[str, Any]:
    return {
        "name": artifact.name,
        "uri": artifact.uri,
        "metadata": artifact.metadata,
        "type": {"schemaTitle": type(artifact).schema_title},
    }
