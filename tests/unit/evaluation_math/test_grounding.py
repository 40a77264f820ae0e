from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.contracts.errors import DataError
from components.evaluation import grounding

SIZE = [200, 100]


@pytest.mark.parametrize(
    ("bbox", "bbox_format"),
    [
        ([20, 10, 60, 30], "xyxy_pixel"),
        ([20, 10, 40, 20], "xywh_pixel"),
        ([0.1, 0.1, 0.3, 0.3], "xyxy_unit"),
        ([0.1, 0.1, 0.2, 0.2], "xywh_unit"),
        ([100, 100, 300, 300], "xyxy_1000"),
        ([100, 100, 200, 200], "xywh_1000"),
    ],
)
def test_one_box_in_every_format(bbox: list[float], bbox_format: str) -> None:
    box = grounding.read_box(bbox, bbox_format, SIZE)
    assert (box.x0, box.y0, box.x1, box.y1) == pytest.approx((20, 10, 60, 30))


@pytest.mark.parametrize(
    ("bbox", "bbox_format", "size", "code"),
    [
        ([20, 10, 60, 30], "", SIZE, "bbox_format_not_declared"),
        ([20, 10, 60, 30], "cxcywh", SIZE, "bbox_format_unknown"),
        ([20, 10, 60, 30], "xyxy_pixel", None, "image_size_missing"),
        ([20, 10, 60, 30], "xyxy_pixel", [0, 100], "image_size_missing"),
        ([20, 10, 60], "xyxy_pixel", SIZE, "bbox_not_four_numbers"),
        ([20, 10, 60, "30"], "xyxy_pixel", SIZE, "bbox_not_four_numbers"),
        ([20, 10, 60, float("nan")], "xyxy_pixel", SIZE, "bbox_not_four_numbers"),
        ([60, 10, 20, 30], "xyxy_pixel", SIZE, "bbox_corners_reversed"),
        ([20, 10, -5, 30], "xywh_pixel", SIZE, "bbox_corners_reversed"),
        ([20, 10, 0, 30], "xywh_pixel", SIZE, "bbox_empty"),
        ([150, 10, 60, 30], "xywh_pixel", SIZE, "bbox_outside_image"),
        ([-1, 10, 60, 30], "xyxy_pixel", SIZE, "bbox_outside_image"),
        ([20, 10, 60, 30], "xyxy_unit", SIZE, "bbox_outside_image"),
        ([0.1, 0.1, 0.3, 0.3], "xyxy_pixel", SIZE, "bbox_format_contradiction"),
    ],
)
def test_a_box_against_its_format_stops_by_name(bbox: Any, bbox_format: str, size: Any, code: str) -> None:
    with pytest.raises(grounding.AnnotationError) as caught:
        grounding.read_box(bbox, bbox_format, size, where="bench.json item 3")
    assert caught.value.code == code and "bench.json item 3" in str(caught.value)


def test_a_box_that_ends_at_the_picture_is_inside_it() -> None:
    grounding.read_box([0, 0, 200, 100], "xyxy_pixel", SIZE)
    grounding.read_box([0.7, 0.9, 0.3, 0.1], "xywh_unit", SIZE)  # 0.7 + 0.3 and 0.9 + 0.1 may round past 1


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 150),
    st.integers(0, 80),
    st.integers(1, 50),
    st.integers(1, 20),
    st.integers(-5, 205),
    st.integers(-5, 105),
)
def test_size_and_corner_form_of_a_box_judge_alike(x: int, y: int, w: int, h: int, px: int, py: int) -> None:
    by_size = grounding.read_box([x, y, w, h], "xywh_pixel", SIZE)
    by_corner = grounding.read_box([x, y, x + w, y + h], "xyxy_pixel", SIZE)
    prediction = {"point_pixel": [px, py]}
    hit = grounding.judge(by_size, prediction).hit
    assert hit == grounding.judge(by_corner, prediction).hit == (x <= px <= x + w and y <= py <= y + h)


@pytest.mark.parametrize(
    "prediction",
    [{}, {"text": "there"}, {"point_pixel": [1]}, {"point_pixel": "10,10"}, {"point_pixel": [float("inf"), 1]},
     {"point_pixel": [True, 1]}, {"box_pixel": [1, 2, 3]}],
)  # fmt: skip
def test_what_cannot_be_read_is_a_counted_miss(prediction: dict[str, Any]) -> None:
    judgement = grounding.judge(grounding.PixelBox(0, 0, 100, 100), prediction)
    assert not judgement.hit and judgement.format_error and not judgement.missing


def test_a_missing_prediction_is_a_miss_and_an_outside_point_no_format_error() -> None:
    box = grounding.PixelBox(0, 0, 10, 10)
    assert grounding.judge(box, None) == grounding.Judgement(False, missing=True)
    assert grounding.judge(box, {"point_pixel": [-4, 5000]}).format_error is False
    annotations = [grounding.Annotation(box, (10, 10))] * 3
    judgements = grounding.judge_all(annotations, [{"point_pixel": [1, 1]}])
    total = grounding.score(judgements)
    assert (total.items, total.correct, total.missing) == (3, 1, 2)
    assert total.accuracy == pytest.approx(1 / 3)
    with pytest.raises(DataError, match="4 predictions for 3"):
        grounding.judge_all(annotations, [None] * 4)


def test_cells_without_items_are_named_and_nothing_is_not_a_number() -> None:
    total = grounding.score([grounding.Judgement(True)], ["a"], expected_cells=["a", "b"])
    assert total.cells.empty_cells == ("b",) and total.cells.macro == 1.0
    empty = grounding.score([], [], expected_cells=["a"])
    assert empty.cells.micro is None and empty.cells.macro is None and empty.accuracy is None
    with pytest.raises(DataError, match="cell a"):
        grounding.score_cells({"a": (3, 2)})


def test_a_file_is_read_whole_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    item = {"bbox": [20, 10, 60, 30], "data_source": "web", "instruction": "x"}
    path.write_text(json.dumps({"bbox_format": "xyxy_pixel", "image_size": SIZE, "items": [item]}))
    (annotation,) = grounding.load_annotations(path)
    assert annotation.cell == "web" and annotation.image_size == (200.0, 100.0)
    bad = {**item, "bbox_format": "xywh_pixel"}
    for content, code in (
        ("{", "unreadable_file"),
        ("[]", "bbox_format_not_declared"),
        (json.dumps({"bbox_format": "xyxy_pixel", "image_size": SIZE, "items": []}), "no_items"),
        (json.dumps({"bbox_format": "xyxy_pixel", "image_size": SIZE, "items": [bad]}), "bbox_format_contradiction"),
    ):
        path.write_text(content)
        with pytest.raises(grounding.AnnotationError) as caught:
            grounding.load_annotations(path)
        assert caught.value.code == code
