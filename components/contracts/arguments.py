"""Wire arguments of a tool call <-> the typed call. The one validator of the product.

Coordinates on the wire are in the declared space; in a typed call they are pointer pixels. Nothing is guessed: an
argument that an action does not use is an error, a missing coordinate is the known pointer or an error.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, cast

from components.contracts.calls import AccessibilityCall, BashCall, ComputerAction, ComputerUse, DesktopCall
from components.contracts.coords import ScreenSpace
from components.contracts.errors import CallError
from components.contracts.keys import parse_keys
from components.contracts.schemas import (
    ACTIONS,
    ALLOWED,
    CLICKS,
    MAX_SCROLL_PX,
    MAX_TIMEOUT_S,
    MAX_WAIT_S,
    TOOL_NAMES,
)

Pointer = tuple[int, int] | None


def build_call(
    name: Any,
    arguments: Any,
    space: ScreenSpace,
    *,
    pointer: Pointer = None,
    tools: Collection[str] = TOOL_NAMES,
) -> DesktopCall:
    """Check wire arguments and return the typed call. `pointer` in pointer pixels, None when unknown.

    Errors (`CallError.code`): unknown_tool, unknown_action, unknown_argument, missing_argument, bad_argument,
    bad_coordinate, out_of_range, unknown_key, zero_length_drag.
    """
    if not isinstance(name, str) or name not in TOOL_NAMES or name not in tools:
        raise CallError(
            "unknown_tool", f"there is no tool {str(name)[:40]!r}", remedy=f"use {', '.join(sorted(tools))}"
        )
    if not isinstance(arguments, dict):
        raise CallError("bad_argument", "arguments must be an object", where=name)
    if name == "bash":
        return _bash(arguments)
    if "action" not in arguments:
        raise CallError("missing_argument", "the action is missing", where=name)
    if name == "accessibility":
        return _accessibility(arguments)
    return _computer_use(arguments, space, pointer)


def arguments_of(call: DesktopCall, space: ScreenSpace) -> dict[str, Any]:
    """The wire arguments of a typed call, in a fixed order; inverse of `build_call` up to the grid's step."""
    if isinstance(call, BashCall):
        out: dict[str, Any] = {"restart": True} if call.restart else {"command": call.command}
        if call.timeout is not None:
            out["timeout"] = _plain(call.timeout)
        return out
    if isinstance(call, AccessibilityCall):
        return {"action": call.action} if call.element is None else {"action": call.action, "element": call.element}
    out = {"action": call.action}
    if call.action == "key":
        out["keys"] = list(call.keys)
    elif call.action == "type":
        out["text"] = call.text
    elif call.action == "wait":
        out["time"] = _plain(call.time)
    elif call.action == "terminate":
        out["status"] = call.status
    elif call.action == "scroll":
        out["pixels"] = call.pixels
    if call.start is not None:
        out["start_coordinate"] = space.from_screen(call.start)
    if call.coordinate is not None:
        out["coordinate"] = space.from_screen(call.coordinate)
    return out


def _plain(number: float) -> int | float:
    return int(number) if number == int(number) else number


def _known(arguments: dict[str, Any], allowed: Collection[str], where: str) -> None:
    extra = sorted(set(arguments) - set(allowed))
    if extra:
        raise CallError(
            "unknown_argument", f"{where} takes no {', '.join(extra)[:80]}", remedy=f"it takes {', '.join(allowed)}"
        )


def _required(arguments: dict[str, Any], key: str, where: str) -> Any:
    if key not in arguments:
        raise CallError("missing_argument", f"{where} needs {key}", where=where)
    return arguments[key]


def _number(value: Any, key: str, low: float, high: float) -> float:
    try:
        fits = not isinstance(value, bool) and isinstance(value, int | float) and low <= value <= high
    except OverflowError:
        fits = False
    if not fits or not math.isfinite(value):
        raise CallError("bad_argument", f"{key} must be a number from {low:g} to {high:g}, not {str(value)[:40]!r}")
    return float(value)


def _text(value: Any, key: str) -> str:
    if not isinstance(value, str):
        raise CallError("bad_argument", f"{key} must be text")
    # Neither a keyboard nor a shell can take these, and the second cannot be stored as UTF-8.
    if "\0" in value or any("\ud800" <= c <= "\udfff" for c in value):
        raise CallError("bad_argument", f"{key} holds a character that cannot be entered")
    return value


def _bash(arguments: dict[str, Any]) -> BashCall:
    _known(arguments, ("command", "timeout", "restart"), "bash")
    restart = arguments.get("restart", False)
    if not isinstance(restart, bool):
        raise CallError("bad_argument", "restart must be true or false", where="bash")
    timeout = None
    if "timeout" in arguments:
        timeout = _number(arguments["timeout"], "timeout", 0, MAX_TIMEOUT_S)
        if timeout == 0:
            raise CallError("bad_argument", "timeout must be above 0", where="bash")
    if restart:
        if "command" in arguments:
            raise CallError("bad_argument", "restart runs no command", where="bash", remedy="send them as two calls")
        return BashCall(restart=True, timeout=timeout)
    command = _text(_required(arguments, "command", "bash"), "command")
    if not command.strip():
        raise CallError("missing_argument", "the command is empty", where="bash")
    return BashCall(command=command, timeout=timeout)


def _accessibility(arguments: dict[str, Any]) -> AccessibilityCall:
    action = arguments["action"]
    if action == "tree":
        _known(arguments, ("action",), "tree")
        return AccessibilityCall(action="tree")
    if action == "click":
        _known(arguments, ("action", "element"), "click")
        element = _required(arguments, "element", "click")
        if isinstance(element, bool) or not isinstance(element, int) or element < 0:
            raise CallError("bad_argument", "element must be a number of the list", where="click")
        return AccessibilityCall(action="click", element=element)
    raise CallError("unknown_action", f"accessibility has no action {str(action)[:40]!r}", remedy="use tree or click")


def _computer_use(arguments: dict[str, Any], space: ScreenSpace, pointer: Pointer) -> ComputerUse:
    named = arguments["action"]
    if not isinstance(named, str) or named not in ACTIONS:
        raise CallError(
            "unknown_action", f"computer_use has no action {str(named)[:40]!r}", remedy=f"use {', '.join(ACTIONS)}"
        )
    action = cast(ComputerAction, named)
    _known(arguments, ("action", *ALLOWED[action]), action)
    if action == "key":
        return ComputerUse(action="key", keys=parse_keys(_required(arguments, "keys", action)))
    if action == "type":
        text = _text(_required(arguments, "text", action), "text")
        if not text:
            raise CallError("bad_argument", "there is nothing to type", where=action)
        return ComputerUse(action="type", text=text)
    if action == "wait":
        return ComputerUse(action="wait", time=_number(_required(arguments, "time", action), "time", 0, MAX_WAIT_S))
    if action == "terminate":
        status = _required(arguments, "status", action)
        if status == "success" or status == "failure":
            return ComputerUse(action="terminate", status=status)
        raise CallError("bad_argument", "status must be success or failure", where=action)
    if action == "scroll":
        pixels = _number(_required(arguments, "pixels", action), "pixels", -MAX_SCROLL_PX, MAX_SCROLL_PX)
        if pixels == 0 or pixels != int(pixels):
            raise CallError("bad_argument", "pixels must be a whole number other than 0", where=action)
        at = space.to_screen(arguments["coordinate"]) if "coordinate" in arguments else None
        return ComputerUse(action="scroll", pixels=int(pixels), coordinate=at)
    if action == "left_click_drag":
        return _drag(arguments, space, pointer)
    if "coordinate" in arguments:
        return ComputerUse(action=action, coordinate=space.to_screen(arguments["coordinate"]))
    if action in CLICKS and pointer is not None:
        return ComputerUse(action=action, coordinate=pointer)
    raise CallError("missing_argument", f"{action} needs a coordinate: the pointer is not known", where=action)


def _drag(arguments: dict[str, Any], space: ScreenSpace, pointer: Pointer) -> ComputerUse:
    """Both ends are checked before the button goes down. Without a start it begins at the known pointer."""
    end = space.to_screen(_required(arguments, "coordinate", "left_click_drag"))
    if "start_coordinate" in arguments:
        start = space.to_screen(arguments["start_coordinate"])
    elif pointer is not None:
        start = pointer
    else:
        raise CallError("missing_argument", "left_click_drag needs start_coordinate: the pointer is not known")
    if start == end:
        raise CallError("zero_length_drag", "the drag ends where it begins", remedy="use a click")
    return ComputerUse(action="left_click_drag", start=start, coordinate=end)
