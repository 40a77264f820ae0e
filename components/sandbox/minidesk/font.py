"""Text as pixel strips: Pillow's embedded 6x11 bitmap font in cells of 8x16 px, cached by (text, colours)."""

from __future__ import annotations

from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

CELL_W = 8
CELL_H = 16
_FIRST, _LAST = 32, 126

Colour = tuple[int, int, int]


@cache
def _glyphs() -> NDArray[np.bool_]:
    """(95, 16, 8) masks of printable ASCII. The font is data inside Pillow, so it is equal on every machine."""
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default_imagefont()
    masks = np.zeros((_LAST - _FIRST + 1, CELL_H, CELL_W), dtype=np.bool_)
    for code in range(_FIRST, _LAST + 1):
        image = Image.new("L", (CELL_W, CELL_H), 0)
        ImageDraw.Draw(image).text((1, 2), chr(code), fill=255, font=font)
        masks[code - _FIRST] = np.asarray(image) > 127
    return masks


def text_mask(text: str) -> NDArray[np.bool_]:
    """(16, 8 * len(text)) mask. Anything that is not printable ASCII is drawn as `?`: a screen never fails to draw."""
    if not text:
        return np.zeros((CELL_H, 0), dtype=np.bool_)
    glyphs = _glyphs()
    codes = [ord(c) - _FIRST if _FIRST <= ord(c) <= _LAST else ord("?") - _FIRST for c in text]
    return np.concatenate([glyphs[c] for c in codes], axis=1)


@lru_cache(maxsize=8192)
def text_strip(text: str, fg: Colour, bg: Colour) -> NDArray[np.uint8]:
    """(16, 8 * len(text), 3) pixels of one line of text."""
    mask = text_mask(text)[:, :, None]
    strip = np.where(mask, np.array(fg, np.uint8), np.array(bg, np.uint8)).astype(np.uint8)
    strip.setflags(write=False)
    return strip
