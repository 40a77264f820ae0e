"""From `ReportData` to what the templates print: ordered rows, formatted numbers, what is missing."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable
from typing import Any

from components.contracts.marks import mark_of
from components.tracking.costs import JOULES_OF_WH, money
from components.tracking.ledger import StageCost, total
from components.tracking.report.charts import Series, interval_bar, line_chart
from components.tracking.report.data import CurveView, EpisodeView, FunnelRow, ReportData
from components.tracking.scores import DEFINITIONS, SCORED, Rate, Scores

COLORS = {
    "base": "var(--s-base)", "midtrain": "var(--s-midtrain)", "gui-sft": "var(--s-gui)",
    "terminal-sft": "var(--s-terminal)", "hybrid-sft": "var(--s-hybrid)", "rl": "var(--s-rl)",
}  # fmt: skip
LEARNS = {
    "base": "the aligned checkpoint the recipe starts from",
    "midtrain": "visual grounding and the call format",
    "gui-sft": "workflows with mouse and keyboard",
    "terminal-sft": "coding and the terminal",
    "hybrid-sft": "screen or terminal, decided turn by turn",
    "rl": "online GRPO on verified rewards",
}
AREAS = {
    "tasks": ("Tasks", "made by the forge; kept after the gate"),
    "trajectories": ("Trajectories", "collected by the teacher; kept after the filters"),
    "corpora": ("Corpora", "training samples made of the trajectories that can be learned from"),
}
RL_TITLES = {
    "reward": "mean reward", "success": "success", "calls": "model calls", "tokens": "output tokens",
    "groups_dropped": "groups dropped", "groups_without_signal": "groups without signal",
    "gui_share": "GUI share", "clip_share": "clipped share", "lag": "policy lag",
    "kl": "KL to the start", "entropy": "entropy",
}  # fmt: skip


def color_of(stage: str) -> str:
    return COLORS.get(stage.removeprefix("evaluate-"), "var(--accent)")


def percent(value: float | None, places: int = 1) -> str:
    return "–" if value is None else f"{value * 100:.{places}f}"


def number(value: float | None, places: int = 1) -> str:
    return "–" if value is None else f"{value:,.{places}f}"


def compact(value: float | None) -> str:
    """1234567 -> 1.23 M. Zero is shown as a dash: nothing was spent."""
    if not value:
        return "–"
    for size, unit in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def stage_rows(data: ReportData) -> list[dict[str, Any]]:
    """One row a scored stage, the base first; stages without scores stay in the table with dashes."""
    rows: list[dict[str, Any]] = []
    before: float | None = None
    for stage in SCORED:
        scores = data.scores.get(stage)
        success = scores.success if scores else None
        delta = success - before if success is not None and before is not None else None
        rows.append(
            {
                "stage": stage,
                "color": color_of(stage),
                "learns": LEARNS[stage],
                "known": scores is not None,
                "bar": interval_bar(success, scores.success_interval, color_of(stage))
                if scores and success is not None
                else "",
                "success": percent(success),
                "interval": _interval(scores),
                "delta": "" if delta is None else f"{delta * 100:+.1f}",
                "rise": delta is not None and delta > 0,
                "calls": number(scores.calls if scores else None, 2),
                "tokens": number(scores.tokens if scores else None, 1),
                "gui_share": scores.gui_share if scores else None,
                "grounding": percent(scores.grounding.micro if scores and scores.grounding else None),
                "single_step": percent(scores.single_step.joint if scores and scores.single_step else None),
                "heldout": percent(scores.heldout_skills.success if scores and scores.heldout_skills else None),
                "seconds": duration(data.seconds.get(stage, scores.seconds if scores else None)),
                "episodes": scores.episodes if scores else 0,
                "infra": scores.infra_errors if scores else 0,
            }
        )
        before = success if success is not None else before
    return rows


def _interval(scores: Scores | None) -> str:
    if scores is None or scores.success_interval is None:
        return ""
    low, high = scores.success_interval
    return f"{low * 100:.0f}–{high * 100:.0f}"


def headline(data: ReportData) -> list[dict[str, str]]:
    """The figures a reader looks for first: how good it got, and what RL changed against the stage before."""
    measured = [data.scores[s] for s in SCORED if s in data.scores and data.scores[s].success is not None]
    if not measured:
        return []
    last = measured[-1]
    base = data.scores.get("base")
    tiles = [
        {
            "value": f"{percent(last.success)} %",
            "label": f"held-out tasks solved after {last.stage}",
            "note": f"base {percent(base.success)} %" if base and base.success is not None else "",
        }
    ]
    start, end = data.scores.get("hybrid-sft"), data.scores.get("rl")
    if start and end and start.success is not None and end.success is not None:
        tiles.append(
            {
                "value": f"{(end.success - start.success) * 100:+.1f} points",
                "label": "success, RL over hybrid SFT",
                "note": f"{percent(start.success)} → {percent(end.success)} %",
            }
        )
        for label, old, new in (("model calls", start.calls, end.calls), ("output tokens", start.tokens, end.tokens)):
            if old and new is not None:
                tiles.append(
                    {
                        "value": f"{(new - old) / old * 100:+.1f} %",
                        "label": f"{label}, RL over hybrid SFT",
                        "note": f"{old:.4g} → {new:.4g} a task",
                    }
                )
    return tiles


def heat_table(data: ReportData, slices: str) -> dict[str, Any] | None:
    """Success by a slice (attribute of `Scores`) over the stages that have it; None when no stage has."""
    stages = [stage for stage in SCORED if stage in data.scores and getattr(data.scores[stage], slices)]
    if not stages:
        return None
    names = sorted({name for stage in stages for name in getattr(data.scores[stage], slices)})

    def cell(stage: str, name: str) -> dict[str, Any]:
        rate: Rate | None = getattr(data.scores[stage], slices).get(name)
        if rate is None or not rate.n:
            return {"text": "–", "value": None, "title": f"{name}, {stage}: no episodes"}
        return {
            "text": f"{rate.success * 100:.0f}",
            "value": round(rate.success, 3),
            "title": f"{name}, {stage}: {rate.success * 100:.1f} % of {rate.n}",
        }

    return {"stages": stages, "rows": [{"name": n, "cells": [cell(s, n) for s in stages]} for n in names]}


def heldout_scores(data: ReportData) -> ReportData:
    """The same stages with the slices of their held-out skills, to be shown by the same table."""
    apart = {stage: scores.heldout_skills for stage, scores in data.scores.items() if scores.heldout_skills}
    return ReportData(scores={s: Scores(stage=s, by_skill=found.by_skill) for s, found in apart.items()})


def bench_table(data: ReportData, part: str, field: str) -> dict[str, Any] | None:
    """A benchmark's rates by kind (`grounding.by_kind`) or primitive (`single_step.by_primitive`) over the stages."""
    parts = {stage: getattr(data.scores[stage], part) for stage in SCORED if stage in data.scores}
    found: dict[str, dict[str, float]] = {s: getattr(got, field) for s, got in parts.items() if got}
    found = {stage: rates for stage, rates in found.items() if rates}
    if not found:
        return None
    names = sorted({name for rates in found.values() for name in rates})

    def cell(rates: dict[str, float], name: str, stage: str) -> dict[str, Any]:
        value = rates.get(name)
        if value is None:
            return {"text": "–", "value": None, "title": f"{name}, {stage}: no items"}
        title = f"{name}, {stage}: {value * 100:.1f} %"
        return {"text": f"{value * 100:.0f}", "value": round(value, 3), "title": title}

    rows = [{"name": name, "cells": [cell(found[stage], name, stage) for stage in found]} for name in names]
    return {"stages": list(found), "rows": rows}


def curve_groups(curves: Iterable[CurveView]) -> list[dict[str, Any]]:
    """Charts by stage, in the order the curves come."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for curve in curves:
        chart = line_chart(
            f"{curve.name} of {curve.stage}", [Series(curve.name, color_of(curve.stage), curve.points)], unit=curve.unit
        )
        last = f"{curve.points[-1][1]:.4g}" if curve.points else "no finite value"
        groups.setdefault(curve.stage, []).append(
            {"name": curve.name, "unit": curve.unit, "chart": chart, "last": last, "nonfinite": curve.nonfinite}
        )
    return [{"stage": stage, "color": color_of(stage), "charts": charts} for stage, charts in groups.items()]


def funnel_groups(rows: Iterable[FunnelRow]) -> list[dict[str, Any]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        whole = row.kept + row.dropped
        reasons = sorted(row.reasons.items(), key=lambda item: (-item[1], item[0]))
        groups.setdefault(row.area, []).append(
            {
                "name": row.name, "kept": row.kept, "dropped": row.dropped, "whole": whole, "unit": row.unit,
                "note": row.note, "reasons": [{"name": n, "count": c, "share": c / whole} for n, c in reasons if c],
                "share": row.kept / whole if whole else 0.0,
            }
        )  # fmt: skip
    return [{"title": AREAS[area][0], "says": AREAS[area][1], "rows": groups[area]} for area in AREAS if area in groups]


def rl_charts(data: ReportData) -> list[dict[str, Any]]:
    if data.rl is None:
        return []
    return [
        {
            "name": RL_TITLES.get(name, name.replace("_", " ")),
            "chart": line_chart(name, [Series(name, "var(--s-rl)", points)], x_unit="iteration", from_zero=True),
            "last": f"{points[-1][1]:.4g}",
        }
        for name, points in data.rl.series.items()
        if points
    ]


def cost_rows(data: ReportData) -> dict[str, Any] | None:
    if not data.costs:
        return None
    whole = total(data.costs)
    longest = max((cost.seconds for cost in data.costs), default=0.0) or 1.0
    rows = [_cost_row(cost) | {"share": cost.seconds / longest} for cost in data.costs]
    sums = [_cost_row(whole)]
    if data.spent is not None and any(cost.run for cost in data.costs):
        sums.append(_cost_row(data.spent))
    models = [{"name": name, "usd": usd(use.usd_or_none), **use.model_dump(exclude={"usd"})} for name, use in
              sorted(whole.models.items())]  # fmt: skip
    each = [
        {"unit": one.unit, "of": one.of, "count": one.count} | one.amounts
        | {name: usd(one.amounts[name]) for name in ("usd_models", "usd_machine")}
        for one in data.per_unit
    ]  # fmt: skip
    return {"rows": rows, "sums": sums, "models": models, "each": each, "unpriced": whole.unpriced_units}


def _cost_row(cost: StageCost) -> dict[str, Any]:
    """A stage's costs, with prices and energy as text: "?" is not known, which is not nothing."""
    priced = None if cost.unpriced_calls else cost.usd_models
    energy = "?" if cost.energy_joules is None else f"{cost.energy_joules / JOULES_OF_WH:,.1f}"
    return cost.model_dump() | {"usd": usd(priced), "usd_machine": usd(cost.usd_machine), "energy": energy}


def usd(value: float | None) -> str:
    return money(value)


def viewer_data(data: ReportData) -> dict[str, Any]:
    """What the episode viewer's script reads: pictures once, marks in pixels, texts as they are."""
    used = {name for episode in data.episodes for step in episode.steps for name in (step.screen, step.screen_after)}
    screens = {
        name: "data:image/png;base64," + base64.b64encode(png).decode()
        for name, png in sorted(data.screens.items())
        if name in used
    }
    return {
        "size": list(data.screen_size),
        "screens": screens,
        "episodes": [_episode(episode, data.screen_size) for episode in data.episodes],
    }


def _episode(episode: EpisodeView, size: tuple[int, int]) -> dict[str, Any]:
    steps = [
        {
            **step.model_dump(exclude={"call"}),
            "call": _call_text(step.call),
            "mark": mark_of(step.call, size),
        }
        for step in episode.steps
    ]
    return {
        **episode.model_dump(exclude={"steps"}),
        "reward": episode.reward if episode.reward is not None and math.isfinite(episode.reward) else None,
        "color": color_of(episode.stage),
        "steps": steps,
        "outcome": {True: "solved", False: "failed", None: "infrastructure"}[episode.success],
    }


def _call_text(call: dict[str, Any] | None) -> str:
    """A call on one line when it is short, else one argument a line. Unset fields of a resolved call are left out."""
    if not call:
        return ""
    said = {name: value for name, value in call.items() if value not in (None, "", [], (), False)}
    line = json.dumps(said, ensure_ascii=False)
    return line if len(line) <= 60 else "\n".join(_lines(said))


def _lines(said: dict[str, Any], pad: str = "") -> list[str]:
    out = []
    for name, value in said.items():
        if isinstance(value, dict):
            out += [f"{pad}{name}:", *_lines(value, pad + "  ")]
        else:
            out.append(f"{pad}{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}")
    return out


def missing(data: ReportData) -> list[str]:
    """Parts of the page that have nothing to show, in words."""
    gaps = [f"scores of {stage}" for stage in SCORED if stage not in data.scores]
    if len(gaps) == len(SCORED):
        gaps = ["all scores"]
    parts = {
        "learning curves": data.curves, "episodes": data.episodes, "the data funnel": data.funnel,
        "the RL panel": data.rl, "harness trials": data.harness, "costs": data.costs, "lineage": data.record,
        "parameters": data.params,
    }  # fmt: skip
    gaps += [name for name, part in parts.items() if not part]
    shown = {name for episode in data.episodes for step in episode.steps for name in (step.screen, step.screen_after)}
    lost = len(shown - set(data.screens) - {""})
    return gaps + ([f"{lost} screenshots"] if lost else [])


def definitions() -> dict[str, str]:
    return DEFINITIONS
