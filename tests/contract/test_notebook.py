"""The notebook is built from its script, was executed, holds no logic, and still runs."""

from __future__ import annotations

import ast
from pathlib import Path

import nbformat
import pytest

from components.tracking.report.data import ReportData
from notebooks.build import CELLS, NOTEBOOK, SAMPLE, build, execute
from pipelines.workspace import SOURCE


def _committed() -> nbformat.NotebookNode:
    return nbformat.read(NOTEBOOK, as_version=4)


def test_the_committed_notebook_has_the_cells_of_its_script() -> None:
    committed = [(cell.cell_type, cell.source) for cell in _committed().cells]
    assert committed == CELLS, "run: python notebooks/build.py"


def test_the_committed_notebook_was_executed_from_top_to_bottom_without_an_error() -> None:
    code = [cell for cell in _committed().cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert all(output.output_type != "error" for output in outputs)
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 5
    assert any("hybrid-sft" in output.get("text", "") for output in outputs)


def test_the_notebook_calls_the_package_and_holds_no_logic() -> None:
    code = "\n".join(text for kind, text in CELLS if kind == "code")
    logic = (ast.FunctionDef, ast.Lambda, ast.ClassDef, ast.For, ast.While, ast.If, ast.comprehension)
    assert not [node for node in ast.walk(ast.parse(code)) if isinstance(node, logic)]


def test_the_notebook_names_no_place_on_a_machine_and_stays_small() -> None:
    text = NOTEBOOK.read_text()
    assert str(SOURCE) not in text
    assert not [word for word in ("/tmp/", "/home/", "/root/") if word in text]
    assert NOTEBOOK.stat().st_size < 1_500_000


def test_the_recorded_sample_is_what_the_report_reads_today() -> None:
    data = ReportData.model_validate_json(SAMPLE.read_bytes())
    assert data.episodes and data.scores and data.curves and data.rl and data.funnel
    assert {step.screen for view in data.episodes for step in view.steps} <= set(data.screens)
    assert SAMPLE.stat().st_size < 400_000


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path) -> None:
    """On the finished run in this folder, where there is one, else on the recorded sample."""
    root = SOURCE
    if not (root / "outputs" / "scores" / "rl").is_dir():
        root = tmp_path
        (root / "params.yaml").write_text((SOURCE / "params.yaml").read_text())
    notebook = build()
    execute(notebook, root)
    pictures = [o for cell in notebook.cells for o in cell.get("outputs", ()) if "image/png" in o.get("data", {})]
    assert len(pictures) == 5
