"""Importer of AgentNet-style action code (`pyautogui.click(x=0.25, y=0.5)`) into typed calls.

A closed grammar over the syntax tree: statements that call a known function of `pyautogui` or `computer` with literal
arguments. Nothing is evaluated; everything else is rejected. Coordinates are shares of the screen, so a pixel number is
an error and never read as a share. All values then go through the product's one validator, `build_call`.
"""

from __future__ import annotations

import ast
from typing import Any

from components.contracts.arguments import Pointer, build_call
from components.contracts.calls import ComputerUse
from components.contracts.coords import ScreenSpace
from components.contracts.errors import CallError
from components.contracts.schemas import WHEEL_STEP_PX

MODULES = ("pyautogui", "computer")
MAX_CODE_CHARS = 100_000
MAX_PRESSES = 50
DEFAULT_WAIT_S = 1.0
"""What `computer.wait()` means, which names no time."""

_TIMING = ("duration", "interval")
_CLICK = ("x", "y", "clicks", "interval", "button", "duration")
_PLAIN_CLICK = ("x", "y", "interval", "button", "duration")
_MOVE = ("x", "y", "duration")
_SIGNATURES: dict[str, tuple[str, ...]] = {
    "click": _CLICK,
    "leftClick": _PLAIN_CLICK,
    "rightClick": _PLAIN_CLICK,
    "middleClick": _PLAIN_CLICK,
    "doubleClick": _PLAIN_CLICK,
    "moveTo": _MOVE,
    "dragTo": ("x", "y", "duration", "button"),
    "scroll": ("clicks", "x", "y"),
    "vscroll": ("clicks", "x", "y"),
    "press": ("keys", "presses", "interval"),
    "write": ("message", "interval"),
    "typewrite": ("message", "interval"),
    "wait": ("seconds",),
    "terminate": ("status",),
}
"""Parameter names in positional order. `hotkey` is apart: any number of key names."""

_FIXED_CLICKS = {
    "leftClick": "left_click",
    "rightClick": "right_click",
    "middleClick": "middle_click",
    "doubleClick": "double_click",
}
_BUTTONS = {"left": "left_click", "right": "right_click", "middle": "middle_click"}
_OF_COMPUTER = ("wait", "terminate")
_NOT_IN_SPACE = (
    "tripleClick", "triple_click", "hscroll", "keyDown", "keyUp", "mouseDown", "mouseUp", "move", "moveRel", "drag",
    "dragRel", "answer", "call_user",
)  # fmt: skip
"""Known actions of such data that the 11 actions cannot express: an error of its own, never a near relative."""


def import_code(code: str, screen: tuple[int, int], *, pointer: Pointer = None) -> tuple[ComputerUse, ...]:
    """The calls of one step's code, in order. `moveTo` followed by `dragTo` is one drag.

    `screen` in pixels; `pointer` where the pointer is before it. Errors (`CallError.code`): malformed_code,
    unknown_action, action_not_in_space, and those of `build_call`.
    """
    space = ScreenSpace("normalized_1", screen)
    calls: list[ComputerUse] = []
    for name, arguments in _statements(code):
        for call in _calls(name, arguments, space, pointer):
            if name == "dragTo" and calls and calls[-1].action == "mouse_move":
                calls.pop()
            calls.append(call)
            pointer = call.coordinate or pointer
    return tuple(calls)


def _statements(code: str) -> list[tuple[str, dict[str, Any]]]:
    if len(code) > MAX_CODE_CHARS:
        raise CallError("malformed_code", f"the code is longer than {MAX_CODE_CHARS} characters")
    try:
        body = ast.parse(code.strip(), mode="exec").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise CallError("malformed_code", f"not readable as action code: {str(error)[:80]}") from None
    if not body:
        raise CallError("malformed_code", "there is no action in the code")
    return [_statement(node) for node in body]


def _statement(node: ast.stmt) -> tuple[str, dict[str, Any]]:
    call = node.value if isinstance(node, ast.Expr) else None
    target = call.func if isinstance(call, ast.Call) else None
    if (
        not isinstance(call, ast.Call)
        or not isinstance(target, ast.Attribute)
        or not isinstance(target.value, ast.Name)
        or target.value.id not in MODULES
    ):
        raise CallError("unknown_action", f"only calls of {' and '.join(MODULES)} are actions")
    name = target.attr
    if name in _NOT_IN_SPACE:
        raise CallError("action_not_in_space", f"{name} cannot be expressed by the 11 actions")
    if (name != "hotkey" and name not in _SIGNATURES) or (name in _OF_COMPUTER and target.value.id != "computer"):
        raise CallError("unknown_action", f"unknown action {target.value.id}.{name[:40]}")
    return name, _arguments(name, call)


def _arguments(name: str, call: ast.Call) -> dict[str, Any]:
    """The literal arguments by name. `hotkey` gets one list under `keys`."""
    if any(isinstance(arg, ast.Starred) for arg in call.args) or any(word.arg is None for word in call.keywords):
        raise CallError("bad_argument", "arguments must be written out", where=name)
    named = {word.arg: word.value for word in call.keywords if word.arg}
    if name == "hotkey":
        keys = [_literal(arg, "keys") for arg in call.args]
        if "keys" in named:
            keys.append(_literal(named.pop("keys"), "keys"))
        if set(named) - set(_TIMING):
            raise CallError("unknown_argument", f"hotkey takes no {sorted(named)[0][:40]}")
        return {"keys": keys[0] if len(keys) == 1 and isinstance(keys[0], list) else keys}
    signature = _SIGNATURES[name]
    if len(call.args) > len(signature):
        raise CallError("unknown_argument", f"{name} takes at most {len(signature)} arguments")
    given = dict(zip(signature, call.args, strict=False))
    for key, value in named.items():
        if key not in signature:
            raise CallError("unknown_argument", f"{name} takes no {key[:40]}")
        if key in given:
            raise CallError("bad_argument", f"{key} is given twice", where=name)
        given[key] = value
    return {key: _literal(value, key) for key, value in given.items() if key not in _TIMING}


def _literal(node: ast.expr, key: str) -> Any:
    """A number, text, None or a list of those. Anything that would need evaluating is rejected."""
    if isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, int | float | str)):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = _literal(node.operand, key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.List | ast.Tuple):
        return [_literal(item, key) for item in node.elts]
    code = "bad_coordinate" if key in ("x", "y") else "bad_argument"
    raise CallError(code, f"{key} is not a plain value")


def _calls(name: str, args: dict[str, Any], space: ScreenSpace, pointer: Pointer) -> list[ComputerUse]:
    wires = _wires(name, args)
    calls = [build_call("computer_use", wire, space, pointer=pointer) for wire in wires]
    return [call for call in calls if isinstance(call, ComputerUse)]


def _wires(name: str, args: dict[str, Any]) -> list[dict[str, Any]]:
    """Wire arguments (coordinates as shares) of the calls that one statement stands for."""
    point = _point(args)
    if name == "click" or name in _FIXED_CLICKS:
        return [{"action": _click(name, args), **point}]
    if name == "moveTo":
        return [{"action": "mouse_move", **point}]
    if name == "dragTo":
        if args.get("button", "left") != "left":
            raise CallError("action_not_in_space", "only the left button drags")
        return [{"action": "left_click_drag", **point}]
    if name in ("scroll", "vscroll"):
        clicks = args.get("clicks")
        if isinstance(clicks, bool) or not isinstance(clicks, int | float):
            raise CallError(
                "bad_argument" if "clicks" in args else "missing_argument", "scroll needs a number of clicks"
            )
        return [{"action": "scroll", "pixels": clicks * WHEEL_STEP_PX, **point}]
    if name == "hotkey":
        return [{"action": "key", "keys": args["keys"]}]
    if name == "press":
        return _press(args)
    if name in ("write", "typewrite"):
        return [{"action": "type", **({"text": args["message"]} if "message" in args else {})}]
    if name == "wait":
        return [{"action": "wait", "time": args.get("seconds", DEFAULT_WAIT_S)}]
    return [{"action": "terminate", **args}]


def _point(args: dict[str, Any]) -> dict[str, Any]:
    """`{"coordinate": [x, y]}`, or nothing where neither is given. One alone is a bad coordinate."""
    if "x" not in args and "y" not in args:
        return {}
    return {"coordinate": [args[key] for key in ("x", "y") if key in args]}


def _click(name: str, args: dict[str, Any]) -> str:
    clicks, button = args.get("clicks", 1), args.get("button")
    if button is not None and (not isinstance(button, str) or button not in _BUTTONS):
        raise CallError("bad_argument", f"unknown button {str(button)[:40]!r}", where=name)
    if isinstance(clicks, bool) or not isinstance(clicks, int) or clicks < 1:
        raise CallError("bad_argument", "clicks must be a whole number above 0", where=name)
    if name == "doubleClick":
        action = "double_click" if button in (None, "left") else ""
    elif name in _FIXED_CLICKS:
        action = _FIXED_CLICKS[name] if button is None or _BUTTONS[button] == _FIXED_CLICKS[name] else ""
    elif clicks == 2:
        action = "double_click" if button in (None, "left") else ""
    else:
        action = _BUTTONS[button or "left"] if clicks == 1 else ""
    if not action:
        raise CallError(
            "action_not_in_space", f"{name} with button {button} and {clicks} clicks is none of the 11 actions"
        )
    return action


def _press(args: dict[str, Any]) -> list[dict[str, Any]]:
    """`press` presses keys one after the other: one call each, `presses` times."""
    presses = args.get("presses", 1)
    if isinstance(presses, bool) or not isinstance(presses, int) or not 1 <= presses <= MAX_PRESSES:
        raise CallError("bad_argument", f"presses must be from 1 to {MAX_PRESSES}", where="press")
    keys = args.get("keys")
    names = keys if isinstance(keys, list) else [keys]
    if keys is None or not names:
        raise CallError("missing_argument", "no key was named", where="press")
    return [{"action": "key", "keys": [name]} for _ in range(presses) for name in names]
