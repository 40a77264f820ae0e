"""Typed tool calls. One model a tool; what the parser returns and what a desktop executes."""

from __future__ import annotations

from typing import Literal

from components.contracts.task import Frozen

ComputerAction = Literal[
    "key", "type", "mouse_move", "left_click", "left_click_drag", "right_click", "middle_click",
    "double_click", "scroll", "wait", "terminate",
]  # fmt: skip
"""The 11 actions of the `computer_use` tool (paper.md 2.2)."""


class ComputerUse(Frozen):
    """One GUI action, resolved: coordinates are screen pixels, keys are canonical names (`keys.py`).

    `pixels` > 0 scrolls up. `start` is where a drag begins (None = at the pointer).
    """

    tool: Literal["computer_use"] = "computer_use"
    action: ComputerAction
    coordinate: tuple[int, int] | None = None
    start: tuple[int, int] | None = None
    keys: tuple[str, ...] = ()
    text: str = ""
    pixels: int = 0
    time: float = 0.0
    status: Literal["success", "failure", ""] = ""


class BashCall(Frozen):
    """One terminal call in the episode's persistent shell. `timeout` in seconds, None = the harness's default."""

    tool: Literal["bash"] = "bash"
    command: str = ""
    timeout: float | None = None
    restart: bool = False


class AccessibilityCall(Frozen):
    """The overlapping accessibility route of the `overlapping` harness: list elements, or click one by id."""

    tool: Literal["accessibility"] = "accessibility"
    action: Literal["tree", "click"]
    element: int | None = None


DesktopCall = ComputerUse | BashCall | AccessibilityCall
