"""Deterministic checks on what an episode on real applications left. Each gives why it does not hold, "" when it does.

A file that is missing, damaged or of another kind is a finding (the agent's doing). A check that cannot be carried out
(unknown name, bad arguments, a damaged record of the shop) raises, and the verdict says that the verifier broke.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from components.forge.realapps import documents
from components.forge.realapps.answers import number_of
from components.forge.realapps.evidence import Evidence
from components.forge.realapps.readers import Facts, grid
from components.sandbox.web.records import missing_visits

Finding = str

NEAR = 16
"""Steps of 255 that a colour of a picture may be off: scaling and JPEG change colours a little."""


class _Missing(Exception):
    """A file is not what a check needs."""


def _facts(evidence: Evidence, path: str) -> Facts:
    facts = evidence.facts(path)
    if "error" in facts:
        raise _Missing(f"{path}: {facts['error']}")
    return facts


def _sheet(evidence: Evidence, path: str, sheet: str) -> Facts:
    sheets = _facts(evidence, path)["sheets"]
    for one in sheets:
        if not sheet or one["name"] == sheet:
            return dict(one)
    raise _Missing(f"{path} has no sheet {sheet!r}")


def _same(found: Any, wanted: Any) -> bool:
    """Texts without blanks at the ends; numbers by value, whether typed as a number or as text."""
    if isinstance(wanted, bool) or isinstance(found, bool):
        return found is wanted
    if isinstance(wanted, int | float):
        try:
            return abs(float(found) - wanted) < 1e-6
        except (TypeError, ValueError):
            return False
    return str("" if found is None else found).strip() == str("" if wanted is None else wanted).strip()


def _cells(evidence: Evidence, path: str, values: dict[str, Any], sheet: str = "") -> Finding:
    cells = _sheet(evidence, path, sheet)["cells"]
    for cell, wanted in values.items():
        if not _same(cells.get(cell), wanted):
            return f"{cell} of {path} holds {cells.get(cell)!r}, not {wanted!r}"
    return ""


def _result(evidence: Evidence, path: str, cell: str, value: float, formulas: list[str], sheet: str = "") -> Finding:
    """A cell shows `value`, or holds one of the formulas that give it (what saved it may not have computed)."""
    found = _sheet(evidence, path, sheet)
    formula = str(found["formulas"].get(cell, "")).replace("$", "").replace(" ", "").upper()
    if formula in [one.upper() for one in formulas] or _same(found["cells"].get(cell), value):
        return ""
    return f"{cell} of {path} holds {found['cells'].get(cell)!r} {formula!r}, not {value:g}"


def _sheet_rows(evidence: Evidence, path: str, rows: list[list[Any]], sheet: str = "", exact: bool = True) -> Finding:
    """The cells from A1 on; `exact`: and no other cell holds anything."""
    wanted = {
        f"{_letter(column)}{row}": value
        for row, line in enumerate(rows, 1) for column, value in enumerate(line) if value not in (None, "")
    }  # fmt: skip
    finding = _cells(evidence, path, wanted, sheet)
    if finding or not exact:
        return finding
    extra = sorted(set(_sheet(evidence, path, sheet)["cells"]) - set(wanted))
    return f"{extra[0]} of {path} holds something and must not" if extra else ""


def _letter(column: int) -> str:
    return chr(ord("A") + column)


def _sheet_names(evidence: Evidence, path: str, names: list[str]) -> Finding:
    found = [sheet["name"] for sheet in _facts(evidence, path)["sheets"]]
    return "" if found == names else f"{path} has the sheets {found}, not {names}"


def _merged(evidence: Evidence, path: str, ranges: list[str], sheet: str = "") -> Finding:
    found = _sheet(evidence, path, sheet)["merged"]
    return "" if sorted(found) == sorted(ranges) else f"{path} has merged {found}, not {ranges}"


def _chart(evidence: Evidence, path: str, values: str, direction: str = "col", sheet: str = "") -> Finding:
    """One chart with bars in `direction` that shows the range `values` ("B3:B7")."""
    charts = _sheet(evidence, path, sheet)["charts"]
    if len(charts) != 1:
        return f"{path} has {len(charts)} charts, not 1"
    chart = charts[0]
    if not chart["type"].startswith("BarChart") or chart["direction"] != direction:
        return f"the chart of {path} is a {chart['type']} ({chart['direction']})"
    shown = [str(reference).rsplit("!", 1)[-1].replace("$", "") for reference in chart["values"]]
    return "" if values in shown else f"the chart of {path} shows {shown}, not {values}"


def _bold(evidence: Evidence, path: str, cells: list[str], sheet: str = "") -> Finding:
    found = _sheet(evidence, path, sheet)["bold"]
    return "" if sorted(found) == sorted(cells) else f"bold in {path}: {found}, not {cells}"


def _paragraphs(evidence: Evidence, path: str, paragraphs: list[dict[str, Any]]) -> Finding:
    """All paragraphs that hold text, in order; each may also ask for `style` and `bold`."""
    found = [one for one in _facts(evidence, path)["paragraphs"] if one["text"].strip()]
    if [one["text"].strip() for one in found] != [one["text"] for one in paragraphs]:
        return f"{path} says {[one['text'][:40] for one in found]}, not {[one['text'][:40] for one in paragraphs]}"
    for one, wanted in zip(found, paragraphs, strict=True):
        for key in wanted.keys() & {"style", "bold", "align"}:
            if one.get(key) != wanted[key]:
                return f"{wanted['text'][:40]!r} in {path} has {key} {one.get(key)!r}, not {wanted[key]!r}"
    return ""


def _doc_table(evidence: Evidence, path: str, rows: list[list[Any]]) -> Finding:
    tables = _facts(evidence, path)["tables"]
    wanted = [[str(value) for value in row] for row in rows]
    return "" if wanted in tables else f"{path} has no table {wanted}: {str(tables)[:120]}"


def _slides(evidence: Evidence, path: str, slides: list[dict[str, Any]]) -> Finding:
    """Titles and texts of all slides, in order."""
    found = [{"title": s["title"].strip(), "lines": s["texts"]} for s in _facts(evidence, path)["slides"]]
    return "" if found == slides else f"{path} has the slides {str(found)[:200]}, not {str(slides)[:200]}"


def _picture(
    evidence: Evidence, path: str, drawing: dict[str, Any], change: str = "", size: list[int] | None = None,
    form: str = "",
) -> Finding:  # fmt: skip
    """The picture of the setup, changed: `change` is "", "mirror", "flip", "turn" (a quarter right) or "gray"."""
    facts = _facts(evidence, path)
    image = documents.draw(drawing["size"], drawing["background"], drawing["boxes"])
    image = _CHANGES[change](image)
    wanted_size = size or list(image.size)
    if facts["size"] != wanted_size:
        return f"{path} is {facts['size']} pixels, not {wanted_size}"
    if form and facts["format"] != form:
        return f"{path} is a {facts['format']}, not a {form}"
    if size:
        image = image.resize((size[0], size[1]), 2)
    return _unlike(path, facts["grid"], grid(image))


def _mirrored(image: Any) -> Any:
    return image.transpose(0)


_CHANGES: dict[str, Callable[[Any], Any]] = {
    "": lambda image: image,
    "mirror": _mirrored,
    "flip": lambda image: image.transpose(1),
    "turn": lambda image: image.transpose(4),
    "gray": lambda image: image.convert("L"),
}


def _unlike(path: str, found: list[list[int]], wanted: list[list[int]]) -> Finding:
    worst = max(abs(a - b) for one, other in zip(found, wanted, strict=True) for a, b in zip(one, other, strict=True))
    return "" if worst <= NEAR else f"{path} looks different: colours are off by up to {worst}"


def _layers(evidence: Evidence, path: str, layers: list[dict[str, Any]]) -> Finding:
    """All layers of a GIMP file, top first: `size`, `alpha`, and `drawing`, whose background is cleared (no colour,
    wholly transparent) and which is scaled to `size`."""
    found = _facts(evidence, path)["layers"]
    if len(found) != len(layers):
        return f"{path} has {len(found)} layers, not {len(layers)}"
    for one, wanted in zip(found, layers, strict=True):
        for key in ("size", "alpha"):
            if key in wanted and one[key] != wanted[key]:
                return f"layer {one['name']!r} of {path} has {key} {one[key]}, not {wanted[key]}"
        if "drawing" in wanted:
            if one["grid"] is None:
                return f"the pixels of {path} cannot be read"
            if finding := _unlike(path, one["grid"], grid(_cleared(wanted["drawing"], wanted["size"]))):
                return finding
    return ""


def _cleared(drawing: dict[str, Any], size: list[int]) -> Any:
    """The setup's picture with its background made transparent."""
    from PIL import Image

    image = documents.draw(drawing["size"], drawing["background"], drawing["boxes"]).convert("RGBA")
    shape = Image.new("L", image.size, 0)
    for box in drawing["boxes"]:
        shape.paste(255, tuple(box[:4]))
    image.putalpha(shape)
    return image.resize((size[0], size[1]), 2)


def _text(evidence: Evidence, path: str, text: str) -> Finding:
    """A text file, blanks at its ends and kinds of line ends aside."""
    found = "\n".join(_facts(evidence, path)["text"].split("\r\n")).strip()
    return "" if found == text.strip() else f"{path} says {found[:80]!r}, not {text[:80]!r}"


def _answer(evidence: Evidence, path: str, number: float) -> Finding:
    """A text file that states one number."""
    found = number_of(_facts(evidence, path)["text"])
    return "" if found is not None and abs(found - number) < 1e-9 else f"{path} does not say {number:g} (but {found})"


def _absent(evidence: Evidence, path: str) -> Finding:
    return f"{path} is still there" if path in evidence.files else ""


def _same_as_start(evidence: Evidence, path: str, source: str) -> Finding:
    """The file at `path` is what setup put at `source`."""
    wanted, found = evidence.start.files[source], evidence.files.get(path)
    return "" if found == wanted else f"{path} is not what {source} was"


def _visited(evidence: Evidence, pages: list[str]) -> Finding:
    """Every pattern (`METHOD path`, a regular expression) fits some visit of the shop."""
    missing = missing_visits(evidence.site, pages)
    return f"never asked for: {', '.join(missing)}" if missing else ""


def _site_unchanged(evidence: Evidence) -> Finding:
    if evidence.changes:
        return f"the shop's {', '.join(evidence.changes)} changed"
    # Bytes count too: a row changed and changed back is a change.
    return "" if evidence.site.before == evidence.site.after else "the shop's database was written to"


def _site_changes(evidence: Evidence, changes: dict[str, list[dict[str, Any]]]) -> Finding:
    """The shop's rows that changed are these, and no other."""
    found = evidence.changes
    for table in sorted({*found, *changes}):
        if found.get(table, []) != changes.get(table, []):
            return f"{table} of the shop: {str(found.get(table, []))[:160]}, not {str(changes.get(table, []))[:160]}"
    return ""


def _others_unchanged(evidence: Evidence, files: list[str]) -> Finding:
    """No file but these changed, came or went."""
    start = evidence.start.files
    for path in sorted(({*start, *evidence.files}) - set(files)):
        if path not in evidence.files:
            return f"{path} is gone"
        if path not in start:
            return f"{path} was not there"
        if evidence.files[path] != start[path]:
            return f"{path} was changed"
    return ""


CHECKS: dict[str, Callable[..., Finding]] = {
    "cells": _cells, "result": _result, "sheet_rows": _sheet_rows, "sheet_names": _sheet_names, "merged": _merged,
    "chart": _chart, "bold": _bold, "paragraphs": _paragraphs, "doc_table": _doc_table, "slides": _slides,
    "picture": _picture, "layers": _layers, "text": _text, "answer": _answer, "absent": _absent,
    "same_as_start": _same_as_start, "visited": _visited, "site_unchanged": _site_unchanged,
    "site_changes": _site_changes, "others_unchanged": _others_unchanged,
}  # fmt: skip


def run(name: str, evidence: Evidence, args: dict[str, Any]) -> Finding:
    """One check by name. Raises KeyError for an unknown one, TypeError for wrong arguments."""
    try:
        return CHECKS[name](evidence, **args)
    except _Missing as missing:
        return str(missing)
