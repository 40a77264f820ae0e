"""Tables as real .csv and .xlsx bytes. Cells are texts exactly as typed; the same table gives the same bytes.

`openpyxl` is loaded at the first .xlsx. A workbook that exists keeps its other sheets and formats: only cells that
differ are written. Its time stamps (in the archive and in its properties) are set to fixed values.
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
from datetime import datetime
from decimal import Decimal
from typing import Any

from components.sandbox.minidesk.store import MAX_BYTES, Refused, decode, encode

Rows = list[list[str]]

MAX_ROWS, MAX_COLUMNS = 1000, 26
_EPOCH = datetime(2000, 1, 1)
_MODIFIED = re.compile(rb"(<dcterms:modified[^>]*>)[^<]*(</dcterms:modified>)")
_UNPACKED = 8 * MAX_BYTES
_NUMBER = re.compile(r"[+-]?\d{1,15}(\.\d{1,15})?")
_PLAIN = re.compile(r"-?(0|[1-9]\d*)(\.\d*[1-9])?")
_SPECIAL = re.compile(r'[",\r\n]')


def number(text: str) -> Decimal | None:
    """The value of a cell that is a plain decimal number, else None."""
    return Decimal(text.strip()) if _NUMBER.fullmatch(text.strip()) else None


def show_number(value: Decimal) -> str:
    """`4`, `0.3`: no exponent, no trailing zeros."""
    text = format(value, "f")
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


def trim(rows: Rows) -> Rows:
    """Without empty cells at the end of rows and without empty rows at the end."""
    out = []
    for row in rows:
        end = len(row)
        while end and row[end - 1] == "":
            end -= 1
        out.append(row[:end])
    while out and not out[-1]:
        out.pop()
    return out


def from_csv(data: bytes) -> Rows:
    """Raises `Refused` when a field is beyond the reader's limit or the table beyond ours."""
    try:
        rows = list(csv.reader(io.StringIO(decode(data), newline="")))
    except csv.Error as error:
        raise Refused("bad csv file") from error
    return _within(rows)


def to_csv(rows: Rows) -> bytes:
    """Rectangular, minimal quoting, "\\n" line ends."""
    rows = trim(rows)
    width = max((len(row) for row in rows), default=0)
    lines = []
    for row in rows:
        cells = [_quoted(cell) for cell in row + [""] * (width - len(row))]
        # A line that is empty would be read as no row at all.
        lines.append(",".join(cells) or '""')
    return encode("".join(line + "\n" for line in lines))


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if _SPECIAL.search(cell) else cell


def from_xlsx(data: bytes) -> Rows:
    """Values of the active sheet as text. Raises `Refused` for anything that is not a sane workbook."""
    sheet = _workbook(data).active
    if sheet is None or not hasattr(sheet, "iter_rows"):
        raise Refused("no sheet")
    if sheet.max_row > MAX_ROWS or sheet.max_column > MAX_COLUMNS:
        raise Refused("table is too big")
    return trim([[_text(value) for value in row] for row in sheet.iter_rows(values_only=True)])


def to_xlsx(rows: Rows, before: bytes | None = None) -> bytes:
    """A workbook with these rows: `before` with the cells that differ replaced, or a new one."""
    from openpyxl import Workbook

    if before is None:
        book = Workbook()
        book.properties.created = _EPOCH
    else:
        book = _workbook(before)
    sheet: Any = book.active
    try:
        for r, row in enumerate(_grid(rows, sheet.max_row, sheet.max_column), 1):
            for c, cell in enumerate(row, 1):
                if _text(sheet.cell(r, c).value) != cell:
                    _put(sheet.cell(r, c), cell)
        file = io.BytesIO()
        book.save(file)
    except Exception as error:  # openpyxl has no common base for what it refuses, e.g. control characters
        raise Refused("xlsx cannot hold this") from error
    return _timeless(file.getvalue())


def _grid(rows: Rows, height: int, width: int) -> Rows:
    """Padded so that it covers what the sheet had: cells that were emptied are written too."""
    width = max(width, *(len(row) for row in rows)) if rows else width
    return [list(row) + [""] * (width - len(row)) for row in rows + [[]] * (height - len(rows))]


def _put(cell: Any, text: str) -> None:
    """A number when its text is the plain spelling of it, else a text, never a formula."""
    if not text:
        cell.value = None
    elif _PLAIN.fullmatch(text) and _NUMBER.fullmatch(text) and str(value := _value(text)) == text:
        cell.value = value
    else:
        cell.value = text
        cell.data_type = "s"


def _value(text: str) -> int | float:
    return float(text) if "." in text else int(text)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def _workbook(data: bytes) -> Any:
    from openpyxl import load_workbook

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(info.file_size for info in archive.infolist()) > _UNPACKED:
                raise Refused("file is too big")
        return load_workbook(io.BytesIO(data))
    except Refused:
        raise
    except Exception as error:  # zip, XML and openpyxl's own errors: all mean that this is not a workbook
        raise Refused("bad xlsx file") from error


def _timeless(data: bytes) -> bytes:
    """The same archive without the time of writing."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            content = old.read(info)
            if info.filename == "docProps/core.xml":
                content = _MODIFIED.sub(rb"\g<1>" + _EPOCH.isoformat().encode() + rb"Z\g<2>", content)
            new.writestr(zipfile.ZipInfo(info.filename, (1980, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
    return file.getvalue()


def _within(rows: Rows) -> Rows:
    if len(rows) > MAX_ROWS or any(len(row) > MAX_COLUMNS for row in rows):
        raise Refused("table is too big")
    return rows
