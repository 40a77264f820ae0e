"""One rule for the point inside a box: teachers, grounding packs and base questions name the same numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from components.contracts.coords import ScreenSpace, point_in_box
from components.rollout.view import quantised_point
from components.training.base_data import COORD_STEP, grid_point

SIZE = (288, 224)
SPACE = ScreenSpace("normalized_1000", SIZE, step=COORD_STEP)
BOXES = st.tuples(st.integers(0, 279), st.integers(0, 215), st.integers(8, 120), st.integers(8, 60)).map(
    lambda b: (b[0], b[1], min(SIZE[0], b[0] + b[2]), min(SIZE[1], b[1] + b[3]))
)


@given(BOXES)
def test_teacher_and_questions_name_the_same_point_and_it_is_inside(box: tuple[int, int, int, int]) -> None:
    named = point_in_box(box, COORD_STEP, SIZE)
    assert grid_point(box) == named
    pixel = quantised_point(box, SIZE, COORD_STEP)
    assert pixel is not None and SPACE.from_screen(pixel) == list(named)
    assert box[0] <= pixel[0] < box[2] and box[1] <= pixel[1] < box[3]


def test_every_value_of_the_grid_survives_the_way_to_the_screen_and_back() -> None:
    for x in range(0, 1001, COORD_STEP):
        for y in range(0, 1001, COORD_STEP):
            assert SPACE.from_screen(SPACE.to_screen([x, y])) == [x, y]


def test_a_box_too_thin_for_the_grid_has_no_point_of_a_teacher() -> None:
    assert quantised_point((9, 100, 12, 130), SIZE, COORD_STEP) is None
    assert point_in_box((9, 100, 12, 130), COORD_STEP, SIZE)[0] == 25
