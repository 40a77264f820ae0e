"""What a gate leaves: a page for people, the same as JSON, and every row that failed.

page.html           one file without scripts, styles or pictures from elsewhere
results.json        verdict, rules, observed values; the same data gives the same bytes
failed_rows.jsonl   {"table", "rule", "type", "row"} of at most `engine.MOST_ROWS` rows a rule
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from components.contracts.digests import canonical_json
from components.curation.datagates.suite import Suite
from components.curation.datagates.verdict import RuleVerdict, TableVerdict, Verdict, Violation

PAGE, RESULTS, ROWS = "page.html", "results.json", "failed_rows.jsonl"
SHOWN_ROWS = 20
"""Rows of one rule on the page."""
TOLD_ROWS = 3
"""Rows of one rule in the error's text."""
TOLD_RULES = 4
"""Rules in the error's text: all of it fits into what a console shows of a log."""
_CELL = 90


def write_report(folder: Path, verdict: Verdict, suite: Suite) -> None:
    """All three files into `folder`, which exists."""
    (folder / PAGE).write_text(page(verdict, suite), encoding="utf-8")
    (folder / RESULTS).write_text(canonical_json(results(verdict)) + "\n", encoding="utf-8")
    with (folder / ROWS).open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(canonical_json(row) + "\n" for row in failed_rows(verdict))


def results(verdict: Verdict) -> dict[str, Any]:
    """The verdict as plain values, without rows."""
    return {
        "gate": verdict.name,
        "verdict": verdict.outcome,
        "codes": list(verdict.codes),
        "violations": [asdict(violation) for violation in verdict.violations],
        "tables": {table.name: _table(table) for table in verdict.tables},
    }


def _table(table: TableVerdict) -> dict[str, Any]:
    rules = [
        {
            "rule": rule.rule, "type": declared.type, "kwargs": declared.kwargs, "notes": declared.notes,
            "verdict": rule.outcome, "code": rule.code, "said": rule.said, "unexpected": rule.unexpected,
            "observed": rule.observed, "flags": list(rule.flags),
        }
        for rule, declared in zip(table.rules, table.declared.expectations, strict=False)
    ]  # fmt: skip
    return {
        "rows": table.rows, "files": dict(table.files), "verdict": table.outcome, "code": table.code,
        "said": table.said, "flags": list(table.flags), "rules": rules,
    }  # fmt: skip


def failed_rows(verdict: Verdict) -> Iterator[dict[str, Any]]:
    """Every named row that broke a rule."""
    for table in verdict.tables:
        for rule in table.rules:
            for row in rule.rows:
                yield {
                    "table": table.name, "rule": rule.rule, "type": table.declared.expectations[rule.rule - 1].type,
                    "row": dict(row),
                }  # fmt: skip


def summary(verdict: Verdict) -> str:
    """What failed, in a few lines: rules, numbers and the first rows."""
    lines = [_violation(violation) for violation in verdict.violations[:TOLD_RULES]]
    if len(verdict.violations) > TOLD_RULES:
        lines.append(f"{len(verdict.violations) - TOLD_RULES} more records are not of their schema")
    for table in verdict.tables:
        if table.code:
            lines.append(f"{table.name}: {table.code}: {table.said}")
        lines += [_rule(table, rule) for rule in table.rules if rule.outcome != "pass"]
    shown = lines[:TOLD_RULES] + ([f"... and {len(lines) - TOLD_RULES} more"] if len(lines) > TOLD_RULES else [])
    words = {"fail": "the data breaks its rules", "error": "rules could not be judged", "pass": "passed"}
    return "\n  ".join([words[verdict.outcome], *shown])


def _violation(violation: Violation) -> str:
    place = f"line {violation.line}" if violation.line else f"record {violation.record}"
    field = f", field {violation.field}" if violation.field else ""
    return f"{violation.file}, {place}{field}: {violation.code}: {violation.said}"


def _rule(table: TableVerdict, rule: RuleVerdict) -> str:
    if rule.rule > len(table.declared.expectations):
        return f"{table.name} rule {rule.rule}: {rule.code}: {rule.said}"
    declared = table.declared.expectations[rule.rule - 1]
    where = f" where {declared.condition}" if declared.condition else ""
    rows = "".join(f"\n    {_row(row)}" for row in rule.rows[:TOLD_ROWS])
    return f"{table.name} rule {rule.rule} ({declared.words()}{where}): {rule.code}: {rule.said}{rows}"


def _row(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_plain(value, _CELL)}" for name, value in row.items())


def _plain(value: Any, most: int) -> str:
    return str(value).replace("\n", "\\n")[:most]


def page(verdict: Verdict, suite: Suite) -> str:
    """The page. Everything that comes from the data is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["cell"] = lambda value: _plain(value, 200)
    environment.filters["violation"] = _violation
    tables = [(table, list(zip(table.rules, table.declared.expectations, strict=False))) for table in verdict.tables]
    return environment.get_template("page.html").render(
        verdict=verdict, suite=suite, tables=tables, most=SHOWN_ROWS, rows_file=ROWS
    )
