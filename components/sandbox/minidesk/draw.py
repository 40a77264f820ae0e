"""Canvas, themes and widgets of minidesk.

Everything snaps to a grid that a small vision encoder can read: text x on 8 px, rows on 16 px, and anything
that can be clicked takes a row pitch of 32 px (one visual token of 2x2 patches of 16 px, see tiny-vlm.md 2).
Each widget function draws and returns the `Element` it drew; the clickable box is as wide as what is visible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from components.contracts.desktop import Box, Element
from components.sandbox.minidesk.font import CELL_H, CELL_W, Colour, text_strip

WIDTH, HEIGHT = 288, 224
ROW = 32
HALF = 16
TRACK, HANDLE = 192, 12
"""Widths of a full slider and of its handle."""
BOX_H = 20
"""Height of a button, field or row; the rest of the row pitch is air."""

PAD = 4
"""Between a frame and its text."""

APPS = ("files", "sheet", "notes", "prefs", "forms")


@dataclass(frozen=True, eq=False)
class Theme:
    """Colours of everything. Compared by identity: it is part of the key of every cached drawing."""

    name: str
    wall: Colour
    wall2: Colour
    panel: Colour
    title: Colour
    title_fg: Colour
    face: Colour
    ink: Colour
    accent: Colour


THEMES: tuple[Theme, ...] = (
    Theme("ocean", (38, 96, 140), (52, 118, 160), (236, 240, 244), (28, 70, 110),
          (255, 255, 255), (210, 220, 230), (20, 24, 32), (30, 110, 220)),
    Theme("moss", (72, 110, 70), (88, 128, 84), (240, 242, 232), (52, 84, 50),
          (255, 255, 255), (216, 224, 204), (24, 30, 22), (200, 110, 20)),
    Theme("plum", (96, 62, 110), (112, 78, 128), (242, 236, 244), (70, 42, 84),
          (255, 255, 255), (222, 210, 228), (32, 20, 36), (190, 40, 120)),
    Theme("sand", (190, 160, 112), (204, 176, 130), (250, 246, 236), (140, 104, 56),
          (255, 255, 255), (232, 222, 200), (40, 30, 18), (20, 120, 110)),
    Theme("slate", (70, 78, 90), (84, 92, 106), (226, 230, 236), (48, 54, 66),
          (240, 244, 250), (200, 206, 216), (18, 20, 26), (230, 80, 60)),
    Theme("night", (24, 28, 44), (34, 40, 60), (52, 58, 76), (16, 18, 30),
          (230, 236, 250), (74, 82, 104), (236, 240, 250), (90, 160, 255)),
)  # fmt: skip

_ON: Colour = (40, 170, 70)
_WHITE: Colour = (255, 255, 255)
_TEXT: Colour = (20, 20, 24)


@cache
def shade(colour: Colour, delta: int) -> Colour:
    r, g, b = (max(0, min(255, v + delta)) for v in colour)
    return r, g, b


@lru_cache(maxsize=1024)
def _paint(colour: Colour, width: int) -> NDArray[np.uint8]:
    """(width, 3) pixels of one colour: copying a run is one memcpy a row, repeating one pixel is a slow loop."""
    run = np.empty((width, 3), dtype=np.uint8)
    run[:] = colour
    run.setflags(write=False)
    return run


@lru_cache(maxsize=64)
def _wallpaper(theme: Theme, width: int, height: int) -> NDArray[np.uint8]:
    """(height, width, 3) read-only desktop background."""
    pixels = np.empty((height, width, 3), dtype=np.uint8)
    pixels[:] = theme.wall
    for y in range(0, height, HALF):
        pixels[y : y + 1] = theme.wall2
    pixels.setflags(write=False)
    return pixels


class Canvas:
    """An RGB picture that widgets draw on. Drawing outside is clipped, never an error."""

    def __init__(self, theme: Theme, width: int = WIDTH, height: int = HEIGHT) -> None:
        self.theme = theme
        self.pixels: NDArray[np.uint8] = _wallpaper(theme, width, height).copy()

    @classmethod
    def over(cls, theme: Theme, pixels: NDArray[np.uint8]) -> Canvas:
        """A canvas that starts as a copy of a picture."""
        canvas = cls.__new__(cls)
        canvas.theme, canvas.pixels = theme, pixels.copy()
        return canvas

    def rect(self, box: Box, colour: Colour) -> None:
        x0, y0, x1, y1 = box
        target = self.pixels[max(0, y0) : max(0, y1), max(0, x0) : max(0, x1)]
        target[:] = _paint(colour, target.shape[1])

    def frame(self, box: Box, colour: Colour, fill: Colour | None = None) -> None:
        """A one-pixel border, filled when `fill` is given."""
        x0, y0, x1, y1 = box
        self.rect(box, colour)
        if fill is not None:
            self.rect((x0 + 1, y0 + 1, x1 - 1, y1 - 1), fill)

    def edges(self, box: Box, colour: Colour) -> None:
        """A one-pixel border around what is already drawn."""
        x0, y0, x1, y1 = box
        self.rect((x0, y0, x1, y0 + 1), colour)
        self.rect((x0, y1 - 1, x1, y1), colour)
        self.rect((x0, y0, x0 + 1, y1), colour)
        self.rect((x1 - 1, y0, x1, y1), colour)

    def text(self, x: int, y: int, text: str, fg: Colour, bg: Colour, width: int | None = None) -> int:
        """One line in a 16 px high cell; cut to `width` px. Returns the drawn width in px."""
        if width is not None:
            text = text[: max(0, width // CELL_W)]
        if not text or y < 0 or x < 0:
            return 0
        target = self.pixels[y : y + CELL_H, x : x + CELL_W * len(text)]
        strip = text_strip(text, fg, bg)
        target[:] = strip[: target.shape[0], : target.shape[1]]
        return CELL_W * len(text)

    def stamp(self, x: int, y: int, width: int, height: int, draw: Callable[..., None], *args: object) -> None:
        """Puts an opaque drawing of `width` x `height` at (x, y). It is made once for its theme and arguments."""
        sprite = _sprite(self.theme, width, height, draw, args)
        left, top = max(0, -x), max(0, -y)
        target = self.pixels[y + top : y + height, x + left : x + width]
        target[:] = sprite[top : top + target.shape[0], left : left + target.shape[1]]

    # -- widgets ------------------------------------------------------------------------------------------

    def button(self, x: int, y: int, label: str, *, kind: str = "button", hot: bool = False) -> Element:
        """Its text begins at `x`, the frame half a letter before: text stays on the grid, where it can be read."""
        width, left = CELL_W * (len(label) + 1), x - PAD
        self.stamp(left, y, width, BOX_H, _button, width, label, hot)
        return Element(kind, label, (max(0, left), y, left + width, y + BOX_H))

    def checkbox(self, x: int, y: int, label: str, on: bool) -> Element:
        """The whole tick area is a solid 16x16 square when on and an empty one when off: readable at one token."""
        t = self.theme
        self.frame((x, y + 1, x + 16, y + 17), t.ink, _ON if on else t.panel)
        if on:
            self.rect((x + 3, y + 4, x + 13, y + 6), _WHITE)
            self.rect((x + 3, y + 12, x + 13, y + 14), _WHITE)
        self.text(x + 24, y + 2, label, t.ink, t.panel)
        return Element("checkbox", label, (x, y, x + 24 + CELL_W * len(label), y + BOX_H), "on" if on else "off")

    def field(
        self, x: int, y: int, label: str, value: str, width: int, focus: bool = False, bare: bool = False
    ) -> Element:
        """A label and a text box behind it; the box is what is clicked. The value begins where the box would, on the
        grid, and the frame half a letter before it. The end of a long value is shown."""
        if not bare:
            self.text(x, y + 2, label, self.theme.ink, self.theme.panel)
            x += CELL_W * (len(label) + 1)
        room, left = (width - 8) // CELL_W, x - PAD
        self.stamp(left, y, width, BOX_H, _field, width, value[-room:] if room > 0 else "", focus)
        return Element("field", label, (max(0, left), y, left + width, y + BOX_H), value)

    def row(self, x: int, y: int, label: str, width: int, *, selected: bool = False, folder: bool = False) -> Element:
        """A line of a list with a small pictogram: a yellow folder or a white sheet."""
        self.stamp(x, y, width, BOX_H, _row, width, label, selected, folder)
        shown = min(width, 16 + CELL_W * len(label))
        return Element("row", label, (x, y, x + shown, y + BOX_H), "selected" if selected else "")

    def item(self, x: int, y: int, label: str, width: int, *, kind: str = "item", selected: bool = False) -> Element:
        """A line of an open menu or drop-down."""
        self.stamp(x, y, width, BOX_H, _item, width, label, selected)
        return Element(kind, label, (x, y, x + width, y + BOX_H), "selected" if selected else "")

    def cell(self, x: int, y: int, name: str, value: str, width: int = 48, *, selected: bool = False) -> Element:
        self.stamp(x, y, width, ROW, _cell, width, value[: max(0, (width - CELL_W) // CELL_W)], selected)
        return Element("cell", name, (x, y, x + width, y + ROW), value)

    def head(self, x: int, y: int, text: str, width: int, height: int) -> Element:
        """A column head (48x16, a letter) or a row head (16x32, a number) of a sheet."""
        self.stamp(x, y, width, height, _head, width, height, text)
        return Element("head", text, (x, y, x + width, y + height))

    def icon(self, x: int, y: int, label: str, *, active: bool = False) -> Element:
        """A 48x32 desktop icon: pictogram above its name."""
        t = self.theme
        back = t.accent if active else t.wall
        if active:
            self.rect((x, y, x + 48, y + ROW), back)
        _PICTOGRAMS.get(label, _blank)(self, x + 20, y + 1)
        self.text(x + 8, y + 16, label, _WHITE, back, 40)
        return Element("icon", label, (x, y, x + 48, y + ROW), "active" if active else "")

    def page(
        self, box: Box, lines: list[str], chars: int, *, focus: bool, selected: bool = False, caret: bool = True
    ) -> None:
        """Lined paper with a line of text every 32 px; the caret stands behind the last line."""
        x0, y0, x1, y1 = box
        self.frame(box, self.theme.accent if focus else shade(self.theme.face, -90), _WHITE)
        for y in range(y0 + 24, y1 - 2, ROW):
            self.rect((x0 + 4, y, x1 - 4, y + 1), (214, 224, 238))
        fg, bg = (_WHITE, self.theme.accent) if selected else (_TEXT, _WHITE)
        drawn = 0
        for i, line in enumerate(lines):
            drawn = self.text(x0 + 4, y0 + ROW * i + 2, line[:chars], fg, bg)
        if focus and caret:
            y = y0 + ROW * max(0, len(lines) - 1)
            self.rect((min(x0 + 4 + drawn, x1 - 3), y + 4, min(x0 + 6 + drawn, x1 - 1), y + 16), _TEXT)

    def slider(self, x: int, y: int, label: str, value: int, width: int) -> tuple[Element, Element]:
        """A track with a square handle; `value` in percent. Returns (track, handle)."""
        t = self.theme
        self.rect((x, y + 7, x + width, y + 11), shade(t.face, -60))
        hx = x + (width - HANDLE) * value // 100
        self.rect((x, y + 7, hx, y + 11), t.accent)
        self.frame((hx, y, hx + HANDLE, y + BOX_H), t.ink, t.accent)
        state = str(value)
        return (
            Element("slider", label, (x, y, x + width, y + BOX_H), state),
            Element("handle", label, (hx, y, hx + HANDLE, y + BOX_H), state),
        )

    def title_bar(self, box: Box, label: str, *, active: bool = True) -> tuple[Element, Element]:
        """Window title and close box. Returns (title, close)."""
        x0, y0, x1, _ = box
        self.stamp(x0, y0, x1 - x0, HALF, _title, x1 - x0, label, active)
        return (
            Element("title", label, (x0, y0, x1 - 16, y0 + HALF), "active" if active else ""),
            Element("close", label, (x1 - 16, y0, x1, y0 + HALF)),
        )

    def pointer(self, at: tuple[int, int]) -> None:
        """A small arrow whose tip is the hot spot."""
        x, y = max(0, at[0]), max(0, at[1])
        shape, ink = _arrow()
        target = self.pixels[y : y + shape.shape[0], x : x + shape.shape[1]]
        height, width = target.shape[:2]
        np.copyto(target, ink[:height, :width], where=shape[:height, :width])


@lru_cache(maxsize=2048)
def _sprite(
    theme: Theme, width: int, height: int, draw: Callable[..., None], args: tuple[object, ...]
) -> NDArray[np.uint8]:
    """(height, width, 3) read-only picture of `draw(canvas, *args)`."""
    canvas = Canvas(theme, width, height)
    draw(canvas, *args)
    canvas.pixels.setflags(write=False)
    return canvas.pixels


def _button(c: Canvas, width: int, label: str, hot: bool) -> None:
    face = c.theme.accent if hot else c.theme.face
    c.frame((0, 0, width, BOX_H), shade(c.theme.face, -90), face)
    c.rect((1, 1, width - 1, 2), shade(face, 36))
    c.text(4, 2, label, _WHITE if hot else c.theme.ink, face)


def _field(c: Canvas, width: int, shown: str, focus: bool) -> None:
    c.frame((0, 0, width, BOX_H), c.theme.accent if focus else shade(c.theme.face, -90), _WHITE)
    if focus:
        c.frame((1, 1, width - 1, BOX_H - 1), c.theme.accent, _WHITE)
    drawn = c.text(4, 2, shown, _TEXT, _WHITE)
    if focus:
        c.rect((4 + drawn, 4, 6 + drawn, 16), _TEXT)


def _row(c: Canvas, width: int, label: str, selected: bool, folder: bool) -> None:
    back = c.theme.accent if selected else c.theme.panel
    c.rect((0, 0, width, BOX_H), back)
    if folder:
        c.rect((1, 4, 7, 7), (222, 170, 40))
        c.rect((1, 6, 15, 16), (246, 196, 66))
    else:
        c.frame((2, 2, 13, 17), (90, 96, 110), _WHITE)
        for line in (6, 9, 12):
            c.rect((4, line, 11, line + 1), (130, 150, 190))
    c.text(16, 2, label, _WHITE if selected else c.theme.ink, back, width - 16)


def _item(c: Canvas, width: int, label: str, selected: bool) -> None:
    back = c.theme.accent if selected else shade(c.theme.panel, 12)
    c.rect((0, 0, width, BOX_H), back)
    c.text(8, 2, label, _WHITE if selected else c.theme.ink, back, width - 8)


def _cell(c: Canvas, width: int, shown: str, selected: bool) -> None:
    c.frame((0, 0, width, ROW), (190, 196, 204), _WHITE)
    if selected:
        c.frame((0, 0, width, ROW), c.theme.accent)
        c.rect((2, 2, width - 2, ROW - 2), _WHITE)
    c.text(8, 2, shown, _TEXT, _WHITE)


def _head(c: Canvas, width: int, height: int, text: str) -> None:
    c.frame((0, 0, width, height), shade(c.theme.face, -40), c.theme.face)
    dx = (width - CELL_W * len(text)) // 16 * 8 if width > HALF else 8
    c.text(dx, 0 if height == HALF else 2, text, c.theme.ink, c.theme.face)


def _title(c: Canvas, width: int, label: str, active: bool) -> None:
    back = c.theme.title if active else shade(c.theme.title, 60)
    c.rect((0, 0, width, HALF), back)
    c.text(8, 0, label, c.theme.title_fg, back, width - 32)
    c.frame((width - 15, 2, width - 3, 14), c.theme.title_fg, (208, 60, 56))


@cache
def _arrow() -> tuple[NDArray[np.bool_], NDArray[np.uint8]]:
    """The pointer: (9, 5, 1) mask and (9, 5, 3) pixels, black with a white heart."""
    shape = np.zeros((9, 5, 1), dtype=np.bool_)
    ink = np.zeros((9, 5, 3), dtype=np.uint8)
    for dy in range(9):
        shape[dy, : max(1, min(dy, 9 - dy) + 1)] = True
        if 1 < dy < 8:
            ink[dy, 1 : max(2, min(dy, 9 - dy))] = _WHITE
    return shape, ink


def _blank(c: Canvas, x: int, y: int) -> None:
    c.frame((x, y, x + 16, y + 14), _WHITE, (120, 120, 120))


def _folder(c: Canvas, x: int, y: int) -> None:
    c.rect((x, y + 1, x + 8, y + 5), (222, 170, 40))
    c.rect((x, y + 3, x + 17, y + 14), (250, 200, 70))


def _grid(c: Canvas, x: int, y: int) -> None:
    c.frame((x, y, x + 17, y + 14), (20, 90, 40), (60, 180, 90))
    for line in (5, 9):
        c.rect((x, y + line, x + 17, y + line + 1), _WHITE)
    c.rect((x + 6, y, x + 7, y + 14), _WHITE)
    c.rect((x + 11, y, x + 12, y + 14), _WHITE)


def _page(c: Canvas, x: int, y: int) -> None:
    c.frame((x + 2, y, x + 14, y + 14), (70, 70, 80), (255, 252, 214))
    for line in (3, 6, 9):
        c.rect((x + 4, y + line, x + 12, y + line + 1), (120, 110, 60))


def _gear(c: Canvas, x: int, y: int) -> None:
    c.rect((x + 1, y + 5, x + 16, y + 9), (190, 196, 206))
    c.rect((x + 6, y, x + 11, y + 14), (190, 196, 206))
    c.rect((x + 3, y + 2, x + 14, y + 12), (160, 168, 180))
    c.rect((x + 6, y + 5, x + 11, y + 9), (60, 66, 78))


def _form(c: Canvas, x: int, y: int) -> None:
    c.frame((x, y, x + 17, y + 14), (120, 40, 40), (240, 240, 244))
    c.rect((x, y, x + 17, y + 4), (210, 70, 60))
    c.frame((x + 3, y + 6, x + 14, y + 11), (110, 110, 120), _WHITE)


_PICTOGRAMS = {"files": _folder, "sheet": _grid, "notes": _page, "prefs": _gear, "forms": _form}
