from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.contracts.calls import AccessibilityCall, BashCall, ComputerUse, DesktopCall
from components.contracts.coords import ScreenSpace
from components.contracts.errors import CallError
from components.contracts.keys import KEYS
from components.contracts.response import action_line, arguments_of, parse_response, render_call, render_response

SPACE = ScreenSpace("normalized_1000", (288, 224))
CLICK = (
    '<tool_call>\n{"name": "computer_use", "arguments": {"action": "left_click", "coordinate": [500, 500]}}'
    "\n</tool_call>"
)

plain = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)
thoughts = plain.filter(lambda t: "<think>" not in t and "</think>" not in t)
TAGGED = [
    "close </think> now", "<tool_call>{}</tool_call>", 'say "</tool_call>" \\ end', "<think>", "Action: no",
    "<|im_end|>",
]  # fmt: skip
typed = st.one_of(plain.filter(bool), st.sampled_from(TAGGED))
lines = plain.map(lambda t: " ".join(t.split())).filter(lambda t: t and len(t.splitlines()) == 1 and t == t.strip())


@st.composite
def calls(draw: st.DrawFn, width: int = 288, height: int = 224) -> DesktopCall:
    """Any typed call the parser can return."""
    point = st.tuples(st.integers(0, width - 1), st.integers(0, height - 1))
    kind = draw(
        st.sampled_from(["bash", "restart", "tree", "element", "key", "type", "point", "drag", "scroll", "wait", "end"])
    )
    if kind == "bash":
        return BashCall(command=draw(typed.filter(lambda t: t.strip())), timeout=draw(st.none() | st.floats(0.1, 600)))
    if kind == "restart":
        return BashCall(restart=True)
    if kind == "tree":
        return AccessibilityCall(action="tree")
    if kind == "element":
        return AccessibilityCall(action="click", element=draw(st.integers(0, 10**6)))
    if kind == "key":
        return ComputerUse(
            action="key", keys=tuple(draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=4, unique=True)))
        )
    if kind == "type":
        return ComputerUse(action="type", text=draw(typed))
    if kind == "drag":
        start, end = draw(point), draw(point)
        if start == end:
            end = ((end[0] + 1) % width, end[1])
        return ComputerUse(action="left_click_drag", start=start, coordinate=end)
    if kind == "scroll":
        pixels = draw(st.integers(-100_000, 100_000).filter(bool))
        return ComputerUse(action="scroll", pixels=pixels, coordinate=draw(st.none() | point))
    if kind == "wait":
        return ComputerUse(action="wait", time=draw(st.floats(0, 60)))
    if kind == "end":
        return ComputerUse(action="terminate", status=draw(st.sampled_from(["success", "failure"])))
    action = draw(st.sampled_from(["mouse_move", "left_click", "right_click", "middle_click", "double_click"]))
    return ComputerUse(action=action, coordinate=draw(point))


def code_of(text: str, **options: object) -> str:
    with pytest.raises(CallError) as caught:
        parse_response(text, SPACE, **options)  # type: ignore[arg-type]
    return caught.value.code


def response(name: str, arguments: object) -> str:
    body = json.dumps({"name": name, "arguments": arguments})
    return f"<think>t</think>\nAction: a\n<tool_call>\n{body}\n</tool_call>"


@settings(max_examples=300, deadline=None)
@given(think=thoughts, action=lines.filter(lambda t: "<" not in t), call=calls())
def test_what_is_rendered_is_read_back_exactly(think: str, action: str, call: DesktopCall) -> None:
    arguments = arguments_of(call, SPACE)
    text = render_response(think, action, call.tool, arguments)
    parsed = parse_response(text, SPACE)
    assert (parsed.think, parsed.action, parsed.call, parsed.raw_arguments) == (think, action, call, arguments)
    assert parsed.trailing == ""
    assert render_response(parsed.think, parsed.action, parsed.call.tool, parsed.raw_arguments) == text


@settings(max_examples=300, deadline=None)
@given(text=st.one_of(st.text(max_size=200), st.lists(st.sampled_from(
    ["<think>", "</think>", "\nAction: a\n", "<tool_call>", "</tool_call>", "{", "}", '"name"', ":", CLICK, "[", "x"]
), max_size=12).map("".join)))  # fmt: skip
def test_the_parser_raises_nothing_but_call_errors(text: str) -> None:
    try:
        parsed = parse_response(text, SPACE)
    except CallError:
        return
    assert render_call(parsed.call.tool, parsed.raw_arguments)


def test_the_format_is_the_written_one() -> None:
    text = render_response("Look.", "Click save.", "computer_use", {"action": "left_click", "coordinate": [500, 300]})
    assert text == (
        "<think>Look.</think>\nAction: Click save.\n<tool_call>\n"
        '{"name": "computer_use", "arguments": {"action": "left_click", "coordinate": [500, 300]}}\n</tool_call>'
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Just words.",
        f"<think>not closed {CLICK}",
        f"<think>draft {CLICK} only</think>\nAction: Look.",
        "<think>t</think>",
        "<think>t</think>\nAction: a\n</tool_call>",
    ],
)
def test_no_call_after_the_reasoning_is_a_missing_call(text: str) -> None:
    assert code_of(text) == "missing_tool_call"


@pytest.mark.parametrize(
    "text",
    [
        f"Action: a\n{CLICK}",
        f"thinking</think>\nAction: a\n{CLICK}",
        f"<think>a<think>b</think>\nAction: a\n{CLICK}",
        f"<think>a</think><think>b</think>\nAction: a\n{CLICK}",
        f"<think>a</think>\nAction: draft\n{CLICK} still thinking</think>",
    ],
)
def test_reasoning_that_is_not_one_closed_block_is_malformed(text: str) -> None:
    assert code_of(text) in ("malformed_reasoning", "several_tool_calls")


def test_a_closing_tag_inside_the_reasoning_turns_no_draft_into_a_call() -> None:
    assert code_of(f"<think>it says </think> here {CLICK} and more</think>\nAction: a\n{CLICK}") == "missing_action"


@pytest.mark.parametrize("head", ["", "\n", "\nClick it.\n", "\nAction:\n", "\nAction:  \n"])
def test_a_missing_action_line_is_named(head: str) -> None:
    assert code_of(f"<think>t</think>{head}{CLICK}") == "missing_action"


@pytest.mark.parametrize(
    "head", ["\nAction: a\nand b\n", "\nFirst.\nAction: a\n", "\nAction: a ", "\nAction: a </tool_call>\n"]
)
def test_more_than_one_plain_action_line_is_malformed(head: str) -> None:
    assert code_of(f"<think>t</think>{head}{CLICK}") == "malformed_action"


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "[1, 2]",
        '"text"',
        '{"name": "bash", "arguments": {"command": "a"',
        '{"name": "bash", "name": "bash", "arguments": {"command": "a"}}',
        '{"name": "bash", "arguments": {"command": "ls", "command": "rm x"}}',
        "{'name': 'bash'}",
        "[" * 100_000,
        '{"name": ' + "[" * 100_000,
        '{"name": "computer_use", "arguments": {"action": "wait", "time": ' + "9" * 5000 + "}}",
    ],
)
def test_a_call_that_is_not_one_json_object_is_bad_json(body: str) -> None:
    assert code_of(f"<think>t</think>\nAction: a\n<tool_call>\n{body}\n</tool_call>") == "bad_json"


@pytest.mark.parametrize("end", ["", "\n", " and so on", "}\n</tool_call>", "</tool_cal>"])
def test_a_call_must_be_closed(end: str) -> None:
    assert code_of(
        '<think>t</think>\nAction: a\n<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}' + end
    ) == ("unclosed_tool_call")


@pytest.mark.parametrize("between", ["\n", " then ", "\nAction: b\n", "\n</think>"])
def test_two_calls_are_refused_whole(between: str) -> None:
    assert code_of(f"<think>t</think>\nAction: a\n{CLICK}{between}{CLICK}") == "several_tool_calls"


@pytest.mark.parametrize(
    "trailing", ["\nDone soon.", " </tool_call>", "\nI used a <tool_call> tag.", "\n<think>next</think>"]
)
def test_text_after_the_closed_call_is_kept_and_changes_nothing(trailing: str) -> None:
    parsed = parse_response(f"<think>t</think>\nAction: a\n{CLICK}{trailing}", SPACE)
    assert parsed.call == ComputerUse(action="left_click", coordinate=(144, 112))
    assert parsed.trailing == trailing


def test_only_offered_tools_exist() -> None:
    text = response("bash", {"command": "ls"})
    assert parse_response(text, SPACE, tools=["bash"]).call == BashCall(command="ls")
    assert code_of(text, tools=["computer_use"]) == "unknown_tool"
    assert code_of(response("python", {"code": "1"})) == "unknown_tool"
    assert code_of(response("Bash", {"command": "ls"})) == "unknown_tool"


@pytest.mark.parametrize("body", ['{"arguments": {}}', '{"name": "bash"}', "{}"])
def test_a_call_needs_name_and_arguments(body: str) -> None:
    assert code_of(f"<think>t</think>\nAction: a\n<tool_call>{body}</tool_call>") == "missing_argument"


def test_a_call_takes_nothing_beside_name_and_arguments() -> None:
    body = '{"name": "bash", "arguments": {"command": "ls"}, "id": 1}'
    assert code_of(f"<think>t</think>\nAction: a\n<tool_call>{body}</tool_call>") == "unknown_argument"


@pytest.mark.parametrize("arguments", ["{}", [], None, 5])
def test_arguments_must_be_an_object(arguments: object) -> None:
    assert code_of(response("bash", arguments)) == "bad_argument"


@pytest.mark.parametrize(
    ("think", "action", "code"),
    [
        ("a </think> b", "x", "malformed_reasoning"),
        ("a <think> b", "x", "malformed_reasoning"),
        ("a", "", "missing_action"),
        ("a", " x", "malformed_action"),
        ("a", "x\ny", "malformed_action"),
        ("a", "x\u2028y", "malformed_action"),
        ("a", "use <tool_call>", "malformed_action"),
    ],
)
def test_what_could_not_be_read_back_is_not_rendered(think: str, action: str, code: str) -> None:
    with pytest.raises(CallError) as caught:
        render_response(think, action, "bash", {"command": "ls"})
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("<think>Action: draft\n</think>\nAction: Click save.\nnonsense", "Click save."),
        ("<think>never closed\nAction: Click save.", "Click save."),
        ("<think>t</think>\nAction: a <tool_call>\n", "a"),
        ("nothing here", ""),
        ("", ""),
    ],
)
def test_the_record_keeps_the_action_line_of_a_broken_response(text: str, line: str) -> None:
    assert action_line(text) == line
