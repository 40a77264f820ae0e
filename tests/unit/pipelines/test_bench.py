"""`make bench`: tables of what was measured, and the arms of the duel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from components.contracts.errors import DataError
from components.contracts.load_params import load_params
from pipelines.bench import duel_table, recipe_table, seed_workspace
from pipelines.duel import Arm, fight
from pipelines.workspace import Workspace
from tests.unit.pipelines import toy


def scored(success: float | None) -> dict[str, dict[str, float | None]]:
    row = {"success": success, "grounding": 0.5, "single_step": None, "calls": 3.0, "tokens": 70.0, "gui_share": 0.25}
    return {"rl": row}


def test_seeds_are_told_as_mean_with_the_extremes() -> None:
    text = recipe_table({0: {"stages": scored(0.5)}, 1: {"stages": scored(0.7)}})
    assert text.splitlines()[2].split("  ")[0] == "rl"
    assert "60.0 (50.0 to 70.0)" in text and "50.0" in text and " - " in text


def test_a_figure_that_was_not_measured_is_a_dash_not_a_zero() -> None:
    assert "0.0" not in recipe_table({0: {"stages": scored(None)}}).replace("50.0", "").replace("3.0", "").replace(
        "70.0", ""
    )


def test_the_duel_names_arm_seed_and_student() -> None:
    text = duel_table([Arm("pruned", 0, 0.57, 2.92, 74.4), Arm("overlapping", 0, 0.22, 3.98, 93.0)])
    assert [line.split() for line in text.splitlines()[2:]] == [
        ["pruned", "0", "57.0", "2.92", "74.4"], ["overlapping", "0", "22.0", "3.98", "93.0"],
    ]  # fmt: skip


def test_another_seed_is_a_profile_that_differs_in_name_and_seed_alone(tmp_path: Path) -> None:
    toy.write_recipe(tmp_path / "recipe", toy.STAGES)
    workspace = Workspace(tmp_path / "recipe")
    assert seed_workspace(workspace, 0) == []
    option, path = seed_workspace(workspace, 2)
    params, other = load_params(workspace.params_file), load_params(Path(path))
    assert option == "--profile"
    assert other == params.model_copy(update={"profile": "tiny-seed-2", "seed": 2})


def test_a_duel_without_a_recipe_says_what_to_do(tmp_path: Path) -> None:
    toy.write_recipe(tmp_path / "recipe", toy.STAGES)
    with pytest.raises(DataError, match="cowork run, then the duel"):
        fight(Workspace(tmp_path / "recipe"), "pruned", 0, tmp_path / "arm")
    assert json.dumps(Arm("pruned", 0, None, None, None).__dict__)
