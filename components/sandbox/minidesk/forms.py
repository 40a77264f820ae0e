"""Forms: one form over `state/forms.json`; `send` checks it and appends a record.

The state file: `{"name": str, "fields": [field, ...], "records": [{label: value}, ...]}` where a field is
`{"label": str, "kind": "text" | "choice" | "check", "required": bool, "options": [str, ...], "value": text or truth}`.
A missing `required` is False; a missing `value` is empty.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from components.sandbox.minidesk.app import MARGIN, TOP, App, Desk, drop_down, lower, snap
from components.sandbox.minidesk.draw import ROW, Canvas
from components.sandbox.minidesk.font import CELL_W
from components.sandbox.minidesk.overlays import Dialog, Menu
from components.sandbox.minidesk.pane import Spot
from components.sandbox.minidesk.store import read_state, write_state

FILE = "forms.json"
SHOWN = 4
_MAX_TEXT = 1024
_BUTTONS_Y = TOP + ROW * SHOWN


class Forms(App):
    name = "forms"
    height = TOP + ROW * (SHOWN + 1)

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.doc = read_state(self.desk.state_dir / FILE)
        stored = self.doc.get("fields")
        self.fields: list[dict[str, Any]] = [
            f for f in stored if isinstance(f, dict) and isinstance(f.get("label"), str)
        ] if isinstance(stored, list) else []  # fmt: skip
        self.values: dict[str, Any] = {}
        self.focus = ""
        self._first = 0
        self._reset()

    @property
    def title(self) -> str:
        name = self.doc.get("name")
        return name if isinstance(name, str) and name else "forms"

    def content(self, canvas: Canvas) -> list[Spot]:
        t = canvas.theme
        if not self.fields:
            canvas.text(MARGIN, TOP + 2, "no form", t.ink, t.panel)
            return []
        spots: list[Spot] = []
        longest = max((len(f["label"]) for f in self.fields if f.get("kind") != "check"), default=0)
        column = MARGIN + CELL_W * (1 + longest)
        for i, field in enumerate(self.fields[self._first : self._first + SHOWN]):
            spots.append(self._field(canvas, field, min(column, 120), TOP + ROW * i))
        x = MARGIN
        for label in ("send", "reset"):
            button = canvas.button(x, _BUTTONS_Y, label)
            spots.append(Spot(button, "do", label))
            x = snap(button.box[2] + 16)
        self.scroll_mark(canvas, TOP, _BUTTONS_Y, self._first, SHOWN, len(self.fields))
        return spots

    def _field(self, canvas: Canvas, field: dict[str, Any], x: int, y: int) -> Spot:
        """A text box or a drop-down stands in the column `x` behind its label; a check box carries its own."""
        t, label, value = canvas.theme, field["label"], self.values[field["label"]]
        focus = label == self.focus
        if field.get("kind") == "check":
            element = lower(canvas.checkbox(MARGIN, y, label, bool(value)))
        else:
            canvas.text(MARGIN, y + 2, label, t.ink, t.panel, x - MARGIN)
            if field.get("kind") == "choice":
                element = drop_down(canvas, x, y, label, str(value))
            else:
                width = (self.width - MARGIN - x) // CELL_W * CELL_W
                element = lower(canvas.field(x, y, label, str(value), width, focus=focus, bare=True))
        if focus:
            canvas.rect((2, y, 5, y + 20), t.accent)
        return Spot(element, "field", field)

    # -- events -----------------------------------------------------------------------------------------------

    def click(self, spot: Spot | None, at: tuple[int, int]) -> bool:
        if spot is None:
            changed, self.focus = bool(self.focus), ""
            return changed
        if spot.name == "do":
            return self._send() if spot.arg == "send" else self._reset()
        label = spot.arg["label"]
        changed, self.focus = label != self.focus, label
        return self._use(spot.arg, spot) or changed

    def _use(self, field: dict[str, Any], spot: Spot | None = None) -> bool:
        """What a click on a field, or `enter` in it, does beside taking the focus."""
        label = field["label"]
        if field.get("kind") == "check":
            return self._set(label, not self.values[label])
        options = field.get("options")
        if field.get("kind") == "choice" and isinstance(options, list) and options:
            spot = spot or next((s for s in self.spots if s.arg is field), None)
            x0, _, _, y1 = spot.element.box if spot else (MARGIN, 0, 0, TOP)
            at = (self.x + x0, self.y + y1 - 4)
            choose = partial(self._set, label)
            self.desk.show(Menu(tuple(map(str, options)), at, choose, title=label, current=str(self.values[label])))
            return True
        return False

    def middle(self, spot: Spot | None) -> bool:
        if spot is None or spot.name != "field" or spot.arg.get("kind", "text") in ("check", "choice"):
            return False
        changed, self.focus = self.focus != spot.arg["label"], spot.arg["label"]
        return self._paste() or changed

    def scroll(self, rows: int) -> bool:
        first = max(0, min(self._first - rows, len(self.fields) - SHOWN))
        changed = first != self._first
        self._first = first
        return changed

    def type(self, text: str) -> bool:
        """Text for the focused field; a tab moves on to the next field, a newline is not part of a field."""
        changed = False
        for i, part in enumerate(text.split("\t")):
            if i:
                changed |= self._next(1)
            field = self._focused()
            kind = field.get("kind", "text") if field else ""
            line = part.replace("\n", "")
            if not field or not line:
                continue
            if kind == "check" and line == " ":
                changed |= self._set(field["label"], not self.values[field["label"]])
            elif kind not in ("check", "choice"):
                changed |= self._set(field["label"], (str(self.values[field["label"]]) + line)[:_MAX_TEXT])
        return changed

    def key(self, key: str) -> bool:
        field = self._focused()
        if key in ("up", "down"):
            return self._next(1 if key == "down" else -1)
        if field is None:
            return False
        text = isinstance(self.values[field["label"]], str) and field.get("kind") != "choice"
        if key == "enter" and not text:
            return self._use(field)
        if key == "backspace" and text:
            return self._set(field["label"], self.values[field["label"]][:-1])
        if key == "delete" and text:
            return self._set(field["label"], "")
        return False

    def ctrl(self, key: str) -> bool:
        return self._paste() if key == "v" else False

    def summary(self) -> dict[str, Any]:
        return {"values": dict(self.values), "focus": self.focus, "first": self._first, "sent": len(self._records())}

    # -- what the gestures do ---------------------------------------------------------------------------------

    def _focused(self) -> dict[str, Any] | None:
        return next((f for f in self.fields if f["label"] == self.focus), None) if self.focus else None

    def _set(self, label: str, value: Any) -> bool:
        if self.values[label] == value:
            return False
        self.values[label] = value
        return True

    def _next(self, step: int) -> bool:
        if not self.fields:
            return False
        labels = [f["label"] for f in self.fields]
        index = (labels.index(self.focus) + step) % len(labels) if self.focus else (0 if step > 0 else -1) % len(labels)
        self.focus = labels[index]
        self._first = max(min(self._first, index), index - SHOWN + 1)
        return True

    def _paste(self) -> bool:
        return self.desk.clip.kind == "text" and self.type(self.desk.clip.text.replace("\n", " ").replace("\t", " "))

    def _reset(self) -> bool:
        """Back to the values the form came with."""
        before = dict(self.values)
        for field in self.fields:
            given = field.get("value")
            empty: Any = bool(given) if field.get("kind") == "check" else ("" if given is None else str(given))
            self.values[field["label"]] = empty
        return before != self.values

    def _records(self) -> list[Any]:
        records = self.doc.get("records")
        return records if isinstance(records, list) else []

    def _send(self) -> bool:
        for field in self.fields:
            if field.get("required") and not self.values[field["label"]]:
                self.focus = field["label"]
                self.desk.error(f"{field['label']} is empty")
                return True
        self.doc["records"] = [*self._records(), dict(self.values)]
        write_state(self.desk.state_dir / FILE, self.doc)
        self._reset()
        self.focus = ""
        self.desk.show(Dialog("sent", f"{self.title} was sent"))
        return True
