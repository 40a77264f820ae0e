from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from components.contracts.calls import ComputerUse
from components.contracts.folding import images
from components.contracts.response import render_response
from components.contracts.rng import stream
from components.evaluation.single_step import PRIMITIVES, StepItem, StepScore, collect_items, judge_step
from components.harness.spec import default_spec
from tests.unit.training.kit import hybrid, params

MODEL = params().model
SIZE = (288, 224)


def say(action: str, tool: str = "computer_use", **arguments: Any) -> str:
    fields = {"action": action, **arguments} if tool == "computer_use" else arguments
    return render_response("so", "do it", tool, fields)


def item(action: str, box: tuple[int, int, int, int] | None = (100, 80, 140, 112), **fields: Any) -> StepItem:
    boxes = () if box is None else (box,)
    return StepItem(action, (), ComputerUse(action=action, **fields), boxes, (10, 10), SIZE)  # type: ignore[arg-type]


CLICK = item("left_click", coordinate=(120, 96))
TYPE = item("type", None, text="tax 25")
KEY = item("key", None, keys=("ctrl", "s"))
SCROLL = item("scroll", None, pixels=-100)
DRAG = item("left_click_drag", start=(20, 20), coordinate=(120, 96))
RIGHT, WRONG_PLACE = [425, 425], [25, 25]

ROWS = [
    ("hit", CLICK, say("left_click", coordinate=RIGHT), (1, 1, 1, 1)),
    ("first pixel of the box", CLICK, say("left_click", coordinate=[350, 375]), (1, 1, 1, 1)),
    ("beside the box", CLICK, say("left_click", coordinate=WRONG_PLACE), (1, 1, 1, 0)),
    ("just past the box", CLICK, say("left_click", coordinate=[500, 425]), (1, 1, 1, 0)),
    ("another action at the right place", CLICK, say("double_click", coordinate=RIGHT), (1, 0, 0, 0)),
    ("the terminal instead", CLICK, say("", "bash", command="ls"), (1, 0, 0, 0)),
    ("no tool call", CLICK, "I would click it", (0, 0, 0, 0)),
    ("a click where the pointer is", CLICK, say("left_click"), (1, 1, 1, 0)),
    ("a place off the screen", CLICK, say("left_click", coordinate=[1200, 425]), (0, 0, 0, 0)),
    ("same text", TYPE, say("type", text="tax 25"), (1, 1, 1, 1)),
    ("other text", TYPE, say("type", text="tax 26"), (1, 1, 0, 0)),
    ("text in other case", TYPE, say("type", text="Tax 25"), (1, 1, 0, 0)),
    ("same keys, spelt otherwise", KEY, say("key", keys=["Control", "s"]), (1, 1, 1, 1)),
    ("other keys", KEY, say("key", keys=["ctrl", "a"]), (1, 1, 0, 0)),
    ("same way, other distance", SCROLL, say("scroll", pixels=-300), (1, 1, 1, 1)),
    ("the other way", SCROLL, say("scroll", pixels=100), (1, 1, 0, 0)),
    ("drag that ends there", DRAG, say("left_click_drag", start_coordinate=[75, 100], coordinate=RIGHT), (1, 1, 1, 1)),
    ("drag that ends elsewhere", DRAG, say("left_click_drag", coordinate=WRONG_PLACE), (1, 1, 1, 0)),
]


ROWS.append(("the pointer is there already", replace(CLICK, pointer=(120, 96)), say("left_click"), (1, 1, 1, 1)))


@pytest.mark.parametrize(("step", "text", "wanted"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_judgement(step: StepItem, text: str, wanted: tuple[int, ...]) -> None:
    score = judge_step(step, text, MODEL, ("computer_use", "bash"))
    assert score == StepScore(*map(bool, wanted))
    assert score.joint == all(wanted)


def test_a_tool_that_the_harness_lacks_is_bad_syntax() -> None:
    text = say("", "bash", command="ls")
    assert judge_step(CLICK, text, MODEL, ("computer_use",)) == StepScore(False, False, False, False)


def test_items_come_from_the_teachers_own_steps_with_even_primitives(tmp_path: Any) -> None:
    """Each item's own call is a full hit, its prompt ends with the screen, and any number of workers gives the same."""
    from components.contracts.arguments import arguments_of
    from components.contracts.coords import ScreenSpace
    from components.forge.generate import generate
    from components.rollout.slots import slots

    tasks = generate(3, {"heldout": 60}, lambda batch: [""] * len(batch)).tasks
    context = params().context
    made = [
        collect_items(tasks, hybrid(), context, MODEL, slots(tmp_path, default_spec("gui")), 4, 40, workers=workers)
        for workers in (1, 3)
    ]
    items = made[0]
    assert [i.call for i in items] == [i.call for i in made[1]]
    counts = {name: sum(i.primitive == name for i in items) for name in PRIMITIVES}
    assert counts["left_click"] == counts["double_click"] == 5 and max(counts.values()) == 5
    assert len([name for name, count in counts.items() if count]) >= 6
    space = ScreenSpace(MODEL.coord_space, SIZE, step=MODEL.coord_step)
    for step in items:
        text = render_response("so", "do it", "computer_use", arguments_of(step.call, space))
        assert judge_step(step, text, MODEL, hybrid().tools).joint, step.call
        assert 1 <= len(images(step.messages)) <= context.screenshots
        assert step.messages[-1].role == "user"


def test_where_the_order_is_free_every_right_beginning_counts(tmp_path: Any) -> None:
    """Any of the files to delete, any of the inputs still to be filled; never another one."""
    from components.forge.generate import generate
    from components.rollout.slots import slots
    from components.rollout.teacher import Teacher

    tasks = generate(3, {"heldout": 100}, lambda batch: [""] * len(batch)).tasks
    found: dict[str, list[set[str]]] = {"delete-logs": [], "form-texts": []}
    for task in [task for task in tasks if task.skill in found]:
        with slots(tmp_path, default_spec("gui"))() as desktop:
            seen = desktop.reset(task)
            teacher = Teacher(task, "gui", stream(0, "t"))
            for _ in range(3):
                step = teacher.next(seen, desktop.state())
                if step.others:
                    target = step.intent["target"][1]
                    labels = {e.label for e in step.others}
                    assert target not in labels and {e.kind for e in step.others} <= {"row", "field"}
                    named = task.spec["plan"][0]["gui"].get("files") or task.spec["plan"][0]["gui"]["values"]
                    assert labels <= set(named)
                    found[task.skill].append(labels)
                desktop.act(step.call)
                teacher.record(step.call, None)  # type: ignore[arg-type]
                seen = desktop.observe()
    assert all(found.values())
    both = replace(CLICK, boxes=((0, 0, 10, 10), *CLICK.boxes))
    assert judge_step(both, say("left_click", coordinate=RIGHT), MODEL, ("computer_use",)).joint
    assert not judge_step(both, say("left_click", coordinate=[500, 425]), MODEL, ("computer_use",)).joint
