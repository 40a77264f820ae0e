"""Which checkpoint is the best: the one place that says what a passed evaluation is and when an alias moves.

An evaluation *passed* when every task of the held-out set was played as often as asked for, no episode ended by an
infrastructure failure, and its success is a number between 0 and 1. A passed evaluation makes its checkpoint the
`candidate`, and the `champion` when its success is not below the champion's. Only evaluations on the same held-out
tasks under the same budgets are compared (`Evaluation.bench`); of equal ones the newer version wins.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from components.contracts.digests import digest_value
from components.contracts.errors import DataError
from components.tracking.scores import Scores

RULE = (
    "An evaluation passes when the whole held-out set was played, nothing failed but the policy, and success is a "
    "number. `candidate` is the checkpoint that passed last; `champion` has the highest success of those that passed "
    "on the same held-out set (of equal ones the newest). Aliases move by nothing else."
)


class Evaluation(BaseModel):
    """What an evaluation stage found out about one checkpoint. Rates are 0..1, None = not measured."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    stage: str
    """Stage that made the checkpoint: `rl`, `hybrid-sft`..."""
    success: float | None
    episodes: int
    """Held-out episodes played, failures included."""
    expected: int
    """Held-out episodes asked for: tasks x repeats."""
    infra_errors: int
    bench: str
    """Digest of the held-out task ids, repeats and step budget: figures of one bench can be compared."""


def read_evaluation(folder: Path, stage: str, settings: Mapping[str, Any]) -> Evaluation | None:
    """What `folder` (a `scores` artifact) says, with the `evaluate` section it was made under; None without scores.

    Raises DataError when a file there is not what an evaluation stage writes.
    """
    path = folder / "scores.json"
    if not path.is_file():
        return None
    try:
        scores = Scores.model_validate_json(path.read_text(encoding="utf-8"))
        rows = [json.loads(line) for line in (folder / "episodes.jsonl").read_text(encoding="utf-8").splitlines()]
        played = {(str(row["task_id"]), int(row["repeat"])) for row in rows if row["split"] == "heldout"}
        repeats = int(settings["repeats"])
        bench = digest_value([sorted({task for task, _ in played}), repeats, settings["max_steps"]])
        expected = int(settings["tasks"]) * repeats
    except (OSError, ValidationError, ValueError, KeyError, TypeError) as error:
        what = str(error).splitlines()[0]
        raise DataError(f"not the scores of an evaluation: {type(error).__name__}: {what}", where=str(path)) from error
    episodes = min(scores.episodes, len(played))
    return Evaluation(
        stage=stage, success=scores.success, episodes=episodes, expected=expected,
        infra_errors=scores.infra_errors, bench=bench,
    )  # fmt: skip


def faults(evaluation: Evaluation) -> list[str]:
    """Why it did not pass, in words; empty when it passed."""
    found = []
    if evaluation.expected < 1 or evaluation.episodes < evaluation.expected:
        found.append(f"{evaluation.episodes} of {evaluation.expected} held-out episodes were played")
    if evaluation.infra_errors:
        found.append(f"{evaluation.infra_errors} ended by an infrastructure failure")
    if evaluation.success is None or not math.isfinite(evaluation.success) or not 0 <= evaluation.success <= 1:
        found.append(f"success is {evaluation.success}")
    return found


class Claim(BaseModel):
    """A registered version and its last passed evaluation."""

    model_config = ConfigDict(frozen=True)
    version: int
    success: float
    bench: str
    evaluated: int
    """When, in milliseconds since the epoch."""

    @property
    def sound(self) -> bool:
        return math.isfinite(self.success)


def choose_candidate(claims: Iterable[Claim]) -> int | None:
    """The version whose passed evaluation is the newest."""
    sound = [claim for claim in claims if claim.sound]
    return max(sound, key=lambda c: (c.evaluated, c.version)).version if sound else None


def choose_champion(claims: Iterable[Claim], holder: int | None) -> int | None:
    """The version that should be champion. `holder`: the one that is, None when nobody is.

    A holder that was never evaluated, or on another bench only, stays: nothing can be said against it.
    """
    sound = [claim for claim in claims if claim.sound]
    held = next((claim for claim in sound if claim.version == holder), None)
    if holder is not None and held is None:
        return holder
    if not sound:
        return None
    bench = held.bench if held else max(sound, key=lambda c: (c.evaluated, c.version)).bench
    return max((c for c in sound if c.bench == bench), key=lambda c: (c.success, c.version)).version


def verdict(evaluation: Evaluation, version: int, holder: int | None, claims: Iterable[Claim]) -> str:
    """What came of a checkpoint's evaluation, for people. `holder`: the champion afterwards."""
    if wrong := faults(evaluation):
        return "not passed: " + "; ".join(wrong)
    assert evaluation.success is not None
    said = f"passed: {evaluation.success * 100:.1f} % of {evaluation.expected} held-out episodes"
    if holder == version:
        return f"{said}; became champion"
    other = next((claim for claim in claims if claim.version == holder), None)
    if other is None or other.bench != evaluation.bench:
        why = f"champion stays version {holder}, which was measured on another held-out set"
        return f"{said}; {why} (remove that alias to start anew)"
    return f"{said}; champion stays version {holder} with {other.success * 100:.1f} %"
