"""Great Expectations itself, as these gates use it: nothing that it swallows gets through."""

from __future__ import annotations

from typing import Any

import pytest

from components.contracts.load_params import load_params
from components.curation.datagates import of_corpora, of_scores, of_tasks, of_trajectories
from components.curation.datagates.engine import _expectation, check, exception_words
from components.curation.datagates.loaded import Table
from components.curation.datagates.step import LOADERS, parameters
from components.curation.datagates.suite import ROW_COUNT, Rule, load_suite
from components.curation.datagates.verdict import RuleVerdict, judge_rules
from pipelines.workspace import SOURCE

COLUMNS = ("id", "a", "b", "group")
ROWS = [
    {"id": f"r{n}", "a": n, "b": float("nan") if n == 6 else n / 10, "group": "x" if n < 9 else "y"} for n in range(10)
]


def rule(kind: str, allow: tuple[str, ...] = (), **kwargs: Any) -> Rule:
    return Rule(type=f"expect_{kind}", kwargs=kwargs, allow=allow)  # type: ignore[arg-type]


def judge(*rules: Rule, named_by: tuple[str, ...] = ("id",)) -> list[RuleVerdict]:
    return judge_rules(rules, check(ROWS, COLUMNS, rules, named_by))


def test_rules_come_back_in_their_own_order_with_the_rows_that_broke_them() -> None:
    verdicts = judge(
        rule("column_values_to_be_between", column="a", max_value=7),
        rule("column_values_to_be_between", column="nowhere", max_value=7),
        rule("column_values_to_be_unique", column="id"),
        rule("column_values_to_be_between", column="a", max_value=7),
        Rule(type=ROW_COUNT, kwargs={"min_value": 11}),
        rule("column_pair_values_a_to_be_greater_than_b", column_A="a", column_B="b", or_equal=True),
    )
    assert [v.outcome for v in verdicts] == ["fail", "error", "pass", "fail", "fail", "fail"]
    assert [v.code for v in verdicts] == ["broken", "exception", "", "broken", "too_few", "broken"]
    assert "nowhere" in verdicts[1].said
    assert [row["id"] for row in verdicts[0].rows] == ["r8", "r9"] and verdicts[0].unexpected == 2
    assert [row["id"] for row in verdicts[5].rows] == ["r6"]


BROKEN = {
    "an unknown expectation": rule("column_values_to_be_nice", column="a"),
    "an unknown argument": rule("column_values_to_be_between", column="a", maximum=3),
    "an argument missing": rule("column_values_to_be_in_set", column="a"),
    "a limit of the wrong type": rule("column_values_to_be_between", column="a", min_value=[1]),
    "a condition on no column": rule(
        "column_values_to_be_between", column="a", min_value=0, row_condition="nowhere > 1", condition_parser="pandas"
    ),
    "a condition that is no condition": rule(
        "column_values_to_be_between", column="a", min_value=0, row_condition="a >", condition_parser="pandas"
    ),
    "no order among its values": rule("column_values_to_be_between", column="group", min_value=0),
    "a pattern that is none": rule("column_values_to_match_regex", column="group", regex="("),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_rule_that_cannot_be_evaluated_is_an_error_and_its_neighbour_is_still_judged(what: str) -> None:
    verdicts = judge(BROKEN[what], rule("column_values_to_be_unique", column="a"))
    assert (verdicts[0].outcome, verdicts[0].code) == ("error", "exception") and verdicts[0].said
    assert verdicts[1].outcome == "pass"


def test_a_column_that_names_rows_and_is_not_there_is_an_error() -> None:
    (verdict,) = judge(rule("column_values_to_be_between", column="a", max_value=7), named_by=("nowhere",))
    assert verdict.outcome == "error"


def test_missing_values_and_conditions_that_keep_nothing_do_not_pass_by_themselves() -> None:
    share = {"column": "b", "min_value": 0, "max_value": 1}
    nobody = {"row_condition": 'group == "z"', "condition_parser": "pandas"}
    some = {"row_condition": 'group == "y"', "condition_parser": "pandas"}
    verdicts = judge(
        rule("column_values_to_be_between", **share),
        rule("column_values_to_be_between", ("nulls",), **share),
        rule("column_values_to_be_between", **share, **nobody),
        rule("column_values_to_be_between", ("filter_keeps_nothing",), **share, **nobody),
        rule("column_values_to_be_between", column="a", max_value=3, **some),
        rule("column_values_to_be_between", ("nulls",), **share, mostly=0.5),
    )
    assert [v.code for v in verdicts] == ["nulls", "", "filter_keeps_nothing", "", "broken", ""]
    assert [v.flags for v in verdicts[1:4:2]] == [("nulls",), ("filter_keeps_nothing",)]
    assert [row["id"] for row in verdicts[4].rows] == ["r9"]


def test_both_forms_of_a_swallowed_exception_are_read() -> None:
    assert exception_words({"raised_exception": False, "exception_message": None}) == ""
    assert exception_words({"raised_exception": True, "exception_message": "no"}) == "no"
    assert exception_words({"raised_exception": True, "exception_message": None}) == "an exception without words"
    several = {
        "one": {"raised_exception": True, "exception_message": "first"},
        "two": {"raised_exception": False, "exception_message": None},
        "three": {"raised_exception": True, "exception_message": "second"},
    }
    assert exception_words(several) == "first; second"
    assert exception_words({}) == ""


TABLES: dict[str, dict[str, Table]] = {
    "tasks": {"tasks": of_tasks._tasks([]), "heldout": of_tasks._heldout([]), "splits": of_tasks._splits([])},
    "trajectories": {
        "trajectories": of_trajectories._trajectories(), "steps": of_trajectories._steps(),
        "points": of_trajectories._points(), "stores": of_trajectories._stores(),
    },
    "corpora": {
        "samples": of_corpora._samples(), "tasks_told": of_corpora._tasks_told(), "corpora": of_corpora._corpora(),
    },
    "scores": {"scores": of_scores._scores(), "episodes": of_scores._episodes(), "shown": of_scores._shown()},
}  # fmt: skip


@pytest.mark.parametrize("kind", LOADERS)
def test_the_library_takes_every_rule_of_the_shipped_suites_and_the_tables_have_their_columns(kind: str) -> None:
    suite = load_suite(kind, parameters(load_params(SOURCE / "params.yaml")))
    assert suite.tables.keys() == TABLES[kind].keys()
    for name, declared in suite.tables.items():
        for number, rule in enumerate(declared.expectations, start=1):
            assert _expectation(rule, number).meta["rule"] == number
            used = [rule.kwargs[key] for key in ("column", "column_A", "column_B") if key in rule.kwargs]
            used += rule.kwargs.get("column_list", [])
            assert {*used, *declared.named_by} <= set(TABLES[kind][name].columns), f"{name} rule {number}"
