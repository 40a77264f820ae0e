"""Collection: a teacher works through tasks in the sandbox, in the harness that the student will have.

Every random choice comes from a stream named after the task, so an episode is the same whatever process runs it.
A share of steps is replaced by a random action (`perturb`): the student then sees screens off the straight path, and
how the teacher comes back. Such a step stays in the history and is never a target.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from components.contracts.arguments import arguments_of, build_call
from components.contracts.calls import BashCall, ComputerUse, DesktopCall
from components.contracts.coords import ScreenSpace
from components.contracts.desktop import ActResult, Desktop, Element, Observation
from components.contracts.digests import digest_value
from components.contracts.errors import CallError, CoworkError
from components.contracts.params import Collect, Context, Model
from components.contracts.rng import stream
from components.contracts.task import Task, Verdict
from components.contracts.trajectory import Ending, Step, Trajectory
from components.harness.spec import HarnessSpec
from components.rollout.episodes import bash_text
from components.rollout.screens import encode_png, screen_digest
from components.rollout.store import StoredScreen, pack_elements
from components.rollout.teacher import Policy, Style, Teacher, TeacherStep
from components.rollout.workers import fork_map

Factory = Callable[[], AbstractContextManager[Desktop]]

_CLICKABLE = ("icon", "button", "checkbox", "row", "cell", "field", "menu", "item", "title", "handle")
_FINAL = ("send", "yes", "delete", "save")
"""Labels that a perturbation leaves alone: what they do cannot be taken back, and the episode would be lost."""


@dataclass(frozen=True)
class Settings:
    """What all episodes of a collection share. `stage` names the random streams."""

    stage: str
    seed: int
    policy: Policy
    harness: HarnessSpec
    collect: Collect
    context: Context
    model: Model
    pictures: bool = True
    """Keep the screenshots. Without them steps name none: for trials that only count."""
    accessibility: float = Style.accessibility
    """Chance that a click goes through the accessibility tree, where the harness offers it."""


@dataclass
class Collected:
    """Trajectories in the order of the tasks, the screenshots they name, and what the sandbox did."""

    trajectories: list[Trajectory] = field(default_factory=list)
    screens: dict[str, StoredScreen] = field(default_factory=dict)
    seconds: float = 0.0
    steps: int = 0


def choose_tasks(tasks: Iterable[Task], policy: Policy, count: int) -> list[Task]:
    """`count` tasks that the channel can do alone (hybrid: any), round robin over skills by name."""
    by_skill: dict[str, list[Task]] = {}
    for task in sorted(tasks, key=lambda t: (t.skill, t.task_id)):
        if policy == "hybrid" or (policy,) in task.channels:
            by_skill.setdefault(task.skill, []).append(task)
    depth = max((len(own) for own in by_skill.values()), default=0)
    return [own[i] for i in range(depth) for own in by_skill.values() if i < len(own)][:count]


def collect(
    tasks: Sequence[Task],
    settings: Settings,
    factory: Factory,
    *,
    workers: int = 1,
    on_done: Callable[[int], None] | None = None,
) -> Collected:
    """One episode a task. The result does not depend on `workers`; `on_done` gets this process's count of episodes."""
    owner = os.getpid()

    def run(part: list[Task]) -> list[_Episode]:
        sent: dict[str, set[str]] = {}
        done = []
        for number, task in enumerate(part, start=1):
            done.append(_run_episode(task, settings, factory, sent))
            if on_done is not None and os.getpid() == owner:
                on_done(number)
        return done

    result = Collected()
    for episode in fork_map(run, tasks, max(1, min(workers, len(tasks)))):
        result.trajectories.append(episode.trajectory)
        result.seconds += episode.seconds
        result.steps += len(episode.trajectory.steps)
        for digest, stored in episode.screens.items():
            # Equal pixels with other elements (something hidden differs): the smaller text, whoever came first.
            known = result.screens.get(digest)
            if known is None or stored.elements < known.elements:
                result.screens[digest] = stored
    return result


@dataclass(frozen=True)
class _Episode:
    trajectory: Trajectory
    screens: dict[str, StoredScreen]
    seconds: float


class _Recorder:
    """Steps and screenshots of one episode. `sent`: digest -> element texts that this process has given already."""

    def __init__(self, sent: dict[str, set[str]], pictures: bool) -> None:
        self._pictures = pictures
        self.steps: list[Step] = []
        self.infos: list[dict[str, Any]] = []
        self.screens: dict[str, StoredScreen] = {}
        self._sent = sent

    def see(self, seen: Observation) -> str:
        """The digest of what is seen, kept for the store; "" where no pictures are kept."""
        if not self._pictures:
            return ""
        digest = screen_digest(seen.screen)
        elements = pack_elements(seen.elements)
        given = self._sent.setdefault(digest, set())
        if elements not in given:
            given.add(elements)
            self.screens[digest] = StoredScreen(encode_png(seen.screen), elements)
        return digest

    def add(
        self,
        before: str,
        after: str,
        seen: Observation,
        made: TeacherStep,
        output: str,
        error: str,
        perturbed: bool,
    ) -> None:
        call = made.call.model_dump(mode="json")
        self.steps.append(
            Step(
                index=len(self.steps), screen=before, screen_after=after, think="", action=made.action_line, call=call,
                output=output, error=error, perturbed=perturbed, channel=channel_of(made.call),
            )
        )  # fmt: skip
        self.infos.append(
            {
                "intent": made.intent,
                "pointer": list(seen.pointer) if seen.pointer else None,
                "target": _target(seen, made),
            }
        )


def channel_of(call: DesktopCall) -> Any:
    """The channel a call counts for; `terminate` counts for none."""
    if isinstance(call, BashCall):
        return "terminal"
    return "none" if isinstance(call, ComputerUse) and call.action == "terminate" else "gui"


def _target(seen: Observation, made: TeacherStep) -> dict[str, Any] | None:
    """The element a step points at, as it was on the screen."""
    named = made.intent.get("target")
    if not named:
        return None
    found = next((e for e in reversed(seen.elements) if [e.kind, e.label] == list(named)), None)
    return {"kind": found.kind, "label": found.label, "box": list(found.box)} if found else None


def _run_episode(task: Task, settings: Settings, factory: Factory, sent: dict[str, set[str]]) -> _Episode:
    begun = time.perf_counter()
    recorder = _Recorder(sent, settings.pictures)
    verdict, ending, problem = Verdict(success=False), "infra_error", ""
    try:
        with factory() as desktop:
            ending = _drive(desktop, task, settings, recorder)
            if ending == "terminated":
                verdict = desktop.grade()
    except CoworkError as error:
        ending, problem = "infra_error", f"{error.border}: {error.message}"
    verbose = stream(settings.seed, f"{settings.stage}/style", task.task_id).random() < settings.collect.verbose
    meta: dict[str, Any] = {
        "steps": recorder.infos, "style": "verbose" if verbose else "short", "wording": task.wording,
        "apps": list(task.apps), "channels": [list(route) for route in task.channels],
        "route": sorted({s.channel for s in recorder.steps if s.channel != "none" and not s.perturbed}),
        "policy": settings.policy,
    }  # fmt: skip
    if problem:
        meta["infra_error"] = problem
    identity = [settings.stage, settings.seed, settings.harness.digest, task.task_id]
    trajectory = Trajectory(
        trajectory_id=digest_value(identity), task_id=task.task_id, skill=task.skill, split=task.split,
        instruction=task.instruction, harness=settings.harness.name, source="teacher", steps=tuple(recorder.steps),
        verdict=verdict, ending=_ending(ending), meta=meta,
    )  # fmt: skip
    return _Episode(trajectory, recorder.screens, time.perf_counter() - begun)


def _ending(text: str) -> Ending:
    endings: dict[str, Ending] = {"terminated": "terminated", "step_limit": "step_limit"}
    return endings.get(text, "infra_error")


def _drive(desktop: Desktop, task: Task, settings: Settings, recorder: _Recorder) -> str:
    """Act until the teacher ends the episode or the steps run out."""
    space = ScreenSpace(settings.model.coord_space, desktop.size, step=settings.model.coord_step)
    own = settings.collect
    style = Style(
        channel_temperature=own.channel_temperature, check=own.check, accessibility=settings.accessibility,
        coordinate_step=settings.model.coord_step,
    )  # fmt: skip
    teacher = Teacher(
        task, settings.policy, stream(settings.seed, f"{settings.stage}/teacher", task.task_id), style=style,
        tools=frozenset(settings.harness.tools),
    )  # fmt: skip
    noise = stream(settings.seed, f"{settings.stage}/perturb", task.task_id)
    seen = desktop.reset(task)
    before = recorder.see(seen)
    for _ in range(task.max_steps):
        made = teacher.next(seen, desktop.state())
        perturbed = noise.random() < own.perturb
        if perturbed:
            made = _perturbation(noise, seen, made, style.coordinate_step, space)
        result, error = _act(desktop, made.call, space, seen, settings.harness.tools)
        teacher.record(made.call, result)
        output = result.output if error else shown_output(made.call, result, settings.context.output_chars)
        ended = isinstance(made.call, ComputerUse) and made.call.action == "terminate"
        if ended:
            recorder.add(before, before, seen, made, output, error, perturbed)
            return "terminated" if getattr(made.call, "status", "") == "success" else "step_limit"
        after_seen = desktop.observe()
        after = recorder.see(after_seen)
        recorder.add(before, after, seen, made, output, error, perturbed)
        seen, before = after_seen, after
    return "step_limit"


def shown_output(call: DesktopCall, result: ActResult, limit: int) -> str:
    """What the next prompt says the call printed, as `rollout.episodes` has it; "" for calls that print nothing."""
    if isinstance(call, BashCall):
        return bash_text(result, limit)
    return "" if isinstance(call, ComputerUse) else result.output


def _act(
    desktop: Desktop, call: DesktopCall, space: ScreenSpace, seen: Observation, tools: Sequence[str]
) -> tuple[ActResult, str]:
    """Do the call as a policy's would be done: written on the wire, read back, then executed. With the error's code."""
    try:
        wire = build_call(call.tool, arguments_of(call, space), space, pointer=seen.pointer, tools=tools)
        return desktop.act(wire), ""
    except CallError as failure:
        return ActResult(effect=False, output=f"error: {failure.code}"), failure.code


def _perturbation(
    rng: Random, seen: Observation, made: TeacherStep, step: float, space: ScreenSpace
) -> TeacherStep:  # fmt: skip
    """A plausible wrong step: a click on something else, or a look into the home directory beside a terminal step."""
    if isinstance(made.call, BashCall) and rng.random() < 0.5:
        return _made(BashCall(command="ls"), "run ls", None)
    named = made.intent.get("target")
    choices = [
        e for e in seen.elements if e.kind in _CLICKABLE and e.label not in _FINAL and [e.kind, e.label] != named
    ]  # fmt: skip
    if not choices:
        return _made(ComputerUse(action="wait", time=1.0), "wait", None)
    element = rng.choice(choices)
    point = space.to_screen(space.from_screen(element.center))
    return _made(
        ComputerUse(action="left_click", coordinate=point), f"click the {element.label} {element.kind}", element
    )


def _made(call: DesktopCall, line: str, element: Element | None) -> TeacherStep:
    target = [element.kind, element.label] if element is not None else None
    return TeacherStep(call, line, {"target": target, "goal": {}, "aim": "", "why": ""})


def summary(trajectories: Sequence[Trajectory]) -> Mapping[str, float]:
    """Figures of a collection. Calls and channel shares are over kept episodes, perturbed steps included in calls."""
    kept = [t for t in trajectories if not t.dropped]
    steps = [s for t in kept for s in t.steps if s.channel != "none"]
    gui = sum(1 for s in steps if s.channel == "gui")
    return {
        "tasks": float(len(trajectories)),
        "kept": float(len(kept)),
        "dropped": float(len(trajectories) - len(kept)),
        "success": sum(t.verdict.success for t in trajectories) / max(1, len(trajectories)),
        "mean_calls": sum(len(t.steps) for t in kept) / max(1, len(kept)),
        "gui_share": gui / max(1, len(steps)),
        "perturbed_share": sum(s.perturbed for t in kept for s in t.steps) / max(1, sum(len(t.steps) for t in kept)),
    }
