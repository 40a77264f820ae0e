"""The goal of the Forms app: bring the fields to their values and send."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from components.contracts.desktop import Element
from components.rollout.view import Move, View, click, escape, need_app, press, type_text

Goal = Mapping[str, Any]


def fill_form(view: View, goal: Goal) -> Move | None:
    """`values`: label -> text, option or truth; `order`: labels as the task names them, otherwise as the form shows
    them; `send` False stops before sending. Done when a record was sent."""
    window, values = view.window("forms"), goal["values"]
    if window is not None and window["sent"]:
        return None
    overlay = view.overlay
    if overlay is not None:
        option = values.get(overlay["title"]) if overlay["kind"] == "menu" and view.app == "forms" else None
        item = view.find("item", option) if isinstance(option, str) else None
        return click(item, f"{overlay['title']} must be {option}") if item is not None else escape(view)
    if (move := need_app(view, "forms")) is not None or window is None:
        return move
    if any(value for label, value in window["values"].items() if label not in values):
        return _button(view, "reset", "a field is wrong")
    wrong = [label for label in goal.get("order", window["values"]) if label in values
             and window["values"].get(label) != values[label]]  # fmt: skip
    if wrong:
        label = wrong[0]
        found = _fill(view, window["focus"] == label, label, window["values"].get(label), values[label])
        if found.target is None:
            return found
        others = (_input(view, other) for other in wrong[1:])
        return replace(found, others=tuple(other for other in others if other is not None))
    return _button(view, "send", "the form is right") if goal.get("send", True) else None


def _input(view: View, label: str) -> Element | None:
    return next((found for kind in ("checkbox", "menu", "field") if (found := view.find(kind, label))), None)


def _fill(view: View, focused: bool, label: str, found: Any, wanted: Any) -> Move:
    field = _input(view, label)
    if field is None:
        return escape(view)
    if field.kind != "field":
        return click(field, f"{label} is not {'on' if wanted is True else wanted}")
    if not focused:
        return click(field, f"{label} is wrong" if found else f"{label} must be {wanted}")
    return press("delete", why=f"{label} is wrong") if found else type_text(wanted, f"{label} must be {wanted}")


def _button(view: View, label: str, why: str) -> Move:
    found = view.find("button", label)
    return click(found, why) if found is not None else escape(view)
