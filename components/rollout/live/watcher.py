"""The person's side of a live episode: every step is judged, told, shown in the live view, and stored."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from components.contracts.desktop import Desktop, Observation
from components.contracts.errors import RefusedCall
from components.contracts.response import ParsedResponse
from components.rollout.episodes import Episode, EpisodeStep
from components.rollout.live.judge import judge
from components.rollout.live.keep import Keeper
from components.rollout.live.permission import Decision, Permission, refusal
from components.rollout.live.places import places_of
from components.rollout.live.plain import describe, one_line, plain
from components.rollout.watch import StopEpisode
from components.sandbox.live.hub import Hub
from components.sandbox.live.slot import step_entry

Say = Callable[[str], None]


class LiveWatcher:
    """For `run_episodes` with one task. `say` takes lines for a person; `hub` and `keeper` may be None."""

    def __init__(
        self, permission: Permission, say: Say, *, hub: Hub | None = None, keeper: Keeper | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._permission, self._say, self._hub, self._keeper, self._clock = permission, say, hub, keeper, clock
        self._asked = self._answered = 0.0
        self._paused = 0.0
        self._pointer: tuple[int, int] | None = None
        self._decision: Decision | None = None
        self._size = (0, 0)
        self.episode: Episode | None = None
        """The episode so far: what an interrupted run has."""
        self.infos: list[dict[str, Any]] = []

    def began(self, episode: Episode, seen: Observation) -> None:
        self.episode = episode
        height, width = seen.screen.shape[:2]
        self._size, self._pointer = (width, height), seen.pointer

    def asked(self, episode: Episode) -> None:
        self._asked, self._answered, self._paused, self._decision = self._clock(), 0.0, 0.0, None
        self._state(f"step {episode.calls + 1}: the model thinks", "thinking")

    def approve(self, episode: Episode, desktop: Desktop, seen: Observation, parsed: ParsedResponse) -> None:
        self._answered, self._pointer = self._clock(), seen.pointer
        risk = judge(parsed.call, elements=seen.elements, says=parsed.action)
        if risk.level != "none":  # whether a file is there matters only then: looking for it may take a while
            risk = judge(parsed.call, elements=seen.elements, says=parsed.action, places=places_of(desktop))
        what = describe(parsed.call)
        if risk.level != "none":
            self._state(f"step {episode.calls + 1}: may this be done? (asked in the terminal)", "waiting")
        before = self._clock()
        self._decision = self._permission.decide(risk, what, parsed.action)
        self._paused = self._clock() - before
        self._state(f"step {episode.calls + 1}: {one_line(what, limit=60)}", "acting")
        if self._decision.stop:
            raise StopEpisode(f"stopped by the user: {risk.reason}")
        if not self._decision.allowed:
            raise RefusedCall(refusal(self._decision), where="permission")

    def stepped(self, episode: Episode, step: EpisodeStep) -> None:
        now = self._clock()
        model = (self._answered or now) - self._asked
        acting = max(0.0, now - self._answered - self._paused) if self._answered else 0.0
        decision = self._decision if self._decision is not None and self._decision.by != "rule" else None
        self.infos.append(
            {
                "pointer": list(self._pointer) if self._pointer else None, "target": None,
                "seconds": {"model": round(model, 3), "action": round(acting, 3)},
                "decision": decision.record() if decision else None,
            }
        )  # fmt: skip
        self._tell(episode.calls, step, model, acting, decision.line if decision else "")
        self._store()

    def ended(self, episode: Episode) -> None:
        self.episode = episode
        text, kind = outcome(episode)
        self._say(plain(text))
        if self._hub is not None:
            self._hub.tell({"type": "info", "title": "End", "text": text})
            self._state(text, kind)
        self._store()

    def interrupted(self) -> None:
        """The person pressed Ctrl-C: what there is is stored as stopped."""
        if self.episode is not None:
            self.episode.ending = "stopped"
            self.ended(self.episode)

    def failed(self, reason: str) -> None:
        """The model or its server failed: what there is is stored, as no failure of the policy."""
        if self.episode is not None:
            self.episode.ending, self.episode.infra_error = "infra_error", reason
            self.ended(self.episode)

    # -- parts ---------------------------------------------------------------------------------------------------

    def _tell(self, number: int, step: EpisodeStep, model: float, acting: float, decision: str) -> None:
        if step.think:
            self._say(f"{number:>3}  {one_line(step.think)}")
        self._say(f"{'' if step.think else number:>3}  Action: {one_line(step.action or '(none)')}")
        result = f"error: {step.error}" if step.error else "done"
        what = describe(step.call) if step.call is not None else f"it said: {step.completion.text.strip()}"
        self._say(f"     {one_line(what)}  -> {result}   ({model:.1f} s + {acting:.2f} s)")
        if decision:
            self._say(f"     {one_line(decision)}")
        if step.output and step.output != f"error: {step.error}":
            self._say("\n".join("     | " + line for line in plain(step.output).splitlines()[:12]))
        if self._hub is not None:
            self._hub.tell(
                step_entry(
                    "policy", step.call, self._size, number=number, think=step.think, action=step.action,
                    output="" if step.output == f"error: {step.error}" else step.output, error=step.error,
                    seconds=acting, model_seconds=model, decision=decision,
                )
            )  # fmt: skip

    def _state(self, text: str, kind: str) -> None:
        if self._hub is not None:
            self._hub.set_state(text, kind)

    def _store(self) -> None:
        if self._keeper is not None and self.episode is not None and self.episode.steps:
            self._keeper.write(self.episode, self.infos)


def outcome(episode: Episode) -> tuple[str, str]:
    """How an episode ended, in words, and the kind of state that is."""
    if episode.ending == "infra_error":
        return f"the episode failed, not the policy: {episode.infra_error}", "failed"
    if episode.ending == "stopped":
        return "stopped by the user", "ended"
    if episode.ending == "unparsable":
        return "ended: three answers in a row that could not be read", "ended"
    if episode.ending == "step_limit":
        last = episode.steps[-1].call if episode.steps else None
        gave_up = getattr(last, "action", "") == "terminate"
        return ("the policy gave up" if gave_up else f"ended: no step left after {episode.calls}"), "ended"
    if not episode.task.verifier:
        return f"the policy says it is done, after {episode.calls} steps; nothing checked it", "done"
    if episode.success:
        return f"done after {episode.calls} steps; the verifier agrees", "done"
    reasons = [result.reason for result in episode.verdict.results if not result.passed]
    return f"the policy says it is done; the verifier: {episode.verdict.error or '; '.join(reasons)}", "failed"
