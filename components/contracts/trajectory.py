"""An episode as it is stored: one record per step, one per trajectory."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from components.contracts.task import Channel, Frozen, Verdict

Ending = Literal["terminated", "step_limit", "unparsable", "infra_error", "stopped"]
"""`stopped`: by the person who watched a live episode."""


class Step(Frozen):
    """One model call: what was seen, said and done.

    `screen` is the content digest of the screenshot before the step (stored once, by content).
    `call` is the parsed tool call, or None when the response could not be executed (`error` then says why).
    `perturbed` marks a random action put in by the collector: it stays in the history, its loss is masked.
    """

    index: int
    screen: str
    screen_after: str
    think: str
    action: str
    call: dict[str, Any] | None
    output: str = ""
    error: str = ""
    perturbed: bool = False
    channel: Channel | Literal["none"] = "none"


class Trajectory(Frozen):
    """One episode of one task under one harness."""

    trajectory_id: str
    task_id: str
    skill: str
    split: str
    instruction: str
    harness: str
    source: str
    """`teacher`, or the digest of the policy checkpoint."""
    steps: tuple[Step, ...]
    verdict: Verdict
    ending: Ending
    reward: float | None = None
    dropped: str = ""
    """Why the trajectory was filtered out; empty when kept."""
    meta: dict[str, Any] = Field(default_factory=dict)
