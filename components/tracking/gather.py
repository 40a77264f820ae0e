"""Reads what the stages left into `ReportData`. Only from their artifacts, so equal artifacts give an equal page.

What is there is shown; what a stage did not write is left empty (the page names it); what is there but broken is a
`DataError` with its file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from components.contracts.errors import DataError
from components.tracking.report.data import (
    CurveView,
    EpisodeView,
    FunnelRow,
    HarnessTrial,
    PractiseNext,
    ReportData,
    RlView,
)
from components.tracking.scores import SCORED, Scores

T = TypeVar("T")
_RL_FIRST = ("success", "reward", "calls", "tokens", "gui_share", "groups_without_signal")


def gather(inputs: Mapping[str, Path], params: Mapping[str, Any], episodes: int) -> ReportData:
    """`inputs` as the `report` stage gets them: tasks, harness, feedback, trajectories-*, corpus-*, model-*, scores-*.

    `episodes` of each evaluated checkpoint are shown. Nothing else of `params` than its text is used.
    """
    data = ReportData(params=dict(params))
    data.facts = {name: str(params[name]) for name in ("profile", "seed") if name in params}
    for stage in SCORED:
        if folder := inputs.get(f"scores-{stage}"):
            _scores(data, stage, folder, episodes)
        if folder := inputs.get(f"model-{stage}"):
            _training(data, stage, folder)
    _funnel(data, inputs)
    if folder := inputs.get("harness"):
        _harness(data, folder / "trials.json")
    if folder := inputs.get("feedback"):
        taxonomy = _json(folder / "taxonomy.json") or {"skills": []}
        data.feedback = _checked(
            folder / "taxonomy.json",
            lambda: [
                PractiseNext(skill=s["id"], **{f: s[f] for f in ("success", "episodes", "weight", "failures")})
                for s in sorted(taxonomy["skills"], key=lambda s: (-s["weight"], s["id"]))
            ],
        )
    return data


def _checked(path: Path, read: Callable[[], T]) -> T:
    try:
        return read()
    except (ValidationError, ValueError, KeyError, TypeError, AttributeError) as error:
        what = str(error).splitlines()[0]
        raise DataError(
            f"not what its stage writes: {type(error).__name__}: {what}", where=str(path), remedy="rerun that stage"
        ) from error


def _json(path: Path) -> Any | None:
    """The file's content, None when there is no file."""
    if not path.is_file():
        return None
    return _checked(path, lambda: json.loads(path.read_text(encoding="utf-8")))


def _jsonl(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    return _checked(path, lambda: [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()])


def _columns(folder: Path, name: str, columns: Sequence[str]) -> list[list[Any]]:
    """Columns of all shards `name*.parquet` of a folder, as lists; empty lists when there are no shards."""
    import pyarrow.parquet as parquet

    out: list[list[Any]] = [[] for _ in columns]
    for path in sorted(folder.glob(f"{name}*.parquet")):
        try:
            table = parquet.read_table(path, columns=list(columns))
        except (OSError, ValueError, KeyError) as error:
            raise DataError(f"unreadable shard: {error}", where=str(path), remedy="rerun that stage") from error
        for index, column in enumerate(columns):
            out[index] += table.column(column).to_pylist()
    return out


# Evaluated checkpoints.


def _scores(data: ReportData, stage: str, folder: Path, episodes: int) -> None:
    found = _json(folder / "scores.json")
    if found is not None:
        scores = _checked(folder / "scores.json", lambda: Scores.model_validate(found))
        data.scores[stage] = scores
        if scores.infra_errors:
            named = ", ".join(task[:19] for task in scores.infra_error_tasks[:8])
            data.notes.append(
                f"evaluate-{stage}: {scores.infra_errors} ended by an infrastructure failure and count as "
                f"not solved: {named}{' ...' if len(scores.infra_error_tasks) > 8 else ''}"
            )
    gallery = _json(folder / "gallery.json") or []
    views = _checked(folder / "gallery.json", lambda: [EpisodeView.model_validate(view) for view in gallery])
    chosen = choose(views, episodes)
    wanted = {name for view in chosen for step in view.steps for name in (step.screen, step.screen_after) if name}
    if wanted:
        names, pngs = _columns(folder, "screens", ("digest", "png"))
        data.screens |= {name: png for name, png in zip(names, pngs, strict=True) if name in wanted}
    data.episodes += chosen


def choose(views: Sequence[EpisodeView], count: int) -> list[EpisodeView]:
    """`count` episodes: solved and failed ones in turn, every skill once before one comes twice."""
    queues = []
    for solved in (True, False):
        seen: Counter[str] = Counter()
        own = []
        for view in sorted((v for v in views if bool(v.success) is solved), key=lambda v: (v.skill, v.task_id)):
            own.append((seen[view.skill], view.skill, view))
            seen[view.skill] += 1
        queues.append([view for _, _, view in sorted(own, key=lambda item: item[:2])])
    chosen: list[EpisodeView] = []
    while len(chosen) < count and any(queues):
        for queue in queues:
            if queue and len(chosen) < count:
                chosen.append(queue.pop(0))
    return chosen


# Training.


def _training(data: ReportData, stage: str, folder: Path) -> None:
    rows = _jsonl(folder / "curves.jsonl")
    names = list(dict.fromkeys(name for row in rows for name in row if name != "step"))
    curves = _checked(
        folder / "curves.jsonl",
        lambda: {n: [(float(row["step"]), float(row[n])) for row in rows if row.get(n) is not None] for n in names},
    )
    if stage == "rl":
        if curves:
            first = [name for name in _RL_FIRST if name in curves]
            order = first + [name for name in curves if name not in first]
            data.rl = RlView(series={name: curves[name] for name in order})
            data.rl.facts = _rl_facts(curves)
    else:
        # The learning rate is a setting, not a result; losses first.
        shown = sorted((n for n in curves if n != "lr"), key=lambda n: (n != "loss", n))
        data.curves += [CurveView(stage=stage, name=name, points=curves[name]) for name in shown]
    record = _json(folder / "record.json") or {}
    if "parameters" in record:
        data.facts["parameters"] = f"{record['parameters']:,}"


def _rl_facts(curves: Mapping[str, Sequence[tuple[float, float]]]) -> dict[str, str]:
    totals = {
        "infra_errors": "infrastructure failures masked",
        "samples_too_old": "samples dropped as too old",
        "samples": "samples trained on",
    }
    facts = {"iterations": str(len(next(iter(curves.values()))))}
    return facts | {
        title: f"{sum(value for _, value in curves[name]):,.0f}" for name, title in totals.items() if name in curves
    }


# Data.


def _funnel(data: ReportData, inputs: Mapping[str, Path]) -> None:
    if folder := inputs.get("tasks"):
        made: dict[str, Any] = _json(folder / "summary.json") or {}
        if made:
            data.funnel += _checked(folder / "summary.json", lambda: _tasks(made))
    for name in ("gui", "terminal", "hybrid"):
        folder = inputs.get(f"trajectories-{name}")
        if folder is not None and any(folder.glob("trajectories*.parquet")):
            (dropped,) = _columns(folder, "trajectories", ("dropped",))
            reasons = dict(sorted(Counter(reason for reason in dropped if reason).items()))
            kept = sum(not reason for reason in dropped)
            data.funnel.append(FunnelRow(area="trajectories", name=f"collect-{name}", kept=kept, reasons=reasons))
    for stage in SCORED:
        folder = inputs.get(f"corpus-{stage}")
        if folder is not None and (summary := _json(folder / "summary.json")):
            data.funnel.append(_checked(folder / "summary.json", partial(_corpus, stage, summary)))


def _tasks(summary: dict[str, Any]) -> list[FunnelRow]:
    splits = summary["splits"]
    whole = sum(entry["tasks"] for entry in splits.values())
    reasons = {name.replace("_", " "): count for name, count in summary["rejected_by_case"].items()}
    rows = [FunnelRow(area="tasks", name="all splits", kept=whole, reasons=reasons)]
    for name, entry in splits.items():
        note = f"{len(entry['skills'])} skills, {entry['wordings']} wordings"
        rows.append(FunnelRow(area="tasks", name=name.replace("_", " "), kept=entry["tasks"], note=note))
    return rows


def _corpus(stage: str, summary: dict[str, Any]) -> FunnelRow:
    parts = [f"{summary[n]:,} {n.replace('_', ' ')}" for n in ("agent_steps", "click_packs") if summary[n]]
    return FunnelRow(
        area="corpora", name=f"curate-{stage}", kept=summary["accepted"], unit="trajectories",
        reasons=summary["dropped"], note=f"{summary['samples']:,} samples: {', '.join(parts)}",
    )  # fmt: skip


def _harness(data: ReportData, path: Path) -> None:
    found: dict[str, Any] = _json(path) or {"rule": "", "trials": []}
    fields = ("harness", "tools", "guest", "overlap", "teacher_success", "teacher_steps", "episodes", "chosen")
    data.harness = _checked(
        path,
        lambda: [HarnessTrial(change=row["operator"], **{f: row[f] for f in fields}) for row in found["trials"]],
    )
    data.harness_rule = found.get("rule", "")
