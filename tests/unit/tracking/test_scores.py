"""Promises of the scores and of the summary for machines."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from components.tracking.scores import SCORED, Grounding, Scores, summary, table
from tests.unit.tracking.sample_report import scores


def test_the_summary_has_every_stage_and_figure_and_null_where_nothing_was_measured() -> None:
    found = summary({"gui-sft": scores()["gui-sft"], "base": Scores(stage="base")}, {"gui-sft": 120.0})
    assert list(found["stages"]) == ["base", "midtrain", "gui-sft", "terminal-sft", "hybrid-sft", "rl"]
    for row in found["stages"].values():
        assert list(row) == ["grounding", "single_step", "success", "calls", "tokens", "gui_share", "seconds"]
    assert set(found["stages"]["rl"].values()) == {None}
    assert set(found["stages"]["base"].values()) == {None}
    gui = found["stages"]["gui-sft"]
    assert (gui["success"], gui["grounding"], gui["seconds"]) == (0.42, 0.96, 120.0)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_a_zero_is_a_result_and_not_a_gap() -> None:
    found = Scores(stage="base", success=0.0, calls=0.0, grounding=Grounding(micro=0.0, macro=0.0))
    row = summary({"base": found})["stages"]["base"]
    assert (row["success"], row["calls"], row["grounding"]) == (0.0, 0.0, 0.0)


def test_every_figure_of_the_summary_is_defined_in_words() -> None:
    found = summary({})
    assert set(found["definitions"]) == set(found["stages"]["rl"])


def test_the_console_table_reads_like_the_paper_s() -> None:
    lines = table(summary(scores(), {"rl": 201.0})).splitlines()
    row = next(line for line in lines if line.strip().startswith("rl"))
    assert row.split() == ["rl", "68.0", "4.20", "112.0", "58", "96.0", "86.0", "201"]
    assert sum(line.strip().startswith(SCORED) for line in lines) == 6
    empty = table(summary({})).splitlines()
    assert next(line for line in empty if line.strip().startswith("rl")).split() == ["rl"] + ["-"] * 7


def test_scores_come_back_from_json_and_unknown_figures_are_refused() -> None:
    for found in scores().values():
        assert Scores.model_validate_json(found.model_dump_json()) == found
    with pytest.raises(ValidationError):
        Scores.model_validate({"stage": "rl", "sucess": 0.5})
