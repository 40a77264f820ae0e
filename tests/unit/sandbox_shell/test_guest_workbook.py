"""The guest's own reader of plain workbooks agrees with openpyxl, and leaves all that it does not know to it."""

from __future__ import annotations

import importlib.util
import io
import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from components.sandbox.minidesk.tables import from_xlsx, to_xlsx, trim
from components.sandbox.shell import GUEST_LIBRARY

from .test_guest_sheet import sheet


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"guest_{name}", GUEST_LIBRARY / "lib" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    keep, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    spec.loader.exec_module(module)
    sys.dont_write_bytecode = keep
    return module


plain, workbook = load("plain"), load("workbook")
CELLS = ["", "a", "12", "-3", "3.5", "3.50", "007", "=A1", "x & <y>", 'q"', " pad ", "é→🙂", "two\nrows", "TRUE", "1e5"]


def digits(text: str) -> tuple[int, int] | None:
    """Enough of `sheet`'s rule for the cells above."""
    body = text.lstrip("+-")
    if not body.replace(".", "", 1).isdecimal():
        return None
    return 0, len(body.partition(".")[2])


def open_plain(data: bytes) -> tuple[list[list[str]], Callable[[str, list[list[str]]], None]]:
    return plain.open_plain(data, workbook.as_text, lambda text: workbook.as_value(text, digits))


@pytest.mark.parametrize("seed", range(30))
def test_reading_and_writing_agree_with_openpyxl(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    table = [[rng.choice(CELLS) for _ in range(rng.randrange(1, 5))] for _ in range(rng.randrange(1, 6))]
    data = to_xlsx(table)
    for turn in range(3):  # what we wrote must be plain again
        rows, write = open_plain(data)
        assert trim(rows) == from_xlsx(data)
        for _ in range(rng.randrange(4)):
            row, column = rng.randrange(8), rng.choice([0, 1, 2, 25])
            while len(rows) <= row:
                rows.append([])
            rows[row] += [""] * (column + 1 - len(rows[row]))
            rows[row][column] = rng.choice(CELLS)
        if turn == 1:
            rng.shuffle(rows)
        path = tmp_path / "t.xlsx"
        write(str(path), rows)
        data = path.read_bytes()
        assert from_xlsx(data) == trim(rows)


def book(change: Callable[[Any], None]) -> bytes:
    import openpyxl

    made = openpyxl.Workbook()
    made.active.append(["name", "count"])
    made.active.append(["a", 1])
    change(made)
    file = io.BytesIO()
    made.save(file)
    return file.getvalue()


def add_formula(made: Any) -> None:
    made.active["B3"] = "=SUM(B2:B2)"


def add_sheet(made: Any) -> None:
    made.create_sheet("more")


def add_date(made: Any) -> None:
    import datetime

    made.active["B3"] = datetime.date(2024, 5, 6)


def add_bold(made: Any) -> None:
    from openpyxl.styles import Font

    made.active["A1"].font = Font(bold=True)


def add_merge(made: Any) -> None:
    made.active.merge_cells("A5:B5")


def add_comment(made: Any) -> None:
    from openpyxl.comments import Comment

    made.active["A1"].comment = Comment("c", "d")


@pytest.mark.parametrize("change", [add_formula, add_sheet, add_date, add_bold, add_merge, add_comment])
def test_what_is_not_plain_is_left_to_openpyxl_and_survives(home: Path, change: Callable[[Any], None]) -> None:
    data = book(change)
    with pytest.raises(plain.NotPlain):
        open_plain(data)
    (home / "t.xlsx").write_bytes(data)
    assert sheet(home, "set", "t.xlsx", "A2", "b") == (0, "", "")
    wanted = from_xlsx(data)
    wanted[1][0] = "b"
    assert from_xlsx((home / "t.xlsx").read_bytes()) == wanted
    with pytest.raises(plain.NotPlain):  # whatever made it special is still there
        open_plain((home / "t.xlsx").read_bytes())


def test_value_that_a_workbook_cannot_hold_is_refused(home: Path) -> None:
    for data in (to_xlsx([["a"]]), book(add_bold)):
        (home / "t.xlsx").write_bytes(data)
        assert sheet(home, "set", "t.xlsx", "A1", "\x01") == (
            2, "", "sheet: t.xlsx: the workbook cannot hold this value there\n",
        )  # fmt: skip
        assert (home / "t.xlsx").read_bytes() == data and len(list(home.iterdir())) == 1


@pytest.mark.parametrize("seed", range(40))
def test_damaged_workbooks_are_read_right_or_not_at_all(seed: int) -> None:
    rng = random.Random(seed)
    data = bytearray(to_xlsx([["name", "count"], ["a", "1"]]))
    if rng.random() < 0.3:
        del data[rng.randrange(len(data)) :]
    else:
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
    try:
        rows, _ = open_plain(bytes(data))
    except plain.NotPlain:
        return
    assert rows == [["name", "count"], ["a", "1"]]


def test_columns_beyond_z_have_two_letters(home: Path) -> None:
    (home / "t.xlsx").write_bytes(to_xlsx([["a"]]))
    assert sheet(home, "set", "t.xlsx", "AB2", "far") == (0, "", "")
    assert sheet(home, "get", "t.xlsx", "ab2")[1] == "far\n"
    import openpyxl

    assert openpyxl.load_workbook(home / "t.xlsx").active["AB2"].value == "far"


def test_plain_workbooks_need_no_library(home: Path) -> None:
    (home / "t.xlsx").write_bytes(to_xlsx([["name"], ["b"], ["a"]]))
    assert sheet(home, "sort", "t.xlsx", "name", site=None) == (0, "", "")
    assert sheet(home, "show", "t.xlsx", site=None)[1] == "   A\n1  name\n2  a\n3  b\n"
    (home / "t.xlsx").write_bytes(book(add_bold))
    code, _, message = sheet(home, "show", "t.xlsx", site=None)
    if code:  # a system python may have openpyxl of its own
        assert (code, message) == (2, "sheet: t.xlsx: needs openpyxl, which this python does not have\n")
