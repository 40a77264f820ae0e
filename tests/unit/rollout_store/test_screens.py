from __future__ import annotations

import io
import random

import numpy as np
import pytest
from PIL import Image

from components.contracts.errors import DataError
from components.rollout.screens import ScreenCache, decode_png, encode_png, screen_digest


def picture(seed: int = 0, size: tuple[int, int] = (22, 30)) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)


def test_a_stored_picture_comes_back_pixel_for_pixel_and_any_reader_can_open_it():
    screen = picture()
    data = encode_png(screen)
    assert np.array_equal(decode_png(data), screen)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(data))), screen)


def test_the_digest_is_of_size_and_pixels():
    screen = picture()
    assert screen_digest(screen) == screen_digest(decode_png(encode_png(screen)))
    other = screen.copy()
    other[3, 4, 1] ^= 1
    assert screen_digest(other) != screen_digest(screen)
    assert screen_digest(screen.reshape(30, 22, 3)) != screen_digest(screen)


def test_a_picture_written_by_another_program_is_read_too():
    screen = picture(3)
    buffer = io.BytesIO()
    Image.fromarray(screen).save(buffer, "png", compress_level=9)
    assert np.array_equal(decode_png(buffer.getvalue()), screen)


def test_a_broken_picture_is_an_error_that_names_it():
    data = bytearray(encode_png(picture()))
    rng = random.Random(0)
    for cut in (10, 40, len(data) - 40):
        with pytest.raises(DataError, match="screen 7"):
            decode_png(bytes(data[:cut]), where="screen 7")
    data[60 + rng.randrange(200)] ^= 0xFF
    with pytest.raises(DataError):
        decode_png(bytes(data), where="screen 7")


def test_the_cache_decodes_once_while_anyone_holds_the_picture():
    data = {str(i): encode_png(picture(i)) for i in range(4)}
    asked = []

    def png(digest: str) -> bytes:
        asked.append(digest)
        return data[digest]

    cache = ScreenCache(png, size=1)
    held = cache["0"]
    assert cache["1"] is not held
    assert cache["0"] is held
    assert asked == ["0", "1"]
    with pytest.raises(ValueError):
        held[0, 0, 0] = 1
