"""Sheet: a table of cells over a real .csv or .xlsx file."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from decimal import Decimal
from typing import Any

from components.contracts.desktop import Element
from components.sandbox.minidesk.app import TOP, App, Clip, Desk, moved_path
from components.sandbox.minidesk.draw import HALF, HEIGHT, ROW, Canvas
from components.sandbox.minidesk.font import CELL_W
from components.sandbox.minidesk.naming import ask_name
from components.sandbox.minidesk.pane import Spot
from components.sandbox.minidesk.store import Parts, Refused, Stamp
from components.sandbox.minidesk.tables import (
    MAX_COLUMNS,
    MAX_ROWS,
    Rows,
    from_csv,
    from_xlsx,
    number,
    show_number,
    to_csv,
    to_xlsx,
    trim,
)

COLUMNS, SHOWN = 4, 5
CELL = 48
_HEAD_W = 16
_HEADS_Y = TOP + ROW
_CELLS_Y = _HEADS_Y + HALF
_CELL_CHARS = (CELL - 4) // CELL_W
_MAX_CELL = 4096
_LETTERS = "abcdefghijklmnopqrstuvwxyz"

Place = tuple[int, int]
"""(row, column), from 0."""


class Sheet(App):
    name = "sheet"
    height = HEIGHT

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.path: Parts = ()
        self.rows: Rows = []
        self._saved: Rows = []
        self._stamp: Stamp = None
        self._at: Place = (0, 0)
        self._first: Place = (0, 0)
        self._edit: str | None = None

    @property
    def modified(self) -> bool:
        return trim(self.rows) != self._saved

    @property
    def title(self) -> str:
        return (self.path[-1] if self.path else "sheet") + ("*" if self.modified else "")

    def value(self, place: Place) -> str:
        row, column = place
        return self.rows[row][column] if row < len(self.rows) and column < len(self.rows[row]) else ""

    def content(self, canvas: Canvas) -> list[Spot]:
        t = canvas.theme
        spots = self.toolbar(canvas, ("save", "sort", "sum"))
        top, left = self._first
        canvas.rect((0, _HEADS_Y, _HEAD_W, _CELLS_Y), t.face)
        for i in range(COLUMNS):
            head = canvas.head(_HEAD_W + CELL * i, _HEADS_Y, _LETTERS[left + i], CELL, HALF)
            spots.append(Spot(head, "cell", (0, left + i)))
        for j in range(SHOWN):
            y = _CELLS_Y + ROW * j
            spots.append(Spot(self._row_head(canvas, top + j, y), "cell", (top + j, left)))
            for i in range(COLUMNS):
                spots.append(self._cell(canvas, (top + j, left + i), _HEAD_W + CELL * i, y))
        return spots

    def _row_head(self, canvas: Canvas, row: int, y: int) -> Element:
        """A row number; from 10 on its two last digits fill the head."""
        label = str(row + 1)
        if len(label) == 1:
            return canvas.head(0, y, label, _HEAD_W, ROW)
        head = canvas.head(0, y, "", _HEAD_W, ROW)
        canvas.text(0, y + 2, label[-2:], canvas.theme.ink, canvas.theme.face)
        return replace(head, label=label)

    def _cell(self, canvas: Canvas, place: Place, x: int, y: int) -> Spot:
        selected = place == self._at
        value = self.value(place)
        shown = value.replace("\n", " ")
        if selected and self._edit is not None:
            value, shown = self._edit, self._edit[-_CELL_CHARS:]
        name = f"{_LETTERS[place[1]]}{place[0] + 1}"
        element = canvas.cell(x, y, name, shown, CELL, selected=selected)
        if selected and self._edit is not None:
            caret = min(x + 4 + CELL_W * len(shown), x + CELL - 4)
            canvas.rect((caret, y + 5, caret + 2, y + 17), (20, 20, 24))
        return Spot(Element("cell", name, element.box, value), "cell", place)

    # -- events -----------------------------------------------------------------------------------------------

    def click(self, spot: Spot | None, at: tuple[int, int]) -> bool:
        if spot is None:
            return self._commit()
        if spot.name == "do":
            committed = self._commit()
            return {"save": self._save, "sort": self._sort, "sum": self._sum}[spot.arg]() or committed
        if spot.arg == self._at:
            return False
        self._commit()
        self._at = spot.arg
        return True

    def double(self, spot: Spot) -> bool | None:
        """Edits the cell's content instead of replacing it."""
        if spot.name != "cell":
            return None
        self.click(spot, (0, 0))
        self._edit = self.value(self._at) if self._edit is None else self._edit
        return True

    def middle(self, spot: Spot | None) -> bool:
        if spot is None or spot.name != "cell":
            return False
        moved = self.click(spot, (0, 0))
        return self._paste() or moved

    def scroll(self, rows: int) -> bool:
        row, column = self._first
        first = (max(0, min(row - rows, MAX_ROWS - SHOWN)), column)
        changed = first != self._first
        self._first = first
        return changed

    def type(self, text: str) -> bool:
        """Goes to the edit buffer; a newline commits and moves down, a tab commits and moves right."""
        changed = False
        for char in text:
            if char in "\n\t":
                changed |= self._step((1, 0) if char == "\n" else (0, 1))
            elif self._edit is None or len(self._edit) < _MAX_CELL:
                self._edit = (self._edit or "") + char
                changed = True
        return changed

    def key(self, key: str) -> bool:
        steps = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
        if key in steps:
            return self._step(steps[key])
        if key == "esc" and self._edit is not None:
            self._edit = None
            return True
        if key == "backspace" and self._edit is not None:
            changed, self._edit = bool(self._edit), self._edit[:-1]
            return changed
        if key in ("delete", "backspace") and self._edit is None:
            return self._put(self._at, "")
        if key in ("pageup", "pagedown"):
            return self.scroll(SHOWN if key == "pageup" else -SHOWN)
        return False

    def ctrl(self, key: str) -> bool:
        if key == "s":
            self._commit()
            return self._save()
        if key == "c":
            self.desk.clip = Clip("text", self.value(self._at) if self._edit is None else self._edit)
            self.desk.toast("copied")
            return True
        return self._paste() if key == "v" else False

    def blur(self) -> None:
        self._commit()

    def refresh(self) -> None:
        """Reads the file again unless there is unsaved work."""
        clean = self.path and not self.modified and self._edit is None
        stamp = self.desk.home.stamp(self.path) if clean else None
        if stamp is None or stamp == self._stamp:
            return
        with contextlib.suppress(Refused):
            self.rows = self._read(self.path)
            self._saved, self._stamp = trim(self.rows), stamp

    def moved(self, old: Parts, new: Parts) -> None:
        self.path = moved_path(self.path, old, new)

    def open(self, path: Parts) -> None:
        self.rows = self._read(path)
        self._saved, self._stamp = trim(self.rows), self.desk.home.stamp(path)
        self.path, self._at, self._first, self._edit = path, (0, 0), (0, 0), None

    def summary(self) -> dict[str, Any]:
        row, column = self._at
        return {
            "path": "/".join(self.path),
            "selected": f"{_LETTERS[column]}{row + 1}",
            "edit": self._edit,
            "first": self._first[0],
            "rows": trim(self.rows),
            "modified": self.modified,
        }

    # -- what the gestures do ---------------------------------------------------------------------------------

    def _read(self, path: Parts) -> Rows:
        data = self.desk.home.read(path)
        return from_xlsx(data) if _is_xlsx(path) else from_csv(data)

    def _put(self, place: Place, text: str) -> bool:
        if self.value(place) == text:
            return False
        row, column = place
        while len(self.rows) <= row:
            self.rows.append([])
        cells = self.rows[row]
        cells += [""] * (column + 1 - len(cells))
        cells[column] = text
        return True

    def _commit(self) -> bool:
        """Ends editing and keeps what was typed."""
        if self._edit is None:
            return False
        text, self._edit = self._edit, None
        self._put(self._at, text)
        return True

    def _step(self, by: Place) -> bool:
        """Commits and moves the selection; the view follows."""
        committed = self._commit()
        row = max(0, min(self._at[0] + by[0], MAX_ROWS - 1))
        column = max(0, min(self._at[1] + by[1], MAX_COLUMNS - 1))
        before = (self._at, self._first)
        self._at = (row, column)
        top, left = self._first
        self._first = (
            max(min(top, row), row - SHOWN + 1),
            max(min(left, column), column - COLUMNS + 1),
        )
        return before != (self._at, self._first) or committed

    def _sort(self) -> bool:
        """Rows under the head row, by the selected column: as numbers when all are, empty cells last."""
        column = self._at[1]
        head, body = self.rows[:1], trim(self.rows[1:])
        filled = [row for row in body if column < len(row) and row[column]]
        numbers = [number(row[column]) for row in filled]
        keys: list[Any] = numbers if all(n is not None for n in numbers) else [row[column] for row in filled]
        order = sorted(range(len(filled)), key=keys.__getitem__)
        rows = head + [filled[i] for i in order] + [r for r in body if column >= len(r) or not r[column]]
        changed = trim(rows) != trim(self.rows)
        self.rows = rows
        return changed

    def _sum(self) -> bool:
        """Writes the sum of the numbers above into the selected cell."""
        row, column = self._at
        found = [n for r in range(row) if (n := number(self.value((r, column)))) is not None]
        return self._put(self._at, show_number(sum(found, Decimal(0)))) if found else False

    def _paste(self) -> bool:
        if self.desk.clip.kind != "text":
            return False
        self._edit = self.desk.clip.text.replace("\n", " ")[:_MAX_CELL]
        return True

    def _save(self) -> bool:
        if self.path:
            self._write(self.path)
        else:
            ask_name(self.desk, ".csv", self._write)
        return True

    def _write(self, path: Parts) -> None:
        try:
            if _is_xlsx(path):
                before = self.desk.home.read(path) if self.desk.home.exists(path) else None
                data = to_xlsx(self.rows, before)
            else:
                data = to_csv(self.rows)
            self.desk.home.write(path, data)
        except Refused as refusal:
            self.desk.error(str(refusal))
            return
        self.path, self._saved, self._stamp = path, trim(self.rows), self.desk.home.stamp(path)
        self.desk.toast("saved")
        self.desk.disk_changed()


def _is_xlsx(path: Parts) -> bool:
    return path[-1].lower().endswith(".xlsx")
