"""Prefs: check boxes, a slider and drop-downs over `state/prefs.json`; every change is saved at once.

The state file: `{"values": {label: value}, "options": {label: [option, ...]}}`. A truth value is a check box, a
number a slider of 0..100, a text a drop-down over its options. The order in the file is the order on the screen.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from components.sandbox.minidesk.app import MARGIN, TOP, App, Desk, drop_down, lower
from components.sandbox.minidesk.draw import HANDLE, ROW, TRACK, Canvas
from components.sandbox.minidesk.font import CELL_W
from components.sandbox.minidesk.overlays import Menu
from components.sandbox.minidesk.pane import Spot
from components.sandbox.minidesk.store import read_state, write_state

FILE = "prefs.json"
DEFAULT: dict[str, Any] = {
    "values": {"wifi": True, "sound": True, "sync": False, "volume": 50, "lang": "en"},
    "options": {"lang": ["en", "de", "fr"]},
}
STEP = 5
_COLUMN = 96
_ROWS = 6


class Prefs(App):
    name = "prefs"

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._load()

    def _load(self) -> None:
        stored = read_state(self.desk.state_dir / FILE)
        self.doc = stored if isinstance(stored.get("values"), dict) and stored["values"] else {
            "values": dict(DEFAULT["values"]), "options": dict(DEFAULT["options"])
        }  # fmt: skip

    @property
    def values(self) -> dict[str, Any]:
        return self.doc["values"]

    def options(self, label: str) -> tuple[str, ...]:
        """The options of a drop-down; at least its present value."""
        stored = self.doc.get("options")
        found = stored.get(label) if isinstance(stored, dict) else None
        return tuple(str(o) for o in found) if isinstance(found, list) and found else (str(self.values[label]),)

    def content(self, canvas: Canvas) -> list[Spot]:
        t = canvas.theme
        spots: list[Spot] = []
        items = list(self.values.items())
        checks = [(k, v) for k, v in items if isinstance(v, bool)]
        columns = 2 if all(24 + CELL_W * len(label) < _COLUMN for label, _ in checks) else 1
        for i, (label, on) in enumerate(checks):
            x, y = MARGIN + _COLUMN * (i % columns), TOP + ROW * (i // columns)
            spots.append(Spot(lower(canvas.checkbox(x, y, label, on)), "check", label))
        row = -(-len(checks) // columns)
        for label, value in items:
            y = TOP + ROW * row
            if row + 1 < _ROWS and isinstance(value, (int, float)) and not isinstance(value, bool):
                percent = max(0, min(100, int(value)))
                canvas.text(MARGIN, y + 2, f"{label} {percent}", t.ink, t.panel)
                track, handle = canvas.slider(MARGIN, y + ROW, label, percent, TRACK)
                spots += [Spot(lower(track), "slide", label), Spot(lower(handle), "slide", label)]
                row += 2
            elif row < _ROWS and isinstance(value, str):
                canvas.text(MARGIN, y + 2, label, t.ink, t.panel)
                box = drop_down(canvas, MARGIN + CELL_W * (len(label) + 1), y, label, value)
                spots.append(Spot(box, "menu", label))
                row += 1
        return spots

    # -- events -----------------------------------------------------------------------------------------------

    def click(self, spot: Spot | None, at: tuple[int, int]) -> bool:
        if spot is None:
            return False
        if spot.name == "check":
            return self._set(spot.arg, not self.values[spot.arg])
        if spot.name == "menu":
            x0, _, _, y1 = spot.element.box
            at = (self.x + x0, self.y + y1 - 4)
            current = str(self.values[spot.arg])
            menu = Menu(self.options(spot.arg), at, partial(self._set, spot.arg), title=spot.arg, current=current)
            self.desk.show(menu)
            return True
        return spot.element.kind == "slider" and self._slide(spot.arg, at[0])

    def drag(self, start: Spot, end: Spot | None, at: tuple[int, int]) -> bool:
        return self._slide(start.arg, at[0]) if start.name == "slide" else False

    def summary(self) -> dict[str, Any]:
        return {"values": dict(self.values)}

    # -- what the gestures do ---------------------------------------------------------------------------------

    def _slide(self, label: str, x: int) -> bool:
        """The handle's middle goes to `x`, then to the nearest step."""
        share = (x - MARGIN - HANDLE // 2) / (TRACK - HANDLE)
        return self._set(label, max(0, min(100, STEP * round(100 * share / STEP))))

    def _set(self, label: str, value: Any) -> bool:
        if self.values[label] == value:
            return False
        self.values[label] = value
        write_state(self.desk.state_dir / FILE, self.doc)
        if label == "theme":
            self.desk.use_theme(str(value))
        return True
