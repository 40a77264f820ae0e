"""What an action looks like on a screen: rings, arrows and captions, in screen pixels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, TypedDict

MarkKind = Literal["click", "double", "right", "middle", "move", "drag", "scroll", "none"]


class Mark(TypedDict):
    """`points` are (x, y) pixels: one for a click, two (from, to) for a drag or a scroll, none for a keyboard."""

    kind: MarkKind
    points: list[tuple[float, float]]
    caption: str
    tone: Literal["pointer", "keyboard", "terminal", "end", "none"]


_POINTER: dict[str, MarkKind] = {
    "left_click": "click", "double_click": "double", "right_click": "right", "middle_click": "middle",
    "mouse_move": "move", "left_click_drag": "drag", "scroll": "scroll",
}  # fmt: skip
_SAYS: dict[MarkKind, str] = {
    "click": "clicks", "double": "double-clicks", "right": "right-clicks", "middle": "middle-clicks",
    "move": "points", "drag": "drags", "scroll": "scrolls",
}  # fmt: skip
_SCROLL_LENGTH = 34.0


def _nothing(caption: str = "") -> Mark:
    return {"kind": "none", "points": [], "caption": caption, "tone": "none"}


def mark_of(call: Mapping[str, Any] | None, size: tuple[int, int]) -> Mark:
    """The mark of a tool call, resolved (`tool`, pixels) or as the model wrote it (`arguments`, 0..1000 grid).

    Written by a model, so anything may be missing or of a wrong type: what cannot be drawn is only captioned.
    """
    if not call:
        return _nothing()
    if isinstance(call.get("arguments"), Mapping):
        tool, given = str(call.get("name", "")), dict(call["arguments"])
        scale = (size[0] / 1000, size[1] / 1000)
    else:
        tool, given = str(call.get("tool", "")), dict(call)
        scale = (1.0, 1.0)
    if tool == "bash":
        text = "restart the shell" if given.get("restart") else f"$ {given.get('command', '')}"
        return {"kind": "none", "points": [], "caption": text, "tone": "terminal"}
    if tool != "computer_use":
        return _nothing(" ".join(str(part) for part in (tool, given.get("action"), given.get("element")) if part))
    action = str(given.get("action", ""))
    at = _point(given.get("coordinate"), scale)
    start = _point(given.get("start", given.get("start_coordinate")), scale)
    if action in _POINTER:
        return _pointer_mark(action, at, start, given)
    if action == "type":
        return {"kind": "none", "points": [], "caption": f"types “{given.get('text', '')}”", "tone": "keyboard"}
    if action == "key":
        keys = given.get("keys", ())
        text = "+".join(str(key) for key in keys) if isinstance(keys, (list, tuple)) else str(keys)
        return {"kind": "none", "points": [], "caption": f"presses {text}", "tone": "keyboard"}
    if action == "wait":
        return _nothing(f"waits {given.get('time', '')} s")
    if action == "terminate":
        return {"kind": "none", "points": [], "caption": f"ends: {given.get('status', '')}", "tone": "end"}
    return _nothing(action)


def _pointer_mark(
    action: str, at: tuple[float, float] | None, start: tuple[float, float] | None, given: Mapping[str, Any]
) -> Mark:
    kind = _POINTER[action]
    caption = _SAYS[kind]
    points = [at] if at else []
    if kind == "drag" and at and start:
        points = [start, at]
    elif kind == "scroll":
        pixels = _number(given.get("pixels")) or 0.0
        caption = f"scrolls {'up' if pixels > 0 else 'down'} {abs(pixels):g}"
        if at:
            points = [at, (at[0], at[1] - math.copysign(_SCROLL_LENGTH, pixels))]
    return {"kind": kind if points else "none", "points": points, "caption": caption, "tone": "pointer"}


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None


def _point(value: Any, scale: tuple[float, float]) -> tuple[float, float] | None:
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        return None
    x, y = _number(value[0]), _number(value[1])
    if x is None or y is None:
        return None
    return round(x * scale[0], 1), round(y * scale[1], 1)
