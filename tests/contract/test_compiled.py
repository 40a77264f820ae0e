"""The committed Kubeflow file is what the source compiles to, and a server will take it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from pipelines.kfp_compile import COMPILED, LIMIT_BYTES, compile_recipe
from pipelines.workspace import SOURCE
from tests.contract.kfp_graph import load_document, tasks_of


def test_the_committed_file_is_what_the_source_compiles_to(tmp_path: Path) -> None:
    compile_recipe(tmp_path / "recipe.yaml")
    assert (tmp_path / "recipe.yaml").read_text() == COMPILED.read_text(), "run: python -m pipelines.kfp_compile"


def test_the_compiled_file_stays_far_below_what_a_server_takes() -> None:
    assert COMPILED.stat().st_size < LIMIT_BYTES < 2**20 // 4


def test_steps_install_nothing_at_run_time() -> None:
    text = COMPILED.read_text()
    assert "pip install" not in text
    assert "PIP_" not in text


def test_the_form_has_few_documented_parameters_and_the_recipe_s_own_seed() -> None:
    form: dict[str, Any] = load_document(COMPILED)["root"]["inputDefinitions"]["parameters"]
    assert set(form) == {"profile", "seed", "overrides", "store", "image"}
    assert all(parameter["description"] for parameter in form.values())
    params = yaml.safe_load((SOURCE / "params.yaml").read_text(encoding="utf-8"))
    assert form["seed"]["defaultValue"] == params["seed"]
    assert form["profile"]["defaultValue"] == params["profile"]


def test_every_parameter_default_can_be_used_as_it_stands() -> None:
    from pipelines.kfp_settings import read_overrides

    form = load_document(COMPILED)["root"]["inputDefinitions"]["parameters"]
    assert read_overrides(form["overrides"]["defaultValue"]) == []


def test_every_step_s_body_is_a_few_lines() -> None:
    import ast

    for task in tasks_of(load_document(COMPILED)).values():
        function = next(node for node in ast.parse(task.source).body if isinstance(node, ast.FunctionDef))
        assert function.name == task.function
        assert len(function.body) <= 4, task.name
        assert ast.get_docstring(function), task.name
