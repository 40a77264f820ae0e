from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contracts.agentnet import import_code
from components.contracts.calls import ComputerUse
from components.contracts.errors import CallError
from components.contracts.schemas import WHEEL_STEP_PX

SCREEN = (1000, 500)


def code_of(code: str) -> str:
    with pytest.raises(CallError) as caught:
        import_code(code, SCREEN)
    return caught.value.code


@pytest.mark.parametrize(
    ("code", "calls"),
    [
        ("pyautogui.click(0.25, 0.5)", [ComputerUse(action="left_click", coordinate=(250, 250))]),
        ("pyautogui.click(x=1.0, y=0)", [ComputerUse(action="left_click", coordinate=(999, 0))]),
        ("pyautogui.click(x=.5, y=.5, button='right')", [ComputerUse(action="right_click", coordinate=(500, 250))]),
        ("pyautogui.click(x=.5, y=.5, clicks=2)", [ComputerUse(action="double_click", coordinate=(500, 250))]),
        ("pyautogui.middleClick(x=.5, y=.5)", [ComputerUse(action="middle_click", coordinate=(500, 250))]),
        ("pyautogui.moveTo(x=.5, y=.5, duration=1)", [ComputerUse(action="mouse_move", coordinate=(500, 250))]),
        ("pyautogui.scroll(3, x=.5, y=.5)",
         [ComputerUse(action="scroll", pixels=3 * WHEEL_STEP_PX, coordinate=(500, 250))]),
        ("pyautogui.hotkey(['ctrl', 'A'])", [ComputerUse(action="key", keys=("ctrl", "shift", "a"))]),
        ("pyautogui.press(['a', 'b'])",
         [ComputerUse(action="key", keys=("a",)), ComputerUse(action="key", keys=("b",))]),
        ("pyautogui.press('down', presses=2, interval=.1)", [ComputerUse(action="key", keys=("down",))] * 2),
        ("pyautogui.typewrite('a b')", [ComputerUse(action="type", text="a b")]),
        ("computer.wait()", [ComputerUse(action="wait", time=1)]),
        ("computer.terminate(status='failure')", [ComputerUse(action="terminate", status="failure")]),
        ("pyautogui.moveTo(.1, .1)\npyautogui.click()",
         [ComputerUse(action="mouse_move", coordinate=(100, 50)),
          ComputerUse(action="left_click", coordinate=(100, 50))]),
        ("pyautogui.moveTo(.1, .1); pyautogui.dragTo(.2, .2)",
         [ComputerUse(action="left_click_drag", start=(100, 50), coordinate=(200, 100))]),
        ("pyautogui.click(.5, .5)  # a comment", [ComputerUse(action="left_click", coordinate=(500, 250))]),
    ],
)  # fmt: skip
def test_known_code_becomes_typed_calls(code: str, calls: list[ComputerUse]) -> None:
    assert list(import_code(code, SCREEN)) == calls


def test_a_drag_may_start_at_the_known_pointer() -> None:
    (call,) = import_code("pyautogui.dragTo(.2, .2, button='left')", SCREEN, pointer=(5, 5))
    assert call == ComputerUse(action="left_click_drag", start=(5, 5), coordinate=(200, 100))


@pytest.mark.parametrize(
    "code",
    [
        "os.remove('a')",
        "__import__('os').system('a')",
        "import pyautogui",
        "x = pyautogui.click(.1, .1)",
        "for i in range(3): pyautogui.click(.1, .1)",
        "pyautogui",
        "pyautogui.click",
        "pyautogui.click(.1, .1).wait()",
        "pyautogui.screenshot('a.png')",
        "pyautogui.__class__('a')",
        "pyautogui.terminate(status='success')",
        "click(.1, .1)",
        "(lambda: 1)()",
        "pyautogui.click(.1, .1)\nos.remove('a')",
    ],
)
def test_everything_outside_the_grammar_is_unknown(code: str) -> None:
    assert code_of(code) == "unknown_action"


@pytest.mark.parametrize(
    "code",
    [
        "computer.tripleClick(x=.1, y=.1)",
        "pyautogui.click(x=.1, y=.1, clicks=3)",
        "pyautogui.doubleClick(x=.1, y=.1, button='right')",
        "pyautogui.rightClick(x=.1, y=.1, button='left')",
        "pyautogui.hscroll(3)",
        "pyautogui.keyDown('shift')",
        "pyautogui.dragTo(.1, .1, button='right')",
    ],
)
def test_what_the_eleven_cannot_say_is_named_so(code: str) -> None:
    assert code_of(code) == "action_not_in_space"


@pytest.mark.parametrize("point", ["x=960, y=540", "x=0.5, y=540", "x=-0.1, y=0.5", "x=1.0001, y=0.5", "960, 540"])
def test_pixel_numbers_in_share_data_are_out_of_range(point: str) -> None:
    assert code_of(f"pyautogui.click({point})") == "out_of_range"


@pytest.mark.parametrize(
    "point",
    [
        "x='0.5', y=0.5",
        "x=1/2, y=0.5",
        "x=float('nan'), y=0.5",
        "x=0.5",
        "x=None, y=None",
        "x=True, y=0.5",
        "x=1e999, y=0",
    ],
)
def test_coordinates_that_are_no_two_plain_numbers_are_bad(point: str) -> None:
    assert code_of(f"pyautogui.click({point})") == "bad_coordinate"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("", "malformed_code"),
        ("pyautogui.click(", "malformed_code"),
        ("\0", "malformed_code"),
        ("(" * 5000, "malformed_code"),
        ("x" * 200_000, "malformed_code"),
        ("pyautogui.click()", "missing_argument"),
        ("pyautogui.press()", "missing_argument"),
        ("pyautogui.write()", "missing_argument"),
        ("pyautogui.scroll()", "missing_argument"),
        ("pyautogui.scroll('5')", "bad_argument"),
        ("pyautogui.scroll(0)", "bad_argument"),
        ("pyautogui.write(f'{1}')", "bad_argument"),
        ("pyautogui.write(b'a')", "bad_argument"),
        ("pyautogui.write(*['a'])", "bad_argument"),
        ("pyautogui.write(**{'message': 'a'})", "bad_argument"),
        ("pyautogui.write('a', message='b')", "bad_argument"),
        ("pyautogui.press('a', presses=1000000)", "bad_argument"),
        ("pyautogui.click(.1, .1, button='thumb')", "bad_argument"),
        ("pyautogui.click(.1, .1, clicks=0)", "bad_argument"),
        ("computer.terminate(status='done')", "bad_argument"),
        ("computer.terminate()", "missing_argument"),
        ("computer.terminate(status='success', answer='5')", "unknown_argument"),
        ("pyautogui.click(.1, .1, tween=1)", "unknown_argument"),
        ("pyautogui.scroll(1, 2, 3, 4)", "unknown_argument"),
        ("pyautogui.hotkey('ctrl', 'nokey')", "unknown_key"),
        ("pyautogui.hotkey()", "missing_argument"),
        ("pyautogui.moveTo(.1, .1); pyautogui.dragTo(.1, .1)", "zero_length_drag"),
    ],
)
def test_every_other_fault_has_its_name(code: str, expected: str) -> None:
    assert code_of(code) == expected


@given(st.text(max_size=60))
def test_typed_text_arrives_unchanged_whatever_it_holds(text: str) -> None:
    try:
        (call,) = import_code(f"pyautogui.write(message={text!r})", SCREEN)
    except CallError as error:
        assert error.code == "bad_argument" and (not text or "\0" in text)
    else:
        assert call == ComputerUse(action="type", text=text)
