"""Screenshots as stored: PNG bytes under the digest of their pixels.

The digest is over size and pixels, not over the PNG, so a live screen and a stored one have the same name whatever
wrote the file. The writer emits the plainest PNG there is (8-bit RGB, no row filters): on flat user-interface
pictures it is four times as fast as the usual filtered one and hardly larger.
"""

from __future__ import annotations

import struct
import zlib
from collections import OrderedDict
from collections.abc import Callable
from weakref import WeakValueDictionary

import numpy as np

from components.contracts.desktop import Screen
from components.contracts.digests import digest_bytes
from components.contracts.errors import DataError

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_LEVEL = 3


def screen_digest(screen: Screen) -> str:
    """Content digest of a picture: its height and width, then its pixels."""
    height, width = screen.shape[:2]
    return digest_bytes(f"{height}x{width}:".encode() + np.ascontiguousarray(screen).tobytes())


def encode_png(screen: Screen) -> bytes:
    """(height, width, 3) uint8 -> PNG. The same picture gives the same bytes."""
    height, width, _ = screen.shape
    rows = np.zeros((height, width * 3 + 1), np.uint8)
    rows[:, 1:] = screen.reshape(height, width * 3)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), _LEVEL)), (b"IEND", b""))
    return _SIGNATURE + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_size(data: bytes, *, where: str) -> tuple[int, int]:
    """(width, height) in pixels, from the header alone. Raises DataError for what does not begin as a PNG file does."""
    if len(data) < 24 or data[:8] != _SIGNATURE or data[12:16] != b"IHDR":
        raise DataError("not a PNG picture", where=where, remedy="run the stage that writes it again")
    width, height = struct.unpack(">II", data[16:24])
    return int(width), int(height)


def decode_png(data: bytes, where: str = "") -> Screen:
    """PNG -> (height, width, 3) uint8, read-only. `DataError` names `where` when the bytes are no whole picture."""
    screen = _decode_own(data)
    if screen is None:
        screen = _decode_any(data, where)
    screen.setflags(write=False)
    return screen


def _decode_own(data: bytes) -> Screen | None:
    """The layout `encode_png` writes, without a general decoder; None when it is anything else."""
    if data[:8] + data[12:16] + data[24:29] + data[37:41] != _SIGNATURE + b"IHDR\x08\x02\x00\x00\x00IDAT":
        return None
    width, height = struct.unpack(">II", data[16:24])
    (length,) = struct.unpack(">I", data[33:37])
    body = data[41 : 41 + length]
    end = 41 + length
    if len(data) != end + 16 or data[end : end + 4] != struct.pack(">I", zlib.crc32(data[37:end])):
        return None
    try:
        raw = zlib.decompress(body)
    except zlib.error:
        return None
    if len(raw) != height * (width * 3 + 1):
        return None
    rows = np.frombuffer(raw, np.uint8).reshape(height, width * 3 + 1)
    if rows[:, 0].any():
        return None
    return rows[:, 1:].reshape(height, width, 3).copy()


def _decode_any(data: bytes, where: str) -> Screen:
    import io

    from PIL import Image

    try:
        with Image.open(io.BytesIO(data)) as image:
            return np.array(image.convert("RGB"))
    except (OSError, ValueError, SyntaxError) as error:
        raise DataError(f"not a whole picture: {error}", where=where, remedy="make the data again") from error


class ScreenCache:
    """Decoded pictures by digest: the most recently used are kept, and any that someone still holds is shared."""

    def __init__(self, png: Callable[[str], bytes], size: int = 512) -> None:
        self._png = png
        self._size = size
        self._kept: OrderedDict[str, Screen] = OrderedDict()
        self._held: WeakValueDictionary[str, Screen] = WeakValueDictionary()

    def __getitem__(self, digest: str) -> Screen:
        screen = self._held.get(digest)
        if screen is None:
            screen = self._held[digest] = decode_png(self._png(digest), where=f"screen {digest}")
        self._kept[digest] = screen
        self._kept.move_to_end(digest)
        if len(self._kept) > self._size:
            self._kept.popitem(last=False)
        return screen
