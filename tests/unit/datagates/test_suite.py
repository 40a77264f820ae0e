"""A suite that cannot be read as it was meant is an error; it never loads fewer rules."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from components.contracts.load_params import load_params
from components.curation.datagates.step import LOADERS
from components.curation.datagates.suite import ROW_COUNT, SUITES, SuiteError, load_suite, read_suite
from components.tracking.events import leaves
from pipelines.registry import STAGES
from pipelines.stage_params import stage_params
from pipelines.workspace import SOURCE

GOOD: dict[str, Any] = {
    "format": 1, "great_expectations": "1.24", "about": "s",
    "tables": {
        "t": {
            "about": "rows", "named_by": ["id"],
            "expectations": [{"type": ROW_COUNT, "kwargs": {"min_value": {"$PARAMETER": "forge.train"}}}],
        }
    },
}  # fmt: skip


def code(document: Any, **known: Any) -> str:
    text = document if isinstance(document, str) else json.dumps(document)
    try:
        read_suite(text, {"forge.train": 7, **known}, where="s.yaml")
    except SuiteError as error:
        assert "s.yaml" in str(error)
        return error.code
    return ""


def changed(**values: Any) -> dict[str, Any]:
    return {**GOOD, **values}


def table(**values: Any) -> dict[str, Any]:
    return changed(tables={"t": {**GOOD["tables"]["t"], **values}})


RULE = GOOD["tables"]["t"]["expectations"][0]
BROKEN: dict[str, tuple[Any, str]] = {
    "an older format": (changed(format=0), "suite_version"),
    "a format in quotes": (changed(format="1"), "suite_version"),
    "no format": ({k: v for k, v in GOOD.items() if k != "format"}, "suite_version"),
    "an older release": (changed(great_expectations="0.18"), "suite_version"),
    "a newer release": (changed(great_expectations="1.25"), "suite_version"),
    "the form of an old release": (
        {"expectation_suite_name": "s", "expectations": [{"expectation_type": "x"}]}, "suite_version",
    ),
    "a bare list": ([GOOD], "suite_malformed"),
    "no YAML": ("tables: [", "suite_malformed"),
    "a key twice": ("format: 1\nformat: 1\n", "suite_malformed"),
    "no tables": (changed(tables={}), "suite_malformed"),
    "no rules": (table(expectations=[]), "suite_malformed"),
    "an unknown key of a rule": (table(expectations=[{**RULE, "mostly": 1}]), "suite_malformed"),
    "an unknown key of a table": (table(rules=[]), "suite_malformed"),
    "something else allowed": (table(allow=["everything"]), "suite_malformed"),
    "no bound of rows": (
        table(expectations=[{"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "a"}}]),
        "no_row_count",
    ),
    "a bound of some rows only": (
        table(expectations=[{"type": ROW_COUNT, "kwargs": {"min_value": 1, "row_condition": "a > 1"}}]), "no_row_count",
    ),
    "an unknown parameter": (
        table(expectations=[{"type": ROW_COUNT, "kwargs": {"min_value": {"$PARAMETER": "forge.tain"}}}]),
        "unknown_parameter",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_a_suite_that_is_not_what_it_should_be_is_an_error(what: str) -> None:
    document, wanted = BROKEN[what]
    assert code(GOOD) == "" and code(document) == wanted


def test_parameters_of_the_recipe_take_their_places() -> None:
    suite = read_suite(json.dumps(GOOD), {"forge.train": 7}, where="s")
    assert suite.tables["t"].expectations[0].kwargs == {"min_value": 7}


def test_a_suite_that_is_not_there_is_an_error() -> None:
    with pytest.raises(SuiteError, match="suite_missing"):
        load_suite("nothing", {})


@pytest.mark.parametrize("kind", LOADERS)
def test_a_shipped_suite_names_only_parameters_that_its_stage_sees_and_says_why_it_limits(kind: str) -> None:
    own = stage_params(load_params(SOURCE / "params.yaml"), STAGES[f"gate-{kind}"])
    suite = load_suite(kind, leaves(own.model_dump(mode="json", warnings=False)))
    rules = [rule for declared in suite.tables.values() for rule in declared.expectations]
    assert len(rules) > 20
    text = yaml.safe_load((SUITES / f"{kind}.yaml").read_text())
    assert set(text["tables"]) == set(suite.tables)
    assert all(rule.notes for rule in rules if "similarity" in rule.kwargs.get("column", ""))
