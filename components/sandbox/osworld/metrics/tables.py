"""Workbooks and CSV files, over openpyxl."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path
from typing import Any

from components.contracts.errors import VerifierError
from components.sandbox.osworld.metrics import files
from components.sandbox.osworld.metrics.rules import value_matches

Rule = dict[str, Any]
_DIGITS = 4
"""Decimal places that numbers are compared to, where a rule names none."""


def check_csv(result: Any, rules: Rule) -> float:
    """Some row holds each expected record, none an unexpected one."""

    def read(path: str) -> list[dict[str, str]]:
        with open(path, encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    rows = files.result(result, read)
    if rows is None:
        return 0.0

    def there(record: dict[str, str]) -> bool:
        return any(all(key in row and row[key] == value for key, value in record.items()) for row in rows)

    wanted = all(there(record) for record in rules.get("expect", []))
    return float(wanted and not any(there(record) for record in rules.get("unexpect", [])))


def compare_csv(result: Any, expected: Any, **options: Any) -> float:
    """Equal lines, to any of the references."""

    def lines(text: str) -> list[str]:
        found = text.splitlines()
        if not options.get("strict", True):
            found = [line.strip() for line in found]
        return [line.lower() for line in found] if options.get("ignore_case", False) else found

    ours = files.result(result, files.text)
    references = expected if isinstance(expected, list) else [expected]
    theirs = [lines(files.reference(path, files.text)) for path in references]
    return float(ours is not None and lines(ours) in theirs)


def last_row(path: str) -> list[str]:
    """The last row that holds anything, as texts."""
    book = files.result(path, lambda name: _Book(name))
    rows = book.values(book.names[0]) if book else []
    return ["nan" if value is None else str(value) for value in rows[-1]] if rows else []


class _Book:
    """A workbook, its formulas' last results, and (for printed values) the CSV files beside it."""

    def __init__(self, path: str) -> None:
        import openpyxl

        self.path = Path(path)
        self.book = openpyxl.load_workbook(path)
        self.results = openpyxl.load_workbook(path, data_only=True)
        self.names: list[str] = list(self.book.sheetnames)

    def values(self, sheet: str) -> list[list[Any]]:
        """Rows up to the last one that holds anything."""
        rows = [list(row) for row in self.results[sheet].iter_rows(values_only=True)]
        while rows and all(value is None for value in rows[-1]):
            rows.pop()
        width = max((n for row in rows for n, value in enumerate(row, 1) if value is not None), default=0)
        return [row[:width] for row in rows]

    def printed(self, sheet: str) -> list[str]:
        lines = files.text(str(self.path.with_name(f"{self.path.stem}-{sheet}.csv"))).splitlines()
        lines = [line.strip() for line in lines]
        while lines and not lines[-1]:
            lines.pop()
        return lines


def compare_table(result: Any, expected: Any = None, **options: Any) -> float:
    """All rules hold. Of OSWorld's rules: sheet_name, sheet_data, sheet_print, sheet_fuzzy, chart, style, freeze, zoom,
    data_validation, row_props, col_props, filter, check_cell. Raises `VerifierError` for another."""
    book = files.result(result, _Book)
    reference = None if expected is None else files.reference(expected, _Book)
    if book is None:
        return 0.0
    for rule in options["rules"]:
        if rule["type"] not in _RULES:
            raise VerifierError(f"compare_table does not know the rule {rule['type']!r} here", where="metric",
                                remedy="install the package desktop-env for it")  # fmt: skip
        try:
            if not _RULES[rule["type"]](rule, book, reference):
                return 0.0
        except (KeyError, IndexError, OSError, UnicodeError):  # a sheet, cell or printed file is not there
            return 0.0
    return 1.0


def _sheet(index: int | str, book: _Book, reference: _Book | None) -> tuple[_Book, str]:
    """0 and RI0: by number; RNname: by name; EI and EN: of the reference. Raises KeyError, IndexError."""
    if isinstance(index, int):
        return book, book.names[index]
    whose = book if index[:1] == "R" else reference
    if whose is None or index[:2] not in ("RI", "RN", "EI", "EN"):
        raise VerifierError(f"there is no sheet {index!r}", where="metric")
    name = whose.names[int(index[2:])] if index[1] == "I" else index[2:]
    if name not in whose.names:
        raise KeyError(name)
    return whose, name


def _two(rule: Rule, book: _Book, reference: _Book | None) -> tuple[tuple[_Book, str], tuple[_Book, str]]:
    return _sheet(rule["sheet_idx0"], book, reference), _sheet(rule["sheet_idx1"], book, reference)


def _names(rule: Rule, book: _Book, reference: _Book | None) -> bool:
    return reference is not None and book.names == reference.names


def _data(rule: Rule, book: _Book, reference: _Book | None) -> bool:
    (left, a), (right, b) = _two(rule, book, reference)
    digits = int(rule.get("precision", _DIGITS))
    return _same_rows(left.values(a), right.values(b), digits)


def _same_rows(left: list[list[Any]], right: list[list[Any]], digits: int) -> bool:
    def plain(value: Any) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return round(float(value), digits)
        return value

    return all(
        plain(a) == plain(b)
        for row_a, row_b in zip_longest(left, right, fillvalue=None)
        for a, b in zip_longest(row_a or [_Missing], row_b or [_Missing])
    )


class _Missing:
    """A row that the other side does not have."""


def _printed(rule: Rule, book: _Book, reference: _Book | None) -> bool:
    (left, a), (right, b) = _two(rule, book, reference)
    sides = [left.printed(a), right.printed(b)]
    if rule.get("ignore_case", False):
        sides = [[line.lower() for line in side] for side in sides]
    return sides[0] == sides[1]


def _fuzzy(rule: Rule, book: _Book, reference: _Book | None) -> bool:
    from rapidfuzz import fuzz

    (left, a), (right, b) = _two(rule, book, reference)
    for part in rule["rules"]:
        for cell in _cells(part["range"]):
            values = (side.results[name][cell].value for side, name in ((left, a), (right, b)))
            ours, theirs = (_normal(str(value), part) for value in values)
            kind = part["type"]
            holds = {
                "includes": theirs in ours, "included_by": ours in theirs, "exact_match": ours == theirs,
                "fuzzy_match": kind == "fuzzy_match" and fuzz.ratio(ours, theirs) >= part.get("threshold", 85.0),
            }  # fmt: skip
            if not holds[kind]:
                return False
    return True


def _cells(ranges: Iterable[str]) -> Iterable[str]:
    from openpyxl.utils import get_column_letter
    from openpyxl.worksheet.cell_range import CellRange

    for text in ranges:
        for row, column in CellRange(text).cells:
            yield f"{get_column_letter(column)}{row}"


def _normal(text: str, part: Rule) -> str:
    for old, new in part.get("normalization", []):
        text = text.replace(old, new)
    text = text.lstrip(part["trim_leadings"]) if "trim_leadings" in part else text
    text = text.rstrip(part["trim_trailings"]) if "trim_trailings" in part else text
    text = "".join(c for c in text if c not in part.get("ignore_chars", ""))
    return text.lower() if part.get("ignore_case", False) else text


def _reference_of(source: Any) -> str:
    """The cells that a series takes; applications write the same reference with and without quotes."""
    for kind in ("numRef", "strRef"):
        formula = getattr(getattr(source, kind, None), "f", None)
        if formula:
            return str(formula).replace("'", "")
    return ""


def _title(holder: Any) -> str | None:
    try:
        return str(holder.title.tx.rich.p[0].r[0].t)
    except (AttributeError, IndexError, TypeError):
        return None


def _chart(rule: Rule, book: _Book, reference: _Book | None) -> bool:
    read = {
        "title": _title, "legend": lambda c: c.legend.position if c.legend is not None else None,
        "width": lambda c: c.width, "height": lambda c: c.height, "type": lambda c: c.tagname,
        "direction": lambda c: c.barDir, "xtitle": lambda c: _title(c.x_axis), "ytitle": lambda c: _title(c.y_axis),
    }  # fmt: skip

    def charts(side: tuple[_Book, str]) -> dict[str, Any]:
        found = {}
        for chart in side[0].book[side[1]]._charts:
            series = ";".join(f"{_reference_of(s.val)},{_reference_of(s.cat)}" for s in chart.series)
            found[series] = {prop: read[prop](chart) for prop in rule.get("chart_props", [])}
        return found

    left, right = _two(rule, book, reference)
    return charts(left) == charts(right)


def _style_of(name: str, cell: Any) -> Any:
    from openpyxl.cell.cell import MergedCell

    if name == "merge":
        return isinstance(cell, MergedCell)
    if name in ("bgcolor", "fgcolor"):
        return cell.fill.fgColor.rgb
    if name == "fill_type":
        return cell.fill.tagname
    if cell.value is None:
        return None
    if name == "number_format":
        return cell.number_format if cell.data_type == "n" else None
    if name == "hyperlink":
        return cell.hyperlink.target if cell.hyperlink else ""
    if name == "font_color":
        return cell.font.color.rgb if cell.font.color else None
    fields = {"font_name": "name", "font_family": "family", "font_bold": "bold", "font_italic": "italic",
              "font_underline": "underline", "font_size": "size"}  # fmt: skip
    if name not in fields:
        raise VerifierError(f"there is no style {name!r}", where="metric")
    return getattr(cell.font, fields[name])


def _style(rule: Rule, book: _Book, reference: _Book | None) -> bool:
    def styles(side: tuple[_Book, str]) -> dict[str, list[Any]]:
        return {
            cell.coordinate: [_style_of(name, cell) for name in rule["props"]]
            for row in side[0].book[side[1]].iter_rows() for cell in row
        }  # fmt: skip

    left, right = _two(rule, book, reference)
    return styles(left) == styles(right)


def _freeze(rule: Rule, book: _Book, reference: _Book | None) -> bool:
    (left, a), (right, b) = _two(rule, book, reference)
    return bool(left.book[a].freeze_panes == right.book[b].freeze_panes)


def _zoom(rule: Rule, book: _Book, reference: _Book | None) -> bool:
    whose, name = _sheet(rule["sheet_idx"], book, reference)
    return value_matches(whose.book[name].sheet_view.zoomScale or 100.0, rule)


def _validation(rule: Rule, book: _Book, reference: _Book | None) -> bool:
    whose, name = _sheet(rule["sheet_idx"], book, reference)
    found, wanted = whose.book[name].data_validations.dataValidation, rule["dv_props"]
    return len(found) >= len(wanted) and all(
        any(all(value_matches(getattr(one, key), part) for key, part in props.items()) for props in wanted)
        for one in found
    )


def _lines(kind: str) -> Any:
    def same(rule: Rule, book: _Book, reference: _Book | None) -> bool:
        def sizes(side: tuple[_Book, str]) -> dict[Any, Any]:
            held = getattr(side[0].book[side[1]], f"{kind}_dimensions")
            return {key: [getattr(held[key], prop) for prop in rule.get("props", [])] for key in list(held)}

        left, right = _two(rule, book, reference)
        return sizes(left) == sizes(right)

    return same


def _filter(rule: Rule, book: _Book, reference: _Book | None) -> bool:
    def filters(side: tuple[_Book, str]) -> tuple[Any, Any]:
        held = side[0].book[side[1]].auto_filter
        chosen = {c.colId: sorted(c.filters.filter if c.filters else []) for c in held.filterColumn}
        return held.ref, chosen

    left, right = _two(rule, book, reference)
    return filters(left) == filters(right)


def _cell(rule: Rule, book: _Book, reference: _Book | None) -> bool:
    whose, name = _sheet(rule["sheet_idx"], book, reference)
    cell, value = whose.book[name][rule["coordinate"]], whose.results[name][rule["coordinate"]].value
    return all(
        value_matches(value if prop == "value" else _style_of(prop, cell), part) for prop, part in rule["props"].items()
    )


_RULES = {
    "sheet_name": _names, "sheet_data": _data, "sheet_print": _printed, "sheet_fuzzy": _fuzzy, "chart": _chart,
    "style": _style, "freeze": _freeze, "zoom": _zoom, "data_validation": _validation, "row_props": _lines("row"),
    "col_props": _lines("column"), "filter": _filter, "check_cell": _cell,
}  # fmt: skip
