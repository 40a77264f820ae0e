"""Episodes of a policy: many at once, in step, over any `Desktop` and any `PolicyClient`.

Folding, parsing and grading are the same code as in data building, RL and evaluation. A bad tool call is recorded,
answered with text and costs a step; an infrastructure failure ends the episode with reward `None` and its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from components.contracts.arguments import arguments_of
from components.contracts.calls import BashCall, ComputerUse, DesktopCall
from components.contracts.coords import ScreenSpace
from components.contracts.desktop import ActResult, Desktop, Observation, Screen
from components.contracts.errors import CallError, CoworkError, RefusedCall
from components.contracts.folding import ContextLimits, Turn, fold
from components.contracts.params import Context, Model
from components.contracts.response import action_line, parse_response
from components.contracts.task import Task, Verdict
from components.contracts.trajectory import Ending
from components.harness.spec import HarnessSpec
from components.rollout.policy import Completion, PolicyClient, Request
from components.rollout.watch import NoWatcher, StopEpisode, Watcher

UNPARSABLE_LIMIT = 3
"""Unparsable responses in a row after which an episode ends: nothing new would come."""

REFUSED = "refused"
"""Error of a step whose call was fit to be executed and was not let through (`RefusedCall`)."""

CUT = "\n...\n"
"""Stands for the middle of a long terminal output."""

DesktopFactory = Callable[[], AbstractContextManager[Desktop]]


@dataclass(frozen=True)
class EpisodeStep:
    """One model call of an episode, with what an RL sample and a viewer need."""

    screen: Screen
    completion: Completion
    call: DesktopCall | None
    think: str
    action: str
    error: str
    output: str

    @property
    def channel(self) -> str:
        if isinstance(self.call, BashCall):
            return "terminal"
        if self.call is None or (isinstance(self.call, ComputerUse) and self.call.action == "terminate"):
            return "none"
        return "gui"


@dataclass
class Episode:
    """One finished attempt. `success` needs a termination with success and a verdict that agrees."""

    task: Task
    index: int
    steps: list[EpisodeStep] = field(default_factory=list)
    verdict: Verdict = field(default_factory=lambda: Verdict(success=False))
    ending: Ending = "step_limit"
    infra_error: str = ""
    last_screen: Screen | None = None

    @property
    def success(self) -> bool:
        return self.ending == "terminated" and self.verdict.success

    @property
    def calls(self) -> int:
        return len(self.steps)

    @property
    def tokens(self) -> int:
        return sum(len(step.completion.response_ids) for step in self.steps)

    @property
    def unparsable(self) -> int:
        return sum(1 for step in self.steps if step.error and step.error != REFUSED)


@dataclass(frozen=True)
class EpisodeSettings:
    """How episodes are rendered and bounded. One object for collection, RL, evaluation and the live agent."""

    harness: HarnessSpec
    context: Context
    model: Model
    max_steps: int
    temperature: float = 0.0


class _Live:
    """An episode under way."""

    def __init__(self, task: Task, index: int, factory: DesktopFactory, watcher: Watcher) -> None:
        self.episode = Episode(task, index)
        self.watcher = watcher
        self.manager = factory()
        self.desktop = self.manager.__enter__()
        self.turns: list[Turn] = []
        self.bad_in_a_row = 0
        self.observation: Observation = self.desktop.reset(task)
        self.pending: str | None = None
        self.open = True
        watcher.began(self.episode, self.observation)

    def close(self) -> None:
        if self.open:
            self.open = False
            self.episode.last_screen = self.observation.screen
            self.manager.__exit__(None, None, None)


def run_episodes(
    tasks: Sequence[Task],
    client: PolicyClient,
    settings: EpisodeSettings,
    factory: DesktopFactory,
    *,
    noise: str = "",
    slots: int = 64,
    on_done: Callable[[int], None] | None = None,
    watcher: Watcher | None = None,
) -> list[Episode]:
    """Run one episode a task, `slots` at a time; results in the order of `tasks`.

    `noise` names the random streams of sampled episodes: the same name and index give the same episode.
    `watcher` is told of every step and may refuse calls or stop an episode.
    """
    watcher = watcher or NoWatcher()
    waiting = list(enumerate(tasks))[::-1]
    live: list[_Live] = []
    done: dict[int, Episode] = {}
    system = settings.harness.system_prompt(settings.model.coord_space)
    limits = ContextLimits(settings.context.screenshots, settings.context.responses, settings.context.action_lines)
    try:
        while waiting or live:
            while waiting and len(live) < slots:
                index, task = waiting.pop()
                try:
                    live.append(_Live(task, index, factory, watcher))
                except CoworkError as error:
                    done[index] = Episode(task, index, ending="infra_error", infra_error=str(error))
                    watcher.ended(done[index])
            requests = []
            for item in live:
                newest = Turn(screenshot=item.observation.screen, output=item.pending)
                messages = fold(
                    system, item.episode.task.instruction, [*item.turns, newest], limits, special=client.special
                )
                watcher.asked(item.episode)
                requests.append(Request(messages, f"{noise}/{item.episode.index}/{item.episode.calls}"))
            for item, completion in zip(live, client.complete(requests, settings.temperature), strict=True):
                _advance(item, completion, settings)
            for item in [i for i in live if not i.open]:
                done[item.episode.index] = item.episode
            live = [i for i in live if i.open]
            if on_done is not None:
                on_done(len(done))
    finally:
        for item in live:
            item.close()
    return [done[i] for i in range(len(tasks))]


def _advance(item: _Live, completion: Completion, settings: EpisodeSettings) -> None:
    """Parse one response, act, and either observe again or finish the episode."""
    episode = item.episode
    screen = item.observation.screen
    space = ScreenSpace(settings.model.coord_space, item.desktop.size, step=settings.model.coord_step)
    call: DesktopCall | None = None
    think, action, error = "", action_line(completion.text), ""
    try:
        parsed = parse_response(completion.text, space, pointer=item.observation.pointer, tools=settings.harness.tools)
        think, action, call = parsed.think, parsed.action, parsed.call
        item.watcher.approve(episode, item.desktop, item.observation, parsed)
        result = item.desktop.act(call)
    except CallError as failure:
        error = failure.code
        said = f": {failure.message}" if isinstance(failure, RefusedCall) else ""
        result = ActResult(effect=False, output=f"error: {failure.code}{said}")
    except StopEpisode as stop:
        _record(item, EpisodeStep(screen, completion, call, think, action, REFUSED, str(stop)))
        _finish(item, "stopped", "")
        return
    except CoworkError as failure:
        _record(item, EpisodeStep(screen, completion, call, think, action, "", ""))
        _finish(item, "infra_error", str(failure))
        return
    shown = result.output
    if isinstance(call, BashCall):
        shown = bash_text(result, settings.context.output_chars)
    _record(item, EpisodeStep(screen, completion, call, think, action, error, shown))
    item.bad_in_a_row = item.bad_in_a_row + 1 if error and error != REFUSED else 0
    if isinstance(call, ComputerUse) and call.action == "terminate":
        _finish(item, "terminated" if call.status == "success" else "step_limit", "")
    elif item.bad_in_a_row >= UNPARSABLE_LIMIT:
        _finish(item, "unparsable", "")
    elif episode.calls >= settings.max_steps:
        _finish(item, "step_limit", "")
    else:
        item.turns.append(Turn(screenshot=screen, output=item.pending, response=completion.text, action=action))
        item.pending = shown if error or not isinstance(call, ComputerUse) else None
        try:
            item.observation = item.desktop.observe()
        except CoworkError as failure:
            _finish(item, "infra_error", str(failure))


def _record(item: _Live, step: EpisodeStep) -> None:
    item.episode.steps.append(step)
    item.watcher.stepped(item.episode, step)


def bash_text(result: ActResult, limit: int) -> str:
    """What the model reads after a terminal call: its output without the middle beyond `limit` characters, and the exit
    code when it is not 0."""
    text = result.output.strip("\n")
    if len(text) > limit:
        half = (limit - len(CUT)) // 2
        text = text[:half] + CUT + text[len(text) - half :]
    if result.timed_out:
        return f"{text}\ntimeout".strip("\n")
    if result.exit_code not in (0, None):
        return f"{text}\nexit {result.exit_code}".strip("\n")
    return text


def _finish(item: _Live, ending: Ending, infra_error: str) -> None:
    episode = item.episode
    episode.ending, episode.infra_error = ending, infra_error
    try:
        if ending == "terminated":
            episode.verdict = item.desktop.grade()
        if ending != "infra_error":
            item.observation = item.desktop.observe()
    except CoworkError as failure:
        episode.ending, episode.infra_error = "infra_error", str(failure)
    finally:
        item.close()
    item.watcher.ended(episode)


def wire_call(call: DesktopCall | None, space: ScreenSpace) -> dict[str, object] | None:
    """A call as it stands on the wire, for stores and viewers."""
    if call is None:
        return None
    return {"name": call.tool, "arguments": arguments_of(call, space)}
