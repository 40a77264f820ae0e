"""The harness duel: what two students of equal budget score, task by task.

The paper picks its teacher's harness by the students it makes (paper.md 4.3): a teacher with overlapping routes looks
hardly worse than a pruned one, its student is much worse. Here each arm is a student from the same grounded
checkpoint, trained for the same steps on the same number of step samples of its own teacher, and evaluated with its own
tools on the same held-out tasks. `pipelines.duel` runs the arms with the recipe's own stages; this module compares two
score folders.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.contracts.errors import DataError
from components.evaluation.statistics import Difference, aggregate, paired_difference

PRUNED, OVERLAPPING = "pruned", "overlapping"
ARMS = (PRUNED, OVERLAPPING)


@dataclass(frozen=True)
class Arm:
    """One student: success on held-out tasks (0..1, infrastructure failures are 0), mean calls and output tokens."""

    arm: str
    seed: int
    success: float
    calls: float | None
    tokens: float | None


@dataclass(frozen=True)
class DuelRow:
    """One seed's duel. Differences are pruned less overlapping, over the same tasks; `calls` over tasks both ran."""

    pruned: Arm
    overlapping: Arm
    success: Difference
    calls: Difference | None

    @property
    def seed(self) -> int:
        return self.pruned.seed


def read_outcomes(scores: Path) -> list[dict[str, Any]]:
    """The held-out episodes of an evaluation, without those of held-out skills. DataError when there are none."""
    path = scores / "episodes.jsonl"
    if not path.is_file():
        raise DataError("no episodes", where=str(path), remedy="evaluate this arm")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    own = [row for row in rows if row["split"] == "heldout"]
    if not own:
        raise DataError("no held-out episode", where=str(path), remedy="evaluate this arm with evaluate.tasks > 0")
    return own


def arm_of(name: str, seed: int, outcomes: Sequence[Mapping[str, Any]]) -> Arm:
    ran = [row for row in outcomes if not row["infra_error"]]
    return Arm(
        name, seed, statistics.fmean(bool(row["success"]) for row in outcomes),
        statistics.fmean(row["calls"] for row in ran) if ran else None,
        statistics.fmean(row["tokens"] for row in ran) if ran else None,
    )  # fmt: skip


def compare(seed: int, pruned: Path, overlapping: Path) -> DuelRow:
    """The row of one seed from the two arms' score folders. Other tasks in one arm than in the other are an error."""
    ours, theirs = read_outcomes(pruned), read_outcomes(overlapping)
    success = paired_difference(_by_task(theirs, "success"), _by_task(ours, "success"), seed, name="duel-success")
    calls_ours, calls_theirs = (_by_task([r for r in rows if not r["infra_error"]], "calls") for rows in (ours, theirs))
    both = calls_ours.keys() & calls_theirs.keys()
    calls = None
    if both:
        a, b = ({task: own[task] for task in both} for own in (calls_theirs, calls_ours))
        calls = paired_difference(a, b, seed, name="duel-calls")
    return DuelRow(arm_of(PRUNED, seed, ours), arm_of(OVERLAPPING, seed, theirs), success, calls)


def _by_task(rows: Sequence[Mapping[str, Any]], field: str) -> dict[str, float]:
    """Mean of a figure over the repeats of each task."""
    values: dict[str, list[float]] = {}
    for row in rows:
        values.setdefault(row["task_id"], []).append(float(row[field]))
    return {task: statistics.fmean(own) for task, own in values.items()}


def summary(rows: Sequence[DuelRow]) -> dict[str, Any]:
    """Mean difference over seeds with its extremes, and how often the pruned harness made the better student."""
    gains = aggregate([row.success.mean for row in rows])
    calls = [row.calls.mean for row in rows if row.calls is not None]
    return {
        "seeds": len(rows),
        "success_difference": gains.mean,
        "success_difference_low": gains.minimum,
        "success_difference_high": gains.maximum,
        "pruned_better": sum(row.success.mean > 0 for row in rows),
        "calls_difference": statistics.fmean(calls) if calls else None,
    }
