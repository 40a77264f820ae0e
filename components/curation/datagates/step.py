"""The stages `gate-tasks`, `gate-trajectories`, `gate-corpora` and `gate-scores`: one function, four suites."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from components.contracts.artifacts import output_dir
from components.contracts.digests import canonical_json
from components.contracts.errors import ParamsError
from components.contracts.params import Params
from components.contracts.stage import StepContext
from components.curation.datagates import of_corpora, of_scores, of_tasks, of_trajectories
from components.curation.datagates.loaded import Loaded
from components.curation.datagates.report import PAGE, summary, write_report
from components.curation.datagates.suite import SUITES, Suite, load_suite
from components.curation.datagates.verdict import GateBroken, GateFailed, RuleResult, TableVerdict, Verdict, judge_table

LOADERS: dict[str, Callable[[Mapping[str, Path], Params], Loaded]] = {
    "tasks": of_tasks.load,
    "trajectories": of_trajectories.load,
    "corpora": of_corpora.load,
    "scores": of_scores.load,
}
PASSED = "passed.json"


def run(params: Params, inputs: dict[str, Path], outputs: dict[str, Path], ctx: StepContext) -> dict[str, float]:
    """Check all of one kind of data against its suite. Writes `validation` always and `gate` only for a pass.

    `gate` says nothing but that the gate was passed: stages that wait for it rerun for other data, not for other rules.

    Metrics: tables, rows, rules. Raises GateFailed with the first rows that failed, GateBroken when a rule could not
    be judged, SuiteError for a suite that cannot be used.
    """
    name = ctx.stage.removeprefix("gate-")
    if name not in LOADERS:
        raise ParamsError(f"{ctx.stage!r} is no gate", where="gate", remedy=f"one of {sorted(LOADERS)}")
    for path in outputs.values():
        shutil.rmtree(path, ignore_errors=True)  # what an earlier attempt left says nothing about this data
    suite = load_suite(name, parameters(params), SUITES)
    verdict = judge(name, suite, LOADERS[name](inputs, params), ctx)
    with output_dir(outputs["validation"]) as folder:
        write_report(folder, verdict, suite)
    metrics = {
        "tables": float(len(verdict.tables)),
        "rows": float(sum(table.rows for table in verdict.tables)),
        "rules": float(sum(len(table.rules) for table in verdict.tables)),
    }
    for metric, value in metrics.items():
        ctx.events.metric(metric, value)
    if verdict.outcome != "pass":
        kind = GateFailed if verdict.outcome == "fail" else GateBroken
        page = "/".join((*outputs["validation"].parts[-3:], PAGE))
        raise kind(summary(verdict), verdict.codes, where=ctx.stage, remedy=f"all of it: {page}")
    with output_dir(outputs["gate"]) as folder:
        (folder / PASSED).write_text(canonical_json({"gate": name, "verdict": "pass"}) + "\n", encoding="utf-8")
    return metrics


def parameters(params: Params) -> dict[str, Any]:
    """The parameters that a stage sees, flat, by dotted name."""
    flat: dict[str, Any] = {}

    def walk(value: Any, name: str) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(inner, f"{name}.{key}" if name else key)
        else:
            flat[name] = value

    walk(params.model_dump(mode="json", warnings=False), "")
    return flat


def judge(name: str, suite: Suite, loaded: Loaded, ctx: StepContext) -> Verdict:
    """Every table of the suite. ValueError when loader and suite do not have the same tables."""
    if suite.tables.keys() != loaded.tables.keys():
        raise ValueError(f"the suite has tables {sorted(suite.tables)}, the loader {sorted(loaded.tables)}")
    tables: list[TableVerdict] = []
    for table_name, declared in suite.tables.items():
        table = loaded.tables[table_name]
        results: list[RuleResult] = []
        if table.rows:
            from components.curation.datagates.engine import check

            results = check(table.rows, table.columns, declared.expectations, declared.named_by)
        tables.append(judge_table(table_name, declared, len(table.rows), table.files, results))
        ctx.events.progress(len(tables), len(suite.tables), "tables")
    return Verdict(name, tuple(tables), tuple(loaded.violations))
