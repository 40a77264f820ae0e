"""Text documents (.docx), over python-docx, and Writer's settings."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

from components.sandbox.osworld.metrics import files

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_OOR = "{http://openoffice.org/2001/registry}"


def _document(path: str) -> Any:
    from docx import Document

    return Document(path)


def _both(left: Any, right: Any) -> tuple[Any, Any]:
    return files.result(left, _document), files.reference(right, _document)


def _texts(document: Any) -> list[str]:
    return [paragraph.text for paragraph in document.paragraphs]


def compare_docx_files(file1: Any, file2: Any, **options: Any) -> float:
    """The paragraphs' texts, as alike as the options ask; plain texts too."""
    if isinstance(file2, str) and file2.endswith(".txt"):
        read = lambda path: files.text(path).splitlines()  # noqa: E731
    else:
        read = lambda path: _texts(_document(path))  # noqa: E731
    ours, theirs = files.result(file1, read), files.reference(file2, read)
    if ours is None:
        return 0.0
    sides = [ours, theirs]
    if options.get("ignore_order", False):
        sides = [sorted(side) for side in sides]
    if options.get("delete_empty_lines", False):
        sides = [[text for text in side if text.strip()] for side in sides]
    if options.get("ignore_case", False):
        sides = [[text.lower() for text in side] for side in sides]
    if options.get("content_only", False) or options.get("fuzzy_match", False):
        from rapidfuzz import fuzz

        if options.get("content_only", False):
            joined = [re.sub(r"\s+", " ", "\n".join(side)).strip() for side in sides]
            return float(fuzz.ratio(*joined)) / 100
        if len(sides[0]) != len(sides[1]) or not sides[0]:
            return 0.0
        return float(sum(fuzz.ratio(a, b) for a, b in zip(*sides, strict=True))) / len(sides[0]) / 100
    if options.get("ignore_blanks", True):
        joined = [re.sub(r"\s+", " ", "\n".join(side)).strip() for side in sides]
        return float(joined[0] == joined[1])
    return float(sides[0] == sides[1])


def compare_docx_files_and_ignore_new_lines(file1: Any, file2: Any, **options: Any) -> float:
    return compare_docx_files(file1, file2, delete_empty_lines=True, ignore_blanks=options.get("ignore_blanks", True))


def compare_docx_lines(file1: Any, file2: Any) -> float:
    """The same lines in any order and number."""
    ours, theirs = _both(file1, file2)
    if ours is None:
        return 0.0
    sides = [{text.strip() for text in _texts(side) if text.strip()} for side in (ours, theirs)]
    return float(sides[0] == sides[1])


def compare_init_lines(file1: Any, file2: Any) -> float:
    """Equal as far as the shorter one goes."""
    ours, theirs = _both(file1, file2)
    if ours is None:
        return 0.0
    return float(all(a == b for a, b in zip(_texts(ours), _texts(theirs), strict=False)))


def compare_docx_tables(file1: Any, file2: Any) -> float:
    ours, theirs = _both(file1, file2)

    def tables(document: Any) -> list[list[list[str]]]:
        return [[[cell.text.strip() for cell in row.cells] for row in table.rows] for table in document.tables]

    return float(ours is not None and tables(ours) == tables(theirs))


def compare_docx_images(file1: Any, file2: Any) -> float:
    ours, theirs = _both(file1, file2)

    def images(document: Any) -> list[bytes]:
        from io import BytesIO

        from PIL import Image

        parts = [part.target_part.blob for part in document.part.rels.values() if "image" in part.reltype]
        return [Image.open(BytesIO(part)).tobytes() for part in parts]

    return float(ours is not None and images(ours) == images(theirs))


def compare_contains_image(file1: Any, file2: Any) -> float:
    """Pictures stand in the same runs."""
    ours, theirs = _both(file1, file2)
    if ours is None:
        return 0.0
    pairs = zip(ours.paragraphs, theirs.paragraphs, strict=False)
    return float(all(
        ("graphicData" in a._element.xml) == ("graphicData" in b._element.xml)
        for left, right in pairs for a, b in zip(left.runs, right.runs, strict=False)
    ))  # fmt: skip


def compare_line_spacing(file1: Any, file2: Any) -> float:
    ours, theirs = _both(file1, file2)
    if ours is None or not compare_docx_files(file1, file2):
        return 0.0

    def spacing(document: Any) -> list[Any]:
        return [paragraph.paragraph_format.line_spacing for paragraph in document.paragraphs]

    return float(spacing(ours) == spacing(theirs))


def evaluate_spacing(path: Any) -> float:
    """Single, double and one and a half lines in the first three paragraphs."""
    document = files.result(path, _document)
    found = [paragraph.paragraph_format.line_spacing for paragraph in document.paragraphs[:3]] if document else []
    return float(found == [1.0, 2.0, 1.5])


def compare_font_names(path: Any, rules: dict[str, Any]) -> float:
    document = files.result(path, _document)
    if document is None:
        return 0.0
    return float(all(run.font.name == rules["font_name"] for p in document.paragraphs for run in p.runs))


def compare_subscript_contains(file1: Any, file2: Any) -> float:
    """Some run is a subscript in both."""
    ours, theirs = _both(file1, file2)
    if ours is None:
        return 0.0
    pairs = zip(ours.paragraphs, theirs.paragraphs, strict=False)
    return float(any(
        a.font.subscript and b.font.subscript
        for left, right in pairs for a, b in zip(left.runs, right.runs, strict=False)
    ))  # fmt: skip


def has_page_numbers_in_footers(path: Any) -> float:
    document = files.result(path, _document)
    if document is None:
        return 0.0
    footers = [section.footer.paragraphs for section in document.sections]
    return float(all(any(c.isdigit() for c in (parts[0].text if parts else "")) for parts in footers))


def is_first_line_centered(path: Any) -> float:
    from docx.enum.text import WD_PARAGRAPH_ALIGNMENT

    document = files.result(path, _document)
    if document is None or not document.paragraphs:
        return 0.0
    return float(document.paragraphs[0].paragraph_format.alignment == WD_PARAGRAPH_ALIGNMENT.CENTER)


def contains_page_break(path: Any, rules: dict[str, Any] | None = None) -> float:
    document = files.result(path, _document)
    if document is None:
        return 0.0
    breaks = [br for p in document.paragraphs for run in p.runs for br in run.element.iter(f"{_W}br")]
    count = sum(br.get(f"{_W}type") == "page" for br in breaks)
    wanted = (rules or {}).get("page_break_count")
    return float(count > 0 and wanted in (None, count))


def evaluate_strike_through_last_paragraph(file1: Any, file2: Any) -> float:
    ours, _ = _both(file1, file2)
    if ours is None or not ours.paragraphs or not compare_docx_files(file1, file2):
        return 0.0
    runs = ours.paragraphs[-1].runs
    return float(bool(runs) and all(run.font.strike for run in runs))


def fuzzy_place_math(path: Any, rules: dict[str, Any]) -> float:
    """Three words, each as near to some right answer as possible."""
    from rapidfuzz import fuzz

    document = files.result(path, _document)
    words = [word for text in _texts(document) for word in text.split()] if document else []
    if len(words) != 3:
        return 0.0
    return float(sum(max(fuzz.ratio(word, answer) for answer in rules["expected"]) for word in words)) / 300


def find_default_font(path: Any, rules: dict[str, Any]) -> float:
    return float(registry_value(path, "/org.openoffice.Office.Writer/DefaultFont", "Standard") == rules["font_name"])


def registry_value(path: Any, item: str, prop: str) -> str | None:
    """A setting of LibreOffice's registrymodifications.xcu; None when it is not there."""

    def read(name: str) -> ElementTree.Element:
        text = files.text(name)
        if "<!DOCTYPE" in text or "<!ENTITY" in text:
            raise ValueError("a settings file has no entities")
        return ElementTree.fromstring(text)

    root = files.result(path, read)
    if root is None:
        return None
    for found in root.iter("item"):
        if found.get(f"{_OOR}path") == item:
            for child in found.iter("prop"):
                value = child.find("value")
                if child.get(f"{_OOR}name") == prop and value is not None:
                    return value.text
    return None
