from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.contracts.coords import SPACES, CoordSpaceError, ScreenSpace, from_screen, to_screen
from components.contracts.errors import CallError, ParamsError

sizes = st.tuples(st.integers(1, 8000), st.integers(1, 8000))


@st.composite
def space_and_pixel(draw: st.DrawFn) -> tuple[ScreenSpace, tuple[int, int]]:
    space = ScreenSpace(draw(st.sampled_from(SPACES)), draw(sizes), draw(sizes), draw(st.none() | sizes))  # type: ignore[arg-type]
    width, height = space.pointer
    return space, (draw(st.integers(0, width - 1)), draw(st.integers(0, height - 1)))


@settings(max_examples=500, deadline=None)
@given(space_and_pixel())
def test_pixel_to_value_to_pixel_stays_within_one_pixel(case: tuple[ScreenSpace, tuple[int, int]]) -> None:
    space, pixel = case
    back = space.to_screen(space.from_screen(pixel))
    assert max(abs(a - b) for a, b in zip(back, pixel, strict=True)) <= 1


@settings(max_examples=200, deadline=None)
@given(space_and_pixel(), st.sampled_from([5, 25, 50]))
def test_a_quantised_value_is_on_the_grid_and_still_accepted(
    case: tuple[ScreenSpace, tuple[int, int]], step: int
) -> None:
    space = ScreenSpace("normalized_1000", case[0].screen, step=step)
    pixel = (case[1][0] % space.screen[0], case[1][1] % space.screen[1])
    value = space.from_screen(pixel)
    assert all(isinstance(v, int) and v % step == 0 and 0 <= v <= 1000 for v in value)
    back = space.to_screen(value)
    for a, b, size in zip(back, pixel, space.screen, strict=True):
        assert abs(a - b) <= math.ceil(step / 2 * size / 1000) + 1


def test_tiny_screens_need_whole_numbers_only() -> None:
    space = ScreenSpace("normalized_1000", (288, 224))
    pixels = [(x, y) for x in range(288) for y in range(224)]
    assert all(space.to_screen(space.from_screen(p)) == p for p in pixels)
    assert all(isinstance(v, int) for p in pixels[::101] for v in space.from_screen(p))


@pytest.mark.parametrize(
    ("space", "point", "pixel"),
    [
        ("normalized_1000", [0, 0], (0, 0)),
        ("normalized_1000", [1000, 1000], (287, 223)),
        ("normalized_1000", [500.0, 250.5], (144, 56)),
        ("normalized_1", [1, 0.5], (287, 112)),
        ("pixel_screen", [287, 223], (287, 223)),
        ("pixel_screen", [287.6, 0.4], (287, 0)),
        ("pixel_model", [320, 224], (144, 112)),
    ],
)
def test_known_points(space: str, point: list[float], pixel: tuple[int, int]) -> None:
    assert to_screen(point, space, (288, 224), model_image=(640, 448)) == pixel  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("space", "point"),
    [
        ("normalized_1000", [-1, 5]),
        ("normalized_1000", [5, 1000.01]),
        ("normalized_1", [1.01, 0.5]),
        ("normalized_1", [500, 500]),
        ("pixel_screen", [288, 5]),
        ("pixel_screen", [5, 224]),
        ("pixel_model", [640, 5]),
        ("pixel_model", [5, -0.5]),
        ("pixel_screen", [10**300, 5]),
    ],
)
def test_points_off_the_screen_are_out_of_range(space: str, point: list[float]) -> None:
    with pytest.raises(CallError) as caught:
        to_screen(point, space, (288, 224), model_image=(640, 448))  # type: ignore[arg-type]
    assert caught.value.code == "out_of_range"


@pytest.mark.parametrize(
    "point",
    [None, 5, "5,5", "[5, 5]", b"55", [5], [5, 5, 5], [[5, 5]], {"x": 5, "y": 5}, {0: 5, 1: 5}, ["5", "5"], [True, 5],
     [5, None], [math.nan, 5], [5, math.inf], [10**400, 5], ["1+1", 5], {5, 6}],
)  # fmt: skip
def test_anything_but_two_finite_numbers_is_a_bad_coordinate(point: object) -> None:
    with pytest.raises(CallError) as caught:
        to_screen(point, "normalized_1000", (288, 224))
    assert caught.value.code == "bad_coordinate"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"space": None}, "coord_space_not_declared"),
        ({"space": ""}, "coord_space_not_declared"),
        ({"space": "pixels"}, "unknown_coord_space"),
        ({"space": "pixel_model"}, "model_image_not_declared"),
        ({"screen": (0, 5)}, "bad_size"),
        ({"screen": (True, 5)}, "bad_size"),
        ({"screen": "288x224"}, "bad_size"),
        ({"pointer_space": (5,)}, "bad_size"),
        ({"step": -1}, "bad_step"),
        ({"step": math.nan}, "bad_step"),
    ],
)
def test_a_space_that_is_not_declared_stops_before_the_first_step(fields: dict[str, object], code: str) -> None:
    with pytest.raises(ParamsError) as caught:
        ScreenSpace(**{"space": "normalized_1000", "screen": (288, 224), **fields})  # type: ignore[arg-type]
    assert isinstance(caught.value, CoordSpaceError) and caught.value.code == code


def test_the_pointer_grid_may_differ_from_the_screenshot() -> None:
    assert to_screen([2558, 1598], "pixel_screen", (2560, 1600), pointer_space=(1280, 800)) == (1279, 799)
    assert from_screen((640, 400), "pixel_screen", (2560, 1600), pointer_space=(1280, 800)) == [1280, 800]


@pytest.mark.parametrize("pixel", [(288, 0), (0, 224), (-1, 0)])
def test_a_pixel_off_the_screen_has_no_value(pixel: tuple[int, int]) -> None:
    with pytest.raises(CallError) as caught:
        from_screen(pixel, "normalized_1000", (288, 224))
    assert caught.value.code == "out_of_range"
