"""Advantages of a group of episodes of one task, and how many groups carry a signal.

GRPO: Shao et al. 2024 (DeepSeekMath), eq. 3; mean-only: Liu et al. 2025 (Dr. GRPO); leave-one-out baseline: Kool et al.
2019, which is what Polar uses, with infrastructure failures masked out of the statistics as well as the loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from components.contracts.errors import DataError

Convention = Literal[
    "population_std", "sample_std", "mean_only",
    "leave_one_out_population_std", "leave_one_out_sample_std", "leave_one_out_mean_only",
]  # fmt: skip

FLAT_SPREAD = 1e-6
"""Rewards closer than this share of their size are equal: what is left is rounding, and that is no divisor."""


def is_flat(rewards: Sequence[float]) -> bool:
    """True when the rewards of a group carry no signal: fewer than two, or equal up to rounding."""
    if len(rewards) < 2:
        return True
    return max(rewards) - min(rewards) <= FLAT_SPREAD * max(1.0, max(abs(r) for r in rewards))


def advantages(
    rewards: Sequence[float | None], convention: Convention = "leave_one_out_mean_only"
) -> list[float | None]:
    """Advantages of one group, in order.

    `None` is an infrastructure failure: it enters no statistic and gets no advantage (`None` again: the caller leaves
    the sample out of the loss, also out of its divisor). Flat groups and groups of one give exact zeros. With n scored
    members, `leave_one_out_*` is r_i - mean of the others = n/(n-1) (r_i - mean); the deviation is always the whole
    group's. Every normalised convention is bounded by n/sqrt(n-1). Raises DataError on a reward that is not finite.
    """
    scored = [float(r) for r in rewards if r is not None]
    if bad := [r for r in scored if not math.isfinite(r)]:
        raise DataError(f"reward {bad[0]} is not finite", remedy="grade it again or record it as None with a reason")
    if is_flat(scored):
        return [None if r is None else 0.0 for r in rewards]
    n = len(scored)
    scale = max(abs(r) for r in scored)
    unit = [r / scale for r in scored]  # in [-1, 1]: no overflow whatever the rewards' size
    mean = math.fsum(unit) / n
    factor = n / (n - 1) if convention.startswith("leave_one_out") else 1.0
    squares = math.fsum((u - mean) ** 2 for u in unit)
    if convention.endswith("population_std"):
        divisor = math.sqrt(squares / n)
    elif convention.endswith("sample_std"):
        divisor = math.sqrt(squares / (n - 1))
    elif convention.endswith("mean_only"):
        divisor = 1.0 / scale
    else:
        raise DataError(f"unknown advantage convention {convention!r}", remedy="use one of grpo.Convention")
    return [None if r is None else (float(r) / scale - mean) * factor / divisor for r in rewards]


@dataclass(frozen=True)
class GroupSignal:
    """How many groups of an update can teach anything. `share_without_signal` belongs in every update's metrics."""

    groups: int
    without_signal: int
    parts_cancel: int
    """Groups whose reward parts differ although their sums do not: no signal, and worth knowing about."""
    masked_members: int

    @property
    def share_without_signal(self) -> float:
        return self.without_signal / self.groups if self.groups else 0.0

    def metrics(self) -> dict[str, float]:
        return {
            "share_of_groups_without_signal": self.share_without_signal,
            "groups_where_reward_parts_cancel": float(self.parts_cancel),
            "masked_members": float(self.masked_members),
        }


def group_signal(groups: Sequence[Sequence[float | None | Sequence[float]]]) -> GroupSignal:
    """Count groups without signal. A member is a reward, `None` (masked), or the parts that add up to a reward."""
    without = cancel = masked = 0
    for group in groups:
        members = [m for m in group if m is not None]
        masked += len(group) - len(members)
        flat = is_flat([m if isinstance(m, int | float) else math.fsum(m) for m in members])
        without += flat
        parts = {tuple(m) for m in members if not isinstance(m, int | float)}
        cancel += flat and len(parts) > 1
    return GroupSignal(len(groups), without, cancel, masked)
