"""Bounded policy lag: which finished samples may still train, and which replicas may answer.

The recipe names bounded policy lag without its constant; Polar drops a group once the trainer is more than a fixed
number of versions ahead of the version that produced it, which is the rule here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Admission:
    """Whether a finished sample may still train. `lag` is the oldest span's, None when it cannot be known."""

    accept: bool
    lag: int | None = None
    reason: Literal["", "version_unknown", "version_from_the_future", "too_old"] = ""
    flags: tuple[str, ...] = ()


def admit(sample_versions: Sequence[int | None], trainer_version: int, max_lag: int) -> Admission:
    """Bounded policy lag: the oldest token span decides (weights may have been swapped within a response)."""
    known = [v for v in sample_versions if isinstance(v, int) and not isinstance(v, bool)]
    if not known or len(known) != len(sample_versions):
        return Admission(False, None, "version_unknown")
    flags = ("mixed_versions",) if len(set(known)) > 1 else ()
    lag = trainer_version - min(known)
    if max(known) > trainer_version:
        return Admission(False, lag, "version_from_the_future", flags)
    if lag > max_lag:
        return Admission(False, lag, "too_old", flags)
    return Admission(True, lag, "", flags)


@dataclass
class LagMeter:
    """Counts admissions of a run. Many samples dropped as too old mean rollouts too slow for the lag bound."""

    warn_above: float = 0.25
    lags: list[int] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)

    def add(self, admission: Admission) -> None:
        if admission.accept:
            self.lags.append(admission.lag or 0)
        else:
            self.dropped[admission.reason] = self.dropped.get(admission.reason, 0) + 1

    @property
    def seen(self) -> int:
        return len(self.lags) + sum(self.dropped.values())

    @property
    def share_dropped_too_old(self) -> float:
        return self.dropped.get("too_old", 0) / self.seen if self.seen else 0.0

    @property
    def warning(self) -> str:
        """Text for the stage's notes, empty when all is well."""
        share = self.share_dropped_too_old
        if share <= self.warn_above:
            return ""
        return f"share_dropped_too_old {share:.2f}: raise rl.max_lag or run fewer episodes ahead"

    def metrics(self) -> dict[str, float]:
        return {
            "share_dropped_too_old": self.share_dropped_too_old,
            "mean_lag": sum(self.lags) / len(self.lags) if self.lags else 0.0,
            "max_lag": float(max(self.lags, default=0)),
        }


@dataclass(frozen=True)
class ServingGate:
    serve: bool
    reason: str = ""


def serving_gate(
    replica_versions: Sequence[int | None], weight_hashes: Sequence[str | None], expected: int | None = None
) -> ServingGate:
    """Whether the replicas may answer: all at the same version and with the same weights' digest.

    A sync that reports itself done is not proof; only equal digests are. `expected` is the trainer's version.
    """
    if not replica_versions:
        return ServingGate(False, "no_replica")
    known = [v for v in replica_versions if v is not None]
    if len(known) != len(replica_versions):
        return ServingGate(False, "replica_version_unknown")
    target = max(known) if expected is None else expected
    if min(known) < target:
        return ServingGate(False, "replica_behind")
    if max(known) > target:
        return ServingGate(False, "replica_ahead")
    if len(weight_hashes) != len(known) or not all(weight_hashes):
        return ServingGate(False, "weights_unknown")
    if len(set(weight_hashes)) > 1:
        return ServingGate(False, "weights_differ")
    return ServingGate(True)
