"""The `forge` stage: tasks for every split, gated, with what was refused and why."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from components.contracts.desktop import Desktop
from components.contracts.params import Params
from components.contracts.stage import StepContext
from components.contracts.task import Channel, Split, Task
from components.forge.gate import open_gate
from components.forge.generate import SPLITS, generate
from components.forge.store import save


def play(desktop: Desktop, task: Task, route: tuple[Channel, ...]) -> None:
    """The gate's player: the scripted teacher without its bad habits.

    The one place where forge meets `components.rollout`: an oracle is a teacher, and there is one teacher.
    """
    from components.rollout.teacher import Style, solve

    policy = route[0] if len(route) == 1 else "hybrid"
    solve(desktop, task, policy, Random(0), style=Style(channel_temperature=0.0, check=0.0))


def run(params: Params, inputs: dict[str, Path], outputs: dict[str, Path], ctx: StepContext) -> dict[str, float]:
    """`params.forge`: counts by split, and `gate`, the share of tasks that gets the full gate.

    Writes `outputs["tasks"]` (see `store.py`). Returns counts by split and by reason of refusal.
    """
    counts: dict[Split, int] = {split: getattr(params.forge, split) for split in SPLITS}
    total, kept = sum(counts.values()), 0
    with open_gate(play, share=params.forge.gate, workers=ctx.workers, unconfined=ctx.unconfined) as gate:

        def watched(tasks: Any) -> list[str]:
            nonlocal kept
            reasons: list[str] = []
            for start in range(0, len(tasks), 256):
                began = time.monotonic()
                part = gate(tasks[start : start + 256])
                held = ctx.workers * (time.monotonic() - began)  # every worker holds a slot of its own
                ctx.events.ledger("sandbox", seconds=round(held, 6), tasks=len(part))
                reasons += part
                kept += sum(not reason for reason in part)
                ctx.events.progress(kept, total, "tasks")
            return reasons

        made = generate(ctx.seed, counts, watched)
    save(made, outputs["tasks"])
    metrics: dict[str, float] = {f"tasks_{split}": 0.0 for split in SPLITS}
    for task in made.tasks:
        metrics[f"tasks_{task.split}"] += 1
    for case, count in sorted(Counter(r.reason.split(":")[0] for r in made.rejected).items()):
        metrics[f"rejected_{case}"] = float(count)
    metrics["rejected"] = float(len(made.rejected))
    for name, value in metrics.items():
        ctx.events.metric(name, value)
    return metrics
