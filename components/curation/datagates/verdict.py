"""From the results of rules to a verdict: pass, fail (the data is wrong) or error (a rule could not be judged).

Great Expectations turns an exception in a rule into a result, calls a rule on no rows a success and passes over missing
values. So results are not believed: they must be as many as the rules, without exceptions, and agree with themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from components.contracts.errors import DataError
from components.curation.datagates.suite import Rule, TableRules

Outcome = Literal["pass", "fail", "error"]
_ORDER: tuple[Outcome, ...] = ("pass", "fail", "error")
_SLACK = 1e-9
"""Rounding of a share."""


class GateFailed(DataError):
    """The data broke a rule. `codes` names what was found, see `RuleVerdict` and `TableVerdict`."""

    def __init__(self, message: str, codes: tuple[str, ...], *, where: str, remedy: str) -> None:
        super().__init__(message, where=where, remedy=remedy)
        self.codes = codes


class GateBroken(GateFailed):
    """A rule could not be judged. Nothing is known about the data, so the gate stays closed."""


@dataclass(frozen=True)
class RuleResult:
    """What an engine says about one rule. `rule` counts from 1; None = not said.

    `elements` = rows it looked at, `missing` of them without a value, `unexpected` against the rule, `rows` the latter
    by name. `kept`: rows that the rule's condition left.
    """

    rule: int
    success: bool | None
    unexpected: int | None = None
    missing: int | None = None
    elements: int | None = None
    kept: int | None = None
    observed: Any = None
    exception: str = ""
    rows: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class RuleVerdict:
    """One rule, judged. `code` is "" for a pass, else broken, too_few, too_many, nulls, filter_keeps_nothing (fail), or
    exception, contradictory_result, rule_not_evaluated (error). `flags`: what `allow` let through."""

    rule: int
    outcome: Outcome
    code: str = ""
    said: str = ""
    unexpected: int = 0
    rows: tuple[Mapping[str, Any], ...] = ()
    flags: tuple[str, ...] = ()
    observed: Any = None


@dataclass(frozen=True)
class Violation:
    """A record that is not of its schema. `record` counts from 1 in its file, and so does `line` (0 = no text file).

    `code`: not_json, not_utf8, not_an_object, empty_line, key_twice, not_finite, missing, extra, type, value.
    """

    file: str
    record: int
    code: str
    field: str
    said: str
    line: int = 0


@dataclass(frozen=True)
class TableVerdict:
    """One table, judged. `code` is "" or empty, empty_file; then its rules were not looked at."""

    name: str
    rows: int
    files: Mapping[str, int]
    declared: TableRules
    outcome: Outcome
    code: str = ""
    said: str = ""
    rules: tuple[RuleVerdict, ...] = ()
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """A whole gate. Records that break their schema fail it, whatever the rules say of the others."""

    name: str
    tables: tuple[TableVerdict, ...]
    violations: tuple[Violation, ...] = ()
    counts: Mapping[str, float] = field(default_factory=dict)

    @property
    def outcome(self) -> Outcome:
        return worst([table.outcome for table in self.tables] + (["fail"] if self.violations else []))

    @property
    def codes(self) -> tuple[str, ...]:
        """Everything that was found, each once, in order."""
        found = ["schema"] if self.violations else []
        for table in self.tables:
            found += [table.code, *(rule.code for rule in table.rules)]
        return tuple(dict.fromkeys(code for code in found if code))


def worst(outcomes: Sequence[Outcome]) -> Outcome:
    return max(outcomes, key=_ORDER.index, default="error")


def judge_table(
    name: str, declared: TableRules, rows: int, files: Mapping[str, int], results: Sequence[RuleResult]
) -> TableVerdict:
    """A table by its number of rows first (`files`: records by file), then by the results of its rules."""
    flags: list[str] = []
    for code, is_so, said in (
        ("empty", rows == 0, "the table has no rows"),
        ("empty_file", any(n == 0 for n in files.values()), f"no records in {[f for f, n in files.items() if not n]}"),
    ):
        if is_so and code not in declared.allow:
            return TableVerdict(name, rows, files, declared, "fail", code, said)
        flags += [code] if is_so else []
    if rows == 0:
        return TableVerdict(name, rows, files, declared, "pass", flags=tuple(flags))
    rules = tuple(judge_rules(declared.expectations, results))
    return TableVerdict(name, rows, files, declared, worst([r.outcome for r in rules]), rules=rules, flags=tuple(flags))


def judge_rules(rules: Sequence[Rule], results: Sequence[RuleResult]) -> list[RuleVerdict]:
    """A verdict on every declared rule, in order; later rules are judged whatever became of earlier ones."""
    by_rule: dict[int, list[RuleResult]] = {}
    for result in results:
        by_rule.setdefault(result.rule, []).append(result)
    verdicts = [_judge(number, rule, by_rule.pop(number, [])) for number, rule in enumerate(rules, start=1)]
    for number, foreign in sorted(by_rule.items()):
        verdicts.append(
            RuleVerdict(number, "error", "rule_not_evaluated", f"{len(foreign)} results of a rule nobody declared")
        )
    return verdicts


def _judge(number: int, rule: Rule, results: Sequence[RuleResult]) -> RuleVerdict:
    if len(results) != 1:
        return RuleVerdict(number, "error", "rule_not_evaluated", f"{len(results)} results for one rule")
    result = results[0]
    if result.exception:
        return RuleVerdict(number, "error", "exception", result.exception)
    if doubt := _contradiction(rule, result):
        return RuleVerdict(number, "error", "contradictory_result", doubt, observed=result.observed)
    flags = []
    if rule.condition and result.kept == 0:
        said = f"no row fits {rule.condition}"
        if "filter_keeps_nothing" not in rule.allow:
            return RuleVerdict(number, "fail", "filter_keeps_nothing", said)
        flags.append("filter_keeps_nothing")
    if not result.success:
        return _broken(number, rule, result, flags)
    if result.missing:
        if "nulls" not in rule.allow:
            return RuleVerdict(number, "fail", "nulls", f"{result.missing} rows have no value", result.missing)
        flags.append("nulls")
    return RuleVerdict(number, "pass", flags=tuple(flags), observed=result.observed)


def _contradiction(rule: Rule, result: RuleResult) -> str:
    """Why a result cannot be believed, or ""."""
    if result.success is None:
        return "neither a success nor a failure"
    unexpected = result.unexpected
    if unexpected is None:
        return ""
    looked_at = None if result.elements is None else result.elements - (result.missing or 0)
    allowed = 0.0 if looked_at is None else (1 - rule.mostly) * looked_at + _SLACK
    if result.success and (unexpected > allowed if looked_at is not None else unexpected > 0 and rule.mostly == 1):
        return f"a success with {unexpected} rows against the rule"
    if not result.success and unexpected == 0 and result.observed is None:
        return "a failure without a row against the rule"
    return ""


def _broken(number: int, rule: Rule, result: RuleResult, flags: Sequence[str]) -> RuleVerdict:
    code = "broken"
    if result.unexpected is not None:
        said = f"{result.unexpected} of {result.elements} rows"
    else:
        said = f"found {result.observed}"
    if rule.type.startswith("expect_table_row_count") and isinstance(result.observed, int):
        least = rule.kwargs.get("min_value", rule.kwargs.get("value"))
        code = "too_few" if least is not None and result.observed < least else "too_many"
        said = f"{result.observed} rows"
    return RuleVerdict(
        number, "fail", code, said, result.unexpected or 0, tuple(result.rows), tuple(flags), result.observed
    )
