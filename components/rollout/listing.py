"""The Files list and its dialogs: what goals in several applications need of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from components.rollout.view import Move, View, click, need_app, press, type_text

ROWS = 5
"""Rows of the list that are visible at once."""


def files(view: View) -> Mapping[str, Any]:
    return view.window("files") or {"folder": "", "rows": [], "first": 0, "selected": ""}


def home(view: View) -> Move | None:
    """Files in front, showing the home folder; None when it does."""
    if (move := need_app(view, "files")) is not None:
        return move
    if files(view)["folder"]:
        up = view.find("button", "up")
        return click(up, "a folder is shown") if up is not None else press("backspace", why="a folder is shown")
    return None


def scroll_to(view: View, name: str) -> Move:
    """Scroll the list until `name` is visible, or until another place of it is tried."""
    rows, first = files(view)["rows"], files(view)["first"]
    index = rows.index(name)
    steps = first - index if index < first else min(-1, first + ROWS - 1 - index)
    over = next((e for e in reversed(view.elements) if e.kind == "row"), None)
    return Move("scroll", f"scroll {'down' if steps < 0 else 'up'}", f"{name} is not shown", over, pixels=100 * steps)


def row(view: View, name: str, make: Callable[..., Move], why: str) -> Move:
    """`make` a move on a row, or scroll to it first."""
    found = view.find("row", name)
    return make(found, why) if found is not None else scroll_to(view, name)


def dialog(view: View, title: str) -> Mapping[str, Any] | None:
    """The open dialog of that title."""
    overlay = view.overlay
    return overlay if overlay and overlay["kind"] == "dialog" and overlay["title"] == title else None


def dialog_text(view: View, wanted: str) -> Move:
    """Bring the field of the open dialog to `wanted`, then confirm."""
    text = (view.overlay or {}).get("text", "")
    if text == wanted:
        return press("enter", why="the name is right")
    if text and not view.memory.get("selected_all"):
        return press("ctrl", "a", why="the name is wrong")
    return type_text(wanted, f"the name must be {wanted}")


def row_menu(view: View, file: str, item: str) -> Move | None:
    """Click `item` in the context menu of a row; None when that menu is not what is open."""
    overlay = view.overlay
    if overlay and overlay["kind"] == "menu" and files(view)["selected"] == file and view.app == "files":
        found = view.find("item", item)
        if found is not None:
            return click(found, "the menu is open")
    return None
