"""The scripted teacher on the real desktop."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from components.contracts.calls import AccessibilityCall, BashCall, ComputerUse
from components.contracts.coords import ScreenSpace
from components.contracts.errors import TeacherError
from components.forge.gate import GateShell
from components.forge.generate import make_task
from components.forge.preparers import prepare
from components.forge.verifier import grade
from components.forge.workflows import WORKFLOWS
from components.rollout.teacher import Style, Teacher, can_solve
from components.sandbox.minidesk.desktop import MiniDesk
from components.sandbox.shell import detect
from tests.unit.forge.test_words import known

PLAIN = Style(channel_temperature=0.0, check=0.0)
OVERLAPPING = frozenset({"computer_use", "bash", "accessibility"})
SPACE = ScreenSpace("normalized_1000", (288, 224), step=25)


@pytest.fixture(scope="module")
def desktop(tmp_path_factory):
    slot = tmp_path_factory.mktemp("slot")
    shell = GateShell(slot, unconfined=detect().confinement == "none")
    desktop = MiniDesk(slot, prepare=prepare, grade=grade, shell=lambda _home: shell, tools=OVERLAPPING)
    yield desktop
    desktop.close()
    shell.quit()


def task_of(skill, item=0, split="train"):
    return make_task(WORKFLOWS[skill], split, 21, item)


def episode(desktop, task, policy, *, style=PLAIN, tools=None, noise=0.0, seed=0, steps=None):
    """Steps of one episode; `noise` is the share of steps replaced by a random click."""
    desktop.reset(task)
    rng = Random(seed)
    teacher = Teacher(task, policy, Random(seed), style=style, tools=tools)
    made = []
    for _ in range(steps or 40):
        step = teacher.next(desktop.observe(), desktop.state())
        call = step.call
        if rng.random() < noise:
            call = ComputerUse(action="left_click", coordinate=(rng.randrange(288), rng.randrange(224)))
        teacher.record(call, desktop.act(call))
        made.append(step)
        if isinstance(call, ComputerUse) and call.action == "terminate":
            break
    return made


@pytest.mark.parametrize("skill", list(WORKFLOWS))
def test_every_declared_route_solves_the_task_in_few_calls(desktop, skill):
    for item in range(2):
        task = task_of(skill, item)
        for policy in ("gui", "terminal", "hybrid"):
            if not can_solve(task, policy):
                continue
            steps = episode(desktop, task, policy)
            assert desktop.grade().success, (policy, [s.action_line for s in steps])
            assert steps[-1].call == ComputerUse(action="terminate", status="success")
            assert len(steps) <= (4 if policy == "terminal" else task.max_steps)
            used = {s.intent["channel"] for s in steps[:-1]}
            assert policy == "hybrid" or used <= {policy}


@pytest.mark.parametrize("skill", list(WORKFLOWS))
def test_it_recovers_from_random_clicks(desktop, skill):
    outcomes = []
    for item in range(3):
        task = task_of(skill, item)
        for policy in ("gui", "hybrid"):
            if can_solve(task, policy):
                episode(desktop, task, policy, style=Style(), noise=0.12, seed=item)
                outcomes.append(desktop.grade().success)
    assert sum(outcomes) >= len(outcomes) - 1


def test_everything_said_uses_known_words_and_points_can_be_written(desktop):
    for skill in WORKFLOWS:
        for item in range(2):
            for step in episode(desktop, task_of(skill, item), "hybrid", style=Style(), noise=0.2, seed=item):
                for text in (step.action_line, step.intent["why"], step.intent["aim"]):
                    assert known(text) == [], text
                assert step.action_line and step.intent["why"]
                point = getattr(step.call, "coordinate", None)
                if point is not None:
                    assert SPACE.to_screen(SPACE.from_screen(point)) == point


def test_long_lists_are_scrolled_to_the_row(desktop):
    task = task_of("delete-file")
    extra = tuple(
        task.setup[0].model_copy(update={"args": {"path": f"{c}{c}.md", "text": ""}}) for c in "abcdefghijuvwxyz"
    )
    task = task.model_copy(update={"setup": task.setup + extra})
    steps = episode(desktop, task, "gui")
    assert desktop.grade().success and any(s.call.action == "scroll" for s in steps)


def test_what_is_out_of_sight_is_named_only_where_the_task_names_it(desktop):
    """A rationale is learned from the screen: it cannot say what no screen and no instruction shows."""
    for skill in ("delete-logs", "delete-file"):
        task = task_of(skill)
        extra = tuple(
            task.setup[0].model_copy(update={"args": {"path": f"a{c}.md", "text": ""}}) for c in "abcdefghijklm"
        )
        steps = episode(desktop, task.model_copy(update={"setup": task.setup + extra}), "gui")
        said = {s.intent["why"] for s in steps if getattr(s.call, "action", "") == "scroll"}
        assert desktop.grade().success and said, skill
        assert said == (
            {"no .log is shown"} if skill == "delete-logs" else {f"{task.spec['args']['file']} is not shown"}
        )


def after(desktop, task, policy, calls, **kwargs):
    """What the teacher does first after somebody else made these calls."""
    desktop.reset(task)
    for call in calls:
        desktop.act(call)
    teacher = Teacher(task, policy, Random(0), style=PLAIN)
    return teacher.next(desktop.observe(), desktop.state())


def icon(desktop, app):
    return next(e.center for e in desktop.observe().elements if e.kind == "icon" and e.label == app)


def test_a_menu_nobody_asked_for_is_closed(desktop):
    task = task_of("set-volume")
    desktop.reset(task)
    menu = ComputerUse(action="right_click", coordinate=icon(desktop, "notes"))
    step = after(desktop, task, "gui", [menu])
    assert step.call == ComputerUse(action="key", keys=("esc",))


def test_a_preference_that_was_put_back_is_set_again(desktop):
    task = next(t for t in (task_of("toggle-pref", i) for i in range(40)) if not _right(t))
    desktop.reset(task)
    teacher = Teacher(task, "gui", Random(0), style=PLAIN)
    clicked = None
    while clicked is None:
        step = teacher.next(desktop.observe(), desktop.state())
        teacher.record(step.call, desktop.act(step.call))
        clicked = step.call if step.intent["target"] and step.intent["target"][0] == "checkbox" else None
    back = clicked
    teacher.record(back, desktop.act(back))
    step = teacher.next(desktop.observe(), desktop.state())
    assert step.call == clicked


def _right(task):
    return WORKFLOWS[task.skill].branches(task.spec["args"]).needs_nothing


def test_a_box_that_is_right_is_looked_at_and_left_alone(desktop):
    task = next(t for t in (task_of("toggle-pref", i) for i in range(40)) if _right(t))
    steps = episode(desktop, task, "gui")
    assert not any(s.intent["target"] and s.intent["target"][0] == "checkbox" for s in steps)
    assert desktop.grade().success


def test_a_command_that_fails_is_tried_by_hand_and_never_raises(desktop):
    task = task_of("rename-file")
    broken = [{**task.spec["plan"][0], "terminal": {"goal": "bash", "command": "mv none.txt other.txt"}}]
    spoiled = task.model_copy(update={"spec": {**task.spec, "plan": broken}})
    steps = episode(desktop, spoiled, "hybrid")
    assert [isinstance(s.call, BashCall) for s in steps[:3]] == [True, True, False]
    assert desktop.grade().success
    steps = episode(desktop, spoiled, "terminal")
    assert steps[-1].call == ComputerUse(action="terminate", status="failure")


def test_temperature_zero_takes_the_cheaper_channel_and_one_the_slower_in_two_of_five(desktop):
    task = task_of("rename-file")
    desktop.reset(task)
    seen, state = desktop.observe(), desktop.state()

    def first(temperature, seed):
        teacher = Teacher(task, "hybrid", Random(seed), style=Style(channel_temperature=temperature))
        return teacher.next(seen, state).intent["channel"]

    assert {first(0.0, seed) for seed in range(50)} == {"terminal"}
    assert 0.3 < Counter(first(1.0, seed) for seed in range(400))["gui"] / 400 < 0.5


def test_needless_looks_come_as_often_as_asked(desktop):
    task = task_of("rename-file")
    lengths = Counter(len(episode(desktop, task, "terminal", style=Style(check=0.3), seed=i)) for i in range(60))
    assert set(lengths) == {2, 3} and 8 <= lengths[3] <= 30


def test_the_overlapping_harness_clicks_by_number_nine_times_of_ten(desktop):
    clicks, numbers = 0, 0
    for item in range(6):
        steps = episode(desktop, task_of("form-texts", item), "gui", tools=OVERLAPPING, seed=item)
        assert desktop.grade().success
        numbers += sum(isinstance(s.call, AccessibilityCall) and s.call.action == "click" for s in steps)
        clicks += sum(getattr(s.call, "action", "") == "left_click" for s in steps)
        trees = sum(isinstance(s.call, AccessibilityCall) and s.call.action == "tree" for s in steps)
        assert trees == sum(isinstance(s.call, AccessibilityCall) and s.call.action == "click" for s in steps)
    assert 0.75 < numbers / (clicks + numbers) < 1


def test_a_route_that_does_not_exist_is_refused_at_the_start():
    with pytest.raises(TeacherError, match="no terminal route"):
        Teacher(task_of("set-volume"), "terminal", Random(0))
    assert not can_solve(task_of("set-volume"), "terminal") and can_solve(task_of("set-volume"), "hybrid")


def test_an_episode_is_a_function_of_task_and_seed(desktop):
    task = task_of("cell-and-pref")
    runs = [[s.call for s in episode(desktop, task, "hybrid", style=Style(), noise=0.1, seed=4)] for _ in range(2)]
    assert runs[0] == runs[1]
