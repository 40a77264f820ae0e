"""What a scripted teacher sees and how it points: elements and state of the desktop in, one move out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from components.contracts.calls import ComputerAction
from components.contracts.coords import ScreenSpace, point_in_box
from components.contracts.desktop import Box, Element, Observation

Point = tuple[int, int]


@lru_cache(maxsize=4096)
def quantised_point(box: Box, size: Point, step: float) -> Point | None:
    """The pixel that `point_in_box` names, or None when the box is too thin to hold a nameable one."""
    x, y = ScreenSpace("normalized_1000", size, step=step).to_screen(point_in_box(box, int(step), size))
    return (x, y) if box[0] <= x < box[2] and box[1] <= y < box[3] else None


@dataclass(frozen=True)
class Move:
    """One GUI action before it has coordinates. `line` is its imperative, `why` the fact on the screen behind it."""

    action: ComputerAction
    line: str
    why: str
    target: Element | None = None
    at: Box | None = None
    """Where inside the target to point, when not anywhere in its box."""
    keys: tuple[str, ...] = ()
    text: str = ""
    pixels: int = 0
    others: tuple[Element, ...] = ()
    """What the same action on would be as right now: the order is free."""


@dataclass(frozen=True)
class View:
    """The screen as a list of things, with the desktop's own summary of windows and overlay."""

    elements: tuple[Element, ...]
    state: Mapping[str, Any]
    pointer: Point | None
    size: Point
    memory: dict[str, Any] = field(default_factory=dict)
    """What the teacher has read or done that the screen does not show any more; belongs to one stage of its plan."""

    @staticmethod
    def of(seen: Observation, state: Mapping[str, Any], memory: dict[str, Any]) -> View:
        height, width = seen.screen.shape[:2]
        return View(seen.elements, state, seen.pointer, (width, height), memory)

    @property
    def app(self) -> str:
        """The application of the top window, or ""."""
        return self.state.get("active") or ""

    @property
    def overlay(self) -> Mapping[str, Any] | None:
        """The open menu or dialog."""
        return self.state.get("overlay")

    def window(self, app: str) -> Mapping[str, Any] | None:
        """The summary of an application's window."""
        return next((w for w in self.state.get("windows", ()) if w["app"] == app), None)

    def find(self, kind: str, label: str) -> Element | None:
        """The topmost visible element of that kind and label."""
        return next((e for e in reversed(self.elements) if e.kind == kind and e.label == label), None)

    def on(self, element: Element) -> bool:
        """Whether the pointer is on an element."""
        if self.pointer is None:
            return False
        x0, y0, x1, y1 = element.box
        return x0 <= self.pointer[0] < x1 and y0 <= self.pointer[1] < y1


# -- the moves every goal uses ---------------------------------------------------------------------------------


def click(element: Element, why: str) -> Move:
    return Move("left_click", f"click the {element.label} {element.kind}", why, element)


def double_click(element: Element, why: str) -> Move:
    return Move("double_click", f"double click the {element.label} {element.kind}", why, element)


def right_click(element: Element, why: str) -> Move:
    return Move("right_click", f"right click the {element.label} {element.kind}", why, element)


def move_to(element: Element, why: str) -> Move:
    return Move("mouse_move", f"move to the {element.label} {element.kind}", why, element)


def press(*keys: str, why: str) -> Move:
    return Move("key", "press " + " ".join(keys), why, keys=keys)


def type_text(text: str, why: str) -> Move:
    return Move("type", f"type {text}", why, text=text)


def escape(view: View) -> Move:
    """Close whatever is in the way."""
    kind = (view.overlay or {}).get("kind", "dialog")
    return press("esc", why=f"the {kind} is not right here")


def need_app(view: View, app: str) -> Move | None:
    """Bring an application to the front; None when it is there and nothing lies over it."""
    if view.overlay is not None:
        return escape(view)
    if view.app == app:
        return None
    icon = view.find("icon", app)
    if icon is not None and quantised_point(icon.box, view.size, 25) is not None:
        return double_click(icon, f"{app} is not open" if view.window(app) is None else f"{app} is below")
    return press("alt", "tab", why=f"the {app} icon is not shown")
