"""The guest command `sheet`: exact cells, the same bytes as the desktop's Sheet, and untouched files on errors."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from pathlib import Path

import pytest

from components.sandbox.confine import host_site
from components.sandbox.minidesk.tables import from_xlsx, to_csv, to_xlsx
from components.sandbox.shell import GUEST_LIBRARY, ShellSession

TABLE = [["name", "price", "note"], ["pear", "3.50", 'a, "b"'], ["apple", "12", "x"], ["fig", "", "7"]]


def sheet(home: Path, *arguments: str, site: Path | None = host_site()) -> tuple[int, str, str]:  # noqa: B008
    done = subprocess.run(
        [str(GUEST_LIBRARY / "bin" / "sheet"), *arguments], cwd=home, capture_output=True, text=True, check=False,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": str(site or "")},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(params=["t.csv", "t.xlsx"])
def file(request: pytest.FixtureRequest, home: Path) -> str:
    (home / request.param).write_bytes(to_csv(TABLE) if request.param == "t.csv" else to_xlsx(TABLE))
    return request.param


def rows(home: Path, file: str) -> list[list[str]]:
    data = (home / file).read_bytes()
    if file.endswith(".xlsx"):
        return from_xlsx(data)
    return list(csv.reader(io.StringIO(data.decode(), newline="")))


def test_show_and_get(home: Path, file: str) -> None:
    assert sheet(home, "show", file) == (0, (
        "   A      B      C\n"
        "1  name   price  note\n"
        '2  pear   3.50   a, "b"\n'
        "3  apple  12     x\n"
        "4  fig           7\n"
    ), "")  # fmt: skip
    assert sheet(home, "get", file, "c2") == (0, 'a, "b"\n', "")
    assert sheet(home, "get", file, "Z99") == (0, "\n", "")


VALUES = ["12", "007", "3.50", "=A1+1", "a,b", 'say "x"', "two\nlines", " x ", "é", "TRUE", ""]


@pytest.mark.parametrize("value", VALUES)
def test_set_writes_the_value_exactly_into_csv(home: Path, value: str) -> None:
    (home / "t.csv").write_bytes(to_csv(TABLE))
    assert sheet(home, "set", "t.csv", "B3", value) == (0, "", "")
    assert sheet(home, "get", "t.csv", "b3") == (0, value + "\n", "")
    wanted = [list(row) for row in TABLE]
    wanted[2][1] = value
    assert (home / "t.csv").read_bytes() == to_csv(wanted)


@pytest.mark.parametrize("value", ["12", "007", "3.50", "=A1+1"])
def test_set_writes_the_value_exactly_into_a_workbook(home: Path, value: str) -> None:
    (home / "t.xlsx").write_bytes(to_xlsx(TABLE))
    assert sheet(home, "set", "t.xlsx", "B3", value) == (0, "", "")
    wanted = [list(row) for row in TABLE]
    wanted[2][1] = value
    assert rows(home, "t.xlsx") == wanted


def test_set_outside_the_table_grows_it(home: Path, file: str) -> None:
    assert sheet(home, "set", file, "E6", "z")[0] == 0
    assert rows(home, file)[-1] == ["", "", "", "", "z"]


def test_sum_above_a_cell_and_of_a_column(home: Path, file: str) -> None:
    assert sheet(home, "sum", file, "b5") == (0, "", "")
    assert sheet(home, "sum", file, "price", "B5") == (0, "", "")
    assert sheet(home, "sum", file, "c", "A6") == (0, "", "")
    assert [row[:2] for row in rows(home, file)][4:] == [["", "15.5"], ["7"] + [""] * (file == "t.csv")]


def test_sum_is_exact(home: Path) -> None:
    (home / "s.csv").write_text("0.1\n0.2\n-0.30\n1e5\n 4\n+5\n.5\n5.\n")
    assert sheet(home, "sum", "s.csv", "a", "b1")[0] == 0
    assert (home / "s.csv").read_text().splitlines()[0] == "0.1,9"


def test_sort_keeps_the_header_and_puts_empty_cells_last(home: Path, file: str) -> None:
    assert sheet(home, "sort", file, "name") == (0, "", "")
    assert [row[0] for row in rows(home, file)] == ["name", "apple", "fig", "pear"]
    assert sheet(home, "sort", file, "B") == (0, "", "")
    assert [row[0] for row in rows(home, file)] == ["name", "pear", "apple", "fig"]


def test_sort_is_by_text_when_one_value_is_no_number(home: Path) -> None:
    (home / "s.csv").write_text("h\n10\n9\nx\n")
    sheet(home, "sort", "s.csv", "a")
    assert (home / "s.csv").read_text() == "h\n10\n9\nx\n"


def test_same_calls_give_the_same_bytes(home: Path, file: str) -> None:
    before = (home / file).read_bytes()
    results = []
    for _ in range(2):
        (home / file).write_bytes(before)
        sheet(home, "set", file, "a2", "kiwi")
        sheet(home, "sort", file, "a")
        results.append((home / file).read_bytes())
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "usage: sheet show|get|set|sum|sort FILE ..."),
        (("drop", "t.csv"), "usage: sheet show|get|set|sum|sort FILE ..."),
        (("set", "t.csv", "A1"), "usage: sheet set FILE CELL VALUE"),
        (("get", "none.csv", "A1"), "none.csv: no such file"),
        (("get", "t.txt", "A1"), "t.txt: neither .csv nor .xlsx"),
        (("set", "t.csv", "11", "x"), "11: not a cell, write it like b3"),
        (("set", "t.csv", "A0", "x"), "A0: not a cell, write it like b3"),
        (("sort", "t.csv", "nope"), "nope: no such column"),
        (("sum", "t.csv", "D", "A9"), "D: no such column"),
        (("sum", "t.csv", "name", "A9"), "no numbers to sum"),
        (("show", "open.csv"), "open.csv: not a csv file (unexpected end of data)"),
        (("show", "bytes.csv"), "bytes.csv: not UTF-8 text"),
        (("set", "bad.xlsx", "A1", "x"), "bad.xlsx: not an .xlsx workbook"),
    ],
)  # fmt: skip
def test_wrong_calls_say_so_in_one_line_and_change_nothing(
    home: Path, arguments: tuple[str, ...], message: str
) -> None:
    (home / "t.csv").write_bytes(to_csv(TABLE))
    for name, data in (("t.txt", b"x"), ("open.csv", b'"a'), ("bytes.csv", b"\xff"), ("bad.xlsx", b"PK")):
        (home / name).write_bytes(data)
    before = {path.name: path.read_bytes() for path in home.iterdir()}
    assert sheet(home, *arguments) == (2, "", f"sheet: {message}\n")
    assert {path.name: path.read_bytes() for path in home.iterdir()} == before


def test_file_is_whole_when_writing_fails(home: Path) -> None:
    (home / "t.csv").write_bytes(to_csv(TABLE))
    with ShellSession(home, confinement="none", unconfined=True, guest=GUEST_LIBRARY) as shell:
        result = shell.run(f"ulimit -f 10; sheet set t.csv a9 {'x' * 20000}")
    assert (result.exit_code, result.output) == (2, "sheet: t.csv: File too large\n")
    assert [path.name for path in home.iterdir()] == ["t.csv"]
    assert (home / "t.csv").read_bytes() == to_csv(TABLE)


def test_sheet_is_in_the_guests_path_and_reads_workbooks(shell: ShellSession, home: Path) -> None:
    (home / "t.xlsx").write_bytes(to_xlsx(TABLE))
    assert shell.run("sheet get t.xlsx a3; sheet set t.xlsx a3 plum; sheet get t.xlsx a3").output == "apple\nplum\n"
