"""Files that a setup puts into the home, from plain specifications. The same specification gives the same bytes, so
that "unchanged" can be told after the episode without keeping a copy."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from components.contracts.digests import canonical_json

_DATE = "2024-01-02T03:04:05Z"
_STAMP = re.compile(rb"(<dcterms:(?:created|modified)[^>]*>)[^<]*")


def workbook(sheets: list[dict[str, Any]]) -> bytes:
    """Sheets, each `name` and `rows` (texts and numbers; None leaves a cell empty)."""
    import openpyxl

    book = openpyxl.Workbook()
    book.remove(book.worksheets[0])
    for entry in sheets:
        sheet = book.create_sheet(entry["name"])
        for row in entry["rows"]:
            sheet.append(row)
    out = io.BytesIO()
    book.save(out)
    return _stable(out.getvalue())


def document(paragraphs: list[list[str]]) -> bytes:
    """Paragraphs, each [style, text]; the style "" is the body's."""
    import docx

    made = docx.Document()
    for style, text in paragraphs:
        made.add_paragraph(text, style=style or None)
    out = io.BytesIO()
    made.save(out)
    return _stable(out.getvalue())


def deck(slides: list[dict[str, Any]]) -> bytes:
    """Slides, each `title` and `lines`."""
    import pptx

    made = pptx.Presentation()
    for entry in slides:
        slide = made.slides.add_slide(made.slide_layouts[1])
        slide.shapes.title.text = entry["title"]
        slide.placeholders[1].text = "\n".join(entry["lines"])
    out = io.BytesIO()
    made.save(out)
    return _stable(out.getvalue())


def picture(size: list[int], background: list[int], boxes: list[list[int]], form: str) -> bytes:
    """A picture of `form` (PNG, JPEG): plain `background` (red, green, blue) and boxes [x0, y0, x1, y1, r, g, b]."""
    out = io.BytesIO()
    draw(size, background, boxes).save(out, form)
    return out.getvalue()


def draw(size: list[int], background: list[int], boxes: list[list[int]]) -> Any:
    """The same as a Pillow image."""
    from PIL import Image

    image = Image.new("RGB", (size[0], size[1]), (background[0], background[1], background[2]))
    for box in boxes:
        image.paste((box[4], box[5], box[6]), (box[0], box[1], box[2], box[3]))
    return image


def _stable(data: bytes) -> bytes:
    """The same archive without the time at which it was made."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "docProps/core.xml":
                content = _STAMP.sub(rb"\g<1>" + _DATE.encode(), content)
            new.writestr(zipfile.ZipInfo(name, (2024, 1, 2, 3, 4, 6)), content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


_MAKERS: dict[str, Callable[..., bytes]] = {
    "workbook": workbook, "document": document, "deck": deck, "picture": picture,
}  # fmt: skip


def make(maker: str, **args: Any) -> bytes:
    """A file by the name of its maker. An episode asks for the same file at its start and at its end."""
    return _made(maker, canonical_json(args))


@lru_cache(maxsize=128)
def _made(maker: str, args: str) -> bytes:
    import json

    return _MAKERS[maker](**json.loads(args))
