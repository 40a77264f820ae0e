from __future__ import annotations

from typing import Any

import pytest

from components.contracts.arguments import arguments_of, build_call
from components.contracts.calls import BashCall, ComputerUse
from components.contracts.coords import ScreenSpace
from components.contracts.errors import CallError
from components.contracts.schemas import ACTIONS

SPACE = ScreenSpace("pixel_screen", (288, 224))


def code_of(name: object, arguments: object, pointer: tuple[int, int] | None = None) -> str:
    with pytest.raises(CallError) as caught:
        build_call(name, arguments, SPACE, pointer=pointer)
    return caught.value.code


VALID: dict[str, dict[str, Any]] = {
    "key": {"keys": ["ctrl", "s"]},
    "type": {"text": "hello"},
    "mouse_move": {"coordinate": [5, 6]},
    "left_click": {"coordinate": [5, 6]},
    "left_click_drag": {"start_coordinate": [1, 2], "coordinate": [5, 6]},
    "right_click": {"coordinate": [5, 6]},
    "middle_click": {"coordinate": [5, 6]},
    "double_click": {"coordinate": [5, 6]},
    "scroll": {"pixels": -120},
    "wait": {"time": 1.5},
    "terminate": {"status": "success"},
}


def test_every_action_has_a_call_and_a_way_back() -> None:
    assert set(VALID) == set(ACTIONS) and len(ACTIONS) == 11
    for action, arguments in VALID.items():
        call = build_call("computer_use", {"action": action, **arguments}, SPACE)
        assert arguments_of(call, SPACE) == {"action": action, **arguments}


@pytest.mark.parametrize("action", sorted(set(ACTIONS) - {"scroll"}))
def test_an_argument_of_another_action_is_unknown(action: str) -> None:
    assert code_of("computer_use", {"action": action, **VALID[action], "pixels": 5}) == "unknown_argument"


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_an_action_without_its_arguments_is_refused(action: str) -> None:
    assert code_of("computer_use", {"action": action}) == "missing_argument"


@pytest.mark.parametrize("action", ["triple_click", "LEFT_CLICK", "left click", "", None, 3, ["key"], "screenshot"])
def test_actions_outside_the_eleven_are_unknown(action: object) -> None:
    assert code_of("computer_use", {"action": action}) == "unknown_action"


def test_the_action_itself_is_required() -> None:
    assert code_of("computer_use", {"coordinate": [1, 2]}) == "missing_argument"


def test_a_click_without_coordinate_is_at_the_known_pointer_only() -> None:
    call = build_call("computer_use", {"action": "double_click"}, SPACE, pointer=(0, 9))
    assert call == ComputerUse(action="double_click", coordinate=(0, 9))
    assert code_of("computer_use", {"action": "mouse_move"}, pointer=(0, 9)) == "missing_argument"


def test_a_drag_from_the_pointer_to_the_pointer_is_refused() -> None:
    assert (
        code_of("computer_use", {"action": "left_click_drag", "coordinate": [7, 7]}, pointer=(7, 7))
        == "zero_length_drag"
    )


def test_a_drag_with_a_null_start_never_falls_back_to_the_pointer() -> None:
    arguments = {"action": "left_click_drag", "start_coordinate": None, "coordinate": [7, 7]}
    assert code_of("computer_use", arguments, pointer=(3, 3)) == "bad_coordinate"


@pytest.mark.parametrize("pixels", [0, 1.5, True, "5", None, float("nan"), 10**400, 200_000])
def test_scroll_takes_whole_pixels_within_reason(pixels: object) -> None:
    assert code_of("computer_use", {"action": "scroll", "pixels": pixels}) == "bad_argument"


@pytest.mark.parametrize("time", [-1, "1", False, float("inf"), 61, None])
def test_wait_takes_bounded_seconds(time: object) -> None:
    assert code_of("computer_use", {"action": "wait", "time": time}) == "bad_argument"


@pytest.mark.parametrize("status", ["done", True, None, "", ["success"]])
def test_terminate_takes_one_of_two_words(status: object) -> None:
    assert code_of("computer_use", {"action": "terminate", "status": status}) == "bad_argument"


@pytest.mark.parametrize("text", [5, None, ["a"], "", "a\0b", "\ud83d"])
def test_text_that_cannot_be_typed_is_refused(text: object) -> None:
    assert code_of("computer_use", {"action": "type", "text": text}) == "bad_argument"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({}, "missing_argument"),
        ({"command": " \n"}, "missing_argument"),
        ({"command": None}, "bad_argument"),
        ({"command": "a\0b"}, "bad_argument"),
        ({"command": "ls", "timeout": 0}, "bad_argument"),
        ({"command": "ls", "timeout": True}, "bad_argument"),
        ({"command": "ls", "timeout": 1e9}, "bad_argument"),
        ({"command": "ls", "restart": 1}, "bad_argument"),
        ({"command": "ls", "restart": True}, "bad_argument"),
        ({"command": "ls", "cwd": "/"}, "unknown_argument"),
    ],
)
def test_bad_terminal_calls_are_named(arguments: dict[str, object], code: str) -> None:
    assert code_of("bash", arguments) == code


def test_terminal_calls_keep_their_text() -> None:
    assert build_call("bash", {"command": " ls\n", "timeout": 5, "restart": False}, SPACE) == BashCall(
        command=" ls\n", timeout=5.0
    )
    assert build_call("bash", {"restart": True}, SPACE) == BashCall(restart=True)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({}, "missing_argument"),
        ({"action": "click"}, "missing_argument"),
        ({"action": "click", "element": True}, "bad_argument"),
        ({"action": "click", "element": -1}, "bad_argument"),
        ({"action": "click", "element": "3"}, "bad_argument"),
        ({"action": "tree", "element": 1}, "unknown_argument"),
        ({"action": "type"}, "unknown_action"),
        ({"action": ["tree"]}, "unknown_action"),
    ],
)
def test_bad_accessibility_calls_are_named(arguments: dict[str, object], code: str) -> None:
    assert code_of("accessibility", arguments) == code


@pytest.mark.parametrize("name", [None, 1, ["bash"], {}, "finish"])
def test_a_tool_that_is_no_name_is_unknown(name: object) -> None:
    assert code_of(name, {}) == "unknown_tool"
