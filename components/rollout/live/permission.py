"""Whether an action may be carried out: what is asked, who answers, and what is written down about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from components.rollout.live.risk import Risk

Answer = Literal["yes", "no", "always", "stop"]
By = Literal["rule", "person", "always", "--yes", "nobody"]


@dataclass(frozen=True)
class Question:
    """`what` is the action as it would be carried out, `says` the model's line for it."""

    risk: Risk
    what: str
    says: str


Ask = Callable[[Question], Answer | None]
"""Asks a person. None: nobody is there to answer."""


@dataclass(frozen=True)
class Decision:
    """`by`: rule (nothing to ask), person, always (answered before), --yes, nobody (no terminal to ask on)."""

    risk: Risk
    allowed: bool
    by: By
    stop: bool = False

    def record(self) -> dict[str, Any]:
        """Plain JSON, for the trajectory."""
        return {"risk": asdict(self.risk), "allowed": self.allowed, "by": self.by, "stop": self.stop}

    @property
    def line(self) -> str:
        """For logs; "" where there was nothing to decide."""
        if self.by == "rule":
            return ""
        what = self.risk.kind or self.risk.level
        if self.stop:
            return f"stopped by a person: {self.risk.reason}"
        who = {"person": "by a person", "always": "as answered before", "--yes": "by --yes", "nobody": "nobody to ask"}
        return f"{'allowed' if self.allowed else 'refused'} ({what}, {who[self.by]}): {self.risk.reason}"


@dataclass
class Permission:
    """One episode's permissions. `careful`: ask about what is unknown, too. `yes`: everything is allowed."""

    ask: Ask | None
    yes: bool = False
    careful: bool = False
    decisions: list[Decision] = field(default_factory=list)
    _always: set[str] = field(default_factory=set)

    def decide(self, risk: Risk, what: str, says: str = "") -> Decision:
        """The decision about an action, asked for where it must be. Raises what `ask` raises."""
        decision = self._decide(risk, what, says)
        self.decisions.append(decision)
        return decision

    def _decide(self, risk: Risk, what: str, says: str) -> Decision:
        if risk.level == "none" or (risk.level == "unknown" and not self.careful):
            return Decision(risk, True, "rule")
        if self.yes:
            return Decision(risk, True, "--yes")
        sort = risk.kind or risk.level
        if sort in self._always:
            return Decision(risk, True, "always")
        answer = self.ask(Question(risk, what, says)) if self.ask is not None else None
        if answer is None:
            return Decision(risk, False, "nobody")
        if answer == "always":
            self._always.add(sort)
        return Decision(risk, answer in ("yes", "always"), "person", stop=answer == "stop")


def refusal(decision: Decision) -> str:
    """What the model is told."""
    if decision.by == "nobody":
        return f"not done, because it cannot be taken back and nobody is there to allow it: {decision.risk.reason}"
    return f"the user did not allow it: {decision.risk.reason}"
