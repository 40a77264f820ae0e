"""Sheet and its tables: real .csv and .xlsx files."""

from __future__ import annotations

import io
from typing import Any

import pytest

from components.sandbox.minidesk.store import Refused
from components.sandbox.minidesk.tables import from_csv, from_xlsx, to_csv, to_xlsx

Start = Any
CSV = {"desk": {"open": ["sheet:t.csv"]}}
XLSX = {"desk": {"open": ["sheet:t.xlsx"]}}
TABLE = "item,qty\npear,12\nfig,7\nplum,30\n"


def test_typing_replaces_a_cell_and_enter_moves_down(start: Start) -> None:
    d = start({"t.csv": TABLE}, CSV)
    d.click("cell", "b2")
    d.type("99")
    assert d.find("cell", "b2").state == "99" and d.top["rows"][1] == ["pear", "12"]
    d.key("enter")
    assert d.top["selected"] == "b3" and d.find("title", "t.csv*")
    d.click("button", "save")
    assert (d.home / "t.csv").read_text() == TABLE.replace("12", "99") and d.find("title", "t.csv")


def test_esc_discards_and_a_click_elsewhere_commits(start: Start) -> None:
    d = start({"t.csv": TABLE}, CSV)
    d.click("cell", "a2")
    d.type("x")
    d.key("esc")
    assert d.find("cell", "a2").state == "pear"
    d.type("y")
    d.click("cell", "d4")
    assert d.find("cell", "a2").state == "y"


def test_another_window_commits_too(start: Start) -> None:
    d = start({"t.csv": TABLE}, CSV)
    d.type("z")
    d.open("prefs")
    assert d.state["windows"][0]["rows"][0][0] == "z"


def test_double_click_edits_the_present_content(start: Start) -> None:
    d = start({"t.csv": TABLE}, CSV)
    d.double("cell", "a2")
    d.key("backspace")
    d.type("t\t")
    assert d.find("cell", "a2").state == "peat" and d.top["selected"] == "b2"


def test_sort_by_the_selected_column(start: Start) -> None:
    d = start({"t.csv": TABLE}, CSV)
    d.click("cell", "b3")
    d.click("button", "sort")
    assert [r[1] for r in d.top["rows"]] == ["qty", "7", "12", "30"]
    assert (d.home / "t.csv").read_text() == TABLE
    d.click("cell", "a1")
    d.click("button", "sort")
    assert [r[0] for r in d.top["rows"]] == ["item", "fig", "pear", "plum"]


def test_sort_puts_empty_cells_last_and_mixed_cells_as_text(start: Start) -> None:
    d = start({"t.csv": "h\n10\n\n9\nx\n"}, CSV)
    d.click("button", "sort")
    assert [r[0] if r else "" for r in d.top["rows"]] == ["h", "10", "9", "x"]


def test_sum_writes_the_numbers_above(start: Start) -> None:
    d = start({"t.csv": "h,p\na,0.1\nb,0.2\nc,n/a\n"}, CSV)
    d.click("cell", "b5")
    d.click("button", "sum")
    d.key("ctrl", "s")
    assert (d.home / "t.csv").read_text().splitlines()[-1] == ",0.3"
    d.click("cell", "a4")
    assert not d.click("button", "sum").effect


def test_rows_and_columns_beyond_the_view_are_reached(start: Start) -> None:
    d = start({"t.csv": "".join(f"r{i}\n" for i in range(1, 12))}, CSV)
    d.act("scroll", coordinate=d.find("cell", "b2").center, pixels=-600)
    assert d.find("cell", "a7").state == "r7"
    d.click("cell", "a11")
    for _ in range(4):
        d.key("right")
    d.type("e\n")
    assert d.top["rows"][10] == ["r11", "", "", "", "e"]


def test_csv_round_trip_keeps_every_cell() -> None:
    rows = [["a,b", 'say "hi"', "two\nlines"], ["", "é中", " padded "], ["", "", "cr\rhere"], ["=1+1", "007", "1.50"]]
    assert from_csv(to_csv(rows)) == rows
    assert to_csv([["a"], [], ["b"]]) == b'a\n""\nb\n'
    assert to_csv([["a", "b"], ["c"]]) == b"a,b\nc,\n"
    assert to_csv([]) == b"" and from_csv(b"") == []


def test_xlsx_round_trip_keeps_every_cell() -> None:
    rows = [["item", "qty", "code"], ["pear", "12", "007"], ["é", "-0.5", "1.50"], ["", "", "=1+1"]]
    rows.append(["9" * 20, "1e5", "TRUE"])
    assert from_xlsx(to_xlsx(rows)) == rows


def test_xlsx_is_a_real_workbook_with_numbers(start: Start) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    d = start({"t.xlsx": to_xlsx([["n", "v"], ["a", "1"]])}, XLSX)
    d.click("cell", "b2")
    d.type("2.5\n")
    d.type("text\n")
    d.click("button", "save")
    sheet = openpyxl.load_workbook(d.home / "t.xlsx").active
    assert [[c.value for c in row] for row in sheet.iter_rows()] == [["n", "v"], ["a", 2.5], [None, "text"]]


def test_saving_an_xlsx_keeps_its_other_sheets_and_formulas(start: Start) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active["A1"], book.active["A2"] = 5, "=A1*2"
    book.create_sheet("other")["B2"] = "kept"
    file = io.BytesIO()
    book.save(file)
    d = start({"t.xlsx": file.getvalue()}, XLSX)
    d.type("6\n")
    d.key("ctrl", "s")
    saved = openpyxl.load_workbook(d.home / "t.xlsx")
    assert saved["other"]["B2"].value == "kept"
    assert (saved.active["A1"].value, saved.active["A2"].value, saved.active["A2"].data_type) == (6, "=A1*2", "f")


def test_the_same_table_gives_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    first = to_xlsx([["a", "1"]])
    import openpyxl.writer.excel as excel

    class Later(excel.datetime.datetime):  # type: ignore[name-defined,misc]
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return super().now(tz).replace(year=2040)

    monkeypatch.setattr(excel.datetime, "datetime", Later)
    assert to_xlsx([["a", "1"]]) == first
    assert to_xlsx([["a", "2"]], first) == to_xlsx([["a", "2"]], first)


def test_emptied_cells_are_emptied_in_the_file(start: Start) -> None:
    d = start({"t.xlsx": to_xlsx([["a"], ["b"]])}, XLSX)
    d.click("cell", "a2")
    d.key("delete")
    d.key("ctrl", "s")
    assert from_xlsx((d.home / "t.xlsx").read_bytes()) == [["a"]]


@pytest.mark.parametrize("data", [b"", b"not a zip", to_xlsx([["a"]])[:200], to_csv([["x"] * 30])])
def test_a_damaged_workbook_is_refused(data: bytes) -> None:
    with pytest.raises(Refused):
        from_xlsx(data)


def test_a_table_beyond_the_limits_is_refused() -> None:
    with pytest.raises(Refused):
        from_csv(b"a\n" * 2000)


def test_a_character_that_xlsx_cannot_hold_is_an_error_dialog(start: Start) -> None:
    d = start({"t.xlsx": to_xlsx([["a"]])}, XLSX)
    d.type("\x01\n")
    d.key("ctrl", "s")
    assert d.state["overlay"]["title"] == "error"
    assert from_xlsx((d.home / "t.xlsx").read_bytes()) == [["a"]]


def test_an_empty_sheet_is_saved_under_a_name(start: Start) -> None:
    d = start(state={"desk": {"open": ["sheet"]}})
    d.type("x\n")
    d.click("button", "save")
    d.type("new\n")
    assert (d.home / "new.csv").read_text() == "x\n"
