"""Maps the names of the action rows to the product's and back. Names only: every decision is the product's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from components.contracts.agentnet import import_code
from components.contracts.calls import BashCall, ComputerUse, DesktopCall
from components.contracts.coords import CoordSpaceError, ScreenSpace
from components.contracts.errors import CallError
from components.contracts.response import parse_response
from components.contracts.schemas import WHEEL_STEP_PX

DATA = Path(__file__).parent / "data"

ERROR_NAMES = {"bad_json": "malformed_json", "malformed_code": "malformed_json"}
"""Our code -> the rows' name, where they differ."""


def rows(file: str, *cases: str) -> list[dict[str, Any]]:
    """The rows of the named cases, in file order."""
    lines = (DATA / file).read_text(encoding="utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row["case"] in cases]


def outcome(given: dict[str, Any]) -> dict[str, Any]:
    """What the product makes of one row, in the rows' words. `executed` counts what would reach the desktop."""
    reached: list[DesktopCall] = []
    try:
        if "agentnet_code" in given:
            pointer = _pair(given.get("pointer"))
            reached += import_code(given["agentnet_code"], (given["screen"][0], given["screen"][1]), pointer=pointer)
        else:
            space = ScreenSpace(
                given["coord_space"], given["screen"], given.get("model_image"), given.get("pointer_space")
            )
            reached.append(parse_response(given["text"], space, pointer=_pair(given.get("pointer"))).call)
    except CoordSpaceError as error:
        return {"kind": "config_error", "error": error.code, "when": "before the first step", "executed": len(reached)}
    except CallError as error:
        return {"kind": "error", "error": ERROR_NAMES.get(error.code, error.code), "executed": len(reached)}
    return {"kind": "calls", "calls": [_words(call) for call in reached], "executed": len(reached)}


def agrees(got: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Everything `wanted` states holds in `got`; pixels within the stated tolerance, all else exact."""
    for key, value in wanted.items():
        if key == "calls":
            if len(got.get("calls", ())) != len(value):
                return False
            if not all(_call_agrees(have, want) for have, want in zip(got["calls"], value, strict=True)):
                return False
        elif got.get(key) != value:
            return False
    return True


def _pair(value: Any) -> tuple[int, int] | None:
    return None if value is None else (value[0], value[1])


def _words(call: DesktopCall) -> dict[str, Any]:
    if isinstance(call, BashCall):
        return {"tool": "bash", "command": call.command}
    assert isinstance(call, ComputerUse)
    if call.action == "terminate":
        return {"tool": "finish", "status": call.status}
    words: dict[str, Any] = {"tool": "computer_use", "action": call.action}
    if call.action == "left_click_drag":
        # One call presses, moves and releases; there is no call that presses alone.
        ends = {"from": list(call.start or ()), "to": list(call.coordinate or ())}
        return {**words, "action": "drag", **ends, "button": "left", "button_released_after": True}
    if call.action == "key":
        return {**words, "chord": list(call.keys)}
    if call.action == "type":
        return {**words, "text": call.text}
    if call.action == "wait":
        return {**words, "time": call.time}
    if call.action == "scroll":
        direction = "up" if call.pixels > 0 else "down"
        words |= {"direction": direction, "clicks": abs(call.pixels) / WHEEL_STEP_PX, "pixels": call.pixels}
    if call.coordinate is not None:
        words["pixel"] = list(call.coordinate)
    return words


def _call_agrees(have: dict[str, Any], want: dict[str, Any]) -> bool:
    tolerance = want.get("tolerance_px", 0)
    for key, value in want.items():
        if key == "tolerance_px":
            continue
        if key in ("pixel", "from", "to"):
            if any(abs(a - b) > tolerance for a, b in zip(have.get(key, ()), value, strict=True)):
                return False
        elif have.get(key) != value:
            return False
    return True
