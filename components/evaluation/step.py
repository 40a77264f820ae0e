"""The `evaluate-*` stages: one checkpoint through the three benches, greedy, on fixed held-out items."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from components.contracts.artifacts import output_dir
from components.contracts.desktop import Screen
from components.contracts.digests import canonical_json, digest_tree
from components.contracts.errors import DataError
from components.contracts.outcome import Outcome
from components.contracts.params import Params
from components.contracts.stage import StepContext
from components.contracts.task import Task
from components.evaluation.clicks import click_items, run_clicks, score_clicks
from components.evaluation.single_step import PRIMITIVES, StepItem, StepScore, collect_items, run_single_steps
from components.evaluation.tasks import Shown, headline, outcome_row, run_tasks, slices
from components.harness.spec import load_spec
from components.rollout.episodes import EpisodeSettings
from components.rollout.metering import MeteredClient, metered_slots
from components.rollout.policy import PolicyClient
from components.rollout.slots import slots
from components.rollout.workers import fork_map

BENCH_SEED = 20261001
"""Seed of the fixed benches: the same items for every run, whatever the recipe's seed."""


HARNESS_OF = {"base": "gui", "midtrain": "gui", "gui-sft": "gui", "terminal-sft": "terminal"}
"""The harness a checkpoint was trained in, where it is not the hybrid one. Same harness in data and evaluation: a
prompt never seen in training would be measured with it. The tasks are the same for all."""


def run(params: Params, inputs: dict[str, Path], outputs: dict[str, Path], ctx: StepContext) -> dict[str, float]:
    """Read `checkpoint`, `tasks`, `harness`; write `scores`: scores.json, episodes.jsonl, gallery.json, screens."""
    import torch

    from components.forge.store import load_tasks
    from components.training.engine import LocalClient
    from components.training.model import Policy

    torch.set_num_threads(1)
    settings = params.evaluate
    stage = ctx.stage.removeprefix("evaluate-")
    harness = load_spec(inputs["harness"] / f"{HARNESS_OF.get(stage, 'hybrid')}.json")
    heldout = fixed_set(load_tasks(inputs["tasks"], "heldout"), settings.tasks, "heldout")
    apart = fixed_set(load_tasks(inputs["tasks"], "heldout_skills"), settings.heldout_skill_tasks, "heldout_skills")
    policy = Policy.load(inputs["checkpoint"])
    client = MeteredClient(
        LocalClient(policy, params.model.max_new_tokens), ctx.events, "local/policy", parameters=policy.parameters(),
        meter=ctx.meter,
    )  # fmt: skip
    factory = metered_slots(slots(ctx.work, harness, unconfined=ctx.unconfined), ctx.events)
    episodes = EpisodeSettings(harness, params.context, params.model, settings.max_steps)

    clicks = _clicks(client, params, ctx.workers)
    desktop = load_spec(inputs["harness"] / "gui.json")  # a bench of desktop steps: it offers every checkpoint the same
    items = collect_items(
        heldout, desktop, params.context, params.model, factory, BENCH_SEED, settings.single_steps, client.special,
        workers=ctx.workers,
    )  # fmt: skip
    steps = fork_map(lambda part: run_single_steps(client, part, params.model, desktop.tools), items, ctx.workers)

    def progress(done: int, total: int) -> None:
        ctx.events.progress(done, total, "episodes")

    shown = [task.task_id for task in heldout[:: max(1, len(heldout) // max(1, settings.gallery))][: settings.gallery]]
    # In one go: a few long episodes alone would leave the policy answering one prompt at a time.
    every, views = run_tasks(
        [*heldout, *apart], client, episodes, factory, repeats=settings.repeats, workers=ctx.workers, shown=shown,
        on_done=progress,
    )  # fmt: skip
    outcomes, others = ([o for o in every if o.split == split] for split in ("heldout", "heldout_skills"))

    scores = {
        "stage": stage,
        "checkpoint": digest_tree(inputs["checkpoint"]),
        "repeats": settings.repeats,
        "grounding": clicks,
        "single_step": single_step_part(items, steps),
        **headline(outcomes),
        "heldout_skills": _apart(others),
        "extra": _repeats(outcomes, settings.repeats),
    }
    with output_dir(outputs["scores"]) as folder:
        _write(folder, scores, [*outcomes, *others], views, stage)
    return {
        "success": scores["success"] or 0.0, "calls": scores["calls"] or 0.0, "tokens": scores["tokens"] or 0.0,
        "grounding": clicks["micro"], "single_step": scores["single_step"]["joint"],
        "gui_share": scores["gui_share"] or 0.0,
    }  # fmt: skip


def fixed_set(tasks: Sequence[Task], count: int, name: str) -> list[Task]:
    """`count` tasks, skills in turn, each skill's tasks in the order of their ids. Too few is an error."""
    if count > len(tasks):
        raise DataError(
            f"{count} {name} tasks are asked for, {len(tasks)} exist",
            where="evaluate",
            remedy=f"raise forge.{name} or lower evaluate",
        )
    by_skill: dict[str, list[Task]] = {}
    for task in sorted(tasks, key=lambda t: t.task_id):
        by_skill.setdefault(task.skill, []).append(task)
    out: list[Task] = []
    depth = 0
    while len(out) < count:
        out.extend(pool[depth] for _, pool in sorted(by_skill.items()) if depth < len(pool))
        depth += 1
    return out[:count]


def _clicks(client: PolicyClient, params: Params, workers: int) -> dict[str, Any]:
    items = click_items(BENCH_SEED, params.evaluate.grounding_screens)
    points = fork_map(lambda part: run_clicks(client, part, params.model), items, workers)
    score = score_clicks(items, points)
    return {
        "micro": score.cells.micro or 0.0, "macro": score.cells.macro or 0.0, "by_kind": score.cells.rates,
        "items": score.items, "empty_kinds": list(score.cells.empty_cells),
    }  # fmt: skip


def single_step_part(items: Sequence[StepItem], steps: Sequence[StepScore]) -> dict[str, Any]:
    """Shares of each figure over all items, and the joint one by primitive."""
    n = max(1, len(steps))
    by_primitive = {}
    for name in PRIMITIVES:
        own = [s.joint for item, s in zip(items, steps, strict=True) if item.primitive == name]
        if own:
            by_primitive[name] = sum(own) / len(own)
    shares = {
        name: sum(getattr(s, name) for s in steps) / n for name in ("syntax", "action", "arguments", "hit", "joint")
    }
    return {**shares, "by_primitive": by_primitive, "items": len(steps)}


def _apart(outcomes: Sequence[Outcome]) -> dict[str, Any] | None:
    if not outcomes:
        return None
    return {
        "success": sum(o.success for o in outcomes) / len(outcomes), "n": len(outcomes),
        "by_skill": slices(outcomes, lambda o: (o.skill,)),
    }  # fmt: skip


def _repeats(outcomes: Sequence[Outcome], repeats: int) -> dict[str, float]:
    """Spread over repeats (other looks of the same tasks); empty for a single one."""
    if repeats < 2:
        return {}
    from components.evaluation.statistics import aggregate

    rates = []
    for repeat in range(repeats):
        own = [o.success for o in outcomes if o.repeat == repeat]
        rates.append(sum(own) / len(own))
    figures = aggregate(rates)
    return {"repeat_min": figures.minimum, "repeat_max": figures.maximum}


def _write(
    folder: Path, scores: dict[str, Any], outcomes: Sequence[Outcome], views: Sequence[Shown], stage: str
) -> None:
    from components.rollout.screens import encode_png, screen_digest
    from components.rollout.store import StoredScreen, write_screens
    from components.tracking.scores import Scores

    checked = Scores.model_validate(scores)
    (folder / "scores.json").write_text(canonical_json(checked.model_dump(mode="json")) + "\n")
    (folder / "episodes.jsonl").write_text("".join(json.dumps(outcome_row(o), sort_keys=True) + "\n" for o in outcomes))
    gallery: list[dict[str, Any]] = []
    screens: dict[str, Screen] = {}
    for view in views:
        names = [screen_digest(screen) for screen in view.screens]
        screens.update(zip(names, view.screens, strict=True))
        steps = [
            {
                **s,
                "screen": names[s["screen"]],
                "screen_after": names[s["screen_after"]] if s["screen_after"] < len(names) else "",
            }
            for s in view.data["steps"]
        ]
        gallery.append({**view.data, "steps": steps, "stage": stage})
    (folder / "gallery.json").write_text(json.dumps(gallery, sort_keys=True) + "\n")
    write_screens(folder, {digest: StoredScreen(encode_png(screen)) for digest, screen in screens.items()})
