"""The single-step bench: one desktop step at a time, judged jointly (after the Single Step Cowork Bench, paper.md 8.4).

Items are GUI steps of the scripted teacher on held-out tasks: the folded prompt before the step, and what the step has
to be. Eight primitives (the 11 actions less `wait`, `terminate` and `middle_click`; which eight the authors use is not
published). Checked: syntax (the parser accepts it), action, arguments that are not a place, place (inside the target).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from components.contracts.calls import ComputerUse
from components.contracts.coords import ScreenSpace
from components.contracts.desktop import Box, Desktop, Observation
from components.contracts.errors import CallError
from components.contracts.folding import ContextLimits, Message, Turn, fold
from components.contracts.params import Context, Model
from components.contracts.response import arguments_of, parse_response, render_response
from components.contracts.rng import stream
from components.contracts.task import Task
from components.harness.spec import HarnessSpec
from components.rollout.policy import PolicyClient, Request
from components.rollout.teacher import Style, Teacher, TeacherStep, can_solve
from components.rollout.workers import fork_map

PRIMITIVES = ("key", "type", "mouse_move", "left_click", "left_click_drag", "right_click", "double_click", "scroll")
_DRAG_REACH = 10
"""Pixels around the end of a drag that still do the same (one stop of a slider, the inside of a row)."""
_STEP_LIMIT = 24


@dataclass(frozen=True)
class StepItem:
    """One step to be reproduced. `boxes`: where a pointer action has to land, in one of them; empty for the others.

    Several where the task leaves the order free: of two files to delete each is a right one to begin with.
    """

    primitive: str
    messages: tuple[Message, ...]
    call: ComputerUse
    boxes: tuple[Box, ...]
    pointer: tuple[int, int] | None
    size: tuple[int, int]


@dataclass(frozen=True)
class StepScore:
    syntax: bool
    action: bool
    arguments: bool
    hit: bool

    @property
    def joint(self) -> bool:
        return self.syntax and self.action and self.arguments and self.hit


def collect_items(
    tasks: Iterable[Task],
    harness: HarnessSpec,
    context: Context,
    model: Model,
    factory: Callable[[], AbstractContextManager[Desktop]],
    seed: int,
    count: int,
    special: Sequence[str] = (),
    workers: int = 1,
) -> list[StepItem]:
    """About `count` items, the primitives as even as the tasks allow: of each the first ones in the order of the tasks.

    The result does not depend on `workers`.
    """
    share = -(-count // len(PRIMITIVES))

    def part(mine: list[Task]) -> list[list[StepItem]]:
        """The items of each task that may be among the first ones: no more than `share` of a primitive in all."""
        left = dict.fromkeys(PRIMITIVES, share)
        out: list[list[StepItem]] = []
        for task in mine:
            own: list[StepItem] = []
            if any(left.values()) and can_solve(task, "gui"):
                with factory() as desktop:
                    for item in _episode_items(task, desktop, harness, context, model, seed, special):
                        if left[item.primitive]:
                            left[item.primitive] -= 1
                            own.append(item)
            out.append(own)
        return out

    found: dict[str, list[StepItem]] = {name: [] for name in PRIMITIVES}
    for items in fork_map(part, list(tasks), workers):
        for item in items:
            if len(found[item.primitive]) < share:
                found[item.primitive].append(item)
    return [item for items in found.values() for item in items]


def _episode_items(
    task: Task,
    desktop: Desktop,
    harness: HarnessSpec,
    context: Context,
    model: Model,
    seed: int,
    special: Sequence[str],
) -> Iterable[StepItem]:
    style = Style(channel_temperature=0.0, check=0.0, accessibility=0.0, coordinate_step=model.coord_step)
    teacher = Teacher(task, "gui", stream(seed, "single-step", task.task_id), style=style)
    limits = ContextLimits(context.screenshots, context.responses, context.action_lines)
    seen = desktop.reset(task)
    space = ScreenSpace(model.coord_space, desktop.size, step=model.coord_step)
    system = harness.system_prompt(model.coord_space)
    turns: list[Turn] = []
    for _ in range(_STEP_LIMIT):
        step = teacher.next(seen, desktop.state())
        call = step.call
        if not isinstance(call, ComputerUse) or call.action == "terminate":
            return
        if call.action in PRIMITIVES:
            messages = fold(system, task.instruction, [*turns, Turn(screenshot=seen.screen)], limits, special=special)
            yield StepItem(call.action, tuple(messages), call, _boxes(step, seen), seen.pointer, desktop.size)
        response = render_response(step.intent["why"], step.action_line, "computer_use", arguments_of(call, space))
        turns.append(Turn(screenshot=seen.screen, response=response, action=step.action_line))
        teacher.record(call, desktop.act(call))
        seen = desktop.observe()


def _boxes(step: TeacherStep, seen: Observation) -> tuple[Box, ...]:
    call = step.call
    if not isinstance(call, ComputerUse) or call.coordinate is None or call.action == "scroll":
        return ()
    return _box(call, step.intent["target"], seen), *(element.box for element in step.others)


def _box(call: ComputerUse, target: list[str] | None, seen: Observation) -> Box:
    assert call.coordinate is not None
    x, y = call.coordinate
    if target is not None and not (call.action == "left_click_drag" and target[0] == "slider"):
        for element in reversed(seen.elements):
            x0, y0, x1, y1 = element.box
            if [element.kind, element.label] == target and x0 <= x < x1 and y0 <= y < y1:
                return element.box
    return x - _DRAG_REACH, y - _DRAG_REACH, x + _DRAG_REACH + 1, y + _DRAG_REACH + 1


def judge_step(item: StepItem, text: str, model: Model, tools: Sequence[str]) -> StepScore:
    """Judge one response. A later figure can only be right when the earlier ones are."""
    space = ScreenSpace(model.coord_space, item.size, step=model.coord_step)
    try:
        call = parse_response(text, space, pointer=item.pointer, tools=tools).call
    except CallError:
        return StepScore(False, False, False, False)
    if not isinstance(call, ComputerUse) or call.action != item.primitive:
        return StepScore(True, False, False, False)
    expected = item.call
    arguments = call.text == expected.text and call.keys == expected.keys
    if item.primitive == "scroll":
        arguments = (call.pixels > 0) == (expected.pixels > 0) and call.pixels != 0
    return StepScore(True, True, arguments, arguments and _inside(call.coordinate, item.boxes))


def _inside(point: tuple[int, int] | None, boxes: Sequence[Box]) -> bool:
    if not boxes:
        return True
    return point is not None and any(x0 <= point[0] < x1 and y0 <= point[1] < y1 for x0, y0, x1, y1 in boxes)


def run_single_steps(
    client: PolicyClient, items: Sequence[StepItem], model: Model, tools: Sequence[str]
) -> list[StepScore]:
    """One greedy response an item."""
    done = client.complete([Request(item.messages) for item in items], 0.0)
    return [judge_step(item, completion.text, model, tools) for item, completion in zip(items, done, strict=True)]
