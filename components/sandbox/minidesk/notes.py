"""Notes: one text file as lined paper, typed at its end."""

from __future__ import annotations

import contextlib
from typing import Any

from components.contracts.desktop import Element
from components.sandbox.minidesk.app import MARGIN, TOP, App, Clip, Desk, moved_path
from components.sandbox.minidesk.draw import ROW, Canvas
from components.sandbox.minidesk.naming import ask_name
from components.sandbox.minidesk.overlays import Menu, wrap_words
from components.sandbox.minidesk.pane import Spot
from components.sandbox.minidesk.store import MAX_BYTES, Parts, Refused, Stamp, decode, encode

LINES = 5
CHARS = 24
_AREA = (4, TOP + ROW, 204, TOP + ROW + ROW * LINES)
_TAIL = 8192
"""Characters at the end of a text that can be scrolled to: wrapping must stay cheap however much is typed."""


class Notes(App):
    name = "notes"

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.path: Parts = ()
        self.text = ""
        self._saved = ""
        self._stamp: Stamp = None
        self.focus = True
        self._all = False
        self._back = 0

    @property
    def modified(self) -> bool:
        return self.text != self._saved

    @property
    def title(self) -> str:
        return (self.path[-1] if self.path else "notes") + ("*" if self.modified else "")

    def lines(self) -> list[str]:
        tail = self.text if len(self.text) <= _TAIL else self.text[-_TAIL:].partition("\n")[2] or self.text[-_TAIL:]
        return wrap_words(tail.replace("\r", "").replace("\t", " "), CHARS)

    def content(self, canvas: Canvas) -> list[Spot]:
        spots = self.toolbar(canvas, ("save", "new", "copy", "clear"), gap=MARGIN)
        lines = self.lines()
        self._back = max(0, min(self._back, len(lines) - LINES))
        first = max(0, len(lines) - LINES - self._back)
        shown = lines[first : first + LINES]
        canvas.page(_AREA, shown, CHARS, focus=self.focus, selected=self._all, caret=self._back == 0)
        spots.append(Spot(Element("field", "text", _AREA, self.text), "text"))
        self.scroll_mark(canvas, _AREA[1], _AREA[3], first, LINES, len(lines))
        return spots

    # -- events -----------------------------------------------------------------------------------------------

    def click(self, spot: Spot | None, at: tuple[int, int]) -> bool:
        if spot is not None and spot.name == "do":
            return self._act(spot.arg)
        focus = spot is not None
        changed = focus != self.focus or self._all
        self.focus, self._all = focus, False
        return changed

    def double(self, spot: Spot) -> bool | None:
        if spot.name != "text":
            return None
        self.focus, self._all = True, bool(self.text)
        return True

    def context(self, spot: Spot | None, at: tuple[int, int]) -> bool:
        if spot is None or spot.name != "text":
            return False
        self.desk.show(Menu(("copy", "paste", "clear"), at, self._act))
        return True

    def middle(self, spot: Spot | None) -> bool:
        if spot is None or spot.name != "text":
            return False
        changed, self.focus = not self.focus, True
        return self._act("paste") or changed

    def scroll(self, rows: int) -> bool:
        back = max(0, min(self._back + rows, len(self.lines()) - LINES))
        changed = back != self._back
        self._back = back
        return changed

    def type(self, text: str) -> bool:
        if not self.focus or not text:
            return False
        base = "" if self._all else self.text
        if len(base) + len(text) > MAX_BYTES // 4:
            self.desk.error("text is too long")
            return True
        self.text, self._all, self._back = base + text, False, 0
        return True

    def key(self, key: str) -> bool:
        if key in ("up", "down", "pageup", "pagedown"):
            return self.scroll((1 if "up" in key else -1) * (LINES if "page" in key else 1))
        if key not in ("backspace", "delete") or not self.focus or not self.text or (key == "delete" and not self._all):
            return False
        self.text = "" if self._all else self.text[:-1]
        self._all, self._back = False, 0
        return True

    def ctrl(self, key: str) -> bool:
        if key == "a":
            self._all = bool(self.text) and self.focus
            return self._all
        act = {"s": "save", "c": "copy", "v": "paste", "n": "new"}.get(key)
        return self._act(act) if act else False

    def blur(self) -> None:
        self._all = False

    def refresh(self) -> None:
        """Reads the file again unless there is unsaved work; a vanished file leaves the text as it is."""
        stamp = self.desk.home.stamp(self.path) if self.path and not self.modified else None
        if stamp is None or stamp == self._stamp:
            return
        with contextlib.suppress(Refused):
            self.text = self._saved = load(self.desk.home.read(self.path))
            self._stamp = stamp

    def moved(self, old: Parts, new: Parts) -> None:
        self.path = moved_path(self.path, old, new)

    def open(self, path: Parts) -> None:
        text = load(self.desk.home.read(path))
        self.path, self.text, self._saved, self._stamp = path, text, text, self.desk.home.stamp(path)
        self.focus, self._all, self._back = True, False, 0

    def summary(self) -> dict[str, Any]:
        return {"path": "/".join(self.path), "text": self.text, "modified": self.modified, "focus": self.focus}

    # -- what the gestures do ---------------------------------------------------------------------------------

    def _act(self, label: str) -> bool:
        if label == "save":
            return self._save()
        if label == "copy":
            self.desk.clip = Clip("text", self.text)
            self.desk.toast("copied")
            return True
        if label == "paste":
            return self.desk.clip.kind == "text" and self.type(self.desk.clip.text)
        before = (self.path, self.text, self._all, self._back, self.focus)
        if label == "new":
            self.path, self._saved = (), ""
        self.text, self._all, self._back, self.focus = "", False, 0, True
        return before != (self.path, self.text, self._all, self._back, self.focus)

    def _save(self) -> bool:
        if self.path:
            self._write(self.path)
        else:
            ask_name(self.desk, ".txt", self._write)
        return True

    def _write(self, path: Parts) -> None:
        try:
            self.desk.home.write(path, dump(self.text))
        except Refused as refusal:
            self.desk.error(str(refusal))
            return
        self.path, self._saved, self._stamp = path, self.text, self.desk.home.stamp(path)
        self.desk.toast("saved")
        self.desk.disk_changed()


def load(data: bytes) -> str:
    """Text to edit: without the last newline of the file."""
    return decode(data).removesuffix("\n")


def dump(text: str) -> bytes:
    """Bytes to write: a text that is not empty ends with one newline."""
    return encode(text.rstrip("\n") + "\n") if text else b""
