"""Harness evolution, teacher side: which tools and which guest library make a teacher short and unambiguous.

Per target (gui, terminal, hybrid) the search starts with every tool that is allowed and a bare guest. A generation
tries every child that one operator away from the best harness so far gives: leave a tool out, install or remove the
guest library. It stops when no child is better. Every candidate runs the same teacher on the same dev tasks.

Rule (`better`): success first, where a difference of one task counts as none; then steps times (1 + overlap); then
fewer tools. Overlap is the share of decisions at which more than one offered tool does the very same step: such routes
split the supervision of a student (paper.md 4.1: 2.4 points of the teacher, 12.5 points of its student).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from components.contracts.desktop import Desktop
from components.contracts.params import Collect, Context, Model
from components.contracts.task import Channel, Task
from components.contracts.trajectory import Trajectory
from components.harness.spec import HarnessName, HarnessSpec, default_spec
from components.rollout.collect import Settings, choose_tasks, collect
from components.rollout.teacher import Policy

RULE = (
    "highest success, a difference of one task being none; then fewest steps x (1 + overlap); then fewest tools. "
    "overlap = share of decisions at which more than one offered tool does the very same step"
)
TARGETS: dict[HarnessName, Policy] = {"gui": "gui", "terminal": "terminal", "hybrid": "hybrid"}
TOOL_OF = {"gui": "computer_use", "terminal": "bash", "accessibility": "accessibility"}
"""The tool behind each route that `harness.routes` may allow."""

_ALLOWED: dict[HarnessName, tuple[str, ...]] = {
    "gui": ("computer_use", "accessibility"),
    "terminal": ("computer_use", "bash", "accessibility"),
    "hybrid": ("computer_use", "bash", "accessibility"),
}
_NEEDED: dict[HarnessName, tuple[str, ...]] = {
    "gui": ("computer_use",), "terminal": ("computer_use", "bash"), "hybrid": ("computer_use",),
}  # fmt: skip
"""What no operator leaves out: the screen is how an episode is looked at and ended."""

_CLEAN = Collect(tasks=1, perturb=0.0, verbose=0.0, check=0.0, channel_temperature=1.0)
"""Trials measure the harness: no perturbation; but the teacher does take the slower of two ways at times."""

FactoryOf = Callable[[HarnessSpec], Callable[[], AbstractContextManager[Desktop]]]


@dataclass(frozen=True)
class Candidate:
    """A harness to try, and how it came about."""

    spec: HarnessSpec
    parent: str = ""
    operator: str = "start"
    generation: int = 0

    @property
    def key(self) -> str:
        """What makes two candidates of a target the same."""
        return "+".join(self.spec.tools) + (
            "|" + "+".join(self.spec.guest_commands) if self.spec.guest_commands else ""
        )


@dataclass(frozen=True)
class Trial:
    """One candidate's figures over `episodes` dev tasks. Means are over all of them, failures included."""

    candidate: Candidate
    target: str
    episodes: int
    success: float
    steps: float
    overlap: float
    route_entropy: float
    output_chars: float

    @property
    def burden(self) -> float:
        return self.steps * (1 + self.overlap)

    def row(self, chosen: bool) -> dict[str, Any]:
        """The trial as it is stored and shown."""
        own = self.candidate
        return {
            "harness": self.target, "tools": list(own.spec.tools), "guest": list(own.spec.guest_commands),
            "generation": own.generation, "operator": own.operator, "parent": own.parent, "key": own.key,
            "episodes": self.episodes, "teacher_success": round(self.success, 6),
            "teacher_steps": round(self.steps, 6), "overlap": round(self.overlap, 6),
            "route_entropy": round(self.route_entropy, 6), "output_chars": round(self.output_chars, 3),
            "burden": round(self.burden, 6), "chosen": chosen,
        }  # fmt: skip


@dataclass(frozen=True)
class Evolution:
    """The search for one target: the chosen harness and every trial in the order they ran."""

    target: HarnessName
    chosen: Trial
    trials: tuple[Trial, ...]


def better(one: Trial, other: Trial) -> bool:
    """Whether `one` is preferred. See the rule above; equal in all means no."""
    margin = 1.0 / max(1, one.episodes) + 1e-9
    if abs(one.success - other.success) > margin:
        return one.success > other.success
    mine, theirs = (round(one.burden, 6), len(one.candidate.spec.tools)), (
        round(other.burden, 6), len(other.candidate.spec.tools),
    )  # fmt: skip
    return mine < theirs


def start_of(target: HarnessName, routes: Sequence[str]) -> HarnessSpec:
    """Every allowed tool, a bare guest."""
    offered = {TOOL_OF[route] for route in routes}
    tools = tuple(tool for tool in _ALLOWED[target] if tool in offered or tool in _NEEDED[target])
    return default_spec(target).model_copy(update={"tools": tools, "guest_commands": ()})


def children(parent: Candidate, target: HarnessName) -> list[Candidate]:
    """Harnesses one operator away."""
    spec, made = parent.spec, []
    changes: list[tuple[str, dict[str, Any]]] = []
    for tool in spec.tools:
        if tool not in _NEEDED[target]:
            changes.append((f"leave out {tool}", {"tools": tuple(t for t in spec.tools if t != tool)}))
    library = default_spec("hybrid").guest_commands
    if "bash" in spec.tools and not spec.guest_commands:
        changes.append(("install the guest library", {"guest_commands": library}))
    if spec.guest_commands:
        changes.append(("remove the guest library", {"guest_commands": ()}))
    for operator, change in changes:
        child = spec.model_copy(update=change)
        if "bash" not in child.tools:
            channels: tuple[Channel, ...] = ("gui",)
            child = child.model_copy(update={"guest_commands": (), "channels": channels})
        made.append(Candidate(child, parent.key, operator, parent.generation + 1))
    return made


def run_trial(
    candidate: Candidate,
    target: HarnessName,
    tasks: Sequence[Task],
    context: Context,
    model: Model,
    seed: int,
    factory: FactoryOf,
    workers: int,
) -> Trial:
    """The teacher on every task. A task that the candidate's tools cannot do is a failure of the harness."""
    policy: Policy = TARGETS[target] if "bash" in candidate.spec.tools else "gui"
    settings = Settings(
        stage=f"harness/{target}", seed=seed, policy=policy, harness=candidate.spec, collect=_CLEAN, context=context,
        model=model, pictures=False,
    )  # fmt: skip
    done = collect(tasks, settings, factory(candidate.spec), workers=workers).trajectories
    plans = {task.task_id: task.spec.get("plan", ()) for task in tasks}
    choices = [c for t in done for c in decisions(t, plans[t.task_id], candidate.spec)]
    count = max(1, len(done))
    return Trial(
        candidate, target, len(done),
        success=sum(t.ending == "terminated" and t.verdict.success for t in done) / count,
        steps=sum(len(t.steps) or tasks_limit(tasks, t.task_id) for t in done) / count,
        overlap=sum(len(c.same) > 1 for c in choices) / max(1, len(choices)),
        route_entropy=entropy(choices),
        output_chars=sum(len(s.output) for t in done for s in t.steps) / count,
    )  # fmt: skip


def tasks_limit(tasks: Sequence[Task], task_id: str) -> int:
    """Steps an episode counts for that could not begin: all it was allowed."""
    return next(task.max_steps for task in tasks if task.task_id == task_id)


@dataclass(frozen=True)
class Decision:
    """One step: what it was for, the tools that would have done the very same, and the tool that did it."""

    purpose: str
    same: frozenset[str]
    tool: str


def decisions(trajectory: Trajectory, plan: Sequence[dict[str, Any]], spec: HarnessSpec) -> list[Decision]:
    """The choices of an episode, `terminate` and the second half of a click by number aside.

    A visual click and a click by number are the very same step. Screen and terminal are two ways to a stage's goal,
    taken in different numbers of steps; they count for the entropy, and for the overlap only where both take one.
    """
    found = []
    for step, info in zip(trajectory.steps, trajectory.meta.get("steps", ()), strict=False):
        intent, call = info["intent"], step.call or {}
        if step.perturbed or intent.get("last") or (call.get("tool") == "accessibility" and call["action"] == "click"):
            continue
        stage = plan[intent["stage"]] if plan else {}
        same = {str(call.get("tool"))}
        if call.get("tool") == "accessibility" or (call.get("action") == "left_click" and intent.get("target")):
            same |= {"computer_use"} | ({"accessibility"} & set(spec.tools))
        purpose = "/".join(
            [trajectory.skill, str(intent["stage"]), "click" if len(same) > 1 else "+".join(sorted(stage))]
        )
        found.append(Decision(purpose, frozenset(same), str(call.get("tool"))))
    return found


def entropy(choices: Sequence[Decision]) -> float:
    """Bits of choice between tools per decision: the mean over decisions of the tool's entropy given its purpose."""
    by_purpose: dict[str, Counter[str]] = defaultdict(Counter)
    for choice in choices:
        by_purpose[choice.purpose][choice.tool] += 1
    total = 0.0
    for counts in by_purpose.values():
        whole = sum(counts.values())
        total -= sum(n * math.log2(n / whole) for n in counts.values())
    return total / max(1, len(choices))


def untried_skills(target: HarnessName, tasks: Sequence[Task], count: int) -> list[str]:
    """Skills of the target's channel that none of `count` trial tasks shows: what only they need looks useless."""
    able = choose_tasks(tasks, TARGETS[target], len(tasks))
    return sorted({task.skill for task in able} - {task.skill for task in able[:count]})


def evolve(
    target: HarnessName, routes: Sequence[str], tasks: Sequence[Task], count: int, trial: Callable[..., Trial]
) -> Evolution:
    """Hill climbing from the start harness. `trial(candidate, target, tasks)` gives the figures of one candidate."""
    chosen_tasks = choose_tasks(tasks, TARGETS[target], count)
    best = trial(Candidate(start_of(target, routes)), target, chosen_tasks)
    trials = [best]
    known = {best.candidate.key}
    while True:
        fresh = [c for c in children(best.candidate, target) if c.key not in known]
        known |= {c.key for c in fresh}
        leader = best
        for candidate in fresh:
            tried = trial(candidate, target, chosen_tasks)
            trials.append(tried)
            if better(tried, leader):
                leader = tried
        if leader is best:
            return Evolution(target, best, tuple(trials))
        best = leader
