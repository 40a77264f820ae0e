"""What the report shows. The `report` stage fills it from score files, spools and the run's record.

Every part is optional: a page about half a run shows what there is and names what is missing.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from components.tracking.costs import PerUnit
from components.tracking.ledger import StageCost
from components.tracking.lineage import RunRecord
from components.tracking.lineage_graph import State
from components.tracking.scores import Scores


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class CurveView(_Part):
    """One metric of one stage over its steps. `points` are (step, value), finite values only."""

    stage: str
    name: str
    points: list[tuple[float, float]]
    unit: str = ""
    nonfinite: int = 0
    """How many values were not numbers; shown as a warning."""


class CheckView(_Part):
    check: str
    passed: bool
    reason: str = ""


class StepView(_Part):
    """One model call.

    `screen` and `screen_after` name pictures in `ReportData.screens`. `call` is either a resolved call
    (`contracts.calls` dumped: has `tool`, coordinates in screen pixels) or the model's own JSON
    (`{"name", "arguments"}`, coordinates on the 0..1000 grid); both are drawn.
    """

    screen: str = ""
    screen_after: str = ""
    think: str = ""
    action: str = ""
    call: dict[str, Any] | None = None
    raw: str = ""
    """The response as the model wrote it; worth giving when it could not be parsed."""
    output: str = ""
    error: str = ""
    channel: str = "none"
    tokens: int | None = None


class EpisodeView(_Part):
    """One episode to look at. `success` None = infrastructure failure: neither solved nor failed."""

    stage: str
    task_id: str
    skill: str
    instruction: str
    success: bool | None
    split: str = ""
    source: str = ""
    ending: str = ""
    reward: float | None = None
    checks: list[CheckView] = Field(default_factory=list)
    verdict_error: str = ""
    steps: list[StepView] = Field(default_factory=list)


class FunnelRow(_Part):
    """One narrowing of the data, e.g. area "tasks", name "train": `kept` went on, `reasons` count the rest."""

    area: Literal["tasks", "trajectories", "corpora"]
    name: str
    kept: int
    unit: str = ""
    reasons: dict[str, int] = Field(default_factory=dict)
    note: str = ""

    @property
    def dropped(self) -> int:
        return sum(self.reasons.values())


class RlView(_Part):
    """The RL panel. `series` over iterations: reward, success, calls, tokens, groups_dropped, clip_share, lag, kl..."""

    series: dict[str, list[tuple[float, float]]] = Field(default_factory=dict)
    facts: dict[str, str] = Field(default_factory=dict)
    """Numbers for people: group size, episodes, infrastructure failures masked, truncation..."""


class HarnessTrial(_Part):
    """One harness candidate under the scripted teacher (and, in `make bench`, under the student it makes).

    `overlap`: share of decisions at which more than one tool does the very same step.
    """

    harness: str
    tools: list[str] = Field(default_factory=list)
    guest: list[str] = Field(default_factory=list)
    change: str = ""
    """The operator that made it from its parent."""
    overlap: float | None = None
    teacher_success: float | None = None
    teacher_steps: float | None = None
    student_success: float | None = None
    student_steps: float | None = None
    episodes: int = 0
    chosen: bool = False
    note: str = ""


class PractiseNext(_Part):
    """A skill as the feedback stage sees it: how the student failed and what share the next round should give it."""

    skill: str
    success: float
    episodes: int
    weight: float
    failures: dict[str, int] = Field(default_factory=dict)


class ReportData(_Part):
    """The contract between the `report` stage and the page."""

    model_config = ConfigDict(extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")

    title: str = "Mage-VL-Cowork recipe"
    subtitle: str = ""
    facts: dict[str, str] = Field(default_factory=dict)
    """Facts of the run in the order to show: profile, commit, machine, wall time..."""
    scores: dict[str, Scores] = Field(default_factory=dict)
    """By stage name: base, midtrain, gui-sft, terminal-sft, hybrid-sft, rl."""
    seconds: dict[str, float] = Field(default_factory=dict)
    """Wall seconds by stage name."""
    curves: list[CurveView] = Field(default_factory=list)
    episodes: list[EpisodeView] = Field(default_factory=list)
    screens: dict[str, bytes] = Field(default_factory=dict)
    """PNG bytes by content digest; each is put in the page once."""
    screen_size: tuple[int, int] = (288, 224)
    """(width, height) in pixels of every screen."""
    funnel: list[FunnelRow] = Field(default_factory=list)
    rl: RlView | None = None
    harness: list[HarnessTrial] = Field(default_factory=list)
    harness_rule: str = ""
    feedback: list[PractiseNext] = Field(default_factory=list)
    costs: list[StageCost] = Field(default_factory=list)
    """What it took to make what is shown; `run` names another run whose work was used again."""
    spent: StageCost | None = None
    """The part of it that this run itself did."""
    per_unit: list[PerUnit] = Field(default_factory=list)
    record: RunRecord | None = None
    checked: dict[str, State] = Field(default_factory=dict)
    """Digest -> what a look at the files found when the page was made."""
    params: dict[str, Any] = Field(default_factory=dict)
    notes: list[str] = Field(default_factory=list)
    """Things the reader must know: alarms, infrastructure failures by name, what was not run."""
