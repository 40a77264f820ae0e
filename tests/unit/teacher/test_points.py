from __future__ import annotations

from components.contracts.coords import ScreenSpace
from components.rollout.view import quantised_point

SIZE = (288, 224)
SPACE = ScreenSpace("normalized_1000", SIZE, step=25)


def test_a_point_lies_inside_its_box_and_survives_being_written():
    for x in range(0, 240, 8):
        for y in range(0, 200, 16):
            for width, height in ((12, 20), (40, 20), (48, 32), (16, 16)):
                point = quantised_point((x, y, x + width, y + height), SIZE, 25)
                assert point is not None
                assert x <= point[0] < x + width and y <= point[1] < y + height
                written = SPACE.from_screen(point)
                assert all(v % 25 == 0 for v in written) and SPACE.to_screen(written) == point


def test_it_is_the_nameable_point_nearest_to_the_centre():
    point = quantised_point((60, 40, 100, 60), SIZE, 25)
    assert point is not None
    # half a step of the grid is 3.6 px across and 2.8 px down
    assert abs(point[0] - 79.5) <= 4 and abs(point[1] - 49.5) <= 3.5


def test_the_screen_edges_are_reachable_and_a_thin_box_is_not():
    assert quantised_point((284, 220, 288, 224), SIZE, 25) == (287, 223)
    assert quantised_point((1, 1, 6, 5), SIZE, 25) is None
