"""Figures of an evaluation with their uncertainty. Rates in [0, 1]; intervals are two-sided at 95 %."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from components.contracts.errors import DataError
from components.contracts.rng import stream_seed

Z95 = 1.959963984540054
"""97.5 % quantile of the normal distribution."""
_T95 = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010, 2.1788, 2.1604, 2.1448,
    2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484,
    2.0452, 2.0423,
)  # fmt: skip
"""97.5 % quantiles of Student's t for 1 to 30 degrees of freedom; beyond that the normal one is within 2 %."""


@dataclass(frozen=True)
class Interval:
    low: float
    high: float


def wilson(successes: int, n: int, z: float = Z95) -> Interval | None:
    """Wilson score interval of a rate (Wilson 1927, JASA 22, 209-212), None for n = 0.

    centre (p + z^2/2n) / (1 + z^2/n), half width z sqrt(p(1-p)/n + z^2/4n^2) / (1 + z^2/n). Unlike the normal
    approximation it stays inside [0, 1] and has a width at 0 and n successes.
    """
    if not 0 <= successes <= n:
        raise DataError(f"{successes} successes of {n}", where="wilson")
    if n == 0:
        return None
    p = successes / n
    spread = 1 + z * z / n
    centre = (p + z * z / (2 * n)) / spread
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / spread
    return Interval(max(0.0, centre - half), min(1.0, centre + half))


@dataclass(frozen=True)
class EpisodeOutcome:
    """One episode of a fixed benchmark. `infra_error` names a failure that was not the agent's; "" otherwise."""

    task_id: str
    success: bool
    calls: int = 0
    tokens: int = 0
    gui_calls: int = 0
    terminal_calls: int = 0
    infra_error: str = ""
    repeat: int = 0


@dataclass(frozen=True)
class Summary:
    """The headline counts every task of the benchmark; episodes that infrastructure broke count 0 and are listed.

    Mean calls, tokens and the GUI share are over the episodes that ran (`ran`); None when none did.
    """

    episodes: int
    successes: int
    success: float | None
    interval: Interval | None
    ran: int
    mean_calls: float | None
    mean_tokens: float | None
    gui_share: float | None
    infra_errors: tuple[tuple[str, str], ...]
    """(task id, error), sorted."""


def summarise(outcomes: Sequence[EpisodeOutcome]) -> Summary:
    """Success, calls and tokens of a set of episodes."""
    broken = tuple(sorted((o.task_id, o.infra_error) for o in outcomes if o.infra_error))
    ran = [o for o in outcomes if not o.infra_error]
    successes = sum(o.success for o in ran)
    gui, terminal = sum(o.gui_calls for o in ran), sum(o.terminal_calls for o in ran)
    n = len(outcomes)
    return Summary(
        episodes=n,
        successes=successes,
        success=successes / n if n else None,
        interval=wilson(successes, n),
        ran=len(ran),
        mean_calls=sum(o.calls for o in ran) / len(ran) if ran else None,
        mean_tokens=sum(o.tokens for o in ran) / len(ran) if ran else None,
        gui_share=gui / (gui + terminal) if gui + terminal else None,
        infra_errors=broken,
    )


@dataclass(frozen=True)
class Difference:
    """Mean of b - a over the same tasks, with a bootstrap interval over tasks."""

    mean: float
    interval: Interval
    tasks: int
    a_better: int
    b_better: int


def paired_difference(
    a: Mapping[str, float], b: Mapping[str, float], seed: int, *, name: str = "", resamples: int = 2000
) -> Difference:
    """Compare two systems task by task: percentile bootstrap over tasks (Efron & Tibshirani 1993, ch. 13), seeded.

    `a` and `b` map task id to a value (success, calls...; repeats averaged before). Different task sets are an error
    that names a task: dropping the others would compare two different benchmarks.
    """
    import numpy as np

    if odd := sorted(a.keys() ^ b.keys()):
        raise DataError(f"{len(odd)} tasks are in one set only, e.g. {odd[0]}", where="paired difference")
    if not a:
        raise DataError("no task to compare", where="paired difference")
    delta = np.array([float(b[task]) - float(a[task]) for task in sorted(a)])
    rng = np.random.default_rng(stream_seed(seed, "paired-difference", name))
    means = np.sort([delta[rng.integers(0, len(delta), len(delta))].mean() for _ in range(resamples)])
    low, high = np.quantile(means, [0.025, 0.975])
    return Difference(
        mean=float(delta.mean()),
        interval=Interval(float(low), float(high)),
        tasks=len(delta),
        a_better=int((delta < 0).sum()),
        b_better=int((delta > 0).sum()),
    )


@dataclass(frozen=True)
class Repeats:
    """A figure measured several times. `interval` is Student's t of the mean; None for a single repeat."""

    count: int
    mean: float
    minimum: float
    maximum: float
    interval: Interval | None


def aggregate(values: Sequence[float]) -> Repeats:
    """Mean, extremes and interval over repeats (other sampling or environment seeds, same benchmark)."""
    if not values or not all(math.isfinite(v) for v in values):
        raise DataError(f"repeats {list(values)[:8]} are not finite numbers", where="aggregate")
    n = len(values)
    mean = math.fsum(values) / n
    interval = None
    if n > 1:
        deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1))
        half = (_T95[n - 2] if n - 1 <= len(_T95) else Z95) * deviation / math.sqrt(n)
        interval = Interval(mean - half, mean + half)
    return Repeats(n, mean, min(values), max(values), interval)
