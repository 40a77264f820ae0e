"""A contact sheet of lively scenes for the README: `python -m components.sandbox.minidesk.gallery OUT.png`.

Every scene is a real episode: files are prepared, then actions are carried out through the `Desktop` interface.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.contracts.calls import ComputerUse
from components.contracts.desktop import Screen
from components.contracts.task import Task, Verdict
from components.sandbox.minidesk.desktop import MiniDesk
from components.sandbox.minidesk.looks import looks
from components.sandbox.minidesk.tables import to_xlsx

ZOOM = 2
COLUMNS = 3
GAP = 8
_PAPER = (250, 250, 252)

_FILES = {
    "plan.txt": "book the train\ncall anna about the trip to the sea\npay the rent",
    "todo.md": "water the plants\n",
    "sales.csv": "item,qty,price\npear,12,0.4\nfig,30,0.25\nplum,7,0.6\nlime,18,0.3\n",
}
_FORM = {
    "name": "order",
    "fields": [
        {"label": "name", "kind": "text", "required": True},
        {"label": "city", "kind": "text"},
        {"label": "size", "kind": "choice", "options": ["small", "medium", "large"], "value": "small"},
        {"label": "gift wrap", "kind": "check", "value": True},
    ],
    "records": [],
}
_PREFS = {
    "values": {"wifi": True, "sound": True, "alarm": False, "sync": True, "volume": 65, "theme": "ocean"},
    "options": {"theme": ["ocean", "moss", "plum", "sand"]},
}


class Scene:
    """One episode, driven by the names of what is on the screen."""

    def __init__(self, desk: MiniDesk, seed: int) -> None:
        self.desk = desk
        desk.reset(_task(seed))

    def at(self, kind: str, label: str) -> tuple[int, int]:
        found = [e for e in self.desk.observe().elements if (e.kind, e.label) == (kind, label)]
        return found[-1].center

    def do(self, action: Any, kind: str = "", label: str = "", **arguments: Any) -> None:
        where = {"coordinate": self.at(kind, label)} if kind else {}
        self.desk.act(ComputerUse(action=action, **where, **arguments))

    def open(self, app: str, to: tuple[int, int] | None = None) -> None:
        """Opens an application and drags its window so that its left top corner lies at `to`."""
        self.do("double_click", "icon", app)
        window = self.desk.state()["windows"][-1]
        if to is not None:
            grip = (window["x"] + 100, window["y"] + 8)
            self.desk.act(ComputerUse(
                action="left_click_drag", start=grip,
                coordinate=(grip[0] + to[0] - window["x"], grip[1] + to[1] - window["y"]),
            ))  # fmt: skip


def _files_and_menu(s: Scene) -> None:
    s.open("prefs", (80, 48))
    s.open("files", (56, 0))
    s.do("right_click", "row", "plan.txt")
    s.do("mouse_move", "item", "rename")


def _sheet(s: Scene) -> None:
    s.open("files", (56, 16))
    s.do("double_click", "row", "sales.csv")
    s.do("left_click", "cell", "c5")
    s.do("double_click", "cell", "b4")


def _notes_over_files(s: Scene) -> None:
    s.open("files", (48, 0))
    s.do("double_click", "row", "plan.txt")
    s.open("notes", (80, 32))
    s.do("type", text="\nbuy bread")


def _form_menu(s: Scene) -> None:
    s.open("forms", (64, 16))
    s.do("left_click", "field", "name")
    s.do("type", text="anna smith\tlisbon")
    s.do("left_click", "menu", "size")
    s.do("mouse_move", "item", "medium")


def _dialog(s: Scene) -> None:
    s.open("files", (64, 0))
    s.do("left_click", "row", "todo.md")
    s.do("key", keys=("f2",))
    s.do("type", text="list.md")
    s.do("mouse_move", "button", "ok")


def _prefs(s: Scene) -> None:
    s.open("notes", (48, 0))
    s.open("sheet", (64, 16))
    s.open("prefs", (80, 32))
    s.do("left_click", "checkbox", "alarm")


SCENES: tuple[tuple[str, Callable[[Scene], None]], ...] = (
    ("ocean", _files_and_menu),
    ("moss", _sheet),
    ("night", _notes_over_files),
    ("plum", _form_menu),
    ("slate", _dialog),
    ("sand", _prefs),
)


def _task(seed: int) -> Task:
    return Task.build(
        skill="gallery", workflow="gallery", apps=(), channels=(), instruction="", wording="", spec={}, setup=(),
        verifier=(), split="dev", seed=seed,
    )  # fmt: skip


def _prepare(_task: Task, root: Path) -> None:
    home = root / "home"
    (home / "photos").mkdir()
    for name, text in _FILES.items():
        (home / name).write_text(text)
    (home / "budget.xlsx").write_bytes(to_xlsx([["rent", "food"], ["700", "310"]]))
    for state, value in (("forms", _FORM), ("prefs", _PREFS)):
        (root / "state" / f"{state}.json").write_text(json.dumps(value))


def _seed(theme: str) -> int:
    """The first seed whose looks have the theme and no open app."""
    return next(s for s in range(10_000) if looks(s).theme.name == theme and not looks(s).opened)


def scenes(root: Path) -> list[Screen]:
    """The screens of all scenes."""
    desk = MiniDesk(root, prepare=_prepare, grade=lambda task, path: Verdict(success=False))
    screens = []
    for theme, play in SCENES:
        play(Scene(desk, _seed(theme)))
        screens.append(desk.observe().screen)
    desk.close()
    return screens


def contact_sheet(screens: list[Screen]) -> NDArray[np.uint8]:
    """All screens in rows of `COLUMNS`, enlarged by `ZOOM` without smoothing."""
    height, width = (ZOOM * n for n in screens[0].shape[:2])
    rows = -(-len(screens) // COLUMNS)
    sheet = np.empty((rows * (height + GAP) + GAP, COLUMNS * (width + GAP) + GAP, 3), dtype=np.uint8)
    sheet[:] = _PAPER
    for i, screen in enumerate(screens):
        y, x = GAP + i // COLUMNS * (height + GAP), GAP + i % COLUMNS * (width + GAP)
        sheet[y : y + height, x : x + width] = screen.repeat(ZOOM, axis=0).repeat(ZOOM, axis=1)
    return sheet


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m components.sandbox.minidesk.gallery OUT.png", file=sys.stderr)
        return 2
    from PIL import Image

    with tempfile.TemporaryDirectory() as folder:
        sheet = contact_sheet(scenes(Path(folder)))
    Image.fromarray(sheet).save(arguments[0], optimize=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
