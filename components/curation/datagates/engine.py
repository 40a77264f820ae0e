"""Runs the rules of one table through Great Expectations, in memory. The library is imported on first use: it is slow.

Results come back in the library's own order (exceptions first), so each rule carries its number.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from components.curation.datagates.suite import Rule
from components.curation.datagates.verdict import RuleResult

MOST_ROWS = 10_000
"""Rows that are named for one rule; their number is always exact."""


def check(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], rules: Sequence[Rule], named_by: Sequence[str]
) -> list[RuleResult]:
    """One result for every rule that the library answered. Never raises for a rule: that is a result too."""
    import pandas

    frame = pandas.DataFrame([tuple(row[name] for name in columns) for row in rows], columns=list(columns))
    expectations, results = [], []
    for number, rule in enumerate(rules, start=1):
        try:
            expectations.append(_expectation(rule, number))
        except Exception as error:  # whatever the library thinks of a name or an argument: the rule was not judged
            results.append(RuleResult(number, None, exception=f"{type(error).__name__}: {error}"))
    kept = {number: _kept(frame, rule) for number, rule in enumerate(rules, start=1)}
    try:
        answers = _validate(frame, expectations, named_by)
    except Exception as error:
        failed = [int(made.meta["rule"]) for made in expectations]
        return results + [RuleResult(n, None, exception=f"{type(error).__name__}: {error}") for n in failed]
    return results + [_result(answer, kept, named_by) for answer in answers]


@cache
def _context() -> Any:
    """An ephemeral context with one data frame asset, no analytics and no progress bars (they start a thread)."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    import great_expectations
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = great_expectations.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    source = context.data_sources.add_pandas("tables")
    return source.add_dataframe_asset("table").add_batch_definition_whole_dataframe("whole")


def _expectation(rule: Rule, number: int) -> Any:
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    kwargs = dict(rule.kwargs)
    return ExpectationConfiguration(type=rule.type, kwargs=kwargs, meta={"rule": number}).to_domain_obj()


def _validate(frame: Any, expectations: Sequence[Any], named_by: Sequence[str]) -> list[dict[str, Any]]:
    import great_expectations

    batches = _context()
    suite = great_expectations.ExpectationSuite(name="rules", expectations=list(expectations))
    found = batches.get_batch({"dataframe": frame}).validate(
        suite,
        result_format={
            "result_format": "COMPLETE",
            "unexpected_index_column_names": list(named_by),
            "return_unexpected_index_query": False,
        },
    )
    return [result.to_json_dict() for result in found.results]


def _kept(frame: Any, rule: Rule) -> int | None:
    """Rows that a condition leaves. None without one, or when it cannot be read (the rule itself then says so)."""
    if not rule.condition:
        return None
    try:
        return len(frame.query(rule.condition))
    except Exception:
        return None


def _result(answer: Mapping[str, Any], kept: Mapping[int, int | None], named_by: Sequence[str]) -> RuleResult:
    number = int(answer["expectation_config"]["meta"]["rule"])
    found = answer.get("result") or {}
    return RuleResult(
        rule=number,
        success=answer.get("success"),
        unexpected=found.get("unexpected_count"),
        missing=found.get("missing_count"),
        elements=found.get("element_count"),
        kept=kept[number],
        observed=found.get("observed_value"),
        exception=exception_words(answer.get("exception_info") or {}),
        rows=tuple(
            {name: row[name] for name in named_by} | row
            for row in (found.get("unexpected_index_list") or ())[:MOST_ROWS]
        ),
    )


def exception_words(info: Mapping[str, Any]) -> str:
    """The words of an exception that the library swallowed, or "". It stores one flat, and several by metric."""
    entries = [info] if "raised_exception" in info else list(info.values())
    said = [
        str(entry.get("exception_message") or "an exception without words").strip()
        for entry in entries
        if isinstance(entry, Mapping) and entry.get("raised_exception")
    ]
    return "; ".join(dict.fromkeys(said))
