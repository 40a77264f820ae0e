"""One step as a picture: the screen, the action in red on it, and a caption below."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from components.contracts.errors import DataError
from components.contracts.marks import Mark
from components.rollout.live.plain import one_line, plain

if TYPE_CHECKING:
    from PIL.Image import Image

RED, WHITE, INK, SOFT = (240, 40, 60), (255, 255, 255), (29, 36, 48), (93, 101, 119)
PAPER, RULE, BAD, GOOD, WARN = (246, 245, 241), (222, 219, 210), (184, 50, 42), (31, 138, 88), (138, 90, 0)
_OVER = 3
"""Marks are drawn this much larger and made smaller, for smooth edges."""
_PIXEL_ART = 640
"""Screens narrower than this are enlarged by whole factors."""


@lru_cache(maxsize=16)
def font(size: int, bold: bool = False) -> Any:
    """DejaVu where it is installed, for its many scripts; else the one that comes with Pillow."""
    from PIL import ImageFont

    try:
        return ImageFont.truetype("DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf", size)
    except OSError:
        return ImageFont.load_default(size)


def wrap(text: str, size: int, width: int, lines: int, bold: bool = False) -> list[str]:
    """`text` in at most `lines` lines of `width` pixels; the last one ends in ... where something is left out."""
    face = font(size, bold)
    out: list[str] = []
    line = ""
    words = text.split(" ")
    while words:
        word = words.pop(0)
        trial = f"{line} {word}" if line else word
        if face.getlength(trial) <= width:
            line = trial
            continue
        if not line:  # one word wider than a line: as much of it as fits
            cut = max(1, next((n for n in range(len(word), 0, -1) if face.getlength(word[:n]) <= width), 1))
            line, word = word[:cut], word[cut:]
        out.append(line)
        line = ""
        if word:
            words.insert(0, word)
        if len(out) == lines:
            rest = out[-1]
            while rest and face.getlength(rest + " …") > width:
                rest = rest[:-1]
            out[-1] = rest + " …" if words else out[-1]
            return out
    return [*out, line] if line else out


def open_screen(png: bytes, width: int) -> Image:
    """A screen about `width` pixels wide: pixel art by whole factors, real screens made smaller."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(png)) as found:
            image = found.convert("RGB")
    except (OSError, ValueError, SyntaxError) as error:
        raise DataError(f"not a whole picture: {error}", where="episode", remedy="make the data again") from error
    if image.width < _PIXEL_ART:
        factor = max(1, round(width / image.width))
        return image.resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST)
    height = round(image.height * width / image.width)
    return image.resize((width, height), Image.Resampling.LANCZOS) if image.width != width else image


def draw_mark(image: Image, mark: Mark, size: tuple[int, int]) -> Image:
    """The action on a screen of `size`, however large `image` shows it. Marks off the screen are cut off."""
    from PIL import Image, ImageDraw

    points = mark["points"]
    if not points:
        return image
    scale = image.width / size[0]
    unit = _OVER * max(0.8, image.width / 640)
    layer = Image.new("RGBA", (image.width * _OVER, image.height * _OVER))
    pen = ImageDraw.Draw(layer)
    at = [((x + 0.5) * scale * _OVER, (y + 0.5) * scale * _OVER) for x, y in points]

    def ring(center: tuple[float, float], radius: float) -> None:
        for extra, colour, width in ((1.6 * unit, (*WHITE, 230), 6 * unit), (0, (*RED, 255), 2.8 * unit)):
            r = radius + extra
            box = (center[0] - r, center[1] - r, center[0] + r, center[1] + r)
            pen.ellipse(box, outline=colour, width=max(1, round(width)))

    if len(at) == 2:
        _arrow(pen, at[0], at[1], unit)
    ring(at[0], 10 * unit)
    if mark["kind"] == "double":
        ring(at[0], 16 * unit)
    if mark["kind"] != "move":
        r = 3 * unit
        pen.ellipse((at[0][0] - r, at[0][1] - r, at[0][0] + r, at[0][1] + r), fill=(*RED, 255))
    layer = layer.resize(image.size, Image.Resampling.BOX)
    return Image.alpha_composite(image.convert("RGBA"), layer).convert("RGB")


def _arrow(pen: Any, start: tuple[float, float], end: tuple[float, float], unit: float) -> None:
    turn = math.atan2(end[1] - start[1], end[0] - start[0])
    tips = [
        (end[0] - 14 * unit * math.cos(turn + by), end[1] - 14 * unit * math.sin(turn + by)) for by in (0.45, -0.45)
    ]
    for colour, width in (((*WHITE, 230), 6 * unit), ((*RED, 255), 3 * unit)):
        pen.line((start, end), fill=colour, width=round(width))
        for tip in tips:
            pen.line((end, tip), fill=colour, width=round(width))


@dataclass(frozen=True)
class Words:
    """One paragraph of a caption."""

    text: str
    size: int
    colour: tuple[int, int, int]
    lines: int = 2
    bold: bool = False


def caption(
    number: int, action: str, mark: Mark, error: str, decision: str, size: int
) -> list[Words]:  # fmt: skip
    """What stands under a step. `size` is that of its first line in pixels."""
    out = [Words(f"{number}  {one_line(action or mark['caption'] or 'not understood')}", size, INK, 2, True)]
    if mark["caption"] and action:
        out.append(Words(one_line(mark["caption"]), size - 2, SOFT, 2))
    if error:
        out.append(Words(one_line(f"error: {error}"), size - 2, BAD, 1))
    if decision:
        out.append(Words(one_line(decision), size - 2, WARN, 2))
    return out


def write_words(
    pen: Any, at: tuple[int, int], width: int, words: Sequence[Words]
) -> int:  # fmt: skip
    """Writes paragraphs downwards; returns where the next would begin."""
    x, y = at
    for part in words:
        for line in wrap(part.text, part.size, width, part.lines, part.bold):
            pen.text((x, y), line, font=font(part.size, part.bold), fill=part.colour)
            y += round(part.size * 1.32)
        y += 2
    return y


def words_height(words: Sequence[Words], width: int) -> int:
    """The height that `write_words` takes."""
    return sum(len(wrap(w.text, w.size, width, w.lines, w.bold)) * round(w.size * 1.32) + 2 for w in words)


def terminal_panel(image: Image, command: str, output: str) -> Image:
    """A terminal step: the command and what it printed over the lower part of the screen."""
    from PIL import Image, ImageDraw

    size = max(11, image.width // 52)
    wide = image.width - 4 * size
    lines = [part for line in plain(command, limit=400).splitlines() for part in wrap(line, size, wide, 3)][:6]
    told = [part for line in plain(output, limit=600).splitlines() for part in wrap(line, size, wide, 1)]
    shown = told[:6] + ["…"] * (len(told) > 6)
    pitch = round(size * 1.4)
    height = pitch * (len(lines) + len(shown)) + 2 * size
    layer = Image.new("RGBA", image.size)
    pen = ImageDraw.Draw(layer)
    top = max(size, image.height - height - size)
    box = (size, top, image.width - size, top + height)
    pen.rounded_rectangle(box, size, fill=(16, 20, 27, 232), outline=(*SOFT, 255))
    y = top + size
    for place, line in enumerate([*lines, *shown]):
        pen.text((2 * size, y), line, font=font(size), fill=(*(WHITE if place < len(lines) else (168, 176, 190)), 255))
        y += pitch
    return Image.alpha_composite(image.convert("RGBA"), layer).convert("RGB")
