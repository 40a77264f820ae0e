"""Every record is held against its schema before a rule sees it, and what does not fit is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from components.contracts.errors import DataError
from components.curation.datagates.border import check_rows, check_texts, parse_lines, read_lines


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    point: tuple[int, int] | None = None


class Record(BaseModel):
    model_config = ConfigDict(extra="forbid")
    id: str
    count: int
    share: float = 0.0
    inner: Inner = Inner()


GOOD = '{"id": "a", "count": 3, "share": 1, "inner": {"point": [4, 5]}}'
LINES = {
    '{"id": "a", "count": "3"}': ("type", "count"),
    '{"id": "a", "count": 3.0}': ("type", "count"),
    '{"id": "a", "count": true}': ("type", "count"),
    '{"id": "a", "count": null}': ("type", "count"),
    '{"id": 7, "count": 3}': ("type", "id"),
    '{"id": "a"}': ("missing", "count"),
    '{"id": "a", "count": 3, "more": 1}': ("extra", "more"),
    '{"id": "a", "count": 3, "inner": {"point": "4,5"}}': ("type", "inner.point"),
    '{"id": "a", "count": 3, "inner": {"point": [4, "5"]}}': ("type", "inner.point.1"),
    '{"id": "a", "count": 3, "inner": {"point": [4]}}': ("missing", "inner.point.1"),
    '{"id": "a", "count": 3, "share": NaN}': ("not_finite", ""),
    '{"id": "a", "count": 3, "share": -Infinity}': ("not_finite", ""),
    '{"id": "a", "count": 3, "count": 4}': ("key_twice", ""),
    '[{"id": "a", "count": 3}]': ("not_an_object", ""),
    "": ("empty_line", ""),
    "   ": ("empty_line", ""),
}
BREAKING = ('{"id": "a", "count": 3', "id: a", '{"id": "a", "count": 3}{"id": "b", "count": 3}')


@pytest.mark.parametrize("line", LINES)
def test_a_record_that_does_not_fit_is_named_and_the_others_are_read(line: str) -> None:
    read = parse_lines(f"{GOOD}\n{GOOD}\n{line}\n{GOOD}\n".encode(), Record, name="part")
    assert [number for number, _ in read.records] == [1, 2, 4]
    (violation,) = read.violations
    assert (violation.file, violation.line, violation.record) == ("part", 3, 3)
    assert (violation.code, violation.field) == LINES[line]


@pytest.mark.parametrize("line", BREAKING)
def test_what_follows_a_broken_line_is_not_trusted(line: str) -> None:
    read = parse_lines(f"{GOOD}\n{line}\n{GOOD}\n".encode(), Record, name="part")
    assert [number for number, _ in read.records] == [1]
    assert [(v.line, v.code) for v in read.violations] == [(2, "not_json")]


def test_bytes_that_are_no_text_are_named_by_line() -> None:
    read = parse_lines(GOOD.encode() + b'\n{"id": "\xff", "count": 1}\n', Record, name="part")
    assert [(v.line, v.code) for v in read.violations] == [(2, "not_utf8")]


@pytest.mark.parametrize("end", ["", "\n", "\n\n\n", "\r\n"])
def test_a_mark_at_the_beginning_and_empty_lines_at_the_end_change_nothing(end: str) -> None:
    read = parse_lines(b"\xef\xbb\xbf" + (GOOD + end).encode(), Record, name="part")
    assert [record.count for _, record in read.records] == [3] and not read.violations


def test_no_file_decides_a_type_for_the_next_one() -> None:
    texts = ['{"id": "a", "count": 1, "inner": {"point": null}}', GOOD]
    assert not check_texts(texts, Record, name="rows").violations


def test_rows_of_a_table_are_checked_like_lines() -> None:
    rows = [{"id": "a", "count": 1}, {"id": "b", "count": "2"}, {"id": "c", "count": 3, "more": None}]
    read = check_rows(rows, Record, name="table")
    assert [(v.record, v.code, v.field) for v in read.violations] == [(2, "type", "count"), (3, "extra", "more")]


def test_a_long_text_of_a_table_with_a_number_that_is_none_is_refused() -> None:
    text = '{"id": "' + "x" * 5000 + '", "count": 1, "share": NaN}'
    assert [v.code for v in check_texts([text], Record, name="t").violations] == ["not_finite"]
    assert not check_texts([text.replace("NaN", "1").replace("xx", "a NaN b")], Record, name="t").violations


def test_a_file_that_is_not_there_is_an_error_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="none.jsonl"):
        read_lines(tmp_path / "none.jsonl", Record)
