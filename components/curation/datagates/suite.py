"""Suites: the declared rules of a gate, one YAML file a kind of data, with the names that Great Expectations uses.

    format: 1                       of this file; another number is an error, never a suite without rules
    great_expectations: "1.24"      the release the rules were written for, likewise
    about: one sentence
    tables:
      steps:                        a table that the gate's loader makes, see `of_*.py`
        about: one row a step
        named_by: [store, trajectory_id, step]      columns that name a row that failed
        allow: [empty_file]         optional: `empty`, `empty_file`
        expectations:
          - type: expect_column_values_to_be_between
            kwargs: {column: x, min_value: 0, row_condition: 'store == "gui"', condition_parser: pandas}
            notes: why, for people
            allow: [nulls]          optional: `nulls`, `filter_keeps_nothing`

The first rule of a table bounds its rows. `{$PARAMETER: forge.train}` stands for a value of the recipe's parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from components.contracts.errors import DataError

FORMAT = 1
GX_RELEASE = "1.24"
"""Release of Great Expectations that this code was written for: its first two numbers."""
ROW_COUNT = "expect_table_row_count_to_be_between"
PARAMETER = "$PARAMETER"
SUITES = Path(__file__).parent / "suites"


class SuiteError(DataError):
    """A suite that cannot be used: a gate error. `code`: suite_missing, suite_malformed, suite_version, no_row_count,
    unknown_parameter."""

    def __init__(self, code: str, message: str, *, where: str, remedy: str = "mend the suite; nothing was checked"):
        super().__init__(f"{code}: {message}", where=where, remedy=remedy)
        self.code = code


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Rule(_Part):
    """One expectation. `type` and `kwargs` are Great Expectations' own.

    A value that is missing breaks a rule, and so does a `row_condition` that keeps no row, unless `allow` says that
    it may: Great Expectations itself would pass over both in silence.
    """

    type: str = Field(pattern=r"^expect_[a-z_]+$")
    kwargs: dict[str, Any] = Field(default_factory=dict)
    notes: str = ""
    allow: tuple[Literal["nulls", "filter_keeps_nothing"], ...] = ()

    @property
    def mostly(self) -> float:
        """Share of rows that must fit."""
        return float(self.kwargs.get("mostly", 1.0))

    @property
    def condition(self) -> str:
        """The `row_condition`, or ""."""
        return str(self.kwargs.get("row_condition") or "")

    def words(self) -> str:
        """The rule in a line for people, without its condition."""
        hidden = ("row_condition", "condition_parser")
        given = ", ".join(f"{name} {value}" for name, value in self.kwargs.items() if name not in hidden)
        return f"{self.type.replace('_', ' ')}: {given}" if given else self.type.replace("_", " ")


class TableRules(_Part):
    """The rules of one table."""

    about: str
    named_by: tuple[str, ...] = Field(min_length=1)
    allow: tuple[Literal["empty", "empty_file"], ...] = ()
    expectations: tuple[Rule, ...] = Field(min_length=1)


class Suite(_Part):
    """All rules of one kind of data."""

    format: int
    great_expectations: str
    about: str
    tables: dict[str, TableRules] = Field(min_length=1)


def load_suite(name: str, parameters: Mapping[str, Any], folder: Path = SUITES) -> Suite:
    """The suite `<folder>/<name>.yaml` with the recipe's parameters (flat, by dotted name) put in."""
    path = folder / f"{name}.yaml"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SuiteError("suite_missing", f"the suite cannot be read: {error}", where=str(path)) from error
    return read_suite(text, parameters, where=path.name)


def read_suite(text: str, parameters: Mapping[str, Any], *, where: str) -> Suite:
    """A suite from its text. Raises SuiteError."""
    document = _yaml(text, where)
    _check_version(document, where)
    try:
        suite = Suite.model_validate(_filled(document, parameters, where))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise SuiteError("suite_malformed", f"{place}: {first['msg']}", where=where) from error
    for table, rules in suite.tables.items():
        first_rule = rules.expectations[0]
        if first_rule.type != ROW_COUNT or first_rule.condition:
            raise SuiteError(
                "no_row_count", f"the first rule of table {table} must be {ROW_COUNT}, without a condition", where=where
            )
    return suite


def _yaml(text: str, where: str) -> dict[str, Any]:
    import yaml

    class Loader(yaml.SafeLoader):
        """Refuses a key that stands twice: the first rule would silently be gone."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            keys = [self.construct_object(key, deep=True) for key, _ in node.value]
            for key in keys:
                if keys.count(key) > 1:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key!r} stands twice", node.start_mark
                    )
            made: dict[Any, Any] = super().construct_mapping(node, deep)
            return made

    try:
        document = yaml.load(text, Loader)
    except yaml.YAMLError as error:
        raise SuiteError("suite_malformed", f"not YAML: {error}", where=where) from error
    if not isinstance(document, dict):
        raise SuiteError("suite_malformed", "a mapping is expected", where=where)
    return document


def _check_version(document: Mapping[str, Any], where: str) -> None:
    """Before anything else is read: an older form has other keys, and reading it loosely would find no rules."""
    for name, wanted in (("format", FORMAT), ("great_expectations", GX_RELEASE)):
        if document.get(name) != wanted:
            said = repr(document[name]) if name in document else "nothing"
            raise SuiteError(
                "suite_version", f"{name} is {said}, this code reads {wanted!r}", where=where,
                remedy="review the rules against that release, then change the number",
            )  # fmt: skip


def _filled(value: Any, parameters: Mapping[str, Any], where: str) -> Any:
    """`value` with every `{$PARAMETER: name}` replaced."""
    if isinstance(value, Mapping):
        if PARAMETER in value:
            name = value[PARAMETER]
            if len(value) > 1 or name not in parameters:
                raise SuiteError("unknown_parameter", f"{dict(value)} is no parameter of this gate", where=where)
            return parameters[name]
        return {key: _filled(inner, parameters, where) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, parameters, where) for inner in value]
    return value
