"""The registry, dvc.yaml and the compiled Kubeflow pipeline are one graph, written three times for three readers."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest
import yaml

from pipelines.kfp_compile import COMPILED
from pipelines.registry import BASE, STAGES
from pipelines.workspace import SOURCE
from tests.contract.kfp_graph import PLUMBING, Task, load_document, registry_name, tasks_of

Edges = set[tuple[str, str, str]]
"""(path that is read, stage that reads it, input name); the input name is "" where a source does not tell it."""

MAKERS = {path: name for name, stage in STAGES.items() for path in stage.outputs.values()}


@lru_cache
def _kfp() -> dict[str, Task]:
    return tasks_of(load_document(COMPILED))


@lru_cache
def _dvc() -> dict[str, Any]:
    stages: dict[str, Any] = yaml.safe_load((SOURCE / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    return stages


def _kfp_stages() -> dict[str, Task]:
    return {name: task for name, task in _kfp().items() if name not in PLUMBING}


def _kfp_path(producer: str, output: str) -> str:
    """The registry's path of a Kubeflow task's output."""
    return BASE if producer == "base" else STAGES[producer].outputs[registry_name(output)]


def test_all_three_have_the_same_stages() -> None:
    assert set(_dvc()) == set(STAGES)
    assert set(_kfp_stages()) == set(STAGES)


def test_dvc_and_the_registry_have_the_same_edges() -> None:
    registry: Edges = {(path, name, "") for name, stage in STAGES.items() for path in stage.inputs.values()}
    dvc: Edges = {(path, name, "") for name, stage in _dvc().items() for path in stage.get("deps", [])}
    assert dvc == registry


def test_kubeflow_and_the_registry_have_the_same_edges_input_by_input() -> None:
    registry: Edges = {(path, name, role) for name, stage in STAGES.items() for role, path in stage.inputs.items()}
    kubeflow: Edges = {
        (_kfp_path(*source), name, registry_name(argument))
        for name, task in _kfp_stages().items()
        for argument, source in task.inputs.items()
    }
    assert kubeflow == registry


def test_all_three_have_the_same_outputs() -> None:
    extra = {"metrics", "page"}
    for name, stage in STAGES.items():
        assert set(_dvc()[name]["outs"]) == set(stage.outputs.values())
        assert {registry_name(output) for output in _kfp()[name].outputs} - extra == set(stage.outputs)


def test_dvc_and_the_registry_name_the_same_parameters() -> None:
    for name, stage in STAGES.items():
        told = _dvc()[name]["params"]
        plain = [entry for entry in told if isinstance(entry, str)]
        keyed = [entry for entry in told if not isinstance(entry, str)]
        assert sorted(plain) == sorted(["seed", *stage.params]), name
        assert keyed == [{"pipelines/codekeys.yaml": [name]}], name


def test_every_kubeflow_task_is_told_the_settings_made_for_its_own_stage() -> None:
    for name, task in _kfp_stages().items():
        assert task.parameters["settings"] == ("configure", name.replace("-", "_"))
        assert task.parameters["store"] == "store"


def test_checkpoints_are_models_and_everything_else_is_data() -> None:
    for name, task in _kfp_stages().items():
        kind = next(title for output, title in task.outputs.items() if output not in ("metrics", "page"))
        made_by_training = STAGES[name].function.startswith("components.training.")
        wanted = "system.Model" if made_by_training else "system.Artifact" if name == "report" else "system.Dataset"
        assert kind == wanted, name
        assert task.outputs["metrics"] == "system.Metrics"
    assert _kfp()["report"].outputs["page"] == "system.HTML"


@pytest.mark.parametrize("name", ["base", *STAGES])
def test_every_kubeflow_task_is_cached_retried_and_runs_in_the_chosen_image(name: str) -> None:
    from pipelines.step import ENVIRONMENT

    task = _kfp()[name]
    assert task.cached
    assert task.retries == 2
    assert task.image == "{{$.inputs.parameters['pipelinechannel--image']}}"
    assert task.parameters["pipelinechannel--image"] == "image"
    assert task.environment == ENVIRONMENT


def test_parameters_are_checked_afresh_in_every_run() -> None:
    configure = _kfp()["configure"]
    assert not configure.cached
    assert set(configure.parameters) >= {"profile", "seed", "overrides"}
    assert configure.after == frozenset()
