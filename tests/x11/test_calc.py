"""LibreOffice Calc: a workbook opened, changed and saved through the screen, read by another library."""

from __future__ import annotations

import io
import shutil

import openpyxl
import pytest

from .conftest import Person, wait_for

pytestmark = pytest.mark.skipif(
    shutil.which("soffice") is None, reason="LibreOffice Calc is not installed (make desktops)"
)


def workbook() -> bytes:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    for row in (("region", "sales"), ("north", 12), ("south", 30)):
        sheet.append(row)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def test_a_value_typed_in_calc_is_in_the_saved_workbook(person: Person) -> None:
    person.guest.put("sales.xlsx", workbook())
    window = person.guest.open(["soffice", "--norestore", "--nologo", "sales.xlsx"], "sales.xlsx", limit=120)
    assert window is not None and window.box[2] - window.box[0] > 1200  # maximised, by the profile
    person.act("type", text="\n\n\nwest\t44\n=SUM(B2:B4)\n")
    before = person.guest.get("sales.xlsx")
    person.key("ctrl", "s")
    assert wait_for(lambda: person.guest.get("sales.xlsx") != before, 120)
    assert [w.title for w in person.guest.windows() if w.kind == "dialog"] == []
    sheet = openpyxl.load_workbook(io.BytesIO(person.guest.get("sales.xlsx")), data_only=True).active
    assert sheet is not None
    rows = [tuple(cell.value for cell in row) for row in sheet.iter_rows(max_col=2)]
    assert rows[:4] == [("region", "sales"), ("north", 12), ("south", 30), ("west", 44)]
    assert 86 in [value for row in rows[4:] for value in row]
