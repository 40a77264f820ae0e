"""The machine-readable result of one evaluated checkpoint, and the summary over all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

ScoredStage = Literal["base", "midtrain", "gui-sft", "terminal-sft", "hybrid-sft", "rl"]
SCORED: tuple[ScoredStage, ...] = ("base", "midtrain", "gui-sft", "terminal-sft", "hybrid-sft", "rl")

DEFINITIONS = {
    "grounding": "share of all items whose click lies inside the target (micro); unparsable answers count as misses",
    "single_step": "share of single-step items with syntax, action, arguments and hit all right",
    "success": "share of held-out tasks solved, infrastructure failures counted as not solved",
    "calls": "mean model calls of an episode",
    "tokens": "mean output tokens of an episode",
    "gui_share": "share of executed calls that went to the screen, not the terminal",
    "seconds": "wall seconds of the stage that made the checkpoint",
}


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Grounding(_Part):
    """Click hit rates, 0..1. `micro` over items, `macro` over the kinds that have items; `by_kind` one kind each."""

    micro: float
    macro: float
    by_kind: dict[str, float] = Field(default_factory=dict)
    items: int = 0
    empty_kinds: list[str] = Field(default_factory=list)


class SingleStep(_Part):
    """The single-step bench, 0..1 each. `by_primitive` holds the joint figure of each primitive."""

    syntax: float
    action: float
    arguments: float
    hit: float
    joint: float
    by_primitive: dict[str, float] = Field(default_factory=dict)
    items: int = 0


class Rate(_Part):
    """Successes of a slice. `n` counts every episode of it, infrastructure failures included."""

    success: float
    n: int


class HeldoutSkills(_Part):
    """Tasks of skills that no stage ever saw; never part of the headline."""

    success: float
    n: int
    by_skill: dict[str, Rate] = Field(default_factory=dict)


class Scores(_Part):
    """One evaluated checkpoint.

    Rates are 0..1. None = not measured or senseless for this stage, never 0. `seconds` stays None in an artifact
    that is digested (a wall time differs from run to run); `summary` takes it from the run's record.
    """

    stage: str
    grounding: Grounding | None = None
    single_step: SingleStep | None = None
    success: float | None = None
    success_interval: tuple[float, float] | None = None
    """95 % interval of `success`."""
    by_skill: dict[str, Rate] = Field(default_factory=dict)
    by_channel: dict[str, Rate] = Field(default_factory=dict)
    by_split: dict[str, Rate] = Field(default_factory=dict)
    by_app: dict[str, Rate] = Field(default_factory=dict)
    calls: float | None = None
    tokens: float | None = None
    gui_share: float | None = None
    seconds: float | None = None
    episodes: int = 0
    infra_errors: int = 0
    infra_error_tasks: list[str] = Field(default_factory=list)
    endings: dict[str, int] = Field(default_factory=dict)
    heldout_skills: HeldoutSkills | None = None
    repeats: int = 1
    checkpoint: str = ""
    """Digest of the evaluated checkpoint."""
    extra: dict[str, float] = Field(default_factory=dict)


def summary(
    scores_by_stage: Mapping[str, Scores], seconds: Mapping[str, float] | None = None
) -> dict[str, dict[str, Any]]:
    """`{"stages": {stage: {grounding, single_step, success, calls, tokens, gui_share, seconds}}, "definitions": ...}`.

    Every scored stage is present; what was not measured is None. `seconds` is by stage name.
    """
    known_seconds = seconds or {}
    stages: dict[str, Any] = {}
    for stage in SCORED:
        found = scores_by_stage.get(stage)
        stages[stage] = {
            "grounding": found.grounding.micro if found and found.grounding else None,
            "single_step": found.single_step.joint if found and found.single_step else None,
            "success": found.success if found else None,
            "calls": found.calls if found else None,
            "tokens": found.tokens if found else None,
            "gui_share": found.gui_share if found else None,
            "seconds": known_seconds.get(stage, found.seconds if found else None),
        }
    return {"stages": stages, "definitions": dict(DEFINITIONS)}


def _cell(value: float | None, scale: float = 1.0, places: int = 1) -> str:
    return "-" if value is None else f"{value * scale:,.{places}f}"


def table(summary_: Mapping[str, Any], width: int = 100) -> str:
    """The paper's table for a console: stage, score, calls, tokens, and the benches beside them."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    grid.add_column("stage")
    for heading in ("score %", "calls", "tokens", "GUI %", "grounding %", "single step %", "seconds"):
        grid.add_column(heading, justify="right")
    for stage, row in summary_["stages"].items():
        grid.add_row(
            stage,
            _cell(row["success"], 100),
            _cell(row["calls"], places=2),
            _cell(row["tokens"], places=1),
            _cell(row["gui_share"], 100, 0),
            _cell(row["grounding"], 100),
            _cell(row["single_step"], 100),
            _cell(row["seconds"], places=0),
        )
    console = Console(width=width, record=False, force_terminal=False, color_system=None, force_jupyter=False)
    with console.capture() as captured:
        console.print(grid)
    return captured.get().rstrip("\n") + "\n"
