"""Puts a session on the screen: wallpaper and dock, windows from bottom to top, overlay, toast, pointer.

Also lists what can be seen and clicked. While an overlay is shown only its own elements can be clicked, so only
those are listed.
"""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from components.contracts.desktop import Box, Element, Screen
from components.sandbox.minidesk.draw import HEIGHT, ROW, WIDTH, Canvas
from components.sandbox.minidesk.pane import Pane
from components.sandbox.minidesk.session import Session

_TOAST_Y = 192
_SHADOW = 3


class Screenful:
    """Composes screens, keeping the last painted desktop (wallpaper and dock)."""

    def __init__(self) -> None:
        self._key: tuple[object, ...] = ()
        self._desk: NDArray[np.uint8] | None = None
        self._icons: list[Element] = []
        self._lists: WeakKeyDictionary[Pane, tuple[tuple[object, ...], list[Element]]] = WeakKeyDictionary()

    def compose(self, session: Session) -> tuple[Screen, tuple[Element, ...]]:
        """A new read-only (224, 288, 3) screen and its elements."""
        canvas = Canvas.over(session.theme, self._background(session))
        windows, overlay = session.windows, session.overlay
        above = [[w.box for w in windows[i + 1 :]] for i in range(len(windows))]
        shown = [(w, covers) for w, covers in zip(windows, above, strict=True) if seen(w.box, covers) is not None]
        for window, _ in shown:
            blit(canvas, window, session)
        if overlay is not None:
            blit(canvas, overlay, session)
        if session.toast_text:
            canvas.button(0, _TOAST_Y, session.toast_text, hot=True)
        if session.pointer is not None:
            canvas.pointer(session.pointer)
        canvas.pixels.setflags(write=False)
        if overlay is not None:
            return canvas.pixels, tuple(placed(overlay))
        elements = visible(self._icons, [w.box for w in windows])
        for window, covers in shown:
            elements += self._seen(window, covers)
        return canvas.pixels, tuple(elements)

    def _seen(self, window: Pane, covers: list[Box]) -> list[Element]:
        """The window's visible elements, listed again only when it or what lies over it changed."""
        key = (window.version, window.x, window.y, covers)
        known = self._lists.get(window)
        if known is None or known[0] != key:
            known = self._lists[window] = (key, visible(placed(window), covers))
        return known[1]

    def _background(self, session: Session) -> NDArray[np.uint8]:
        key = (session.theme, session.looks.dock, session.icon)
        if self._desk is None or key != self._key:
            canvas = Canvas(session.theme)
            self._icons = [
                canvas.icon(0, ROW * i, app, active=app == session.icon) for i, app in enumerate(session.looks.dock)
            ]
            self._desk, self._key = canvas.pixels, key
        return self._desk


def blit(canvas: Canvas, pane: Pane, session: Session) -> None:
    """Copies a pane's pixels to its place, cut at the screen's right and lower edge, and lets it throw a shadow."""
    pixels = pane.render(session.theme).pixels
    x0, y0, x1, y1 = pane.box
    target = canvas.pixels[y0:y1, x0:x1]
    target[:] = pixels[: target.shape[0], : target.shape[1]]
    for shade in (
        canvas.pixels[y0 + _SHADOW : y1 + _SHADOW, x1 : x1 + _SHADOW],
        canvas.pixels[y1 : y1 + _SHADOW, x0 + _SHADOW : x1],
    ):
        np.right_shift(shade, 1, out=shade)


def placed(pane: Pane) -> list[Element]:
    """The pane's elements in screen coordinates."""
    dx, dy = pane.x, pane.y
    elements = []
    for spot in pane.spots:
        e = spot.element
        x0, y0, x1, y1 = e.box
        elements.append(Element(e.kind, e.label, (x0 + dx, y0 + dy, x1 + dx, y1 + dy), e.state))
    return elements


def visible(elements: list[Element], covers: list[Box]) -> list[Element]:
    """Elements with their box cut to what is seen; those of which less than half is seen are left out.

    A title is kept as long as a piece that can be grabbed is seen: it is how a lower window is raised.
    """
    kept = []
    for element in elements:
        box = seen(element.box, covers)
        if box is element.box:
            kept.append(element)
        elif box is not None and (2 * area(box) >= area(element.box) or grip(element, box)):
            kept.append(replace(element, box=box))
    return kept


def grip(element: Element, box: Box) -> bool:
    return element.kind == "title" and box[2] - box[0] >= 16 and box[3] - box[1] >= 8


def area(box: Box) -> int:
    return (box[2] - box[0]) * (box[3] - box[1])


def seen(box: Box, covers: list[Box]) -> Box | None:
    """The largest rectangle of `box` that is on the screen and under none of `covers` (taken one after the other).

    The very same tuple comes back when nothing hides any of it: the usual case, kept cheap.
    """
    x0, y0, x1, y1 = box
    if x1 > WIDTH or y1 > HEIGHT:
        x1, y1 = min(x1, WIDTH), min(y1, HEIGHT)
        if x0 >= x1 or y0 >= y1:
            return None
        box = (x0, y0, x1, y1)
    for cx0, cy0, cx1, cy1 in covers:
        if cx0 >= x1 or cx1 <= x0 or cy0 >= y1 or cy1 <= y0:
            continue
        if cx0 <= x0 and cy0 <= y0 and cx1 >= x1 and cy1 >= y1:
            return None
        left, right = (x0, y0, min(x1, cx0), y1), (max(x0, cx1), y0, x1, y1)
        above, below = (x0, y0, x1, min(y1, cy0)), (x0, max(y0, cy1), x1, y1)
        box = max((b for b in (left, right, above, below) if b[0] < b[2] and b[1] < b[3]), key=area)
        x0, y0, x1, y1 = box
    return box
