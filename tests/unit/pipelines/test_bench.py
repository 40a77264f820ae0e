"""`make bench`: tables of what was measured, and the arms of the duel."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.contracts.errors import DataError, OrchestrationError
from components.contracts.load_params import load_params
from components.evaluation.duel import Arm, DuelRow
from components.evaluation.statistics import Difference, Interval
from pipelines.bench import duel_table, recipe_table, run_duel, seed_workspace, speed_table, stage_table
from pipelines.duel import fight
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


def test_the_duel_names_both_students_and_what_separates_them() -> None:
    gain = Difference(0.35, Interval(0.2, 0.5), 200, 10, 80)
    rows = [
        DuelRow(Arm("pruned", seed, 0.57, 2.92, 74.4), Arm("overlapping", seed, 0.22, 3.98, 93.0), gain, None)
        for seed in (0, 1)
    ]
    lines = duel_table(rows).splitlines()
    assert lines[2].split() == ["0", "57.0", "22.0", "35.0", "(20.0", "to", "50.0)", "2.92", "3.98"]
    assert lines[-1] == "pruned less overlapping: 35.0 in the mean, better in 2 of 2"


def test_stages_are_told_with_their_pace_and_their_memory() -> None:
    params = load_params(Path(__file__).parents[3] / "params.yaml")
    steps, iterations = params.midtrain.steps, params.rl.iterations
    seconds = ({"midtrain": steps / 4.0, "rl": iterations * 8.0}, {"midtrain": steps / 4.0, "rl": iterations * 8.0})
    text = stage_table({k: {"seconds": own, "peak_mb": {"rl": 700.0 + k}} for k, own in enumerate(seconds)}, params)
    lines = {line.split()[0]: line for line in text.splitlines()[2:]}
    assert set(lines) == {"midtrain", "rl", "all"}, "a stage that was not measured is not made up"
    assert "4.0 steps/s" in lines["midtrain"] and lines["midtrain"].endswith("-")
    assert "8.0 s/iteration" in lines["rl"] and lines["rl"].endswith("701")


def test_speed_is_a_median_with_its_extremes() -> None:
    row = {"name": "shell", "unit": "ms", "median": 13.14159, "low": 0.366, "high": 1357.2, "repeats": 5}
    assert speed_table([row]).splitlines()[2].split() == ["shell", "13.1", "0.366", "1357", "ms", "5"]


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


def test_a_duel_of_a_seed_whose_recipe_was_not_run_names_the_seed(tmp_path: Path) -> None:
    toy.write_recipe(tmp_path / "recipe", toy.STAGES)
    with pytest.raises(OrchestrationError, match="no recipe of seed 1"):
        run_duel(Workspace(tmp_path / "recipe"), 1, unconfined=False)
