"""The scripted teacher: solves tasks through the `Desktop` interface and the tools of a harness, and nothing else.

It has no eyes: it perceives `observe().elements` and `state()`. Before every call it looks again and asks the plan's
current stage what to do from here, so it recovers from anything a perturbation did.

    teacher = Teacher(task, "hybrid", rng, tools=frozenset({"computer_use", "bash"}))
    while True:
        step = teacher.next(desktop.observe(), desktop.state())
        result = desktop.act(step.call)              # or another call, when a collector perturbs
        teacher.record(step.call, result)            # what was really done
        if step.call is a terminate: break
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from components.contracts.calls import AccessibilityCall, BashCall, ComputerUse, DesktopCall
from components.contracts.desktop import ActResult, Desktop, Element, Observation
from components.contracts.errors import TeacherError
from components.contracts.task import Channel, Task
from components.rollout.plans import Goal, estimate, next_move, undone
from components.rollout.view import Move, View, quantised_point

Policy = Literal["gui", "terminal", "hybrid"]
GUI_TOOLS = frozenset({"computer_use"})
BOTH_TOOLS = frozenset({"computer_use", "bash"})


@dataclass(frozen=True)
class Style:
    """Habits, most of them bad on purpose: they leave something for reinforcement learning to prune.

    channel_temperature: noise on the choice of channel (hybrid only). 0 = always the cheaper one; 1 = the slower
        one in about two of five stages where both ways work.
    check: chance of a needless look at the result before `terminate`.
    accessibility: chance that a click goes through the accessibility tree, where the harness offers it. With a tree at
        hand the published teacher takes 41 % more steps (paper.md 4.3): ours comes near when it nearly always looks.
    coordinate_step: multiples of 1000 in which points are written (25: exactly what a tiny policy can write).
    """

    channel_temperature: float = 1.0
    check: float = 0.3
    accessibility: float = 0.9
    coordinate_step: float = 25


@dataclass(frozen=True)
class TeacherStep:
    """One call with its imperative and the facts behind it.

    `intent` is what a rationale writer needs, in words of the task: `goal` (the stage's goal, plain JSON), `aim` (the
    goal in words), `why` (the fact seen), `stage` and `stages`, `channel`, `target` ([kind, label] or None), `check`
    (a needless look), `last` (terminate).
    """

    call: DesktopCall
    action_line: str
    intent: dict[str, Any] = field(default_factory=dict)
    others: tuple[Element, ...] = ()
    """Elements on which the same action would be as right (`Move.others`): for a judge of single steps."""


class Teacher:
    """One episode. Raises `TeacherError` at construction when the policy has no route for the task."""

    def __init__(
        self,
        task: Task,
        policy: Policy,
        rng: Random,
        *,
        style: Style | None = None,
        tools: frozenset[str] | None = None,
    ) -> None:
        self.task = task
        self.style = style or Style()
        self.tools = tools or (GUI_TOOLS if policy == "gui" else BOTH_TOOLS)
        self._rng = rng
        self._stages: list[dict[str, Goal]] = list(task.spec["plan"])
        self._channels = _allowed(task, policy)
        self._noise = [self._draw_noise(stage) for stage in self._stages]
        self._look_again = rng.random() < self.style.check
        self._at = 0
        self._memory: dict[str, Any] = {}
        self._used: list[Channel] = []
        self._tries: dict[int, int] = {}
        self._proposed: DesktopCall | None = None
        self._tree: str | None = None
        self._wanted: Element | None = None

    # -- the two calls of an episode -----------------------------------------------------------------------------

    def next(self, seen: Observation, state: dict[str, Any]) -> TeacherStep:
        """The next call from here. Never raises: where nothing is left to try it terminates with `failure`."""
        view = View.of(seen, state, self._memory)
        step = self._via_tree(view) or self._work(view)
        self._proposed = step.call
        return step

    def record(self, call: DesktopCall, result: ActResult) -> None:
        """What was really done with the desktop, the teacher's own call or another one, and what came of it."""
        own, self._proposed = call == self._proposed, None
        self._memory.pop("selected_all", None)
        self._tree = None
        if isinstance(call, ComputerUse) and call.action == "key" and call.keys == ("ctrl", "a"):
            self._memory["selected_all"] = True
        if not own:
            self._wanted = None
            return
        if isinstance(call, AccessibilityCall):
            self._tree = result.output if call.action == "tree" else None
        elif isinstance(call, BashCall):
            if self._at < len(self._stages):
                ok = result.exit_code == 0 and not result.timed_out
                self._tries[self._at] = self._tries.get(self._at, 0) + 1
                self._memory["ran"] = ok

    # -- stages --------------------------------------------------------------------------------------------------

    def _work(self, view: View) -> TeacherStep:
        self._at = min((i for i in range(self._at) if self._spoiled(view, i)), default=self._at)
        while self._at < len(self._stages):
            step = self._stage_step(view)
            if step is not None:
                return step
            self._at += 1
            self._memory.clear()
        if (look := self._look(view)) is not None:
            return look
        return self._terminate("success", "all is done")

    def _spoiled(self, view: View, index: int) -> bool:
        stage = self._stages[index]
        return "gui" in stage and "gui" in self._channels and undone(view, stage["gui"])

    def _stage_step(self, view: View) -> TeacherStep | None:
        """The next step of the current stage, or None when it is reached."""
        stage = self._stages[self._at]
        if self._memory.get("ran"):
            self._used.append("terminal")
            return None
        channel = self._channel(stage)
        goal = stage[channel]
        if channel == "terminal":
            if self._tries.get(self._at, 0) > 2:
                return self._terminate("failure", "the command failed")
            return self._step(
                BashCall(command=goal["command"]), f"run {goal['command']}", goal, "terminal", "the terminal is quick"
            )
        move = next_move(view, goal)
        if move is None:
            self._used.append("gui")
            return None
        return self._gui_step(view, move, goal)

    def _channel(self, stage: dict[str, Goal]) -> Channel:
        """The cheaper channel from here, with noise drawn once per stage; a command that failed twice is given up."""
        offered: list[Channel] = [c for c in ("gui", "terminal") if c in stage and c in self._channels]
        if len(offered) == 2 and self._tries.get(self._at, 0) >= 2:
            return "gui"
        if len(offered) == 1:
            return offered[0]
        done = self._memory.get("moves", 0)
        costs = {c: max(1, estimate(stage[c]) - (done if c == "gui" else 0)) for c in offered}
        total = sum(costs.values())
        return min(offered, key=lambda c: costs[c] / total - self._noise[self._at][c])

    def _draw_noise(self, stage: dict[str, Goal]) -> dict[str, float]:
        """Gumbel noise by channel, in shares of the summed cost: at 1, five calls against one are a 40 % choice."""
        scale = 1.6 * self.style.channel_temperature
        return {c: -scale * math.log(-math.log(self._rng.random() or 1e-12)) for c in ("gui", "terminal")}

    def _look(self, view: View) -> TeacherStep | None:
        """A needless look at the result, at most once: the way the last stage was done."""
        if not self._look_again or not self._used:
            return None
        self._look_again = False
        goal = self._stages[-1].get(self._used[-1], {})
        if self._used[-1] == "terminal":
            command = f"cat {_product(goal)}" if _product(goal) else "ls"
            return self._step(
                BashCall(command=command), f"run {command}", goal, "terminal", "the result is not shown", check=True
            )
        icon = view.find("icon", self.task.apps[0]) if view.overlay is None else None
        if icon is None:
            return self._step(
                ComputerUse(action="wait", time=1.0), "wait", goal, "gui", "the result is not shown", check=True
            )
        move = Move("double_click", f"double click the {icon.label} icon", "the result is not shown", icon)
        return self._gui_step(view, move, goal, check=True)

    # -- calls ---------------------------------------------------------------------------------------------------

    def _gui_step(self, view: View, move: Move, goal: Goal, *, check: bool = False) -> TeacherStep:
        target = move.target
        if target is not None and move.action == "left_click" and self._take_tree():
            self._wanted = target
            return self._step(AccessibilityCall(action="tree"), "read the screen list", goal, "gui", move.why, target)
        self._memory["moves"] = self._memory.get("moves", 0) + 1
        box = move.at or (target.box if target is not None else None)
        point = None
        if box is not None:
            point = quantised_point(box, view.size, self.style.coordinate_step)
            if point is None:  # thinner than the grid: point at it exactly
                point = (box[0] + box[2] - 1) // 2, (box[1] + box[3] - 1) // 2
        call = ComputerUse(action=move.action, coordinate=point, keys=move.keys, text=move.text, pixels=move.pixels)
        return self._step(call, move.line, goal, "gui", move.why, target, check=check, others=move.others)

    def _take_tree(self) -> bool:
        return "accessibility" in self.tools and self._rng.random() < self.style.accessibility

    def _via_tree(self, view: View) -> TeacherStep | None:
        """The second half of a click by number: the wanted element in the list that was just read."""
        wanted, listing, self._wanted, self._tree = self._wanted, self._tree, None, None
        if wanted is None or listing is None:
            return None
        numbers = [
            line.split(" ", 1)[0] for line in listing.splitlines() if line.endswith(f" {wanted.kind} {wanted.label}")
        ]
        if not numbers:
            return None
        goal = self._stages[self._at]["gui"] if self._at < len(self._stages) else {}
        self._memory["moves"] = self._memory.get("moves", 0) + 1
        line = f"click number {numbers[-1]} the {wanted.label} {wanted.kind}"
        call = AccessibilityCall(action="click", element=int(numbers[-1]))
        return self._step(call, line, goal, "gui", "the number is in the list", wanted)

    def _terminate(self, status: Literal["success", "failure"], why: str) -> TeacherStep:
        return self._step(ComputerUse(action="terminate", status=status), "finish", {}, "gui", why)

    def _step(
        self, call: DesktopCall, line: str, goal: Goal, channel: Channel, why: str, target: Element | None = None,
        *, check: bool = False, others: tuple[Element, ...] = (),
    ) -> TeacherStep:  # fmt: skip
        intent = {
            "goal": dict(goal),
            "aim": aim(goal),
            "why": why,
            "stage": min(self._at, len(self._stages) - 1),
            "stages": len(self._stages),
            "channel": channel,
            "target": [target.kind, target.label] if target is not None else None,
            "check": check,
            "last": isinstance(call, ComputerUse) and call.action == "terminate",
        }
        return TeacherStep(call, line, intent, others)


def solve(desktop: Desktop, task: Task, policy: Policy, rng: Random, *, style: Style, limit: int = 32) -> int:
    """Play a task that was just reset to its end, undisturbed. Returns the number of calls, at most `limit`."""
    teacher = Teacher(task, policy, rng, style=style)
    for count in range(1, limit + 1):
        step = teacher.next(desktop.observe(), desktop.state())
        teacher.record(step.call, desktop.act(step.call))
        if step.intent["last"]:
            return count
    return limit


def _allowed(task: Task, policy: Policy) -> frozenset[str]:
    """The channels a policy uses on a task: its own alone where that does it all, else what the task needs."""
    routes = [frozenset(route) for route in task.channels]
    if policy == "hybrid":
        return frozenset().union(*routes)
    if (alone := frozenset({policy})) in routes:
        return alone
    raise TeacherError(
        f"no {policy} route for skill {task.skill!r}", where=task.task_id, remedy="ask `can_solve` first, or use hybrid"
    )


def can_solve(task: Task, policy: Policy) -> bool:
    """Whether a channel policy has a route for a task."""
    return policy == "hybrid" or (policy,) in task.channels


def _product(goal: Goal) -> str:
    """The file a command writes with `>`, or ""."""
    return str(goal.get("command", "")).partition(">")[2].lstrip("> ").strip()


_AIMS = {
    "rename": "rename {file} to {new}", "delete": "delete {file}", "delete_all": "delete all .log files",
    "move": "move {file} into {folder}", "new_folder": "make the folder {name}", "set_check": "turn {state} {label}",
    "set_volume": "set the volume to {value}", "choose": "choose {option} as the {label}",
    "write_note": "write {text} in {file}", "edit_note": "change the text of {file}",
    "paste_note": "paste into {file}", "read_note": "read {file}", "read_sheet": "read {file}",
    "set_cell": "set {cell} to {value}", "sort_sheet": "sort by column {column}", "sum_column": "put the sum in {cell}",
    "fill_form": "send the form", "bash": "run {command}",
}  # fmt: skip


def aim(goal: Goal) -> str:
    """A goal in a few words of the task, or "" for none."""
    return _AIMS[goal["goal"]].format(**goal) if goal else ""
