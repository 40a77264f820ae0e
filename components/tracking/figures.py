"""A finished run as matplotlib figures, for notebooks: the same `ReportData` that the report page is made of."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contracts.errors import DataError
from components.contracts.marks import mark_of
from components.tracking.costs import maker_of
from components.tracking.gather import gather
from components.tracking.lineage import RunRecord
from components.tracking.report.data import EpisodeView, ReportData, StepView
from components.tracking.scores import SCORED
from components.tracking.step import add_run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = {
    "base": "#8a8f98",
    "midtrain": "#4c78a8",
    "gui-sft": "#54a24b",
    "terminal-sft": "#e0a030",
    "hybrid-sft": "#b279a2",
    "rl": "#d6493f",
}
KEPT, DROPPED, MARK = "#4c78a8", "#d8d8d8", "#e6194b"
_RL_SHOWN = ("success", "reward", "calls", "tokens")


def read_run(
    root: Path, inputs: Mapping[str, str], params: Mapping[str, Any], *, sample: Path | None = None, episodes: int = 12
) -> tuple[ReportData, str]:
    """What the stages left under `root`, and a line that says where it came from.

    `inputs` are those of the `report` stage: name -> path below `root`. Without any score there the recorded `sample`
    is read. Raises DataError when there is neither.
    """
    present = {name: root / path for name, path in inputs.items() if (root / path).exists()}
    if any(name.startswith("scores-") for name in present):
        data = gather(present, params, episodes)
        runs = sorted((path.parent for path in (root / ".cowork" / "runs").glob("*/run.json")), reverse=True)
        if runs:
            record, *others = [(folder, RunRecord.load(folder)) for folder in runs]
            reused = [entry for entry in record[1].stages if entry.status == "reused"]
            made = {entry.name: maker_of(entry, others) for entry in reused}
            data = add_run(data, runs[0], {name: found[0] for name, found in made.items() if found})
        return data, f"the run in this folder: {len(present)} of {len(inputs)} artifacts"
    if sample is not None and sample.is_file():
        return ReportData.model_validate_json(sample.read_bytes()), f"a recorded sample: {sample.name}"
    raise DataError("no finished run", where=str(root), remedy="cowork run")


def curves_figure(data: ReportData, name: str = "loss") -> Figure:
    """One training curve for all supervised stages, side by side, in the order of the recipe."""
    stages = [stage for stage in SCORED if any(c.stage == stage and c.name == name for c in data.curves)]
    figure, axes = _row(len(stages), 2.6)
    for axis, stage in zip(axes, stages, strict=False):
        points = next(c.points for c in data.curves if c.stage == stage and c.name == name)
        axis.plot(*zip(*points, strict=True), color=COLORS[stage], linewidth=1.2)
        axis.set_title(stage)
        axis.set_xlabel("step")
        axis.set_ylim(bottom=0)
    axes[0].set_ylabel(name)
    return figure


def rl_figure(data: ReportData, names: Sequence[str] = _RL_SHOWN) -> Figure:
    """What online training changes, iteration by iteration."""
    series = data.rl.series if data.rl else {}
    shown = [name for name in names if name in series]
    figure, axes = _row(len(shown), 2.6)
    for axis, name in zip(axes, shown, strict=False):
        axis.plot(*zip(*series[name], strict=True), color=COLORS["rl"], marker="o", markersize=3, linewidth=1.2)
        axis.set_title(name)
        axis.set_xlabel("iteration")
        axis.locator_params(axis="x", integer=True)
    return figure


def success_figure(data: ReportData) -> Figure:
    """Success on the held-out tasks by checkpoint, with its 95 % interval; skills that no stage saw beside it."""
    figure, (axis,) = _row(1, 3.0, width=7.0)
    for place, stage in enumerate(SCORED):
        scores = data.scores.get(stage)
        if scores is None or scores.success is None:
            continue
        low, high = scores.success_interval or (scores.success, scores.success)
        axis.bar(place - 0.18, scores.success * 100, 0.36, color=COLORS[stage])
        axis.vlines(place - 0.18, low * 100, high * 100, color="black", linewidth=1)
        if scores.heldout_skills:
            axis.bar(place + 0.2, scores.heldout_skills.success * 100, 0.3, color=COLORS[stage], alpha=0.35)
    axis.set_xticks(range(len(SCORED)), SCORED)
    axis.set_ylabel("success %")
    axis.set_title("held-out tasks (full) and held-out skills (pale)")
    axis.set_ylim(0, 100)
    return figure


def funnel_figure(data: ReportData) -> Figure:
    """What was kept and what was dropped on the way from tasks to trajectories to corpora."""
    rows = list(data.funnel)
    figure, (axis,) = _row(1, max(1.2, 0.34 * len(rows)), width=8.0)
    for place, row in enumerate(reversed(rows)):
        whole = max(1, row.kept + row.dropped)
        axis.barh(place, row.kept / whole, color=KEPT)
        axis.barh(place, row.dropped / whole, left=row.kept / whole, color=DROPPED)
        reason = max(row.reasons, key=lambda name: row.reasons[name]) if row.dropped else ""
        said = f"{row.kept:,} of {whole:,}" + (f", most dropped: {reason}" if reason else "")
        axis.text(0.01, place, said, va="center", fontsize=8, color="white" if row.kept > whole / 3 else "black")
    axis.set_yticks(range(len(rows)), [f"{row.area}: {row.name}" for row in reversed(rows)], fontsize=8)
    axis.set_xlim(0, 1)
    axis.set_xticks([])
    return figure


def choose_episode(data: ReportData, longest: int = 6) -> EpisodeView:
    """The episode to look at first: solved, by the last checkpoint that has one, on both channels, not too long.

    Raises DataError when the run kept no episodes.
    """
    if not data.episodes:
        raise DataError("the run kept no episodes", remedy="set evaluate.gallery above 0")
    order: dict[str, int] = {stage: place for place, stage in enumerate(SCORED)}

    def rank(view: EpisodeView) -> tuple[bool, int, int, bool, int, str]:
        channels = len({step.channel for step in view.steps} & {"gui", "terminal"})
        stage = order.get(view.stage.removeprefix("evaluate-"), -1)
        short = len(view.steps) <= longest
        return bool(view.success), stage, channels, short, len(view.steps) if short else -len(view.steps), view.task_id

    return max(data.episodes, key=rank)


def filmstrip(data: ReportData, episode: EpisodeView, columns: int = 3) -> Figure:
    """The screens that the policy saw, each with its action drawn on it and what it thought below."""
    import matplotlib.pyplot as plt

    rows = -(-len(episode.steps) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(4.1 * columns, 4.5 * rows), squeeze=False)
    for axis in axes.flat:
        axis.set_axis_off()
    for number, (axis, step) in enumerate(zip(axes.flat, episode.steps, strict=False), start=1):
        _draw_step(axis, data, step, number)
    verdict = {True: "solved", False: "not solved", None: "infrastructure failure"}[episode.success]
    title = f"{episode.stage}, {episode.skill}: {verdict}\n{episode.instruction}"
    figure.suptitle("\n".join(textwrap.wrap(title, 44 * columns, replace_whitespace=False)), fontsize=10)
    figure.tight_layout()
    return figure


def _draw_step(axis: Axes, data: ReportData, step: StepView, number: int) -> None:
    import matplotlib.image as image

    width, height = data.screen_size
    if png := data.screens.get(step.screen):
        axis.imshow(image.imread(io.BytesIO(png)), interpolation="nearest", extent=(0, width, height, 0))
    axis.set_xlim(0, width)
    axis.set_ylim(height, 0)
    mark = mark_of(step.call, data.screen_size)
    if len(mark["points"]) == 2:
        axis.annotate("", mark["points"][1], mark["points"][0], arrowprops={"arrowstyle": "->", "color": MARK, "lw": 2})
    for x, y in mark["points"][:1]:
        axis.plot(x, y, "o", markersize=14, markerfacecolor="none", markeredgecolor=MARK, markeredgewidth=2)
    axis.set_title(
        "\n".join(textwrap.wrap(f"{number}. {mark['caption'] or step.action or step.error}", 46)), fontsize=9
    )
    said = "\n".join(textwrap.wrap(step.think or step.raw, 52)[:4])
    axis.text(0, height + 8, said, fontsize=7.5, va="top", color="#444444")


def _row(count: int, height: float, width: float = 3.2) -> tuple[Figure, list[Axes]]:
    """`count` axes side by side (one empty one for none)."""
    import matplotlib.pyplot as plt

    shown = max(count, 1)
    figure, axes = plt.subplots(1, shown, figsize=(width * shown, height), squeeze=False, layout="constrained")
    row = list(axes[0])
    for axis in row:
        axis.spines[["top", "right"]].set_visible(False)
    if count == 0:
        row[0].set_axis_off()
        row[0].text(0.5, 0.5, "not in this run", ha="center")
    return figure, row
