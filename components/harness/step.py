"""The stage `harness`: evolve the teacher's harness on dev tasks, and write the ones that the recipe uses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from components.contracts.artifacts import output_dir
from components.contracts.digests import canonical_json
from components.contracts.errors import DataError, ParamsError
from components.contracts.params import Params
from components.contracts.stage import StepContext
from components.contracts.task import Task
from components.harness.spec import HarnessName, HarnessSpec, default_spec
from components.harness.trials import (
    RULE,
    TARGETS,
    TOOL_OF,
    Candidate,
    Evolution,
    Trial,
    evolve,
    run_trial,
    untried_skills,
)
from components.rollout.metering import metered_slots
from components.rollout.slots import slots


def run(params: Params, inputs: dict[str, Path], outputs: dict[str, Path], ctx: StepContext) -> dict[str, float]:
    """Reads the dev tasks; writes `gui.json`, `terminal.json`, `hybrid.json`, `overlapping.json` and `trials.json`.

    `overlapping` is the unpruned arm of the duel: every tool, the guest library of the hybrid one. Metrics: trials,
    episodes, and success, steps, overlap of each chosen harness and of the hybrid search's start.
    """
    from components.forge.store import load_tasks

    unknown = [route for route in params.harness.routes if route not in TOOL_OF]
    if unknown:
        raise ParamsError(f"unknown route {unknown[0]!r}", where="harness.routes", remedy=f"use {', '.join(TOOL_OF)}")
    tasks = load_tasks(inputs["tasks"], "dev")
    if not tasks:
        raise DataError("there is no dev task", where=str(inputs["tasks"]), remedy="raise forge.dev")
    done = 0

    def trial(candidate: Candidate, target: HarnessName, chosen: Sequence[Task]) -> Trial:
        nonlocal done
        tried = run_trial(
            candidate, target, chosen, params.context, params.model, ctx.seed,
            lambda spec: metered_slots(slots(ctx.work, spec, unconfined=ctx.unconfined), ctx.events), ctx.workers,
        )  # fmt: skip
        done += 1
        calls = round(tried.steps * tried.episodes)
        ctx.events.ledger("teacher", model="local/scripted-teacher", calls=calls, tokens_in=0, tokens_out=0)
        ctx.events.note(f"{target}: {candidate.key}: success {tried.success:.2f}, steps {tried.steps:.2f}")
        ctx.events.progress(done, done + 1, "trials")
        ctx.events.metric(f"{target}_success", tried.success, done)
        return tried

    for target in TARGETS:
        untried = untried_skills(target, tasks, params.harness.trial_tasks)
        if untried:
            ctx.events.note(f"{target}: no trial shows {', '.join(untried)}; raise harness.trial_tasks")
    found = [evolve(target, params.harness.routes, tasks, params.harness.trial_tasks, trial) for target in TARGETS]
    ctx.events.progress(done, done, "trials")
    specs = {e.target: e.chosen.candidate.spec for e in found}
    specs["overlapping"] = default_spec("overlapping").model_copy(
        update={"guest_commands": specs["hybrid"].guest_commands}
    )  # fmt: skip
    _write(outputs["harness"], specs, found)
    return _metrics(found)


def _write(target: Path, specs: dict[HarnessName, HarnessSpec], found: Sequence[Evolution]) -> None:
    rows = [t.row(t is e.chosen) for e in found for t in e.trials]
    digests = {name: spec.digest for name, spec in specs.items()}
    with output_dir(target) as draft:
        for name, spec in specs.items():
            (draft / f"{name}.json").write_text(spec.model_dump_json(indent=1) + "\n")
        (draft / "trials.json").write_text(canonical_json({"rule": RULE, "trials": rows, "harness": digests}) + "\n")


def _metrics(found: Sequence[Evolution]) -> dict[str, float]:
    metrics = {
        "trials": float(sum(len(e.trials) for e in found)),
        "episodes": float(sum(t.episodes for e in found for t in e.trials)),
    }
    for evolution in found:
        for name, tried in (("", evolution.chosen), ("_start", evolution.trials[0])):
            metrics[f"{evolution.target}{name}_success"] = tried.success
            metrics[f"{evolution.target}{name}_steps"] = tried.steps
            metrics[f"{evolution.target}{name}_overlap"] = tried.overlap
    return metrics
