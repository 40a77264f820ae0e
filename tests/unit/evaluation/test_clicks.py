from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from components.contracts.coords import ScreenSpace, point_in_box
from components.contracts.response import render_response
from components.evaluation.clicks import KINDS, ClickItem, click_items, run_clicks, score_clicks
from components.forge.words import words_of
from components.rollout.policy import Completion, Request
from tests.unit.training.kit import params

MODEL = params().model


class Answers:
    """Gives one text a request."""

    special: tuple[str, ...] = ()
    version = 0

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts

    def complete(self, requests: Sequence[Request], temperature: float) -> list[Completion]:
        assert temperature == 0.0
        return [Completion(text, (), (), ()) for text in self.texts[: len(requests)]]


def answer(item: ClickItem, action: str = "left_click", offset: int = 0) -> str:
    x, y = point_in_box(item.element.box, MODEL.coord_step, (288, 224))
    arguments = {"action": action, "coordinate": [(x + offset) % 1000, (y + offset) % 1000]}
    return render_response("there", "click it", "computer_use", arguments)


def test_the_bench_is_a_fixed_set_with_even_kinds_and_held_out_words() -> None:
    items = click_items(5, 24)
    again = click_items(5, 24)
    assert [i.instruction for i in items] == [i.instruction for i in again]
    assert all(np.array_equal(a.screen, b.screen) for a, b in zip(items, again, strict=True))
    assert [i.instruction for i in items] != [i.instruction for i in click_items(6, 24)]
    counts = Counter(i.element.kind for i in items)
    assert set(counts) == set(KINDS) and max(counts.values()) <= 4 * min(counts.values())
    train = set(words_of("train")) - set(words_of("heldout"))
    assert train and not any(w.split(".")[0] in train for i in items for w in i.instruction.split()[2:-1])


def test_every_target_can_be_hit_by_its_own_quantised_point() -> None:
    items = click_items(5, 12)
    points = run_clicks(Answers([answer(i) for i in items]), items, MODEL)
    score = score_clicks(items, points)
    assert score.accuracy == 1.0 and score.format_errors == 0 and score.items == len(items)


def test_an_answer_that_cannot_be_read_is_a_counted_miss() -> None:
    items = click_items(5, 2)[:5]
    texts = [
        answer(items[0]),
        "I would click the button.",
        answer(items[2], offset=400),
        render_response("x", "run ls", "bash", {"command": "ls"}),
        render_response("x", "press esc", "computer_use", {"action": "key", "keys": ["esc"]}),
    ]
    points = run_clicks(Answers(texts), items, MODEL)
    assert [p is not None for p in points] == [True, False, True, False, False]
    score = score_clicks(items, points)
    assert (score.items, score.correct, score.format_errors) == (5, 1, 3)
    assert score.accuracy == 0.2
    assert sum(total for _, total in score.cells.cells.values()) == 5, "kinds without an item are listed as empty"
    assert score.cells.empty_cells and set(score.cells.cells) == set(KINDS)


def test_the_edges_of_a_box_belong_to_it_and_the_next_pixel_does_not() -> None:
    (item, *_) = click_items(5, 1)
    x0, y0, x1, y1 = item.element.box
    inside = [(x0, y0), (x1 - 1, y1 - 1)]
    outside = [(x1, y1 - 1), (x0, y0 - 1)]
    hits = score_clicks([item] * 4, [*map(_float, inside), *map(_float, outside)])
    assert hits.correct == 2


def _float(point: tuple[int, int]) -> tuple[float, float]:
    return float(point[0]), float(point[1])


def test_points_are_in_pixels_of_the_screen() -> None:
    (item, *_) = click_items(5, 1)
    (point,) = run_clicks(Answers([answer(item)]), [item], MODEL)
    space = ScreenSpace("normalized_1000", (288, 224), step=25)
    assert point == space.to_screen(list(point_in_box(item.element.box, 25, (288, 224))))
