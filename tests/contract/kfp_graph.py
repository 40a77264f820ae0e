"""The compiled Kubeflow pipeline as plain values: what a cluster would be told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

STAGE_ARGUMENTS = {"trained": "checkpoint"}
"""Names of component arguments that differ from the registry's: an output may not bear the name of an input."""
PLUMBING = ("configure", "base")
"""Tasks that are no stages."""


@dataclass(frozen=True)
class Task:
    """`inputs`: argument -> (task, output) it comes from. `parameters`: name -> the same, or a pipeline parameter."""

    name: str
    function: str
    source: str
    inputs: dict[str, tuple[str, str]]
    parameters: dict[str, Any]
    outputs: dict[str, str]
    after: frozenset[str]
    retries: int
    cached: bool
    image: str
    environment: dict[str, str]


def registry_name(argument: str) -> str:
    return STAGE_ARGUMENTS.get(argument, argument).replace("_", "-")


def load_document(path: Path) -> dict[str, Any]:
    documents = [document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document]
    assert isinstance(documents[0], dict)
    return documents[0]


def tasks_of(document: dict[str, Any]) -> dict[str, Task]:
    """All tasks in an order that respects their edges."""
    found = {name: _task(document, name, told) for name, told in document["root"]["dag"]["tasks"].items()}
    ordered: dict[str, Task] = {}
    while len(ordered) < len(found):
        ready = [task for name, task in found.items() if name not in ordered and task.after <= set(ordered)]
        assert ready, f"a loop among {set(found) - set(ordered)}"
        ordered |= {task.name: task for task in ready}
    return ordered


def _task(document: dict[str, Any], name: str, told: dict[str, Any]) -> Task:
    component = document["components"][told["componentRef"]["name"]]
    executor = document["deploymentSpec"]["executors"][component["executorLabel"]]["container"]
    inputs = told.get("inputs", {})
    edges = {
        argument: (wire["taskOutputArtifact"]["producerTask"], wire["taskOutputArtifact"]["outputArtifactKey"])
        for argument, wire in inputs.get("artifacts", {}).items()
    }
    return Task(
        name=name,
        function=executor["args"][executor["args"].index("--function_to_execute") + 1],
        source=executor["command"][-1],
        inputs=edges,
        parameters={name: _parameter(wire) for name, wire in inputs.get("parameters", {}).items()},
        outputs={
            output: kind["artifactType"]["schemaTitle"]
            for output, kind in component.get("outputDefinitions", {}).get("artifacts", {}).items()
        },
        after=frozenset(told.get("dependentTasks", ())),
        retries=told.get("retryPolicy", {}).get("maxRetryCount", 0),
        cached=told.get("cachingOptions", {}).get("enableCache", False),
        image=executor["image"],
        environment={entry["name"]: entry["value"] for entry in executor.get("env", [])},
    )


def _parameter(wire: dict[str, Any]) -> Any:
    if "taskOutputParameter" in wire:
        return (wire["taskOutputParameter"]["producerTask"], wire["taskOutputParameter"]["outputParameterKey"])
    if "componentInputParameter" in wire:
        return wire["componentInputParameter"]
    return wire["runtimeValue"]["constant"]
