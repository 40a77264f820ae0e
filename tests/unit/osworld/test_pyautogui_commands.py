"""OSWorld's GUI actions are read by a closed grammar: what is understood is pressed, all else is refused as a whole."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.contracts.calls import ComputerUse
from components.contracts.errors import CallError
from components.sandbox.osworld.pyautogui_commands import code_of, parse, resolve
from components.sandbox.osworld.remote_calls import pyautogui_code

BEGIN = "import pyautogui; import time; pyautogui.FAILSAFE = False; "

UNDERSTOOD: list[tuple[str, list[dict[str, Any]]]] = [
    ("moveTo(3, 4)", [{"action": "mouse_move", "coordinate": [3, 4]}]),
    ("moveTo(3.7, 4, 0.5, pyautogui.easeInOutQuad)", [{"action": "mouse_move", "coordinate": [3, 4]}]),
    ("click()", [{"action": "click", "button": "left", "times": 1}]),
    ("click((5, 6))", [{"action": "click", "button": "left", "times": 1, "coordinate": [5, 6]}]),
    ("click(button='right', x=1, y=2, clicks=2)",
     [{"action": "click", "button": "right", "times": 2, "coordinate": [1, 2]}]),
    ("rightClick(1, 2)", [{"action": "click", "button": "right", "times": 1, "coordinate": [1, 2]}]),
    ("middleClick(1, 2)", [{"action": "click", "button": "middle", "times": 1, "coordinate": [1, 2]}]),
    ("doubleClick(x=1, y=2)", [{"action": "click", "button": "left", "times": 2, "coordinate": [1, 2]}]),
    ("tripleClick(1, 2)", [{"action": "click", "button": "left", "times": 3, "coordinate": [1, 2]}]),
    ("dragTo(9, 8, duration=1.0, button='left', mouseDownUp=True)",
     [{"action": "drag", "button": "left", "coordinate": [9, 8]}]),
    ("drag(-5, 0, button='right')", [{"action": "drag", "button": "right", "offset": [-5, 0]}]),
    ("mouseDown(button='middle')", [{"action": "button_down", "button": "middle"}]),
    ("mouseUp(1, 2)", [{"action": "button_up", "button": "left", "coordinate": [1, 2]}]),
    ("scroll(-3, x=1, y=2)", [{"action": "scroll", "pixels": -300, "coordinate": [1, 2]}]),
    ("hscroll(2)", [{"action": "hscroll", "pixels": 200}]),
    ("write('a\\nb', interval=0.1)", [{"action": "type", "text": "a\nb"}]),
    ("typewrite(['a', 'enter'])", [{"action": "key", "keys": ["a"]}, {"action": "key", "keys": ["enter"]}]),
    ("press('pgdn', presses=2)", [{"action": "key", "keys": ["pagedown"]}] * 2),
    ("press(['up', 'A'])", [{"action": "key", "keys": ["up"]}, {"action": "key", "keys": ["shift", "a"]}]),
    ("hotkey('ctrl', 'shift', 't', interval=0.1)", [{"action": "key", "keys": ["ctrl", "shift", "t"]}]),
    ("hotkey(['ctrl', '+'])", [{"action": "key", "keys": ["ctrl", "+"]}]),
    ("keyDown('winleft')", [{"action": "key_down", "keys": ["super"]}]),
    ("keyUp('return')", [{"action": "key_up", "keys": ["enter"]}]),
    ("sleep(1.5)", [{"action": "wait", "time": 1.5}]),
]  # fmt: skip


@pytest.mark.parametrize(("call", "steps"), UNDERSTOOD, ids=[call for call, _ in UNDERSTOOD])
def test_a_call_of_pyautogui_becomes_the_action_it_names(call: str, steps: list[dict[str, Any]]) -> None:
    assert parse(f"{BEGIN}pyautogui.{call}") == steps


def test_statements_run_in_order_and_names_stand_for_constants() -> None:
    code = BEGIN + "\nx = 2 * 50\ntext = 'a' + 'b'\npyautogui.PAUSE = 0.1\n"
    steps = parse(code + "pyautogui.moveTo(x, x / 2)\ntime.sleep(2)\npyautogui.write(text)\n")
    assert [step["action"] for step in steps] == ["mouse_move", "wait", "type"]
    assert steps[0]["coordinate"] == [100, 50] and steps[2]["text"] == "ab"


REFUSED = [
    "import os; pyautogui.click()", "pyautogui.click(__import__('os').getpid(), 1)", "pyautogui.screenshot()",
    "for i in range(3): pyautogui.click()", "pyautogui.write(open('/etc/passwd').read())", "pyautogui.click(1)",
    "exec('pyautogui.click()')", "pyautogui.click(x='a', y=2)", "pyautogui.click(1e400, 2)", "pyautogui.press('nokey')",
    "pyautogui.click(*[1, 2])", "pyautogui.click(**{'x': 1})", "pyautogui.click(1, 2, clicks=1.5)",
    "pyautogui.click('button.png')", "pyautogui.__class__", "pyautogui.moveTo(1, 2).x", "pyautogui.press()",
    "pyautogui.click(1, 2, button='fourth')", "pyautogui.write(b'x')", "x = pyautogui.position()",
    "import pyautogui as p",
    "pyautogui.moveTo(1, 2", "pyautogui.hotkey()", "pyautogui.click(1/0, 1)", "lambda: pyautogui.click()",
    "pyautogui.typewrite(f'{1}')", "pyautogui.click(1, 2, x=3)", "pyautogui.press('a', presses=1000)",
]  # fmt: skip


@pytest.mark.parametrize("code", REFUSED)
def test_what_is_no_plain_call_is_refused_before_anything_is_pressed(code: str) -> None:
    with pytest.raises(CallError, match="nothing was done|e.g. ctrl"):
        parse(f"import pyautogui; pyautogui.click(1, 1); {code}" if not code.startswith("for") else code)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_and_never_run(text: str) -> None:
    try:
        steps = parse(f"pyautogui.write({text!r})")
    except CallError:
        return
    assert steps == ([{"action": "type", "text": text}] if text else [])
    try:
        parse(text)
    except CallError:
        pass


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (["python", "-c", "import pyautogui; pyautogui.click()"], True),
        (["/usr/bin/python3.11", "-c", "import pyautogui"], True),
        ("python3 -c \"import pyautogui; pyautogui.press('a')\"", True),
        (["python", "-c", "print('hello')"], False),
        (["python", "click.py", "pyautogui"], False),
        (["echo", "pyautogui"], False),
        ("echo pyautogui 'unclosed", False),
        (["bash", "-c", "python -c 'import pyautogui'"], False),
    ],
)
def test_only_python_that_names_pyautogui_is_taken_for_gui_actions(command: Any, found: bool) -> None:
    assert (code_of(command) is not None) is found


def test_offsets_start_where_the_pointer_is_and_add_up() -> None:
    steps = parse("pyautogui.move(5, 5); pyautogui.moveTo(50, 50); pyautogui.drag(10, -10); pyautogui.move(1, 1)")
    assert [step["coordinate"] for step in resolve(steps, (100, 200))] == [[105, 205], [50, 50], [60, 40], [61, 41]]


@pytest.mark.parametrize(
    "call",
    [
        ComputerUse(action="key", keys=("ctrl", "shift", "s")), ComputerUse(action="key", keys=("super",)),
        ComputerUse(action="key", keys=("menu",)), ComputerUse(action="type", text="it's \"a\" <b> \\ é\n"),
        ComputerUse(action="mouse_move", coordinate=(1, 2)), ComputerUse(action="left_click", coordinate=(1, 2)),
        ComputerUse(action="left_click"), ComputerUse(action="double_click", coordinate=(1, 2)),
        ComputerUse(action="right_click", coordinate=(3, 4)), ComputerUse(action="middle_click", coordinate=(3, 4)),
        ComputerUse(action="left_click_drag", start=(1, 2), coordinate=(30, 40)),
        ComputerUse(action="scroll", coordinate=(5, 6), pixels=-500), ComputerUse(action="scroll", pixels=100),
    ],
    ids=str,
)  # fmt: skip
def test_our_calls_survive_the_way_through_pyautogui(call: ComputerUse) -> None:
    steps = parse(pyautogui_code(call))
    last = steps[-1]
    if call.action == "type":
        typed = "".join(step.get("text", "<") for step in steps)
        assert typed == call.text
    elif call.action == "key":
        assert last["keys"] == list(call.keys)
    elif call.action == "scroll":
        assert last["pixels"] == call.pixels
    else:
        names = {"mouse_move": (None, None), "left_click": ("left", 1), "double_click": ("left", 2),
                 "right_click": ("right", 1), "middle_click": ("middle", 1),
                 "left_click_drag": ("left", None)}  # fmt: skip
        assert (last.get("button"), last.get("times")) == names[call.action]
    if call.coordinate is not None:
        assert last["coordinate"] == list(call.coordinate)
    if call.start is not None:
        assert steps[0]["coordinate"] == list(call.start)
