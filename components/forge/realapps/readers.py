"""Files of the applications as plain facts. Runs in a confined process of its own: the files are an agent's.

    readers.py < nothing: reads request.json ([{"file": ..., "kind": ...}]) and prints a JSON list of facts, one a file

Facts are JSON: {"kind": ..., ...} or {"error": why the file cannot be read as that kind}. Nothing here trusts a file:
sizes are checked before anything is unpacked, and the process has little memory, little time and no network.
"""

from __future__ import annotations

import io
import json
import sys
import zipfile
from collections.abc import Callable
from typing import Any

MEMORY, PROCESSOR_SECONDS, OUTPUT = 1 << 30, 20, 16 << 20
"""Bytes of address space, seconds of processor time, and bytes of the answer, of the process."""
UNPACKED = 96 << 20
"""Bytes that a document may unpack to."""
MOST_CELLS, MOST_PARAGRAPHS, MOST_TEXT, MOST_PIXELS = 20_000, 5_000, 1 << 18, 1 << 25
GRID = 12
"""Pictures are compared as so many by so many mean colours."""

Facts = dict[str, Any]


def read(data: bytes, kind: str) -> Facts:
    """Facts of one file. Whatever a damaged or hostile file makes a library raise is an error of that file."""
    try:
        return {"kind": kind, **KINDS[kind](data)}
    except Exception as error:
        return {"error": f"no readable .{kind}: {type(error).__name__}: {error}"[:300]}


def _unpacked(data: bytes) -> None:
    """Raises ValueError for an archive that unpacks to too much."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        infos = archive.infolist()
        if len(infos) > 2000 or sum(info.file_size for info in infos) > UNPACKED:
            raise ValueError("it unpacks to too much")


def _xlsx(data: bytes) -> Facts:
    import openpyxl

    _unpacked(data)
    written = openpyxl.load_workbook(io.BytesIO(data))
    computed = openpyxl.load_workbook(io.BytesIO(data), data_only=True)
    return {"sheets": [_sheet(sheet, computed[sheet.title]) for sheet in written.worksheets]}


def _sheet(sheet: Any, computed: Any) -> Facts:
    cells: dict[str, Any] = {}
    formulas: dict[str, str] = {}
    bold: list[str] = []
    for row in sheet.iter_rows():
        for cell in row:
            if cell.value is None:
                continue
            name = cell.coordinate
            value = cell.value
            if cell.data_type == "f":
                formulas[name] = str(getattr(value, "text", value))
                value = computed[name].value
            cells[name] = value if isinstance(value, str | int | float | bool | None) else str(value)
            if cell.font is not None and cell.font.b:
                bold.append(name)
            if len(cells) > MOST_CELLS:
                raise ValueError("too many cells")
    return {
        "name": sheet.title, "cells": cells, "formulas": formulas, "bold": bold,
        "merged": sorted(str(r) for r in sheet.merged_cells.ranges), "charts": [_chart(c) for c in sheet._charts],
    }  # fmt: skip


def _chart(chart: Any) -> Facts:
    series = []
    for one in chart.series:
        values = getattr(one, "val", None) or getattr(one, "yVal", None)
        series.append(str(values.numRef.f) if values is not None and values.numRef is not None else "")
    return {"type": type(chart).__name__, "direction": str(getattr(chart, "barDir", "") or ""), "values": series}


def _docx(data: bytes) -> Facts:
    import docx

    _unpacked(data)
    document = docx.Document(io.BytesIO(data))
    paragraphs = []
    for paragraph in document.paragraphs[:MOST_PARAGRAPHS]:
        runs = [run for run in paragraph.runs if run.text.strip()]
        style = paragraph.style.name if paragraph.style is not None else ""
        paragraphs.append(
            {"text": paragraph.text[:MOST_TEXT], "style": style, "bold": bool(runs) and all(r.bold for r in runs),
             "align": str(paragraph.alignment).split(" ")[0].lower() if paragraph.alignment is not None else ""}
        )  # fmt: skip
    rows = [[[cell.text for cell in row.cells] for row in table.rows] for table in document.tables[:50]]
    return {"paragraphs": paragraphs, "tables": rows}


def _odt(data: bytes) -> Facts:
    from lxml import etree

    _unpacked(data)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        content = archive.read("content.xml")
    root = etree.fromstring(content, etree.XMLParser(resolve_entities=False, no_network=True))
    space = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
    found = [
        {"text": "".join(node.itertext())[:MOST_TEXT], "style": "heading" if node.tag == f"{space}h" else ""}
        for node in root.iter(f"{space}p", f"{space}h")
    ]
    return {"paragraphs": found[:MOST_PARAGRAPHS], "tables": []}


def _pptx(data: bytes) -> Facts:
    import pptx

    _unpacked(data)
    slides = []
    for slide in pptx.Presentation(io.BytesIO(data)).slides:
        title = slide.shapes.title
        texts = [
            paragraph.text for shape in slide.shapes if shape.has_text_frame and shape != title
            for paragraph in shape.text_frame.paragraphs if paragraph.text.strip()
        ]  # fmt: skip
        notes = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
        slides.append({"title": title.text_frame.text if title is not None else "", "texts": texts,
                       "notes": notes.text if notes is not None else ""})  # fmt: skip
    return {"slides": slides}


def _picture(data: bytes) -> Facts:
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        if image.width * image.height > MOST_PIXELS:
            raise ValueError("too many pixels")
        image.load()
        alpha = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
        return {"format": image.format, "size": list(image.size), "alpha": alpha, "grid": grid(image)}


def _xcf(data: bytes) -> Facts:
    from xcf import read_xcf  # type: ignore[import-not-found]  # stands next to this file where it runs

    found: Facts = read_xcf(data)
    for layer in found["layers"]:
        image = layer.pop("image")
        layer["grid"] = grid(image) if image is not None else None
    return found


def grid(image: Any) -> list[list[int]]:
    """Mean colours of GRID x GRID parts, row by row: red, green and blue times alpha, and alpha."""
    data = image.convert("RGBA").convert("RGBa").resize((GRID, GRID), 4).tobytes()
    return [list(data[i : i + 4]) for i in range(0, len(data), 4)]


def _text(data: bytes) -> Facts:
    if len(data) > MOST_TEXT:
        raise ValueError("too long")
    return {"text": data.decode("utf-8-sig")}


KINDS: dict[str, Callable[[bytes], Facts]] = {
    "xlsx": _xlsx, "docx": _docx, "odt": _odt, "pptx": _pptx, "png": _picture, "jpg": _picture, "xcf": _xcf,
    "txt": _text, "csv": _text,
}  # fmt: skip


def main() -> int:
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (OUTPUT, OUTPUT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with open("request.json", encoding="utf-8") as file:
        wanted = json.load(file)
    found = []
    for entry in wanted:
        with open(entry["file"], "rb") as stream:
            data = stream.read()
        try:
            found.append(read(data, entry["kind"]))
        except MemoryError:
            found.append({"error": f"no readable .{entry['kind']}: it takes too much memory"})
    sys.stdout.write(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
