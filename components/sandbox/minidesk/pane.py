"""A rectangle of the screen that paints itself once and is copied until it changes: windows and overlays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, NamedTuple

from components.contracts.desktop import Box, Element
from components.sandbox.minidesk.draw import Canvas, Theme


class Spot(NamedTuple):
    """Something drawn that answers the mouse: its element in pane coordinates, what it is to its owner, an argument.

    Clicks are looked up in the spots of the last painting, so what is drawn and what is clickable cannot differ.
    """

    element: Element
    name: str
    arg: Any = None


class Pane(ABC):
    """Pixels and spots of one rectangle. `dirty` asks for a new painting before the next look at either."""

    width: int = 208
    height: int = 208

    def __init__(self) -> None:
        self.x = 0
        self.y = 0
        self.dirty = True
        self.version = 0
        """Counts paintings."""
        self.canvas: Canvas | None = None
        self.spots: list[Spot] = []

    @property
    def box(self) -> Box:
        return self.x, self.y, self.x + self.width, self.y + self.height

    @abstractmethod
    def paint(self, canvas: Canvas) -> list[Spot]:
        """Draws everything in pane coordinates."""

    def render(self, theme: Theme) -> Canvas:
        """The up-to-date pixels."""
        if self.dirty or self.canvas is None or self.canvas.theme is not theme:
            if self.canvas is None or self.canvas.theme is not theme:
                self.canvas = Canvas(theme, self.width, self.height)
            self.spots = [s for spot in self.paint(self.canvas) if (s := self._inside(spot)) is not None]
            self.dirty = False
            self.version += 1
        return self.canvas

    def _inside(self, spot: Spot) -> Spot | None:
        """What of a spot lies in the pane: a long label may reach beyond it."""
        x0, y0, x1, y1 = spot.element.box
        if x1 <= self.width and y1 <= self.height:
            return spot
        box = (x0, y0, min(x1, self.width), min(y1, self.height))
        return spot._replace(element=replace(spot.element, box=box)) if x0 < box[2] and y0 < box[3] else None

    def contains(self, at: tuple[int, int]) -> bool:
        x0, y0, x1, y1 = self.box
        return x0 <= at[0] < x1 and y0 <= at[1] < y1

    def spot_at(self, at: tuple[int, int]) -> Spot | None:
        """The topmost spot under a point of the screen: the last one drawn there."""
        x, y = at[0] - self.x, at[1] - self.y
        for spot in reversed(self.spots):
            x0, y0, x1, y1 = spot.element.box
            if x0 <= x < x1 and y0 <= y < y1:
                return spot
        return None
