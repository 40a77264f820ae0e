"""The tools as JSON schemas, and the strings that mark the parts of a response. One place for both."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, get_args

from components.contracts.calls import ComputerAction
from components.contracts.coords import CoordSpace
from components.contracts.errors import ParamsError

THINK_OPEN = "<think>"
THINK_CLOSE = "</think>"
ACTION_PREFIX = "Action:"
CALL_OPEN = "<tool_call>"
CALL_CLOSE = "</tool_call>"
OUTPUT_OPEN = "<tool_response>"
OUTPUT_CLOSE = "</tool_response>"
TOOLS_OPEN = "<tools>"
TOOLS_CLOSE = "</tools>"

TAG_NAMES = ("think", "tool_call", "tool_response", "tools")
"""Words that are structure when they stand in angle brackets."""

TOOL_NAMES = ("computer_use", "bash", "accessibility")
ACTIONS: tuple[str, ...] = get_args(ComputerAction)
CLICKS = ("left_click", "right_click", "middle_click", "double_click")

ALLOWED: dict[str, tuple[str, ...]] = {
    "key": ("keys",),
    "type": ("text",),
    "mouse_move": ("coordinate",),
    **{click: ("coordinate",) for click in CLICKS},
    "left_click_drag": ("start_coordinate", "coordinate"),
    "scroll": ("pixels", "coordinate"),
    "wait": ("time",),
    "terminate": ("status",),
}
"""Arguments of each action besides `action` itself. Anything else is an unknown argument."""

WHEEL_STEP_PX = 32
"""Pixels that one notch of a mouse wheel stands for, where a back end or an importer counts notches."""
MAX_SCROLL_PX = 100_000
MAX_WAIT_S = 60.0
MAX_TIMEOUT_S = 600.0

_POINT_WORDS = {
    "normalized_1000": "[x, y] on a grid from 0 to 1000 over the whole screen",
    "normalized_1": "[x, y] as shares of the screen's width and height, 0 to 1",
    "pixel_screen": "[x, y] in pixels of the screen",
    "pixel_model": "[x, y] in pixels of the picture you see",
}


def _function(name: str, description: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def _point(words: str, use: str) -> dict[str, Any]:
    numbers = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
    return {**numbers, "description": f"{words}. {use}"}


def tool_schema(name: str, space: CoordSpace = "normalized_1000") -> dict[str, Any]:
    """The function-calling schema of one tool. `space` only words the coordinate arguments."""
    if name == "computer_use":
        words = _POINT_WORDS[space]
        return _function(
            "computer_use",
            "Use the mouse and the keyboard of the desktop you see.",
            {
                "action": {"type": "string", "enum": list(ACTIONS)},
                "keys": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Keys pressed together, in order; cmd is the super key. For key.",
                },
                "text": {"type": "string", "description": "Text to type. For type."},
                "coordinate": _point(words, "For the pointer actions; where a click leaves it out, the pointer stays."),
                "start_coordinate": _point(words, "Where left_click_drag begins, if not at the pointer."),
                "pixels": {"type": "integer", "description": "How far to scroll; positive is up. For scroll."},
                "time": {"type": "number", "description": "Seconds to wait. For wait."},
                "status": {"type": "string", "enum": ["success", "failure"], "description": "For terminate."},
            },
            ["action"],
        )
    if name == "bash":
        return _function(
            "bash",
            "Run a command in the persistent shell of the same computer.",
            {
                "command": {"type": "string", "description": "The command."},
                "timeout": {"type": "number", "description": "Seconds after which the command is stopped."},
                "restart": {"type": "boolean", "description": "Start a fresh shell instead of running a command."},
            },
            [],
        )
    if name == "accessibility":
        return _function(
            "accessibility",
            "List the elements of the screen with their numbers, or click one by its number.",
            {
                "action": {"type": "string", "enum": ["tree", "click"]},
                "element": {"type": "integer", "description": "Number of the element. For click."},
            },
            ["action"],
        )
    raise ParamsError(f"unknown tool {name!r}", where="tools", remedy=f"use {', '.join(TOOL_NAMES)}")


def render_tools(names: Sequence[str], space: CoordSpace = "normalized_1000") -> str:
    """The `<tools>` block of a system prompt: one JSON schema a line, always in the order of `TOOL_NAMES`."""
    for name in names:
        tool_schema(name, space)
    chosen = [name for name in TOOL_NAMES if name in names]
    lines = [json.dumps(tool_schema(name, space), ensure_ascii=False) for name in chosen]
    return "\n".join([TOOLS_OPEN, *lines, TOOLS_CLOSE])
