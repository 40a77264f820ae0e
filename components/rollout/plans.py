"""Plans: goals carried out from what is on the screen, never from a script position.

A goal is a function `(view, args) -> Move | None`: the next move towards it from *this* screen, or None when it is
reached. So a goal survives anything that happens in between: it closes a dialog nobody asked for, opens the app
again, redoes a step. Goals come from a task's plan (`spec["plan"]`), plain JSON `{"goal": name, ...}`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from components.contracts.coords import slider_place
from components.contracts.errors import TeacherError
from components.rollout import documents, forms_goal, listing
from components.rollout.view import (
    Move,
    View,
    click,
    escape,
    move_to,
    need_app,
    press,
    right_click,
)

Goal = Mapping[str, Any]
Step = Callable[[View, Goal], Move | None]

# -- Files -----------------------------------------------------------------------------------------------------


def rename(view: View, goal: Goal) -> Move | None:
    file, new = goal["file"], goal["new"]
    dialog = listing.dialog(view, "rename")
    if dialog is not None and dialog["message"] == file:
        return listing.dialog_text(view, new)
    if (move := listing.row_menu(view, file, "rename")) is not None:
        return move
    if (move := listing.home(view)) is not None:
        return move
    rows = listing.files(view)["rows"]
    return listing.row(view, file, right_click, f"{file} is shown") if file in rows else None


def delete(view: View, goal: Goal) -> Move | None:
    return _delete_one(view, goal["file"])


def _delete_one(view: View, file: str) -> Move | None:
    dialog = listing.dialog(view, "delete")
    if dialog is not None and dialog["message"] == f"delete {file}?":
        yes = view.find("button", "yes")
        return click(yes, "the dialog is open") if yes is not None else press("enter", why="the dialog is open")
    if (move := listing.row_menu(view, file, "delete")) is not None:
        return move
    if (move := listing.home(view)) is not None:
        return move
    return listing.row(view, file, right_click, f"{file} is shown") if file in listing.files(view)["rows"] else None


def delete_all(view: View, goal: Goal) -> Move | None:
    """One after the other: what is being deleted, else the first that is in sight, else the first of the list."""
    if not view.window("files"):
        return _delete_one(view, goal["files"][0])
    left = [f for f in goal["files"] if f in listing.files(view)["rows"]]
    if not left:
        return listing.home(view)
    begun = [f for f in left if view.overlay and listing.files(view)["selected"] == f]
    shown = [(f, row) for f in left if (row := view.find("row", f)) is not None]
    file = begun[0] if begun else shown[0][0] if shown else left[0]
    found = _delete_one(view, file)
    if found is not None and found.action == "scroll":
        # What is out of sight has no name for who looks at the screen.
        return replace(found, why=f"no {Path(file).suffix} is shown")
    if found is not None and found.action == "right_click":
        return replace(found, others=tuple(row for f, row in shown if f != file))
    return found


def move(view: View, goal: Goal) -> Move | None:
    """Drag a row onto a folder; both rows have to be visible."""
    if (step := listing.home(view)) is not None:
        return step
    file, folder = goal["file"], goal["folder"]
    if file not in listing.files(view)["rows"]:
        return None
    source, target = view.find("row", file), view.find("row", folder)
    if source is None:
        return listing.scroll_to(view, file)
    if target is None:
        return listing.scroll_to(view, folder)
    if not view.on(source):
        return move_to(source, f"{file} is shown")
    return Move("left_click_drag", f"drag it to the {folder} row", f"{file} must go to {folder}", target)


def new_folder(view: View, goal: Goal) -> Move | None:
    name = goal["name"]
    if listing.dialog(view, "new") is not None:
        return listing.dialog_text(view, name)
    if (step := listing.home(view)) is not None:
        return step
    if name in listing.files(view)["rows"]:
        return None
    new = view.find("button", "new")
    return click(new, "the folder is not there") if new is not None else escape(view)


# -- Prefs -----------------------------------------------------------------------------------------------------


def _prefs_as_kept(view: View, goal: Goal) -> Move | None:
    """Prefs in front, and everything the task leaves alone (`keep`) as it was at the start."""
    if (step := need_app(view, "prefs")) is not None:
        return step
    for label, state in goal.get("keep", {}).items():
        step = _to_volume(view, int(state)) if label == "volume" else _to_state(view, label, state)
        if step is not None:
            return step
    return None


def _to_state(view: View, label: str, state: str) -> Move | None:
    box = view.find("checkbox", label)
    return click(box, f"{label} is {box.state}") if box is not None and box.state != state else None


def _to_volume(view: View, value: int) -> Move | None:
    """Pointer on the handle, then drag it to the place whose step is the wanted number."""
    handle, track = view.find("handle", "volume"), view.find("slider", "volume")
    if handle is None or track is None or handle.state == str(value):
        return None
    if not view.on(handle):
        return move_to(handle, f"the volume is {handle.state}")
    box = slider_place(track.box, handle.box[2] - handle.box[0], value)
    return Move("left_click_drag", f"drag it to {value}", f"the volume must be {value}", track, at=box)


def set_check(view: View, goal: Goal) -> Move | None:
    return _prefs_as_kept(view, goal) or _to_state(view, goal["label"], goal["state"])


def set_volume(view: View, goal: Goal) -> Move | None:
    return _prefs_as_kept(view, goal) or _to_volume(view, goal["value"])


def choose(view: View, goal: Goal) -> Move | None:
    label, option = goal["label"], goal["option"]
    overlay = view.overlay
    if overlay and overlay["kind"] == "menu" and overlay["title"] == label and view.app == "prefs":
        item = view.find("item", option)
        return click(item, f"{label} must be {option}") if item is not None else escape(view)
    if (step := _prefs_as_kept(view, goal)) is not None:
        return step
    menu = view.find("menu", label)
    if menu is None or menu.state == option:
        return None
    return click(menu, f"the {label} is {menu.state}")


def undone(view: View, goal: Goal) -> bool:
    """Whether what is visible contradicts a goal reached before: something put a preference back."""
    if view.app != "prefs" or view.overlay is not None:
        return False
    return goal["goal"] in ("set_check", "set_volume", "choose") and GOALS[goal["goal"]](view, goal) is not None


GOALS: dict[str, Step] = {
    "rename": rename,
    "delete": delete,
    "delete_all": delete_all,
    "move": move,
    "new_folder": new_folder,
    "set_check": set_check,
    "set_volume": set_volume,
    "choose": choose,
    "write_note": documents.write_note,
    "edit_note": documents.edit_note,
    "paste_note": documents.paste_note,
    "read_note": documents.read_note,
    "set_cell": documents.set_cell,
    "sort_sheet": documents.sort_sheet,
    "sum_column": documents.sum_column,
    "read_sheet": documents.read_sheet,
    "fill_form": forms_goal.fill_form,
}

_CALLS: dict[str, int] = {
    "rename": 5, "delete": 4, "move": 3, "new_folder": 4, "set_check": 2, "set_volume": 3, "choose": 3,
    "write_note": 5, "edit_note": 4, "paste_note": 4, "read_note": 2, "set_cell": 6, "sort_sheet": 5, "sum_column": 5,
    "read_sheet": 2,
}  # fmt: skip
"""Calls a goal takes by hand from a bare desktop."""


def estimate(goal: Goal) -> int:
    """Calls a goal takes by hand from a bare desktop; the terminal takes one."""
    name = goal["goal"]
    if name == "bash":
        return 1
    if name == "delete_all":
        return 1 + 3 * len(goal["files"])
    if name == "fill_form":
        return 2 + 2 * len(goal["values"])
    return _CALLS[name]


def next_move(view: View, goal: Goal) -> Move | None:
    """The next move towards a goal by hand. Raises `TeacherError` for a goal that does not exist."""
    step = GOALS.get(goal["goal"])
    if step is None:
        raise TeacherError(f"unknown goal {goal['goal']!r}", where="plan", remedy=f"one of {sorted(GOALS)}")
    return step(view, goal)
