"""What it cost: totals of a run, and what one kept task, one kept trajectory and one point of score took.

Two totals, because they answer two questions. `spent` is this run's own ledger: a reused stage cost it nothing. `made`
is what it took to make what is here now: for a reused stage that is the cost of the run that did its work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from components.tracking.ledger import StageCost, run_costs, total
from components.tracking.lineage import RunRecord, StageRecord
from components.tracking.meter import Caps, read_caps
from components.tracking.prices import PriceTable
from components.tracking.scores import SCORED

JOULES_OF_WH = 3600.0


class PerUnit(BaseModel):
    """Cost of one thing. `amounts` are per unit; None = not known, or (with `count` None or 0) nothing to divide by."""

    model_config = ConfigDict(extra="forbid")
    unit: str
    count: float | None
    of: str
    """Whose cost is divided, in words."""
    amounts: dict[str, float | None] = Field(default_factory=dict)


class Costs(BaseModel):
    """A run's costs. `stages` are those of `made`, each with the run that did its work where it is another one."""

    model_config = ConfigDict(extra="forbid")
    run: str
    status: str
    stages: list[StageCost]
    spent: StageCost
    made: StageCost
    per_unit: list[PerUnit]
    caps: Caps = Caps()


def maker_of(entry: StageRecord, runs: Sequence[tuple[Path, RunRecord]]) -> tuple[Path, StageRecord] | None:
    """The first of `runs` that really made the outputs of `entry`: its folder and its own entry."""
    wanted = sorted(artifact.digest for artifact in entry.outputs)
    for folder, record in runs:
        for made in record.stages:
            if made.name == entry.name and made.status == "finished":
                if sorted(artifact.digest for artifact in made.outputs) == wanted:
                    return folder, made
    return None


def amounts_of(cost: StageCost) -> dict[str, float | None]:
    """The amounts that are divided; None = not known."""
    return {
        "usd_models": None if cost.unpriced_calls else cost.usd_models,
        "usd_machine": None if cost.unpriced_units else cost.usd_machine,
        "tokens": cost.tokens_in + cost.tokens_out,
        "cpu_seconds": cost.cpu_seconds,
        "gpu_seconds": cost.gpu_seconds,
        "sandbox_seconds": cost.sandbox_seconds,
        "flops": cost.flops,
        "energy_joules": cost.energy_joules,
    }


def per_unit(unit: str, count: float | None, of: str, cost: StageCost) -> PerUnit:
    """`cost` over `count`; every amount None when there is nothing to divide by."""
    divided = {
        name: None if value is None or not count or count <= 0 else value / count
        for name, value in amounts_of(cost).items()
    }
    return PerUnit(unit=unit, count=count, of=of, amounts=divided)


def gather_costs(run_dir: Path, record: RunRecord, table: PriceTable, made_by: Callable[[str], Path | None]) -> Costs:
    """Read the ledgers. `made_by(stage)` is the folder of the run that did a reused stage's work, None when unknown."""
    own = {cost.stage: cost for cost in run_costs(run_dir, table)}
    stages: list[StageCost] = []
    others: dict[Path, dict[str, StageCost]] = {}
    for entry in record.stages:
        folder = made_by(entry.name) if entry.status == "reused" else None
        if folder is not None and folder != run_dir:
            if folder not in others:
                others[folder] = {cost.stage: cost for cost in run_costs(folder, table)}
            if (cost := others[folder].get(entry.name)) is not None:
                cost.run = folder.name
                stages.append(cost)
                continue
        if entry.name in own:
            stages.append(own[entry.name])
    known = {cost.stage for cost in stages if not cost.run}
    stages += [cost for name, cost in own.items() if name not in known and name not in {c.stage for c in stages}]
    metrics = {entry.name: entry.metrics for entry in record.stages if entry.status in ("finished", "reused")}
    return Costs(
        run=record.run_id,
        status=record.status,
        stages=stages,
        spent=total(own.values(), "spent by this run"),
        made=total(stages, "made with"),
        per_unit=units(stages, metrics),
        caps=read_caps(run_dir),
    )


def units(stages: Sequence[StageCost], metrics: Mapping[str, Mapping[str, float]]) -> list[PerUnit]:
    """Per kept task, kept trajectory and point of score, by the figures that the stages gave (`metrics` by stage)."""
    forge = metrics.get("forge", {})
    tasks = [value for name, value in forge.items() if name.startswith("tasks_")]
    kept = {name: found["kept"] for name, found in metrics.items() if name.startswith("collect-") and "kept" in found}
    collected = [cost for cost in stages if cost.stage in kept]
    gained = points(metrics)
    return [
        per_unit(
            "kept task", sum(tasks) if tasks else None, "the forge stage",
            total(cost for cost in stages if cost.stage == "forge"),
        ),
        per_unit("kept trajectory", sum(kept.values()) if kept else None, "the collect stages", total(collected)),
        per_unit("point of score", gained, "all stages, over the base checkpoint's score", total(stages)),
    ]  # fmt: skip


def points(metrics: Mapping[str, Mapping[str, float]]) -> float | None:
    """Percentage points of success from the base to the last evaluated checkpoint; None before both are measured."""
    found = [metrics[f"evaluate-{name}"] for name in SCORED if f"evaluate-{name}" in metrics]
    if "evaluate-base" not in metrics or len(found) < 2:
        return None
    rates = [one.get("success") for one in (metrics["evaluate-base"], found[-1])]
    return None if rates[0] is None or rates[1] is None else 100.0 * (rates[1] - rates[0])


# For people.


def money(value: float | None) -> str:
    """12.34, 0.00042; "?" for not known."""
    if value is None:
        return "?"
    return f"{value:,.2f}" if value >= 1 or not value else f"{value:.4g}"


def short_number(value: float | None) -> str:
    """1234567 -> 1.23M; "?" for not known."""
    if value is None:
        return "?"
    for size, unit in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def _row(cost: StageCost, label: str) -> list[str]:
    known = amounts_of(cost)
    energy = known["energy_joules"]
    return [
        label, money(known["usd_models"]), money(cost.usd_machine), short_number(cost.calls),
        short_number(cost.tokens_in), short_number(cost.tokens_out), short_number(cost.train_tokens),
        short_number(cost.flops), f"{cost.cpu_seconds:,.0f}", f"{cost.gpu_seconds:,.0f}",
        f"{cost.sandbox_seconds:,.0f}", "?" if energy is None else f"{energy / JOULES_OF_WH:,.1f}", cost.run,
    ]  # fmt: skip


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = []
    for row in rows:
        middle = (cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True))
        cells = [row[0].ljust(widths[0]), *middle]
        lines.append("  ".join([*cells, row[-1]]).rstrip())
    return lines


def text(costs: Costs) -> str:
    """The page for a console."""
    head = [
        "stage", "USD models", "USD machine", "calls", "tokens in", "out", "trained", "FLOPs", "CPU s", "GPU s",
        "sandbox s", "Wh", "work of",
    ]  # fmt: skip
    rows = [head, *(_row(cost, cost.stage) for cost in costs.stages)]
    rows += [_row(costs.made, costs.made.stage), _row(costs.spent, costs.spent.stage)]
    parts = [f"run {costs.run}: {costs.status}", "", *_table(rows)]
    models = [["model", "USD", "calls", "failed", "again for free", "tokens in", "of those cached", "tokens out", ""]]
    for name, use in sorted(costs.made.models.items()):
        models.append(
            [
                name, money(use.usd_or_none), short_number(use.calls), short_number(use.failed_calls),
                short_number(use.cache_hits), short_number(use.tokens_in), short_number(use.cached_in),
                short_number(use.tokens_out), _doubts(use),
            ]
        )  # fmt: skip
    if len(models) > 1:
        parts += ["", *_table(models)]
    each = [["one", "USD models", "USD machine", "tokens", "CPU s", "GPU s", "sandbox s", "FLOPs", "count", "of"]]
    for unit in costs.per_unit:
        a = unit.amounts
        each.append(
            [
                unit.unit, money(a["usd_models"]), money(a["usd_machine"]),
                *(short_number(a[n]) for n in ("tokens", "cpu_seconds", "gpu_seconds", "sandbox_seconds", "flops")),
                short_number(unit.count), unit.of,
            ]
        )  # fmt: skip
    parts += ["", *_table(each)]
    notes = []
    if costs.spent.unpriced_units or costs.made.unpriced_units:
        units_ = ", ".join(sorted({*costs.spent.unpriced_units, *costs.made.unpriced_units}))
        notes.append(f"no price for {units_} time: USD machine leaves it out. Prices: pipelines/prices.yaml")
    notes += [f"cap: {cap}" for cap in cap_lines(costs.caps, costs.spent)]
    return "\n".join([*parts, *(["", *notes] if notes else [])])


def _doubts(use: Any) -> str:
    said = []
    if use.unpriced_calls:
        said.append(f"{use.unpriced_calls:.0f} calls of unknown price")
    if use.unsettled_calls:
        said.append(f"{use.unsettled_calls:.0f} calls without a known end")
    return "; ".join(said)


def cap_lines(caps: Caps, spent: StageCost) -> list[str]:
    """How much of each cap is used, a line a cap."""
    lines = []
    if caps.usd is not None:
        lines.append(f"{spent.usd_known:.4g} of {caps.usd:g} USD")
    if caps.tokens is not None:
        lines.append(f"{spent.tokens_in + spent.tokens_out:,.0f} of {caps.tokens:,.0f} tokens")
    return lines
