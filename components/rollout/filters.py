"""Which episodes of a teacher are worth learning from. One reason each, named; dropped ones stay in the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from components.contracts.digests import canonical_json
from components.contracts.trajectory import Step, Trajectory

REASONS = (
    "infra_error", "verifier_error", "gave_up", "step_limit", "failed", "bad_call", "loop", "missed_target",
    "duplicate",
)  # fmt: skip
"""In the order they are looked for: the first that applies is the one recorded."""

LOOP = 3
"""The same call on the same screen this often: the episode went round in circles."""


def reason_to_drop(trajectory: Trajectory) -> str:
    """The first reason that applies to a trajectory alone, or ""."""
    if trajectory.ending == "infra_error":
        return "infra_error"
    if trajectory.verdict.error:
        return "verifier_error"
    if trajectory.ending != "terminated":
        return "gave_up" if _terminates(trajectory) else "step_limit"
    if not trajectory.verdict.success:
        return "failed"
    if any(step.error and not step.perturbed for step in trajectory.steps):
        return "bad_call"
    if _loops(trajectory.steps):
        return "loop"
    if any(_missed(step, info) for step, info in zip(trajectory.steps, step_infos(trajectory), strict=True)):
        return "missed_target"
    return ""


def mark(trajectories: Iterable[Trajectory]) -> list[Trajectory]:
    """The same trajectories in order, each with its reason. Of equal episodes of a task the first is kept."""
    seen: set[str] = set()
    marked = []
    for trajectory in trajectories:
        reason = reason_to_drop(trajectory)
        if not reason:
            key = canonical_json([trajectory.instruction, [[s.screen, s.call, s.perturbed] for s in trajectory.steps]])
            reason = "duplicate" if key in seen else ""
            seen.add(key)
        marked.append(trajectory.model_copy(update={"dropped": reason}))
    return marked


def reason_counts(trajectories: Iterable[Trajectory]) -> dict[str, int]:
    """Dropped trajectories by reason, only reasons that occur."""
    return dict(sorted(Counter(t.dropped for t in trajectories if t.dropped).items()))


def step_infos(trajectory: Trajectory) -> list[Mapping[str, Any]]:
    """What the collector noted beside each step (`meta["steps"]`): intent, target, pointer. Empty where it did not."""
    infos: list[Mapping[str, Any]] = list(trajectory.meta.get("steps", ()))
    return infos if len(infos) == len(trajectory.steps) else [{}] * len(trajectory.steps)


def _terminates(trajectory: Trajectory) -> bool:
    last = trajectory.steps[-1].call if trajectory.steps else None
    return last is not None and last.get("action") == "terminate"


def _loops(steps: Iterable[Step]) -> bool:
    counts = Counter(canonical_json([s.screen, s.call]) for s in steps if not s.perturbed)
    return any(count >= LOOP for count in counts.values())


def _missed(step: Step, info: Mapping[str, Any]) -> bool:
    """Whether the teacher's own pointing fell outside what it named: a label of the wrong place."""
    point = (step.call or {}).get("coordinate")
    target = info.get("target")
    if step.perturbed or point is None or not target:
        return False
    x0, y0, x1, y1 = target["box"]
    return not (x0 <= point[0] < x1 and y0 <= point[1] < y1)
