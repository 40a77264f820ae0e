"""Goals in Notes and Sheet: open a document, change it, save it. Same rule as `plans.py`: only the screen decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components.rollout import listing
from components.rollout.view import Move, View, click, double_click, escape, need_app, press, type_text

Goal = Mapping[str, Any]

EMPTY: Mapping[str, Any] = {"path": "", "text": "", "rows": [], "modified": False, "focus": True}


def open_file(view: View, app: str, file: str, *, again: bool = False) -> Move | None:
    """`file` in the front window of `app`; `again` reads it anew even when it is there (drops unsaved changes)."""
    window = view.window(app)
    if window is not None and window["path"] == file and not again:
        return need_app(view, app)
    if (move := listing.home(view)) is not None:
        return move
    rows = listing.files(view)["rows"]
    if file not in rows:
        return None
    return listing.row(view, file, double_click, f"{file} is shown" if not again else f"{file} is wrong")


def _dialog_or_escape(view: View, file: str) -> Move | None:
    """Answers the dialogs that saving may put up; closes any other overlay."""
    overlay = view.overlay
    if overlay is None:
        return None
    if overlay["kind"] == "dialog" and overlay["title"] == "save":
        return listing.dialog_text(view, file)
    if overlay["kind"] == "dialog" and overlay["title"] == "replace" and overlay["message"] == f"replace {file}?":
        yes = view.find("button", "yes")
        return click(yes, "the dialog is open") if yes is not None else press("enter", why="the dialog is open")
    return escape(view)


def _button(view: View, label: str, why: str) -> Move:
    found = view.find("button", label)
    return click(found, why) if found is not None else escape(view)


def _save(view: View, window: Mapping[str, Any], why: str) -> Move | None:
    return _button(view, "save", why) if window["modified"] or not window["path"] else None


# -- Notes -----------------------------------------------------------------------------------------------------


def _bring_text(view: View, window: Mapping[str, Any], wanted: str) -> Move | None:
    """The next move that brings the open text to `wanted`; None when it is."""
    text = window["text"]
    if text == wanted:
        return None
    area = view.find("field", "text")
    if area is None:
        return escape(view)
    if not wanted:
        return _button(view, "clear", "the note is not empty")
    if not window["focus"]:
        return click(area, "the text is not ready")
    if view.memory.get("selected_all"):
        return type_text(first := wanted.split("\n")[0], f"the text must be {first}")
    if not wanted.startswith(text):
        return press("ctrl", "a", why="the text is not right")
    rest = wanted[len(text) :]
    if rest.startswith("\n"):
        return press("enter", why="the text needs a new line")
    return type_text(line := rest.split("\n")[0], f"the line must be {line}")


def write_note(view: View, goal: Goal) -> Move | None:
    """A new text under a new name."""
    file, wanted = goal["file"], goal["text"]
    if (move := _dialog_or_escape(view, file)) is not None:
        return move
    if (move := need_app(view, "notes")) is not None:
        return move
    window = view.window("notes") or EMPTY
    if window["path"] not in ("", file):
        return _button(view, "new", "this is not a new note")
    return _bring_text(view, window, wanted) or _save(view, window, "the text is right")


def edit_note(view: View, goal: Goal) -> Move | None:
    """The text of a file becomes `text` and is saved."""
    file = goal["file"]
    if (move := open_file(view, "notes", file)) is not None:
        return move
    window = view.window("notes") or EMPTY
    if window["path"] != file:
        return None
    return _bring_text(view, window, goal["text"]) or _save(view, window, "the text is right")


def paste_note(view: View, goal: Goal) -> Move | None:
    """Middle click pastes the clipboard at the end. A text that went wrong is written again."""
    file = goal["file"]
    if (move := open_file(view, "notes", file)) is not None:
        return move
    window = view.window("notes") or EMPTY
    area = view.find("field", "text")
    if window["path"] == file and window["text"] == goal["old"] and area is not None:
        return Move("middle_click", "middle click the text field", "the note is open", area)
    if window["path"] != file:
        return None
    return _bring_text(view, window, goal["text"]) or _save(view, window, "the text is right")


def read_note(view: View, goal: Goal) -> Move | None:
    """Reached when the note has been on the screen."""
    return open_file(view, "notes", goal["file"])


# -- Sheet -----------------------------------------------------------------------------------------------------


def _cell(rows: list[list[str]], cell: str) -> str:
    column, row = ord(cell[0]) - ord("a"), int(cell[1:]) - 1
    return rows[row][column] if row < len(rows) and column < len(rows[row]) else ""


def _others(rows: list[list[str]], cell: str) -> list[tuple[str, str]]:
    """Every cell but one that is not empty."""
    named = ((f"{chr(97 + c)}{r + 1}", value) for r, row in enumerate(rows) for c, value in enumerate(row))
    return [(name, value) for name, value in named if name != cell and value]


def _select(view: View, window: Mapping[str, Any], cell: str, why: str) -> Move | None:
    if window["edit"] is not None:
        return press("esc", why="the cell is not right")
    if window["selected"] == cell:
        return None
    found = view.find("cell", cell)
    if found is not None:
        return click(found, why)
    up = int(cell[1:]) - 1 < window["first"]
    over = next((e for e in view.elements if e.kind == "cell"), None)
    return Move(
        "scroll", f"scroll {'up' if up else 'down'}", f"cell {cell} is not shown", over, pixels=300 if up else -300
    )


def read_sheet(view: View, goal: Goal) -> Move | None:
    """Reached when the sheet has been on the screen."""
    return open_file(view, "sheet", goal["file"])


def _opened(view: View, goal: Goal, cell: str = "") -> Move | None:
    """The sheet in front; read anew when other cells than `cell` are not what they should be."""
    window = view.window("sheet") or EMPTY
    spoiled = window["path"] == goal["file"] and window["modified"] and bool(cell)
    again = spoiled and _others(window["rows"], cell) != _others(goal["rows"], cell)
    return open_file(view, "sheet", goal["file"], again=again)


def set_cell(view: View, goal: Goal) -> Move | None:
    cell, value = goal["cell"], goal["value"]
    if (move := _opened(view, goal, cell)) is not None:
        return move
    window = view.window("sheet") or EMPTY
    if window["path"] != goal["file"]:
        return None
    if window["edit"] == value and window["selected"] == cell:
        return press("enter", why=f"{cell} has {value}")
    if _cell(window["rows"], cell) == value:
        return _save(view, window, f"{cell} is {value}")
    return _select(view, window, cell, f"{cell} is not {value}") or type_text(value, f"{cell} must be {value}")


def sort_sheet(view: View, goal: Goal) -> Move | None:
    if (move := _opened(view, goal)) is not None:
        return move
    window = view.window("sheet") or EMPTY
    if window["path"] != goal["file"]:
        return None
    if window["rows"] == goal["rows"]:
        return _save(view, window, "the rows are in order")
    if sorted(window["rows"]) != sorted(goal["rows"]) and window["modified"]:
        return open_file(view, "sheet", goal["file"], again=True)
    if window["edit"] is not None or window["selected"][0] != goal["column"]:
        return _select(view, window, f"{goal['column']}2", f"column {goal['column']} is not ready")
    return _button(view, "sort", f"column {goal['column']} is ready")


def sum_column(view: View, goal: Goal) -> Move | None:
    cell = goal["cell"]
    if (move := _opened(view, goal, cell)) is not None:
        return move
    window = view.window("sheet") or EMPTY
    if window["path"] != goal["file"]:
        return None
    if _cell(window["rows"], cell) == goal["value"] and window["edit"] is None:
        return _save(view, window, f"{cell} has the sum")
    return _select(view, window, cell, f"{cell} is not ready") or _button(view, "sum", f"cell {cell} is ready")
