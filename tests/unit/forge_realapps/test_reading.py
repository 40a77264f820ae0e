"""Files of agents read in confinement: good ones give facts; damaged, hostile, huge ones give errors, never a crash."""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
from typing import Any

import pytest

from components.contracts.errors import VerifierError
from components.forge.realapps import documents, readers
from components.forge.realapps.reading import facts_of
from components.forge.realapps.xcf import read_xcf
from components.sandbox.confine import detect

pytestmark = pytest.mark.skipif(detect().confinement == "none", reason="this machine confines nothing")


def bomb() -> bytes:
    """A small archive that unpacks to 400 MB."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(4):
            archive.writestr(f"xl/worksheets/sheet{number}.xml", b" " * (100 << 20))
    return out.getvalue()


def picture_bomb() -> bytes:
    """A PNG that says it has 40000 x 40000 pixels."""
    from zlib import compress, crc32

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", crc32(name + data))

    head = struct.pack(">IIBBBBB", 40000, 40000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", compress(b"\0" * 1000)) + chunk(b"IEND", b"")


def entities() -> bytes:
    """A document whose text grows a thousandfold nine times, and that names a file of the host."""
    lines = ['<!DOCTYPE d [<!ENTITY h SYSTEM "file://' + '/etc/passwd"><!ENTITY a0 "aaaaaaaaaa">']
    lines += [f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10)]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("content.xml", "".join(lines) + "]><d>&a9;&h;</d>")
    return out.getvalue()


def test_facts_of_good_files_of_every_kind() -> None:
    book = documents.workbook([{"name": "One", "rows": [["a", 2], [None, "=B1*2"]]}])
    text = documents.document([["Heading 1", "Top"], ["", "line"]])
    deck = documents.deck([{"title": "T", "lines": ["x", "y"]}])
    image = documents.picture([40, 20], [255, 0, 0], [[0, 0, 20, 20, 0, 0, 255]], "PNG")
    files = [("xlsx", book), ("docx", text), ("pptx", deck), ("png", image), ("txt", b"\xef\xbb\xbfhi")]
    sheet, document, slides, picture, plain = facts_of(files)
    assert sheet["sheets"][0]["cells"] == {"A1": "a", "B1": 2, "B2": None}
    assert sheet["sheets"][0]["formulas"] == {"B2": "=B1*2"}
    assert [(p["style"], p["text"]) for p in document["paragraphs"]] == [("Heading 1", "Top"), ("Normal", "line")]
    assert slides["slides"] == [{"title": "T", "texts": ["x", "y"], "notes": ""}]
    assert picture["size"] == [40, 20] and picture["grid"][0] == [0, 0, 255, 255] and not picture["alpha"]
    assert plain == {"kind": "txt", "text": "hi"}


@pytest.mark.parametrize("kind", sorted(set(readers.KINDS) - {"txt", "csv"}))
def test_files_that_are_empty_cut_or_of_another_kind_are_errors_of_the_file(kind: str) -> None:
    book = documents.workbook([{"name": "One", "rows": [["a", 2]]}])
    damaged = [b"", b"\0" * 100, book[: len(book) // 2], b"PK\3\4" + os.urandom(500), b"gimp xcf v011\0" + b"\xff" * 60]
    found = facts_of([(kind, data) for data in damaged])
    assert all("error" in facts for facts in found), found


@pytest.mark.parametrize(
    ("kind", "make"), [("xlsx", bomb), ("docx", bomb), ("pptx", bomb), ("odt", entities), ("png", picture_bomb)]
)
def test_files_that_unpack_to_too_much_are_errors_of_the_file(kind: str, make: Any) -> None:
    good = documents.workbook([{"name": "One", "rows": [["a"]]}])
    hostile, after = facts_of([(kind, make()), ("xlsx", good)])
    assert "error" in hostile or "root:" not in json.dumps(hostile)
    assert after["sheets"][0]["cells"] == {"A1": "a"}


def test_a_kind_that_nothing_reads_is_refused() -> None:
    with pytest.raises(VerifierError):
        facts_of([("exe", b"")])


def test_the_reader_sees_neither_network_nor_host(tmp_path: Any) -> None:
    """The same confinement, with a program in the reader's place."""
    import subprocess

    from components.sandbox.confine import ShellLimits, host_site, wrap

    secret = tmp_path / "secret"
    secret.write_text("x")
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o755)
    code = (
        f"import os, socket\nprint(os.path.exists({str(secret)!r}))\n"
        "try:\n    socket.create_connection(('127.0.0.1', 1), 1)\nexcept OSError as error:\n    print(error.errno)\n"
        "print(sorted(os.environ))"
    )
    (home / "readers.py").write_text(code)
    launch = wrap(["python3", "-s", "readers.py"], home, limits=ShellLimits(), confinement=detect().confinement,
                  site=host_site(), own_python=True)  # fmt: skip
    with launch.arguments() as (argv, fds):
        done = subprocess.run(
            argv, env=launch.env, pass_fds=fds, capture_output=True, text=True, timeout=60, check=True
        )
    exists, error, names = done.stdout.splitlines()
    assert exists == "False" and int(error) > 0 and "PATH" in names and "PYTEST_CURRENT_TEST" not in names


def xcf(width: int, height: int, tile: bytes, *, compression: int = 1, version: bytes = b"v003") -> bytes:
    """A GIMP file with one RGBA layer of one tile, by the format's description."""

    def number(value: int) -> bytes:
        return struct.pack(">I", value)

    def prop(kind: int, data: bytes = b"") -> bytes:
        return number(kind) + number(len(data)) + data

    head = b"gimp xcf " + version + b"\0" + number(width) + number(height) + number(0)
    head += prop(17, bytes([compression])) + prop(0)
    layer_at = len(head) + 12
    name = b"one\0"
    layer = number(width) + number(height) + number(1) + number(len(name)) + name + prop(8, number(1)) + prop(0)
    hierarchy_at = layer_at + len(layer) + 8
    layer += number(hierarchy_at) + number(0)
    level_at = hierarchy_at + 20
    hierarchy = number(width) + number(height) + number(4) + number(level_at) + number(0)
    tile_at = level_at + 16
    level = number(width) + number(height) + number(tile_at) + number(0)
    return head + number(layer_at) + number(0) + number(0) + layer + hierarchy + level + tile


def test_layers_of_a_gimp_file_by_its_published_format() -> None:
    runs = bytes([9, 200]) + bytes([9, 10]) + bytes([256 - 10, *range(10)]) + bytes([127, 0, 10, 255])
    layer = read_xcf(xcf(5, 2, runs))["layers"][0]
    assert (layer["name"], layer["size"], layer["alpha"], layer["visible"]) == ("one", [5, 2], True, True)
    assert layer["image"].getpixel((0, 0)) == (200, 10, 0, 255) and layer["image"].getpixel((4, 1)) == (200, 10, 9, 255)
    plain = read_xcf(xcf(1, 1, bytes([1, 2, 3, 4]), compression=0))["layers"][0]
    assert plain["image"].getpixel((0, 0)) == (1, 2, 3, 4)


@pytest.mark.parametrize("tile", [b"", bytes([9]), bytes([127, 255, 255, 1]), bytes([128, 255, 255]), b"\xff" * 4])
def test_a_gimp_file_with_broken_pixels_is_no_file(tile: bytes) -> None:
    with pytest.raises(ValueError):
        read_xcf(xcf(5, 2, tile))
