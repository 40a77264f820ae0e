"""Which trajectories a corpus may learn from, with the reason of each that it may not.

The collection has judged the episodes already (`rollout.filters`: failed, loop, ...; `dropped` is set in the store).
Here comes what depends on the corpus: its split, its harness, and whether every step can be written and read back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from components.contracts.trajectory import Trajectory
from components.harness.spec import HarnessSpec

REASONS = ("other_split", "other_harness", "unknown_tool", "nothing_to_learn")


def reason_to_refuse(trajectory: Trajectory, harness: HarnessSpec, split: str = "train") -> str:
    """The collection's reason, or the first of `REASONS` that applies, or ""."""
    if trajectory.dropped:
        return trajectory.dropped
    if trajectory.split != split:
        return "other_split"
    if trajectory.harness != harness.name:
        return "other_harness"
    if any(step.call is None or step.call["tool"] not in harness.tools for step in trajectory.steps):
        return "unknown_tool"
    if all(step.perturbed for step in trajectory.steps):
        return "nothing_to_learn"
    return ""


def learnable(
    trajectories: Iterable[Trajectory], harness: HarnessSpec, split: str = "train"
) -> tuple[list[Trajectory], dict[str, int]]:
    """Accepted trajectories in order, and the count of the others by reason. Together they are all."""
    accepted: list[Trajectory] = []
    reasons: Counter[str] = Counter()
    for trajectory in trajectories:
        if reason := reason_to_refuse(trajectory, harness, split):
            reasons[reason] += 1
        else:
            accepted.append(trajectory)
    return accepted, dict(sorted(reasons.items()))
