"""The `Desktop` interface: one way to act, whatever draws the screen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from components.contracts.calls import DesktopCall
from components.contracts.task import Task, Verdict

Screen = NDArray[np.uint8]
"""(height, width, 3) RGB."""

Box = tuple[int, int, int, int]
"""x0, y0, x1, y1 in screen pixels; x1 and y1 are exclusive."""


@dataclass(frozen=True)
class Element:
    """Something on the screen that has a name. For teachers, grounding data and graders; never shown to a policy.

    `kind`: icon, button, checkbox, field, row, cell, menu, item, slider, handle, option, title, text, ...
    `label`: the visible words, lower case. `state`: on, off, selected, value text or "".
    """

    kind: str
    label: str
    box: Box
    state: str = ""

    @property
    def center(self) -> tuple[int, int]:
        x0, y0, x1, y1 = self.box
        return (x0 + x1) // 2, (y0 + y1) // 2


@dataclass(frozen=True)
class Observation:
    """What is seen: the screen, the pointer (None when unknown), and the elements for those with no eyes."""

    screen: Screen
    pointer: tuple[int, int] | None
    elements: tuple[Element, ...] = ()


@dataclass(frozen=True)
class ActResult:
    """What an action did. `output` is the text a terminal call gives back; `effect` whether anything changed."""

    effect: bool
    output: str = ""
    exit_code: int | None = None
    timed_out: bool = False


class Desktop(Protocol):
    """One slot. `act` runs a call at most once; a terminal call goes to the same directory the screen shows."""

    size: tuple[int, int]
    """(width, height) in pixels."""

    def reset(self, task: Task) -> Observation: ...

    def observe(self) -> Observation: ...

    def act(self, call: DesktopCall) -> ActResult: ...

    def grade(self) -> Verdict: ...

    def state(self) -> dict[str, Any]: ...

    def close(self) -> None: ...
