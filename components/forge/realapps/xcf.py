"""Layers of a GIMP file (.xcf): size, transparency, pixels. Runs in the confined reader: needs only Pillow.

Follows the format's public description (GIMP's developer documentation, "XCF file format"): 8-bit images, tiles of
64 x 64, without compression, run-length coded or by zlib; other precisions give layers without pixels.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

_TILE = 64
_CHANNELS = {0: "RGB", 1: "RGBA", 2: "L", 3: "LA"}
_EIGHT_BIT = (100, 150)
_MOST_LAYERS, _MOST_SIDE = 100, 8192
_PROPERTY_END, _PROPERTY_VISIBLE, _PROPERTY_COMPRESSION = 0, 8, 17


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.wide = data, 0, False

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self.data) - self.at:
            raise ValueError("the file ends too early")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self) -> int:
        return int(struct.unpack(">I", self.take(4))[0])

    def pointer(self) -> int:
        return int(struct.unpack(">Q", self.take(8))[0]) if self.wide else self.number()

    def properties(self) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        while True:
            kind, size = self.number(), self.number()
            if kind == _PROPERTY_END:
                return found
            found[kind] = self.take(size)


def read_xcf(data: bytes) -> dict[str, Any]:
    """size; layers (top first), each name, size, alpha, visible, image (a Pillow image, None when not readable).

    Raises ValueError for what is no such file.
    """
    reader = _Reader(data)
    if reader.take(9) != b"gimp xcf ":
        raise ValueError("no GIMP file")
    version = reader.take(5).rstrip(b"\0")
    number = 0 if version == b"file" else int(version[1:])
    reader.wide = number >= 11
    width, height, _ = reader.number(), reader.number(), reader.number()
    precision = reader.number() if number >= 4 else 150
    compression = reader.properties().get(_PROPERTY_COMPRESSION, b"\0")[0]
    layers = []
    places = []
    while place := reader.pointer():
        places.append(place)
        if len(places) > _MOST_LAYERS:
            raise ValueError("too many layers")
    for place in places:
        reader.at = place
        layers.append(_layer(reader, compression if precision in _EIGHT_BIT else -1))
    return {"size": [width, height], "layers": layers}


def _layer(reader: _Reader, compression: int) -> dict[str, Any]:
    width, height, kind = reader.number(), reader.number(), reader.number()
    name = reader.take(reader.number()).rstrip(b"\0").decode("utf-8", "replace")
    properties = reader.properties()
    reader.at = reader.pointer()
    image = None
    mode = _CHANNELS.get(kind)
    if mode and compression in (0, 1, 2) and max(width, height) <= _MOST_SIDE:
        image = _pixels(reader, mode, width, height, compression)
    return {
        "name": name, "size": [width, height], "alpha": kind % 2 == 1,
        "visible": properties.get(_PROPERTY_VISIBLE, b"\0\0\0\1")[-1] == 1, "image": image,
    }  # fmt: skip


def _pixels(reader: _Reader, mode: str, width: int, height: int, compression: int) -> Any:
    from PIL import Image

    reader.number(), reader.number()
    if reader.number() != len(mode):
        raise ValueError("a layer's pixels do not fit its kind")
    reader.at = reader.pointer()
    reader.number(), reader.number()
    image = Image.new(mode, (width, height))
    start = reader.at
    index = 0
    for top in range(0, height, _TILE):
        for left in range(0, width, _TILE):
            size = (min(_TILE, width - left), min(_TILE, height - top))
            reader.at = start + index * (8 if reader.wide else 4)
            reader.at = reader.pointer()
            data = _tile(reader, size[0] * size[1], len(mode), compression)
            image.paste(Image.frombytes(mode, size, data), (left, top))
            index += 1
    return image


def _tile(reader: _Reader, count: int, depth: int, compression: int) -> bytes:
    """The pixels of one tile, channel by channel interleaved."""
    if compression == 0:
        return reader.take(count * depth)
    if compression == 2:
        data = zlib.decompressobj().decompress(reader.data[reader.at :], count * depth)
        if len(data) != count * depth:
            raise ValueError("a tile is too short")
        return data
    planes = bytearray(count * depth)
    for channel in range(depth):
        planes[channel::depth] = _run_lengths(reader, count)
    return bytes(planes)


def _run_lengths(reader: _Reader, count: int) -> bytes:
    out = bytearray()
    while len(out) < count:
        code = reader.take(1)[0]
        if code >= 128:
            size = 256 - code
            if size == 128:
                size = struct.unpack(">H", reader.take(2))[0]
            out += reader.take(size)
        else:
            size = code + 1
            if size == 128:
                size = struct.unpack(">H", reader.take(2))[0]
            out += reader.take(1) * size
    if len(out) != count:
        raise ValueError("a tile is too long")
    return bytes(out)
