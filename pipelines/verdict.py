"""Did a rerun give the same? Stage by stage: bit-equal, equal within the stated tolerance, or different."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from components.tracking.events import end_of, list_spools, read_events
from components.tracking.lineage import StageRecord
from pipelines.bundle import Curves, curves_of

Word = Literal["bit-equal", "within tolerance", "different", "inputs differ", "failed", "restored", "not run"]
TOLERANCE = 0.02
_MACHINE = re.compile(r"(^|[./_-])(seconds?|ms|mb|gb|rss|rate|speed|per_s(econd)?|resumed_at)($|[./_-])")
"""Figures about the machine, not about the result."""

BIT_EQUAL, WITHIN, DIFFERENT, FAILED = 0, 10, 11, 6
"""Exit codes of `cowork reproduce`."""


@dataclass(frozen=True)
class Output:
    """One output's digests; `obtained` is empty when it was not written."""

    path: str
    expected: str
    obtained: str


@dataclass
class StageVerdict:
    """`compared`: what else was looked at when the bytes differ, each with its result."""

    stage: str
    word: Word
    outputs: list[Output] = field(default_factory=list)
    compared: list[str] = field(default_factory=list)
    seconds: float = 0.0
    note: str = ""


@dataclass
class Verdict:
    """Of a whole reproduction. `tolerance` is relative, and absolute below 1."""

    target: str
    stages: list[StageVerdict] = field(default_factory=list)
    tolerance: float = TOLERANCE

    @property
    def first_difference(self) -> str:
        """The first stage that did not give the same bytes; empty when all did."""
        return next((s.stage for s in self.stages if s.word not in ("bit-equal", "restored")), "")

    @property
    def word(self) -> Word:
        found = {stage.word for stage in self.stages}
        for word in ("failed", "not run", "different"):
            if word in found:
                return "failed" if word == "not run" else word  # type: ignore[return-value]
        return "within tolerance" if found & {"within tolerance", "inputs differ"} else "bit-equal"

    @property
    def exit_code(self) -> int:
        return {"bit-equal": BIT_EQUAL, "within tolerance": WITHIN, "different": DIFFERENT}.get(self.word, FAILED)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.word, "first_difference": self.first_difference}


def near(expected: float, obtained: float, tolerance: float) -> bool:
    """Within `tolerance` of the expected value, relative to it, or absolute where it is below 1."""
    return abs(obtained - expected) <= tolerance * max(1.0, abs(expected))


def comparable(entry: StageRecord | None) -> bool:
    """Whether a stage's result may be the same without its bytes being so: checkpoints (by their losses) and scores."""
    return entry is not None and any(out.name in ("checkpoint", "scores") for out in entry.outputs)


def judge(
    stage: str,
    outputs: list[Output],
    inputs_equal: bool,
    expected: StageRecord | None,
    curves: Mapping[str, list[tuple[int, float]]],
    run_dir: Path,
    tolerance: float,
) -> StageVerdict:
    """The verdict on one stage that was run again in `run_dir`. `curves`: those of the recorded run."""
    end, obtained = outcome(run_dir, stage)
    verdict = StageVerdict(stage, "bit-equal", outputs, seconds=float(end.get("seconds", 0.0)))
    if all(output.expected == output.obtained for output in outputs):
        return verdict
    verdict.word = "different"
    if not comparable(expected):
        if not inputs_equal:
            verdict.word, verdict.note = "inputs differ", "made from other inputs, so not judged by itself"
        return verdict
    assert expected is not None
    results = [
        *_figures(expected.metrics, {k: float(v) for k, v in end.get("metrics", {}).items()}, tolerance),
        *_curves(curves, obtained.get(stage, {}), tolerance),
    ]
    verdict.compared = [text for text, _ in results]
    if results and all(good for _, good in results):
        verdict.word = "within tolerance"
    return verdict


def outcome(run_dir: Path, stage: str) -> tuple[dict[str, Any], Curves]:
    """The last attempt's end record and the curves of a stage in a run's folder."""
    spools = [spool for spool in list_spools(run_dir) if spool.stage == stage]
    end = end_of(read_events(spools[-1].path).events) if spools else {}
    return end or {}, curves_of(run_dir)


def _figures(expected: Mapping[str, float], obtained: Mapping[str, float], tolerance: float) -> list[tuple[str, bool]]:
    results = []
    for name, value in sorted(expected.items()):
        if _MACHINE.search(name):
            continue
        if name not in obtained:
            results.append((f"{name}: {value:.6g}, not obtained", False))
        else:
            good = near(value, obtained[name], tolerance)
            results.append((f"{name}: {value:.6g}, obtained {obtained[name]:.6g}, {_word(good)} {tolerance:g}", good))
    return results


def _curves(
    expected: Mapping[str, list[tuple[int, float]]], obtained: Mapping[str, list[tuple[int, float]]], tolerance: float
) -> list[tuple[str, bool]]:
    """Curves by their mean distance over the steps; other steps are another curve."""
    results = []
    for name, points in sorted(expected.items()):
        if _MACHINE.search(name):
            continue
        old, new = dict(points), dict(obtained.get(name, []))
        if set(old) != set(new):
            results.append((f"curve {name}: {len(old)} steps, obtained {len(new)} or others", False))
            continue
        distance = sum(abs(new[step] - value) for step, value in old.items()) / max(1, len(old))
        scale = sum(abs(value) for value in old.values()) / max(1, len(old))
        good = near(scale, scale + distance, tolerance)
        results.append(
            (f"curve {name}: mean distance {distance:.4g} over {len(old)} steps, {_word(good)} {tolerance:g}", good)
        )
    return results


def _word(good: bool) -> str:
    return "within" if good else "NOT within"


def table(verdict: Verdict) -> str:
    """The verdict for a console."""
    rows = [("stage", "verdict", "expected", "obtained", "output")]
    details: dict[int, list[str]] = {}
    for stage in verdict.stages:
        for output in stage.outputs or [Output("", "", "")]:
            rows.append((stage.stage, stage.word, _short(output.expected), _short(output.obtained), output.path))
        details[len(rows) - 1] = [*([stage.note] if stage.note else []), *stage.compared]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = []
    for index, row in enumerate(rows):
        lines.append("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
        lines += [f"    {text}" for text in details.get(index, ())]
    lines.append("")
    lines.append(
        f"verdict: {verdict.word}" + (f" ({verdict.tolerance:g})" if verdict.word == "within tolerance" else "")
    )
    if verdict.first_difference:
        lines.append(f"first stage that differs: {verdict.first_difference}")
    return "\n".join(lines)


def _short(digest: str) -> str:
    return digest.removeprefix("md5:")[:12] or "-"
