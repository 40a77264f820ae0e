"""May a task enter a pool? Decided from trials of its check, whoever made it: forge's tasks and OSWorld's alike.

A check that passes when nothing was done pays for nothing; one that its own reference fails can never be met; one that
judges the same state in two ways is noise; one that an empty file passes asks for nothing but the file's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Refusal = Literal["passes_without_action", "reference_fails", "unstable_check", "passes_with_empty_file", ""]
UNSTABLE: Refusal = "unstable_check"
FULL = 1.0
"""The score that counts as passed."""
INFEASIBLE_SHARE = 0.2
"""Largest part of a training pool that may be infeasible: above it, giving up pays. OSWorld itself has 8 %."""


@dataclass(frozen=True)
class Trials:
    """Scores in [0, 1] of one check, repeated on the same states: `nothing` done, the `reference` solution in place,
    and (where the check looks at files) the files there and `empty`."""

    nothing: tuple[float, ...]
    reference: tuple[float, ...]
    empty: tuple[float, ...] = ()


def stable(values: Sequence[object]) -> bool:
    """Whether all looks at one state gave the same."""
    return all(value == values[0] for value in values)


def refusal(trials: Trials) -> Refusal:
    """Why the task may not enter; "" when it may. Raises ValueError without a trial of nothing and of the reference."""
    if not trials.nothing or not trials.reference:
        raise ValueError("a task is tried with nothing done and with its reference")
    if not all(stable(scores) for scores in (trials.nothing, trials.reference, trials.empty) if scores):
        return UNSTABLE
    if trials.nothing[0] >= FULL:
        return "passes_without_action"
    if trials.reference[0] < FULL:
        return "reference_fails"
    if trials.empty and trials.empty[0] >= FULL:
        return "passes_with_empty_file"
    return ""


def pool_refusal(tasks: int, infeasible: int, limit: float = INFEASIBLE_SHARE, *, override: bool = False) -> str:
    """`infeasible_share_too_high` for a training pool with too many tasks that cannot be done, "" otherwise.

    `override`: somebody said so on purpose; it is for the caller to record that.
    """
    if tasks <= 0 or not 0 <= infeasible <= tasks:
        raise ValueError(f"{infeasible} of {tasks} tasks")
    return "infeasible_share_too_high" if infeasible / tasks > limit and not override else ""
