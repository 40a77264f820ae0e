"""What an engine says about a rule is checked before it is believed; without the engine."""

from __future__ import annotations

from typing import Any

import pytest

from components.curation.datagates.suite import ROW_COUNT, Rule, TableRules
from components.curation.datagates.verdict import RuleResult, Verdict, Violation, judge_rules, judge_table, worst


def rule(kind: str = "expect_column_values_to_be_in_set", allow: tuple[str, ...] = (), **kwargs: Any) -> Rule:
    return Rule(type=kind, kwargs={"column": "a", **kwargs}, allow=allow)  # type: ignore[arg-type]


def judged(one: Rule, **result: Any) -> tuple[str, str]:
    (verdict,) = judge_rules([one], [RuleResult(1, **{"success": True, **result})])
    return verdict.outcome, verdict.code


CONDITION = {"row_condition": 'stage == "rl"', "condition_parser": "pandas"}
CASES: dict[str, tuple[Rule, dict[str, Any], tuple[str, str]]] = {
    "fits": (rule(), {"unexpected": 0, "missing": 0, "elements": 7}, ("pass", "")),
    "does not fit": (rule(), {"success": False, "unexpected": 2, "elements": 7}, ("fail", "broken")),
    "an exception beside a success": (rule(), {"exception": "no column"}, ("error", "exception")),
    "an exception beside a failure": (rule(), {"success": False, "exception": "no column"}, ("error", "exception")),
    "no answer": (rule(), {"success": None}, ("error", "contradictory_result")),
    "a success with rows against it": (rule(), {"unexpected": 3, "elements": 9}, ("error", "contradictory_result")),
    "a failure without any": (
        rule(), {"success": False, "unexpected": 0, "elements": 9, "missing": 0}, ("error", "contradictory_result"),
    ),
    "within its share": (rule(mostly=0.9), {"unexpected": 2, "elements": 20, "missing": 0}, ("pass", "")),
    "beyond its share and called a success": (
        rule(mostly=0.9), {"unexpected": 3, "elements": 20, "missing": 0}, ("error", "contradictory_result"),
    ),
    "a share of the rows that have a value": (
        rule(mostly=0.9), {"unexpected": 2, "elements": 20, "missing": 5}, ("error", "contradictory_result"),
    ),
    "values missing": (rule(), {"unexpected": 0, "elements": 7, "missing": 1}, ("fail", "nulls")),
    "values that may be missing": (
        rule(allow=("nulls",)), {"unexpected": 0, "elements": 7, "missing": 7}, ("pass", ""),
    ),
    "a condition that keeps nothing": (
        rule(**CONDITION), {"unexpected": 0, "elements": 0, "kept": 0}, ("fail", "filter_keeps_nothing"),
    ),
    "a condition that may": (
        rule(allow=("filter_keeps_nothing",), **CONDITION), {"unexpected": 0, "elements": 0, "kept": 0}, ("pass", ""),
    ),
    "a condition that may, on a rule that fails": (
        rule(ROW_COUNT, ("filter_keeps_nothing",), min_value=3, **CONDITION),
        {"success": False, "observed": 0, "kept": 0}, ("fail", "too_few"),
    ),
    "a condition that cannot be read": (
        rule(**CONDITION), {"success": False, "exception": "?"}, ("error", "exception"),
    ),
    "too many rows": (rule(ROW_COUNT, max_value=8), {"success": False, "observed": 9}, ("fail", "too_many")),
    "a figure out of bounds": (
        rule("expect_column_max_to_be_between"), {"success": False, "observed": 1.5}, ("fail", "broken"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_one_rule(case: str) -> None:
    one, result, wanted = CASES[case]
    assert judged(one, **result) == wanted


@pytest.mark.parametrize("numbers", [(), (1, 2), (1, 2, 2), (1, 2, 3, 4), (1, 3, 3)])
def test_results_that_are_not_those_of_the_declared_rules_are_an_error(numbers: tuple[int, ...]) -> None:
    results = [RuleResult(number, True) for number in numbers]
    verdicts = judge_rules([rule(), rule(), rule()], results)
    assert worst([verdict.outcome for verdict in verdicts]) == "error"
    assert {verdict.code for verdict in verdicts if verdict.outcome != "pass"} == {"rule_not_evaluated"}


def test_the_order_of_results_does_not_matter_and_a_failure_hides_no_later_rule() -> None:
    results = [RuleResult(3, True), RuleResult(1, True), RuleResult(2, False, unexpected=1, elements=4)]
    assert [verdict.outcome for verdict in judge_rules([rule()] * 3, results)] == ["pass", "fail", "pass"]


TABLE = TableRules(about="t", named_by=("a",), expectations=(rule(ROW_COUNT),))


def test_a_table_without_rows_is_a_failure_before_any_rule() -> None:
    for results in ([], [RuleResult(1, True)], [RuleResult(1, None, exception="no rows")]):
        verdict = judge_table("t", TABLE, 0, {}, results)
        assert (verdict.outcome, verdict.code, verdict.rules) == ("fail", "empty", ())
    allowed = TABLE.model_copy(update={"allow": ("empty",)})
    verdict = judge_table("t", allowed, 0, {}, [])
    assert (verdict.outcome, verdict.flags) == ("pass", ("empty",))


def test_one_empty_file_among_many_is_named() -> None:
    files = {"part-0": 4, "part-1": 0, "part-2": 0}
    verdict = judge_table("t", TABLE, 4, files, [RuleResult(1, True)])
    assert verdict.code == "empty_file" and "part-1" in verdict.said and "part-2" in verdict.said
    allowed = TABLE.model_copy(update={"allow": ("empty_file",)})
    verdict = judge_table("t", allowed, 4, files, [RuleResult(1, True)])
    assert (verdict.outcome, verdict.flags, len(verdict.rules)) == ("pass", ("empty_file",), 1)


def test_an_error_outweighs_a_failure_and_a_foreign_record_a_pass() -> None:
    assert worst(["pass", "error", "fail"]) == "error" and worst(["fail", "pass"]) == "fail"
    assert worst([]) == "error", "nothing judged is no pass"
    good = judge_table("t", TABLE, 4, {}, [RuleResult(1, True)])
    assert Verdict("v", (good,)).outcome == "pass"
    verdict = Verdict("v", (good,), (Violation("f", 1, "type", "a", "text"),))
    assert (verdict.outcome, verdict.codes) == ("fail", ("schema",))
