"""The active sheet of an .xlsx as rows of texts, and back.

Plain workbooks (one sheet, no formulas, no formats) are read and edited directly by `plain`, in a few milliseconds;
importing openpyxl takes ten times that. All others go through openpyxl, when this python has it. Both write only the
cells that differ: a plain number as a number, all else as the text it is, never as a formula.
"""

import os
import sys


class Unreadable(Exception):
    """Why a file cannot be used as a workbook."""


def open_active(path, digits):
    """(rows of texts, function(path, rows) that writes). `digits` recognises plain decimal numbers."""
    import plain

    with open(path, "rb") as file:
        data = file.read()
    try:
        return plain.open_plain(data, as_text, lambda text: as_value(text, digits))
    except plain.NotPlain:
        return open_any(path, digits)


def open_any(path, digits):
    sys.modules["numpy"] = sys.modules["lxml"] = sys.modules["PIL"] = None  # optional for openpyxl, slow to import
    sys.path += [place for place in os.environ.get("PYTHONPATH", "").split(":") if place]
    try:
        import openpyxl
    except ImportError:
        raise Unreadable(f"{path}: needs openpyxl, which this python does not have") from None
    try:
        book = openpyxl.load_workbook(path)
    except Exception:  # zip, XML and key errors alike: whatever it is, it is no workbook
        raise Unreadable(f"{path}: not an .xlsx workbook") from None
    sheet = book.active
    if not hasattr(sheet, "iter_rows"):
        raise Unreadable(f"{path}: has no sheet")

    def write(path, rows):
        width = max(sheet.max_column, max(map(len, rows), default=0))
        for row, texts in enumerate(rows + [[]] * (sheet.max_row - len(rows)), 1):
            for column, text in enumerate(texts + [""] * (width - len(texts)), 1):
                cell = sheet.cell(row, column)
                if as_text(cell.value) == text:
                    continue
                try:
                    cell.value = as_value(text, digits)
                except Exception:  # openpyxl has no common base: control characters, a cell inside a merged one
                    raise ValueError("the workbook cannot hold this value there") from None
                if isinstance(cell.value, str):
                    cell.data_type = "s"
        book.save(path)
        make_timeless(path)

    return [[as_text(value) for value in row] for row in sheet.iter_rows(values_only=True)], write


def make_timeless(path):
    """Take the time of writing out of a workbook."""
    import re
    import zipfile

    with zipfile.ZipFile(path) as old:
        parts = [(part.filename, old.read(part)) for part in old.infolist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name, data in parts:
            if name == "docProps/core.xml":
                data = re.sub(rb"(<dcterms:modified[^>]*>)[^<]*", rb"\g<1>2000-01-01T00:00:00Z", data)
            new.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)


def as_text(value):
    """A workbook's value as a csv file would hold it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def as_value(text, digits):
    """A number when the text is the plain way to write that number, else the text."""
    number = digits(text)
    if number is None:
        return text or None
    value = float(text) if number[1] else int(text)
    return value if str(value) == text and not (number[1] and text.endswith("0")) else text
