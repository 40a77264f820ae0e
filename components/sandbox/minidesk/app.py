"""What an application is: a window's content and its answers to events. And what the desktop offers to applications."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from components.contracts.desktop import Element
from components.sandbox.minidesk.draw import HALF, Canvas, shade
from components.sandbox.minidesk.font import CELL_W, Colour
from components.sandbox.minidesk.pane import Pane, Spot
from components.sandbox.minidesk.store import Home, Parts

MARGIN = 8
TOP = HALF
"""First free row under the title bar."""


class Clip(NamedTuple):
    """The clipboard: nothing, a text, or the path of a file in home."""

    kind: Literal["", "text", "file"] = ""
    text: str = ""
    path: Parts = ()


class Desk(Protocol):
    """The desktop's services. `show` puts up a modal overlay; `error` a dialog with `ok`; `toast` a passing word."""

    home: Home
    state_dir: Path
    clip: Clip

    def show(self, overlay: Any) -> None: ...

    def error(self, message: str) -> None: ...

    def toast(self, text: str) -> None: ...

    def open_path(self, path: Parts) -> bool: ...

    def disk_changed(self) -> None: ...

    def path_moved(self, old: Parts, new: Parts) -> None: ...

    def use_theme(self, name: str) -> bool: ...


class App(Pane):
    """One window. Event methods get the spot that was hit and say whether anything changed."""

    name = "app"

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self.desk = desk
        self.active = False

    # -- looks ----------------------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        return self.name

    @abstractmethod
    def content(self, canvas: Canvas) -> list[Spot]:
        """Draws everything under the title bar."""

    def paint(self, canvas: Canvas) -> list[Spot]:
        canvas.stamp(0, 0, self.width, self.height, _empty, shade(canvas.theme.title, 0 if self.active else 60))
        title, close = canvas.title_bar((0, 0, self.width, HALF), self.title, active=self.active)
        return [Spot(lower(title), "title"), Spot(lower(close), "close"), *self.content(canvas)]

    def toolbar(self, canvas: Canvas, labels: tuple[str, ...], gap: int = HALF) -> list[Spot]:
        """Buttons in one row under the title; each spot is named `do` with its label."""
        spots, x = [], MARGIN
        for label in labels:
            button = canvas.button(x, TOP, label)
            spots.append(Spot(button, "do", label))
            x = snap(button.box[2] + gap)
        return spots

    def scroll_mark(self, canvas: Canvas, top: int, bottom: int, first: int, shown: int, total: int) -> None:
        """A thin mark at the right edge that says which part of a long list is seen."""
        if total <= shown:
            return
        x0, x1 = self.width - 5, self.width - 2
        canvas.rect((x0, top, x1, bottom), shade(canvas.theme.panel, -24))
        span = bottom - top
        start = top + span * first // total
        canvas.rect((x0, start, x1, max(start + 4, top + span * (first + shown) // total)), canvas.theme.accent)

    # -- events ---------------------------------------------------------------------------------------------

    def click(self, spot: Spot | None, at: tuple[int, int]) -> bool:
        """Left button on a spot of the content, or on nothing; `at` in pane coordinates."""
        return False

    def double(self, spot: Spot) -> bool | None:
        """Two clicks as one gesture; None = it has no meaning here, so they are two clicks."""
        return None

    def context(self, spot: Spot | None, at: tuple[int, int]) -> bool:
        """Right button; `at` is the point on the screen, for a menu."""
        return False

    def middle(self, spot: Spot | None) -> bool:
        """Middle button: pastes, as under X11."""
        return False

    def drag(self, start: Spot, end: Spot | None, at: tuple[int, int]) -> bool:
        """Left button held from a spot to another; `at` is the end in pane coordinates."""
        return False

    def scroll(self, rows: int) -> bool:
        """`rows` > 0 looks further up."""
        return False

    def type(self, text: str) -> bool:
        return False

    def key(self, key: str) -> bool:
        """A key that types nothing, e.g. `enter`."""
        return False

    def ctrl(self, key: str) -> bool:
        """A letter pressed with ctrl."""
        return False

    def blur(self) -> None:
        """Another window or spot took over."""

    def refresh(self) -> None:
        """Files may have changed behind the window's back."""

    def moved(self, old: Parts, new: Parts) -> None:
        """A path was renamed by the file manager."""

    def open(self, path: Parts) -> None:
        """Shows a document. Raises `Refused` and keeps the present one when it cannot."""

    def summary(self) -> dict[str, Any]:
        """JSON-able state for tests and teachers."""
        return {}


def _empty(canvas: Canvas, edge: Colour) -> None:
    """An empty window."""
    height, width = canvas.pixels.shape[:2]
    canvas.frame((0, 0, width, height), edge, canvas.theme.panel)


def snap(x: int) -> int:
    """The next place on the text grid."""
    return -(-x // CELL_W) * CELL_W


def lower(element: Element) -> Element:
    """Labels are compared in lower case."""
    label = element.label.lower()
    return element if label == element.label else Element(element.kind, label, element.box, element.state)


def moved_path(path: Parts, old: Parts, new: Parts) -> Parts:
    """Where `path` is after `old` became `new`."""
    return new + path[len(old) :] if old and path[: len(old)] == old else path


def drop_down(canvas: Canvas, x: int, y: int, label: str, value: str) -> Element:
    """A closed drop-down: a button with the current option and a small arrow behind it, which is a part of it."""
    shown = value or "-"
    x0, y0, x1, y1 = canvas.button(x, y, shown, kind="menu").box
    for line in range(4):
        canvas.rect((x1 + 2 + line, y + 8 + line, x1 + 10 - line, y + 9 + line), canvas.theme.ink)
    return Element("menu", label.lower(), (x0, y0, x1 + 12, y1), value)
