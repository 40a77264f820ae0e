"""OSWorld's GUI actions: Python that calls pyautogui, read by a closed grammar and never run.

A command is statements of constants: imports, settings (`pyautogui.PAUSE = ...`), names bound to constants,
`time.sleep`, and calls of the functions below. Anything else in a command that names pyautogui is refused as a whole,
before anything is pressed. What each function means is pyautogui's documentation; the actions are those of the guest's
`inputs.py`.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import shlex
from collections.abc import Callable, Sequence
from typing import Any

from components.contracts.errors import CallError
from components.contracts.keys import canonical_key

Step = dict[str, Any]
"""An action of the guest agent, or {"action": "wait", "time": seconds}, or one with an `offset` from the pointer."""

WHERE = "pyautogui"
NOTCH = 100
"""Pixels of a scroll that our agent counts as one notch of the wheel, pyautogui's unit."""
_MAX_STEPS = 500
_MAX_CODE = 200_000
_MODULES = ("pyautogui", "time")
_SETTINGS = ("FAILSAFE", "PAUSE", "MINIMUM_DURATION", "MINIMUM_SLEEP", "DARWIN_CATCH_UP_TIME")
_IGNORED = ("duration", "tween", "logScreenshot", "_pause", "interval")
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}  # fmt: skip

_POINT = ("x", "y")
_CLICK = (*_POINT, "clicks", "interval", "button", "duration", "tween", "logScreenshot", "_pause")
_ONE_CLICK = (*_POINT, "interval", "duration", "tween", "logScreenshot", "_pause")
_MANY_CLICKS = (*_POINT, "interval", "button", "duration", "tween", "logScreenshot", "_pause")
_MOVE = (*_POINT, "duration", "tween", "logScreenshot", "_pause")
_DRAG = (*_POINT, "duration", "tween", "button", "logScreenshot", "_pause", "mouseDownUp")
_BY = ("xOffset", "yOffset")
_HOLD = (*_POINT, "button", "duration", "tween", "logScreenshot", "_pause")
_SCROLL = ("clicks", *_POINT, "logScreenshot", "_pause")
_WRITE = ("message", "interval", "logScreenshot", "_pause")
_PRESS = ("keys", "presses", "interval", "logScreenshot", "_pause")
_KEY = ("key", "logScreenshot", "_pause")

PARAMETERS: dict[str, tuple[str, ...]] = {
    "click": _CLICK, "leftClick": _ONE_CLICK, "rightClick": _ONE_CLICK, "middleClick": _ONE_CLICK,
    "doubleClick": _MANY_CLICKS, "tripleClick": _MANY_CLICKS, "moveTo": _MOVE, "move": (*_BY, *_MOVE[2:]),
    "moveRel": (*_BY, *_MOVE[2:]), "dragTo": _DRAG, "drag": (*_BY, *_DRAG[2:]), "dragRel": (*_BY, *_DRAG[2:]),
    "mouseDown": _HOLD, "mouseUp": _HOLD, "scroll": _SCROLL, "vscroll": _SCROLL, "hscroll": _SCROLL, "write": _WRITE,
    "typewrite": _WRITE, "press": _PRESS, "keyDown": _KEY, "keyUp": _KEY, "hotkey": (), "sleep": ("seconds",),
}  # fmt: skip
"""Every function that is understood, with its parameters in order. `hotkey` takes any number of keys."""


def code_of(command: str | Sequence[str]) -> str | None:
    """The Python of `python -c CODE` (a list or a shell's line) where it names pyautogui; None for other commands."""
    if isinstance(command, str):
        if "pyautogui" not in command:
            return None
        try:
            words = shlex.split(command)
        except ValueError:
            return None
    else:
        words = [str(word) for word in command]
    if len(words) == 3 and re.fullmatch(r"(\S*/)?python3?(\.\d+)?", words[0]) and words[1] == "-c":
        return words[2] if re.search(r"\bpyautogui\b", words[2]) else None
    return None


def parse(code: str) -> list[Step]:
    """The steps of a command, in order. Raises `CallError` (`not_understood`, `bad_argument`, `unknown_key`)."""
    if len(code) > _MAX_CODE:
        raise _not_understood(f"{len(code)} characters of Python")
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _not_understood(f"no Python: {error}") from error
    names: dict[str, Any] = {}
    steps: list[Step] = []
    for statement in tree.body:
        steps += _statement(statement, names)
        if len(steps) > _MAX_STEPS:
            raise _not_understood(f"more than {_MAX_STEPS} actions in one command")
    return steps


def resolve(steps: Sequence[Step], pointer: tuple[int, int]) -> list[Step]:
    """The same with offsets turned into coordinates, from where the pointer is."""
    done: list[Step] = []
    for step in steps:
        offset = step.get("offset")
        if offset is not None:
            step = {k: v for k, v in step.items() if k != "offset"}
            step["coordinate"] = [pointer[0] + offset[0], pointer[1] + offset[1]]
        if step.get("coordinate") is not None:
            pointer = (step["coordinate"][0], step["coordinate"][1])
        done.append(step)
    return done


# -- the grammar ------------------------------------------------------------------------------------------------------


def _statement(node: ast.stmt, names: dict[str, Any]) -> list[Step]:
    if isinstance(node, ast.Import) and all(a.name in _MODULES and a.asname is None for a in node.names):
        return []
    if isinstance(node, ast.Pass):
        return []
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
        if isinstance(target, ast.Attribute) and _dotted(target) in {f"pyautogui.{name}" for name in _SETTINGS}:
            _value(node.value, names)
            return []
        if isinstance(target, ast.Name) and target.id not in _MODULES:
            names[target.id] = _value(node.value, names)
            return []
    if isinstance(node, ast.Expr):
        if isinstance(node.value, ast.Constant):
            return []
        if isinstance(node.value, ast.Call):
            return _call(node.value, names)
    raise _not_understood(ast.unparse(node))


def _call(node: ast.Call, names: dict[str, Any]) -> list[Step]:
    dotted = _dotted(node.func)
    if dotted == "time.sleep":
        dotted = "pyautogui.sleep"
    module, _, name = dotted.partition(".")
    if module != "pyautogui" or name not in PARAMETERS:
        raise _not_understood(ast.unparse(node))
    values = [_value(argument, names) for argument in node.args]
    keywords: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise _not_understood(ast.unparse(node))
        keywords[keyword.arg] = _value(keyword.value, names)
    if name == "hotkey":
        return _hotkey(values, keywords)
    return _function(name, _bound(name, values, keywords))


def _bound(name: str, values: list[Any], keywords: dict[str, Any]) -> dict[str, Any]:
    parameters = PARAMETERS[name]
    given = dict(zip(parameters, values, strict=False))
    if len(values) > len(parameters):
        raise _bad(f"{name} takes at most {len(parameters)} arguments")
    for key, value in keywords.items():
        if key not in parameters or key in given:
            raise _bad(f"{name} has no parameter {key!r}" if key not in parameters else f"{key!r} is given twice")
        given[key] = value
    return given


def _function(name: str, given: dict[str, Any]) -> list[Step]:
    if name == "sleep":
        return [{"action": "wait", "time": max(0.0, _number(given.get("seconds"), "seconds"))}]
    if name in ("write", "typewrite"):
        return _write(given.get("message"))
    if name == "press":
        return _press(given.get("keys"), _count(given.get("presses", 1), "presses"))
    if name in ("keyDown", "keyUp"):
        action = "key_down" if name == "keyDown" else "key_up"
        return [{"action": action, "keys": list(canonical_key(_text(given.get("key"), "key")))}]
    if name in ("scroll", "vscroll", "hscroll"):
        notches = round(_number(given.get("clicks"), "clicks"))
        action = "hscroll" if name == "hscroll" else "scroll"
        return [{"action": action, "pixels": notches * NOTCH, **_place(given)}]
    place = _offset(given) if name in ("move", "moveRel", "drag", "dragRel") else _place(given)
    if name in ("moveTo", "move", "moveRel"):
        return [{"action": "mouse_move", **place}] if place else []
    button = _button(given.get("button", "left"))
    if name in ("mouseDown", "mouseUp"):
        return [{"action": "button_down" if name == "mouseDown" else "button_up", "button": button, **place}]
    if name in ("dragTo", "drag", "dragRel"):
        if not place:
            raise _bad(f"{name} needs a place")
        if given.get("mouseDownUp", True) is False:
            return [{"action": "mouse_move", **place}]
        return [{"action": "drag", "button": button, **place}]
    times = {"doubleClick": 2, "tripleClick": 3}.get(name, 0) or _count(given.get("clicks", 1), "clicks")
    button = {"rightClick": "right", "middleClick": "middle"}.get(name, button)
    return [{"action": "click", "button": button, "times": times, **place}] if times else []


def _write(message: Any) -> list[Step]:
    if isinstance(message, list | tuple):
        return [step for key in message for step in _press(key, 1)]
    if not isinstance(message, str):
        raise _bad("write needs a text")
    return [{"action": "type", "text": message}] if message else []


def _press(keys: Any, presses: int) -> list[Step]:
    listed = [keys] if isinstance(keys, str) else keys
    if not isinstance(listed, list | tuple) or not listed:
        raise _bad("press needs a key")
    once = [{"action": "key", "keys": list(canonical_key(_text(key, "key")))} for key in listed]
    return [dict(step) for _ in range(presses) for step in once]


def _hotkey(values: list[Any], keywords: dict[str, Any]) -> list[Step]:
    if set(keywords) - set(_IGNORED):
        raise _bad(f"hotkey has no parameter {sorted(set(keywords) - set(_IGNORED))[0]!r}")
    if len(values) == 1 and isinstance(values[0], list | tuple):
        values = list(values[0])
    chord: list[str] = []
    for value in values:
        chord += canonical_key(_text(value, "key"))
    if not chord:
        raise _bad("hotkey needs a key")
    return [{"action": "key", "keys": list(dict.fromkeys(chord))}]


# -- values -----------------------------------------------------------------------------------------------------------


def _value(node: ast.expr, names: dict[str, Any]) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | bool | None):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = _number(_value(node.operand, names), "number")
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(item, names) for item in node.elts]
    if isinstance(node, ast.Name) and node.id in names:
        return names[node.id]
    if isinstance(node, ast.Attribute) and _dotted(node).startswith("pyautogui.ease"):
        return None  # how a movement is eased: ours jump
    if isinstance(node, ast.Attribute) and _dotted(node) in {f"pyautogui.{b}" for b in ("LEFT", "MIDDLE", "RIGHT")}:
        return node.attr.lower()
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _arithmetic(node, names)
    raise _not_understood(ast.unparse(node))


def _arithmetic(node: ast.BinOp, names: dict[str, Any]) -> Any:
    left, right = _value(node.left, names), _value(node.right, names)
    if isinstance(left, str) and isinstance(right, str) and isinstance(node.op, ast.Add):
        return left + right
    left, right = _number(left, "number"), _number(right, "number")
    try:
        return _OPERATORS[type(node.op)](left, right)
    except (ArithmeticError, ValueError) as error:
        raise _bad(f"{ast.unparse(node)}: {error}") from error


def _place(given: dict[str, Any]) -> Step:
    """{"coordinate": [x, y]} in screen pixels, {} for where the pointer is. `x` may be the pair itself."""
    x, y = given.get("x"), given.get("y")
    if isinstance(x, list | tuple) and y is None and len(x) == 2:
        x, y = x
    if x is None and y is None:
        return {}
    if x is None or y is None:
        raise _bad("one coordinate without the other")
    return {"coordinate": [_pixel(x, "x"), _pixel(y, "y")]}


def _offset(given: dict[str, Any]) -> Step:
    x, y = given.get("xOffset"), given.get("yOffset")
    if isinstance(x, list | tuple) and y is None and len(x) == 2:
        x, y = x
    return {"offset": [_pixel(x or 0, "xOffset"), _pixel(y or 0, "yOffset")]}


def _pixel(value: Any, name: str) -> int:
    return int(_number(value, name))


def _number(value: Any, name: str) -> float | int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _bad(f"{name} is no number: {value!r}")
    if abs(value) > 1e6 or (isinstance(value, float) and not math.isfinite(value)):
        raise _bad(f"{name} is out of range: {value!r:.40}")
    return value


def _count(value: Any, name: str) -> int:
    count = _number(value, name)
    if count != int(count) or not 0 <= count <= 100:
        raise _bad(f"{name} is no count: {value!r}")
    return int(count)


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise _bad(f"{name} is no text: {value!r:.40}")
    return value


def _button(value: Any) -> str:
    name = {"primary": "left", "secondary": "right", 1: "left", 2: "middle", 3: "right"}.get(value, value)
    if name not in ("left", "middle", "right"):
        raise _bad(f"there is no button {value!r:.40}")
    return str(name)


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


def _not_understood(what: str) -> CallError:
    return CallError(
        "not_understood", f"not understood: {what[:120]}", where=WHERE,
        remedy="plain calls of pyautogui with constants; nothing was done",
    )  # fmt: skip


def _bad(what: str) -> CallError:
    return CallError("bad_argument", what[:160], where=WHERE, remedy="nothing was done")
