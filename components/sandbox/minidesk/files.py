"""Files: the list of a folder below home, with a context menu, dialogs, a clipboard and drag to move."""

from __future__ import annotations

from functools import partial
from typing import Any

from components.sandbox.minidesk.app import MARGIN, TOP, App, Clip, Desk, lower
from components.sandbox.minidesk.draw import ROW, Canvas
from components.sandbox.minidesk.font import CELL_W
from components.sandbox.minidesk.overlays import Dialog, Menu
from components.sandbox.minidesk.pane import Spot
from components.sandbox.minidesk.store import Entry, Parts, Refused

SHOWN = 5
_WIDTH = 192
_CHARS = (_WIDTH - 16) // CELL_W
_FIRST = TOP + ROW
_ROW_MENU = ("open", "rename", "copy", "delete")
_AREA_MENU = ("new", "paste")


class Files(App):
    name = "files"

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.folder: Parts = ()
        self.selected = ""
        self._first = 0
        self._list: list[Entry] | None = None

    @property
    def title(self) -> str:
        return self.folder[-1] if self.folder else "files"

    @property
    def entries(self) -> list[Entry]:
        """The folder's listing, read once until something changes the disk."""
        if self._list is None:
            try:
                self._list = self.desk.home.entries(self.folder)
            except Refused:
                self._list = []
            if self.selected not in (e.name for e in self._list):
                self.selected = ""
            self._first = max(0, min(self._first, len(self._list) - SHOWN))
        return self._list

    def content(self, canvas: Canvas) -> list[Spot]:
        entries = self.entries
        spots = self.toolbar(canvas, ("new", "up"))
        for i, entry in enumerate(entries[self._first : self._first + SHOWN]):
            shown = entry.name if len(entry.name) <= _CHARS else entry.name[: _CHARS - 1] + "~"
            chosen = entry.name == self.selected
            row = canvas.row(MARGIN, _FIRST + ROW * i, shown, _WIDTH, selected=chosen, folder=entry.folder)
            spots.append(Spot(lower(row), "row", entry))
        self.scroll_mark(canvas, _FIRST, self.height - 4, self._first, SHOWN, len(entries))
        return spots

    # -- events -----------------------------------------------------------------------------------------------

    def click(self, spot: Spot | None, at: tuple[int, int]) -> bool:
        if spot is not None and spot.name == "do":
            return self._new() if spot.arg == "new" else self._go(self.folder[:-1])
        return self._select(spot.arg.name if spot is not None else "")

    def double(self, spot: Spot) -> bool | None:
        if spot.name != "row":
            return None
        self._select(spot.arg.name)
        return self._open(spot.arg)

    def context(self, spot: Spot | None, at: tuple[int, int]) -> bool:
        if spot is not None and spot.name == "row":
            self._select(spot.arg.name)
            self.desk.show(Menu(_ROW_MENU, at, partial(self._act, spot.arg)))
            return True
        if spot is None:
            self._select("")
            self.desk.show(Menu(_AREA_MENU, at, lambda label: self._new() if label == "new" else self._paste()))
            return True
        return False

    def drag(self, start: Spot, end: Spot | None, at: tuple[int, int]) -> bool:
        if start.name != "row" or end is None or end.name != "row" or not end.arg.folder or end.arg == start.arg:
            return False
        source = (*self.folder, start.arg.name)
        return self._move(source, (*self.folder, end.arg.name, start.arg.name))

    def scroll(self, rows: int) -> bool:
        first = max(0, min(self._first - rows, len(self.entries) - SHOWN))
        changed = first != self._first
        self._first = first
        return changed

    def key(self, key: str) -> bool:
        entry = self._chosen()
        if key in ("up", "down") and self.entries:
            return self._step(1 if key == "down" else -1)
        if key == "backspace":
            return self._go(self.folder[:-1])
        if entry is None:
            return False
        if key == "delete":
            self._act(entry, "delete")
        elif key == "enter":
            return self._open(entry)
        elif key == "f2":
            self._act(entry, "rename")
        else:
            return False
        return True

    def ctrl(self, key: str) -> bool:
        entry = self._chosen()
        if key == "c" and entry is not None:
            self._act(entry, "copy")
            return True
        return self._paste() if key == "v" else False

    def refresh(self) -> None:
        """The list is read again; a folder that vanished gives way to its parent."""
        self._list = None
        while self.folder and not self.desk.home.is_folder(self.folder):
            self.folder = self.folder[:-1]

    def moved(self, old: Parts, new: Parts) -> None:
        if old == (*self.folder, self.selected) and new[:-1] == self.folder:
            self.selected = new[-1]

    def summary(self) -> dict[str, Any]:
        return {
            "folder": "/".join(self.folder),
            "selected": self.selected,
            "first": self._first,
            "rows": [e.name for e in self.entries],
        }

    # -- what the gestures do ---------------------------------------------------------------------------------

    def _chosen(self) -> Entry | None:
        return next((e for e in self.entries if e.name == self.selected), None) if self.selected else None

    def _select(self, name: str) -> bool:
        changed = name != self.selected
        self.selected = name
        return changed

    def _step(self, step: int) -> bool:
        names = [e.name for e in self.entries]
        index = names.index(self.selected) + step if self.selected in names else 0
        index = max(0, min(index, len(names) - 1))
        before, self._first = self._first, max(min(self._first, index), index - SHOWN + 1)
        return self._select(names[index]) or before != self._first

    def _go(self, folder: Parts) -> bool:
        if folder == self.folder:
            return False
        self.folder, self.selected, self._first, self._list = folder, "", 0, None
        return True

    def _open(self, entry: Entry) -> bool:
        path = (*self.folder, entry.name)
        return self._go(path) if entry.folder else self.desk.open_path(path)

    def _act(self, entry: Entry, label: str) -> None:
        path = (*self.folder, entry.name)
        if label == "open":
            self._open(entry)
        elif label == "rename":
            self.desk.show(Dialog("rename", entry.name, ("ok", "cancel"), partial(self._rename, path), field="name"))
        elif label == "copy":
            self.desk.clip = Clip("file", path=path)
            self.desk.toast("copied")
        else:
            self.desk.show(Dialog("delete", f"delete {entry.name}?", ("yes", "no"), partial(self._delete, path)))

    def _new(self) -> bool:
        self.desk.show(Dialog("new", "new folder", ("ok", "cancel"), self._make, field="name"))
        return True

    def _make(self, button: str, name: str) -> None:
        if button == "ok":
            self._try(lambda: self.desk.home.make_folder((*self.folder, name)))

    def _rename(self, path: Parts, button: str, name: str) -> None:
        if button == "ok":
            self._move(path, (*path[:-1], name))

    def _delete(self, path: Parts, button: str, _text: str) -> None:
        if button == "yes":
            self._try(lambda: self.desk.home.remove(path))

    def _move(self, old: Parts, new: Parts) -> bool:
        def move() -> None:
            self.desk.home.move(old, new)
            self.desk.path_moved(old, new)

        return self._try(move)

    def _paste(self) -> bool:
        clip = self.desk.clip
        if clip.kind != "file":
            return False
        name = self.desk.home.free_name(self.folder, clip.path[-1])
        return self._try(lambda: self.desk.home.copy(clip.path, (*self.folder, name)))

    def _try(self, work: Any) -> bool:
        """Runs a change of the disk; a refusal becomes an error dialog. Either way something changed."""
        try:
            work()
        except Refused as refusal:
            self.desk.error(str(refusal))
        self.desk.disk_changed()
        return True
