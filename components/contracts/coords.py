"""One converter between the coordinates a model writes and the pixels a pointer moves to.

The space a model was trained in is part of its record and is never guessed from the numbers. The same
`ScreenSpace` serves data building, rollout and evaluation.

Rule: `pixel = value * pointer_size / extent`, rounded half up and clamped to the last pixel, where `extent` is
1000, 1, the screenshot's size or the size of the resized picture the model sees.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from components.contracts.errors import CallError, ParamsError

CoordSpace = Literal["normalized_1000", "normalized_1", "pixel_screen", "pixel_model"]
SPACES: tuple[str, ...] = get_args(CoordSpace)


class CoordSpaceError(ParamsError):
    """The coordinate space is missing or makes no sense. Raised at construction: before the first step.

    `code`: coord_space_not_declared, unknown_coord_space, model_image_not_declared, bad_size, bad_step.
    """

    def __init__(self, code: str, message: str, *, remedy: str = "") -> None:
        super().__init__(message, where="coord_space", remedy=remedy)
        self.code = code


def _size(value: Any, name: str) -> tuple[int, int]:
    if (
        not isinstance(value, Sequence)
        or isinstance(value, str | bytes)
        or len(value) != 2
        or any(isinstance(v, bool) or not isinstance(v, int) or v < 1 for v in value)
    ):
        raise CoordSpaceError("bad_size", f"{name} must be two positive whole numbers, not {value!r}")
    return int(value[0]), int(value[1])


def check_point(value: Any) -> tuple[float, float]:
    """Exactly two finite real numbers, else `CallError("bad_coordinate")`. Text is never evaluated; no booleans."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise CallError("bad_coordinate", f"a coordinate is a list of two numbers, not {str(value)[:60]!r}")
    numbers: list[float] = []
    for item in value:
        if isinstance(item, bool) or not isinstance(item, int | float):
            raise CallError("bad_coordinate", f"{str(item)[:60]!r} in a coordinate is not a number")
        try:
            number = float(item)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise CallError("bad_coordinate", f"{str(item)[:60]} in a coordinate is not finite")
        numbers.append(number)
    return numbers[0], numbers[1]


@dataclass(frozen=True)
class ScreenSpace:
    """A declared coordinate space over one screen.

    `screen` is the screenshot's (width, height); `model_image` the size of the resized picture (only for
    `pixel_model`); `pointer_space` the size of the pointer's own grid where it differs from the screenshot's (HiDPI).
    Typed calls carry pointer pixels. `step` quantises what `from_screen` writes (25 in the tiny profile); 0 = the
    coarsest power of ten that keeps pixel -> value -> pixel within one pixel.
    """

    space: CoordSpace | None
    screen: tuple[int, int]
    model_image: tuple[int, int] | None = None
    pointer_space: tuple[int, int] | None = None
    step: float = 0

    def __post_init__(self) -> None:
        if self.space is None or self.space == "":
            raise CoordSpaceError(
                "coord_space_not_declared",
                "the model record does not declare its coordinate space",
                remedy=f"declare one of {', '.join(SPACES)}",
            )
        if self.space not in SPACES:
            raise CoordSpaceError(
                "unknown_coord_space",
                f"unknown coordinate space {self.space!r}",
                remedy=f"use one of {', '.join(SPACES)}",
            )
        object.__setattr__(self, "screen", _size(self.screen, "screen"))
        if self.model_image is not None:
            object.__setattr__(self, "model_image", _size(self.model_image, "model_image"))
        elif self.space == "pixel_model":
            raise CoordSpaceError(
                "model_image_not_declared",
                "pixel_model needs the size of the resized picture",
                remedy="set model_image",
            )
        if self.pointer_space is not None:
            object.__setattr__(self, "pointer_space", _size(self.pointer_space, "pointer_space"))
        if isinstance(self.step, bool) or not math.isfinite(self.step) or self.step < 0:
            raise CoordSpaceError("bad_step", f"step must be 0 or a positive number, not {self.step!r}")

    @property
    def extent(self) -> tuple[float, float]:
        """The value that stands for the right and bottom edge."""
        if self.space == "normalized_1000":
            return 1000.0, 1000.0
        if self.space == "normalized_1":
            return 1.0, 1.0
        width, height = self.model_image if self.space == "pixel_model" and self.model_image else self.screen
        return float(width), float(height)

    @property
    def pointer(self) -> tuple[int, int]:
        """Size of the grid that typed calls are in."""
        return self.pointer_space or self.screen

    def to_screen(self, point: Any) -> tuple[int, int]:
        """Model coordinate -> pointer pixel. Errors: bad_coordinate, out_of_range."""
        values = check_point(point)
        # A share may name the edge itself; a pixel number may not: pixel W of a screen W wide does not exist.
        closed = self.space in ("normalized_1000", "normalized_1")
        pixels: list[int] = []
        for value, extent, size in zip(values, self.extent, self.pointer, strict=True):
            if value < 0 or value > extent or (value == extent and not closed):
                raise CallError(
                    "out_of_range",
                    f"{value:g} is outside 0..{extent:g} ({self.space})",
                    remedy="coordinates must lie on the screen",
                )
            pixels.append(min(size - 1, math.floor(value * size / extent + 0.5)))
        return pixels[0], pixels[1]

    def from_screen(self, pixel: tuple[int, int]) -> list[int | float]:
        """Pointer pixel -> model coordinate, whole numbers where they are. Error: out_of_range."""
        out: list[int | float] = []
        closed = self.space in ("normalized_1000", "normalized_1")
        for at, extent, size in zip(pixel, self.extent, self.pointer, strict=True):
            if not 0 <= at < size:
                raise CallError("out_of_range", f"pixel {at} is outside 0..{size - 1}")
            # Half a step must be worth at most one pixel: step <= 2 extent / size.
            step = self.step or 10.0 ** min(0, math.floor(math.log10(2 * extent / size)))
            count = math.floor(at * extent / size / step + 0.5)
            if not closed and count * step >= extent:
                count = math.ceil(extent / step) - 1
            value = round(min(count * step, extent), 6)
            out.append(int(value) if value == int(value) else value)
        return out


def point_in_box(
    box: tuple[int, int, int, int], step: int, size: tuple[int, int], extent: int = 1000
) -> tuple[int, int]:
    """The point of the grid (multiples of `step` of `extent` on both axes) inside `box`, nearest to its centre.

    `box` is x0, y0, x1, y1 in pixels of a screen of `size`, ends exclusive. A box so thin that no grid value falls
    inside gets the nearest one. Grounding data and base data aim with this one rule.
    """
    return _grid_value(box[0], box[2], step, size[0], extent), _grid_value(box[1], box[3], step, size[1], extent)


def slider_place(track: tuple[int, int, int, int], handle: int, value: int) -> tuple[int, int, int, int]:
    """Where the handle (`handle` px wide) of a slider over `track` has to be dropped for `value` of 100.

    A box as wide as one step of 5. The teacher and the base aim with this one rule.
    """
    x0, y0, x1, y1 = track
    half = handle // 2
    span = x1 - x0 - 2 * half
    middle, reach = x0 + half + span * value // 100, span // 40
    return middle - reach, y0, middle + reach + 1, y1


def _grid_value(low: int, high: int, step: int, size: int, extent: int) -> int:
    centre = (low + high - 1) / 2
    values = range(0, extent + 1, step)
    inside = [v for v in values if low <= min(size - 1, int(v * size / extent + 0.5)) < high]
    return min(inside or values, key=lambda v: (abs(v * size / extent - centre), v))


def to_screen(
    point: Any,
    space: CoordSpace | None,
    screen: tuple[int, int],
    model_image: tuple[int, int] | None = None,
    pointer_space: tuple[int, int] | None = None,
) -> tuple[int, int]:
    """`ScreenSpace(...).to_screen(point)` for one-off use."""
    return ScreenSpace(space, screen, model_image, pointer_space).to_screen(point)


def from_screen(
    pixel: tuple[int, int],
    space: CoordSpace | None,
    screen: tuple[int, int],
    model_image: tuple[int, int] | None = None,
    pointer_space: tuple[int, int] | None = None,
    *,
    step: float = 0,
) -> list[int | float]:
    """`ScreenSpace(...).from_screen(pixel)` for one-off use."""
    return ScreenSpace(space, screen, model_image, pointer_space, step).from_screen(pixel)
