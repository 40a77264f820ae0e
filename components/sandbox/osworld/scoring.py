"""From what the getters gave to a score. The rules of OSWorld, and where ours are stricter.

| ending                                | feasible task         | infeasible task |
| ------------------------------------- | --------------------- | --------------- |
| `done`: the agent says that it is     | what the checks give  | 0               |
| `fail`: it says that it cannot be     | 0, whatever is there  | 1               |
| `steps`: it ran out of steps          | what the checks give  | 0               |

A result that is not there scores 0 before any metric sees it: two missing files never count as equal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from components.contracts.errors import CoworkError, TaskError, VerifierError
from components.sandbox.osworld import metrics, package
from components.sandbox.osworld.cache import FetchedFile
from components.sandbox.osworld.task import Evaluator, Probe

Ending = Literal["done", "fail", "steps"]
_OF_TEXT = frozenset({"check_include_exclude", "exact_match", "fuzzy_match", "match_in_list", "is_in_list"})
"""Metrics of texts: of a file that was fetched they get what is in it, never the path of our copy."""


@dataclass(frozen=True)
class Finding:
    """What one probe's getters gave. `result` None: it is not there."""

    result: Any
    expected: Any = None


@dataclass(frozen=True)
class Scored:
    """`score` in [0, 1]; `parts` are the probes' own, as far as they were asked."""

    score: float
    parts: tuple[float, ...] = ()


def settled_by_ending(feasible: bool, ending: Ending) -> float | None:
    """The score that the ending alone decides; None when the checks do."""
    if not feasible:
        return 1.0 if ending == "fail" else 0.0
    return 0.0 if ending == "fail" else None


def final_score(feasible: bool, ending: Ending, checked: float | None) -> float:
    """The table above. `checked` is what the checks gave; None is no success."""
    decided = settled_by_ending(feasible, ending)
    return decided if decided is not None else checked or 0.0


def always_infeasible(feasible: int, infeasible: int) -> float:
    """What an agent gets that declares every task infeasible: to be printed beside any score of such a set."""
    total = feasible + infeasible
    if total <= 0:
        raise TaskError("no tasks", where="osworld")
    return infeasible / total


def score(evaluator: Evaluator, findings: list[Finding]) -> Scored:
    """Joins the probes: `and` is their mean, 0 as soon as one is 0; `or` is the best. Raises `VerifierError`."""
    if len(findings) != len(evaluator.probes) or not findings:
        raise VerifierError(f"{len(findings)} findings for {len(evaluator.probes)} checks", where="osworld")
    parts: list[float] = []
    for probe, finding in zip(evaluator.probes, findings, strict=True):
        parts.append(_probe(probe, finding))
        if evaluator.conj == "and" and parts[-1] == 0.0:
            return Scored(0.0, tuple(parts))
        if evaluator.conj == "or" and parts[-1] == 1.0:
            return Scored(1.0, tuple(parts))
    return Scored(sum(parts) / len(parts) if evaluator.conj == "and" else max(parts), tuple(parts))


def _probe(probe: Probe, finding: Finding) -> float:
    where = f"metric {probe.func}"
    if finding.result is None:
        return 0.0
    if probe.expected is not None and finding.expected is None:
        raise VerifierError("the reference is not there", where=where, remedy="look at the task's own files")
    theirs, reason = package.metric(probe.func)
    ours = metrics.of(probe.func)
    result = finding.result
    if probe.func in _OF_TEXT and isinstance(result, FetchedFile):
        try:
            result = Path(result).read_text(encoding="utf-8")
        except (OSError, UnicodeError):
            return 0.0
    if theirs is None and ours is None:
        raise VerifierError(f"not supported: {reason}", where=where, remedy="leave the task out")
    given = (result,) if probe.expected is None else (result, finding.expected)
    try:
        number = _called(theirs, ours, given, probe.options)
    except CoworkError as error:
        raise VerifierError(error.message, where=where, remedy=error.remedy) from error
    except Exception as error:  # whatever a metric does: it is a broken check, never a success
        raise VerifierError(f"{type(error).__name__}: {error}", where=where, remedy="look at the check") from error
    if not math.isfinite(number):
        raise VerifierError(f"the score is {number}", where=where)
    return min(1.0, max(0.0, number))


def _called(
    theirs: metrics.Metric | None, ours: metrics.Metric | None, given: tuple[Any, ...], options: dict[str, Any]
) -> float:
    """The package's answer. Where it breaks, ours: it knows a file that the agent damaged from a broken check."""
    if theirs is not None:
        try:
            return float(theirs(*given, **options))
        except Exception:
            if ours is None:
                raise
    assert ours is not None
    return float(ours(*given, **options))
