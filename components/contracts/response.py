"""The response format: one strict parser and its exact inverse, for data, RL, evaluation and the live agent alike.

    <think>rationale</think>
    Action: one short imperative
    <tool_call>
    {"name": "computer_use", "arguments": {"action": "left_click", "coordinate": [500, 300]}}
    </tool_call>

The reasoning ends at its first closing tag; what it drafts is never a call. The end of the call is found by reading
its JSON object, so tags inside strings are text. Text after the closed call is kept and changes nothing, unless it is
a second call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from components.contracts.arguments import Pointer, arguments_of, build_call
from components.contracts.calls import DesktopCall
from components.contracts.coords import ScreenSpace
from components.contracts.errors import CallError
from components.contracts.schemas import (
    ACTION_PREFIX,
    CALL_CLOSE,
    CALL_OPEN,
    TAG_NAMES,
    THINK_CLOSE,
    THINK_OPEN,
    TOOL_NAMES,
)

__all__ = [
    "ParsedResponse",
    "action_line",
    "arguments_of",
    "build_call",
    "parse_response",
    "render_call",
    "render_response",
]

_TAG = re.compile(rf"</?(?:{'|'.join(TAG_NAMES)})>")
_HEAD = re.compile(rf"\s*{ACTION_PREFIX}[ \t]*(?P<action>[^\r\n]*?)[ \t]*(?:\r?\n\s*)\Z")
_ACTION_LINE = re.compile(rf"^[ \t]*{ACTION_PREFIX}[ \t]*(?P<action>\S[^\r\n]*?)[ \t]*$", re.MULTILINE)
_SECOND_CALL = re.compile(rf"{CALL_OPEN}\s*\{{")


@dataclass(frozen=True)
class ParsedResponse:
    """`raw_arguments` are the wire arguments as written, `trailing` the text after the closed call (for the log)."""

    think: str
    action: str
    call: DesktopCall
    raw_arguments: dict[str, Any]
    trailing: str = ""


def parse_response(
    text: str,
    space: ScreenSpace,
    *,
    pointer: Pointer = None,
    tools: Collection[str] = TOOL_NAMES,
) -> ParsedResponse:
    """Parse a raw response, or raise `CallError`; nothing is executed here.

    `pointer`: where the pointer is, None when unknown; `tools`: those the harness offers. Codes: missing_tool_call,
    malformed_reasoning, missing_action, malformed_action, bad_json, unclosed_tool_call, several_tool_calls, and those
    of `build_call`.
    """
    think, rest = _split_reasoning(text)
    opener = rest.find(CALL_OPEN)
    if opener < 0:
        raise CallError(
            "missing_tool_call", "there is no tool call after the reasoning", remedy=f"end with one {CALL_OPEN}"
        )
    action = _read_action(rest[:opener])
    name, arguments, trailing = _read_call(rest[opener + len(CALL_OPEN) :])
    call = build_call(name, arguments, space, pointer=pointer, tools=tools)
    return ParsedResponse(think, action, call, arguments, trailing)


def render_call(name: str, arguments: dict[str, Any]) -> str:
    """The `<tool_call>` block. JSON with `", "` and `": "`, other scripts unescaped."""
    body = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False, allow_nan=False)
    return f"{CALL_OPEN}\n{body}\n{CALL_CLOSE}"


def render_response(think: str, action: str, name: str, arguments: dict[str, Any]) -> str:
    """The exact inverse of `parse_response`; refuses what could not be read back (malformed_reasoning, missing_action,
    malformed_action)."""
    if THINK_OPEN in think or THINK_CLOSE in think:
        raise CallError("malformed_reasoning", "a rationale cannot hold the reasoning tags")
    if not action:
        raise CallError("missing_action", "a response needs its action line")
    if action != action.strip() or len(action.splitlines()) != 1 or _TAG.search(action):
        raise CallError("malformed_action", f"not a plain single line: {action[:60]!r}")
    return f"{THINK_OPEN}{think}{THINK_CLOSE}\n{ACTION_PREFIX} {action}\n{render_call(name, arguments)}"


def action_line(text: str) -> str:
    """The action line of any response, best effort and for the record only ("" when there is none). Never raises."""
    match = _ACTION_LINE.search(text, max(text.find(THINK_CLOSE), 0))
    return _TAG.sub("", match["action"]).strip() if match else ""


def _split_reasoning(text: str) -> tuple[str, str]:
    """(think, rest). The prompt never opens the reasoning for the model, so the opening tag must be there."""
    body = text.lstrip()
    if not body.startswith(THINK_OPEN):
        code = "malformed_reasoning" if CALL_OPEN in body else "missing_tool_call"
        raise CallError(code, f"the response does not begin with {THINK_OPEN}")
    think, closed, rest = body[len(THINK_OPEN) :].partition(THINK_CLOSE)
    if not closed:
        raise CallError("missing_tool_call", "the reasoning is not closed, so nothing after it counts")
    if THINK_OPEN in think:
        raise CallError("malformed_reasoning", "the reasoning is opened twice")
    return think, rest


def _read_action(head: str) -> str:
    """The action line, from the text between the reasoning and the call."""
    if THINK_OPEN in head or THINK_CLOSE in head:
        raise CallError("malformed_reasoning", "reasoning goes on after it was closed")
    match = _HEAD.match(head)
    if match and match["action"] and not _TAG.search(match["action"]):
        return match["action"]
    if ACTION_PREFIX not in head or (match and not match["action"]):
        raise CallError("missing_action", f"there is no {ACTION_PREFIX} line before the tool call")
    raise CallError("malformed_action", f"only one {ACTION_PREFIX} line may stand between the reasoning and the call")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a key is given twice")
    return out


_DECODER = json.JSONDecoder(object_pairs_hook=_unique)


def _read_call(body: str) -> tuple[Any, dict[str, Any], str]:
    """(name, arguments, trailing) of the call whose text begins after the opening tag."""
    body = body.lstrip()
    try:
        # Too deep, too long a number and a doubled key all end here; NaN and 1e999 are refused where they are used.
        value, end = _DECODER.raw_decode(body)
    except (ValueError, RecursionError) as error:
        raise CallError("bad_json", f"the tool call is not one JSON object: {str(error)[:80]}") from None
    if not isinstance(value, dict):
        raise CallError("bad_json", "the tool call is not a JSON object")
    after = body[end:].lstrip()
    if not after.startswith(CALL_CLOSE):
        raise CallError("unclosed_tool_call", f"the tool call does not end with {CALL_CLOSE}")
    trailing = after[len(CALL_CLOSE) :]
    if _SECOND_CALL.search(trailing):
        raise CallError("several_tool_calls", "a response holds exactly one tool call")
    if THINK_CLOSE in trailing.partition(THINK_OPEN)[0]:
        # The call stood inside reasoning that is only closed here.
        raise CallError("malformed_reasoning", "the reasoning closes after the tool call")
    missing = [key for key in ("name", "arguments") if key not in value]
    if missing:
        raise CallError("missing_argument", f"the tool call has no {missing[0]}")
    extra = sorted(set(value) - {"name", "arguments"})
    if extra:
        raise CallError("unknown_argument", f"the tool call has an unknown {extra[0][:40]}")
    if not isinstance(value["arguments"], dict):
        raise CallError("bad_argument", "arguments must be an object")
    return value["name"], value["arguments"], trailing
