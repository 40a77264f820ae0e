"""Open cases of group 8 (data gates, schema drift). Adapters translate names only; C77f is staged on a toy recipe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from components.contracts.stage import StepContext
from components.curation.datagates.border import parse_lines, read_lines
from components.curation.datagates.loaded import Loaded, Table
from components.curation.datagates.step import judge
from components.curation.datagates.suite import ROW_COUNT, Rule, SuiteError, read_suite
from components.curation.datagates.verdict import RuleResult, judge_rules, worst
from components.evaluation.grounding import Annotation, PixelBox
from components.evaluation.pictures import Picture, PictureError, check_pictures

DATA = Path(__file__).parent / "data"
ROWS = [json.loads(line) for line in (DATA / "g8_gates.jsonl").read_text(encoding="utf-8").splitlines()]
ROWS = [row for row in ROWS if (row["case"], row["row"]) != ("C77", "f")]

RULES: dict[str, dict[str, Any]] = {
    "role in {user,assistant}": {
        "type": "expect_column_values_to_be_in_set",
        "kwargs": {"column": "role", "value_set": ["user", "assistant"]},
    },
    "length > 0": {"type": "expect_column_values_to_be_between", "kwargs": {"column": "length", "min_value": 1}},
    "no nulls": {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "role"}},
    "score between 0 and 1 where stage = rl": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {
            "column": "score", "min_value": 0, "max_value": 1,
            "row_condition": 'stage == "rl"', "condition_parser": "pandas",
        },
    },
}  # fmt: skip
"""The cases' words for a rule -> ours."""

PICTURE_WORDS = {"picture_missing": "missing", "train_eval_overlap": "hashes"}
"""Our code -> the field that takes its names."""


def _gate(table: Table, rules: list[dict[str, Any]], at_least: int, tmp_path: Path) -> dict[str, Any]:
    rows = {"type": ROW_COUNT, "kwargs": {"min_value": at_least}}
    document = {
        "format": 1, "great_expectations": "1.24", "about": "a case",
        "tables": {"records": {"about": "records", "named_by": ["number"], "expectations": [rows, *rules]}},
    }  # fmt: skip
    suite = read_suite(json.dumps(document), {}, where="case")
    verdict = judge("case", suite, Loaded({"records": table}), StepContext("gate-case", 0, tmp_path))
    (judged,) = verdict.tables
    return {
        "gate": verdict.outcome,
        "reason": verdict.codes[0] if verdict.codes else "",
        "flag": next(iter(judged.flags), ""),
        "names_file": any(name in judged.said for name in table.files),
    }


def c75(given: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    table = Table(("number", "role", "length", "stage", "score"))
    rules = [RULES[words] for words in given.get("rules", [])]
    if "files" in given:
        for number in range(given["files"]):
            path = tmp_path / f"part-{number}.jsonl"
            path.write_text('{"number": 1}\n' if number else "")
            read = read_lines(path, One)
            table.files[path.name] = len(read.records)
            for _ in read.records:
                table.add(number=number, role="user", length=1, stage="sft", score=0.5)
        return _gate(table, rules, 1, tmp_path)
    count = given["records"] if isinstance(given["records"], int) else 0
    stage = "sft" if given.get("row_filter_keeps") == 0 else "rl"
    for number in range(count):
        table.add(number=number, role="user", length=3, stage=stage, score=0.5)
    return _gate(table, rules, given.get("expected_at_least", 1), tmp_path)


def c77(given: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    if "suite" in given:
        old = {
            "expectation_suite_name": "s", "meta": {"great_expectations_version": "0.18.9"},
            "expectations": [{"expectation_type": ROW_COUNT, "kwargs": {"min_value": 1}}],
        }  # fmt: skip
        try:
            read_suite(json.dumps(old), {}, where="suite")
        except SuiteError as error:
            return {"gate": "error", "reason": error.code}
        return {"gate": "pass"}
    rules = [Rule(type="expect_column_values_to_not_be_null", kwargs={"column": "a"})] * given["rules"]
    results = [
        RuleResult(number, result["ok"], unexpected=result.get("unexpected"), exception=result.get("exception", ""))
        for number, result in enumerate(given["results"], start=1)
    ]
    judged = judge_rules(rules, results)
    wrong = [verdict for verdict in judged if verdict.outcome != "pass"]
    return {
        "gate": worst([verdict.outcome for verdict in judged]),
        "reason": wrong[0].code,
        "names": wrong[0].said,
        "failed": [verdict.rule for verdict in wrong],
        "later_rules_still_reported": len(judged) == given["rules"],
    }


class One(BaseModel):
    model_config = ConfigDict(extra="forbid")
    number: int


class Point(BaseModel):
    model_config = ConfigDict(extra="forbid")
    coordinate: tuple[int, int]


class Letter(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int


class Note(BaseModel):
    model_config = ConfigDict(extra="forbid")
    note: str | None


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")
    body: str


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")
    action: str
    coordinate: tuple[int, int] | None = None
    text: str | None = None
    time: float | None = None


class Recorded(BaseModel):
    model_config = ConfigDict(extra="forbid")
    id: str
    note: str | None
    arguments: Arguments


SCHEMAS: dict[str, type[BaseModel]] = {
    "a": Point,
    "b": Letter,
    "c": Note,
    "d": Letter,
    "e": Body,
    "f": Letter,
    "g": Letter,
}
"""The explicit schema that each row of C79 is about."""


def _read(files: dict[str, bytes], schema: type[BaseModel]) -> dict[str, Any]:
    reads = {name: parse_lines(data, schema, name=name) for name, data in files.items()}
    records = [record.model_dump() for read in reads.values() for _, record in read.records]
    violations = [violation for read in reads.values() for violation in read.violations]
    if not violations:
        return {"gate": "pass", "records": len(records), "values": records}
    first = violations[0]
    return {
        "gate": "fail", "file": first.file, "record": first.record, "line": first.line, "field": first.field,
        "extra": [v.field for v in violations if v.code == "extra"], "records_before_stop": len(records),
    }  # fmt: skip


def c79(given: dict[str, Any], row: str) -> dict[str, Any]:
    if "lines" in given:
        return _read({"lines": "\n".join(given["lines"]).encode()}, SCHEMAS[row])
    files = {name: "".join(json.dumps(r) + "\n" for r in records).encode() for name, records in given.items()}
    got = _read(files, SCHEMAS[row])
    return got | ({"file": int(got["file"].removeprefix("file_"))} if "file" in got else {})


def c81(given: dict[str, Any]) -> dict[str, Any]:
    names = given.get("annotations") or given.get("eval_images_hash") or ["a.png"]
    stated = given.get("annotation_image_size", [100, 100])
    asked = given.get("instructions", ["open"] * len(names))
    annotations = [
        Annotation(PixelBox(0, 0, 9, 9), (float(stated[0]), float(stated[1])), name, text)
        for name, text in zip(names, asked, strict=True)
    ]
    size = tuple(given.get("real_image_size", stated))
    pictures = {name: Picture(name, (size[0], size[1])) for name in given.get("files", names)}
    try:
        benchmark = check_pictures(annotations, pictures, given.get("train_images_hash", ()))
    except PictureError as error:
        got: dict[str, Any] = {"gate": "fail", "reason": error.code, "hint": error.hint}
        return got | {PICTURE_WORDS.get(error.code, "names"): list(error.names)}
    return {"gate": "pass", "extra": list(benchmark.extra)}


def _meets(got: dict[str, Any], want: dict[str, Any]) -> bool:
    return all(value in got[key] if key == "names" else got.get(key) == value for key, value in want.items())


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r["case"] + r["row"])
def test_case(row: dict[str, Any], tmp_path: Path) -> None:
    given = row["given"]
    if row["case"] in ("C75", "C77"):
        got = {"C75": c75, "C77": c77}[row["case"]](given, tmp_path)
    else:
        got = c79(given, row["row"]) if row["case"] == "C79" else c81(given)
    assert _meets(got, row["expect"]), got


FILES = {path.name.split("_")[2].split(".")[0]: path for path in sorted((DATA / "files").glob("C79_file_*.jsonl"))}


@pytest.mark.parametrize("names", json.loads((DATA / "files" / "C79_expect.json").read_text()))
def test_record_files_with_drift_are_refused_by_file_line_and_field(names: str) -> None:
    wanted = json.loads((DATA / "files" / "C79_expect.json").read_text())[names]
    files = {name: FILES[name.removeprefix("file_")].read_bytes() for name in names.split("+")}
    assert _meets(_read(files, Recorded), wanted)
