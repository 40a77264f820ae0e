"""What lies modal over the windows: menus (context menus and open drop-downs) and dialogs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from components.contracts.desktop import Element
from components.sandbox.minidesk.app import MARGIN, lower
from components.sandbox.minidesk.draw import HALF, HEIGHT, ROW, WIDTH, Canvas, shade
from components.sandbox.minidesk.font import CELL_W
from components.sandbox.minidesk.pane import Pane, Spot

MAX_FIELD = 1024
_LINE = 20
"""Characters of a dialog's message line."""


class Overlay(Pane):
    """Base: takes all events while it is shown. `closed` is set when it has done its work."""

    kind = "overlay"
    title = ""

    def __init__(self) -> None:
        super().__init__()
        self.closed = False

    def press(self, spot: Spot | None) -> bool:
        return False

    def hover(self, spot: Spot | None) -> None:
        return None

    def type(self, text: str) -> bool:
        return False

    def key(self, key: str) -> bool:
        return False

    def select_all(self) -> bool:
        return False

    def summary(self) -> dict[str, Any]:
        return {"kind": self.kind, "title": self.title}


class Menu(Overlay):
    """A list of items. `choose` gets the label; a press outside and `esc` close it."""

    kind = "menu"

    def __init__(
        self,
        items: tuple[str, ...],
        at: tuple[int, int],
        choose: Callable[[str], object],
        *,
        title: str = "",
        current: str = "",
    ) -> None:
        super().__init__()
        self.title = title
        self.items = items[: HEIGHT // ROW]
        self._choose = choose
        self._hot = self.items.index(current) if current in self.items else -1
        self.width = min(CELL_W * max(len(i) for i in self.items) + 2 * HALF, WIDTH)
        self.height = ROW * len(self.items) - (ROW - 24)
        # Kept on the text grid and inside the screen.
        self.x = max(0, min(at[0] // CELL_W * CELL_W, WIDTH - self.width))
        self.y = max(0, min(at[1] // HALF * HALF, (HEIGHT - self.height) // HALF * HALF))

    def paint(self, canvas: Canvas) -> list[Spot]:
        canvas.frame((0, 0, self.width, self.height), canvas.theme.ink, shade(canvas.theme.panel, 12))
        spots = []
        for i, label in enumerate(self.items):
            item = canvas.item(0, ROW * i, label, self.width, selected=i == self._hot)
            spots.append(Spot(lower(item), "item", label))
        canvas.edges((0, 0, self.width, self.height), canvas.theme.ink)
        return spots

    def press(self, spot: Spot | None) -> bool:
        self.closed = True
        if spot is not None:
            self._choose(spot.arg)
        return True

    def hover(self, spot: Spot | None) -> None:
        hot = self.items.index(spot.arg) if spot is not None else -1
        if hot != self._hot:
            self._hot, self.dirty = hot, True

    def key(self, key: str) -> bool:
        if key == "esc":
            self.closed = True
        elif key in ("up", "down"):
            step = 1 if key == "down" else -1
            before = self._hot if self._hot >= 0 else (-1 if step > 0 else 0)
            self._hot = (before + step) % len(self.items)
            self.dirty = True
        elif key == "enter" and self._hot >= 0:
            self.closed = True
            self._choose(self.items[self._hot])
        else:
            return False
        return True

    def summary(self) -> dict[str, Any]:
        return {**super().summary(), "items": list(self.items)}


class Dialog(Overlay):
    """A question or a message. Needs one of its buttons: `enter` is the first, `esc` the last.

    `done` gets the button's label and the field's text. A dialog with a field keeps open on an empty `ok`.
    """

    kind = "dialog"
    width = 176

    def __init__(
        self,
        title: str,
        message: str,
        buttons: tuple[str, ...] = ("ok",),
        done: Callable[[str, str], object] | None = None,
        *,
        field: str = "",
    ) -> None:
        super().__init__()
        self.title = title
        self.message = message
        self.buttons = buttons
        self._done = done
        self._field = field
        self.text = ""
        self._replace = False
        self.height = HALF + ROW + (ROW if field else 0) + ROW
        self.x, self.y = 56, 48

    def paint(self, canvas: Canvas) -> list[Spot]:
        t = canvas.theme
        box = (0, 0, self.width, self.height)
        canvas.frame(box, t.ink, t.panel)
        canvas.rect((1, 1, self.width - 1, HALF), t.accent)
        canvas.text(MARGIN, 0, self.title, (255, 255, 255), t.accent, self.width - HALF)
        spots = [Spot(Element("title", self.title.lower(), (0, 0, self.width, HALF), "active"), "title")]
        lines = wrap_words(self.message, _LINE)[:2]
        for i, line in enumerate(lines):
            canvas.text(MARGIN, HALF + HALF * i, line, t.ink, t.panel)
        if self.message:
            width = CELL_W * max(len(line) for line in lines)
            told = Element("text", self.message.lower(), (MARGIN, HALF, MARGIN + width, HALF + HALF * len(lines)))
            spots.append(Spot(told, "message"))
        y = HALF + ROW
        if self._field:
            x = MARGIN + CELL_W * (len(self._field) + 1)
            field = canvas.field(MARGIN, y, self._field, self.text, self.width - MARGIN - x, focus=True)
            if self._replace:
                shown = self.text[-((field.box[2] - field.box[0] - MARGIN) // CELL_W) :]
                canvas.text(field.box[0] + 4, y + 2, shown, (255, 255, 255), t.accent)
            spots.append(Spot(lower(field), "field"))
            y += ROW
        x = MARGIN
        for label in self.buttons:
            button = canvas.button(x, y, label)
            spots.append(Spot(lower(button), "button", label))
            x = (button.box[2] + 2 * HALF - 1) // HALF * HALF + MARGIN
        return spots

    def press(self, spot: Spot | None) -> bool:
        if spot is None or spot.name != "button":
            return False
        return self._finish(spot.arg)

    def _finish(self, label: str) -> bool:
        if self._field and not self.text and label == self.buttons[0]:
            return False
        self.closed = True
        if self._done is not None:
            self._done(label, self.text)
        return True

    def type(self, text: str) -> bool:
        if not self._field:
            return self.key("enter") if text == "\n" else False
        line, newline, _ = text.partition("\n")
        changed = bool(line)
        if line:
            self.text = (line if self._replace else self.text + line)[:MAX_FIELD]
            self._replace, self.dirty = False, True
        return self.key("enter") or changed if newline else changed

    def key(self, key: str) -> bool:
        if key == "enter":
            return self._finish(self.buttons[0])
        if key == "esc":
            return self._finish(self.buttons[-1])
        if key in ("backspace", "delete") and self.text:
            self.text = "" if self._replace else self.text[:-1]
            self._replace, self.dirty = False, True
            return True
        return False

    def select_all(self) -> bool:
        self._replace = self.dirty = bool(self.text)
        return self._replace

    def summary(self) -> dict[str, Any]:
        return {**super().summary(), "message": self.message, "buttons": list(self.buttons), "text": self.text}


def wrap_words(text: str, width: int) -> list[str]:
    """Lines of at most `width` characters, broken at spaces where there is one, else anywhere. Keeps every word."""
    lines = []
    for paragraph in text.split("\n"):
        while len(paragraph) > width:
            cut = paragraph.rfind(" ", 0, width + 1)
            lines.append(paragraph[: cut if cut > 0 else width])
            paragraph = paragraph[cut + 1 if cut > 0 else width :]
        lines.append(paragraph)
    return lines
