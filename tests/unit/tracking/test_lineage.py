"""Promises of the run record and of the picture drawn from it."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from components.contracts.errors import DataError
from components.tracking.dag_layout import RAIL, columns, layout, reduced
from components.tracking.lineage import RUN_FILE, Artifact, RunRecord, StageRecord
from components.tracking.lineage_picture import pipeline_picture
from tests.unit.tracking.sample_report import record


def test_a_record_comes_back_as_it_was_saved_and_nothing_else_lies_beside_it(tmp_path: Path) -> None:
    run = record()
    run.save(tmp_path)
    run.stage("rl").status = "failed"
    run.save(tmp_path)
    assert RunRecord.load(tmp_path) == run
    assert [path.name for path in tmp_path.iterdir()] == [RUN_FILE]


def test_a_missing_or_foreign_record_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no run record"):
        RunRecord.load(tmp_path)
    for text in ('{"run_id": "x", "surprise": 1}', '{"run_id": "x"', "[]"):
        (tmp_path / RUN_FILE).write_text(text)
        with pytest.raises(DataError, match="not a run record") as caught:
            RunRecord.load(tmp_path)
        assert str(tmp_path / RUN_FILE) in str(caught.value)


def test_a_stage_s_entry_is_made_once() -> None:
    run = RunRecord(run_id="x")
    run.stage("forge").seconds = 3.0
    assert run.stage("forge").seconds == 3.0
    assert [stage.name for stage in run.stages] == ["forge"]


def test_the_picture_shows_every_stage_once_with_the_short_form_of_its_output() -> None:
    run = record()
    tree = ElementTree.fromstring(pipeline_picture(run))
    texts = [node.text for node in tree.iter("{http://www.w3.org/2000/svg}text")]
    for stage in run.stages:
        assert texts.count(stage.name) == 1
        assert stage.outputs[0].digest[:12] in texts


def test_a_run_without_stages_or_with_names_of_any_kind_is_still_a_picture() -> None:
    ElementTree.fromstring(pipeline_picture(RunRecord(run_id="x")))
    run = RunRecord(run_id="x", stages=[StageRecord(name="<a & b>", outputs=[Artifact(name='"', digest="'<>&")])])
    ElementTree.fromstring(pipeline_picture(run))


def test_no_box_covers_another_and_no_line_runs_through_a_box() -> None:
    run = record()
    edges = [(0, i) for i in range(1, 14)] + [(i, 13) for i in range(1, 13)] + [(7, 8), (8, 9), (9, 10), (4, 6), (6, 9)]
    places = layout(14, reduced(14, edges))
    boxes = list(zip(places.column, places.row, strict=True))
    for index, (column, row) in enumerate(boxes):
        assert all(c != column or abs(r - row) >= 1 - 1e-6 for c, r in boxes[index + 1 :])
    for stops in places.lines.values():
        for at, top in stops:
            assert all(c != at or top >= r + 1 - 1e-6 or top + RAIL <= r + 1e-6 for c, r in boxes)
    assert max(row for _, row in boxes) + 1 <= places.rows + 1e-6 and min(row for _, row in boxes) >= -1e-6
    assert re.search(r'viewBox="0 0 \d+ \d+"', pipeline_picture(run))


def test_a_reader_stands_right_of_everything_it_reads_and_implied_lines_are_left_out() -> None:
    edges = [(0, 1), (1, 2), (0, 2), (2, 3), (0, 3)]
    assert columns(4, edges) == [0, 1, 2, 3]
    assert reduced(4, edges) == [(0, 1), (1, 2), (2, 3)]


def test_a_loop_which_no_recipe_has_ends_all_the_same() -> None:
    assert max(columns(2, [(0, 1), (1, 0)])) <= 2
    layout(2, [(0, 1), (1, 0)])
