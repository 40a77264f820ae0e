"""A task = instruction + setup + verifier, from one sampled specification."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from components.contracts.digests import digest_value

Split = Literal["train", "dev", "heldout", "heldout_skills"]
Channel = Literal["gui", "terminal"]


class Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SetupStep(Frozen):
    """One call of a shared preparer: `preparer` names it, `args` are plain JSON."""

    preparer: str
    args: dict[str, Any] = Field(default_factory=dict)


class Check(Frozen):
    """One deterministic check on files and state after the episode."""

    check: str
    args: dict[str, Any] = Field(default_factory=dict)


class Task(Frozen):
    """One executable task. `task_id` is the digest of everything else: equal content, equal id."""

    task_id: str
    skill: str
    workflow: str
    apps: tuple[str, ...]
    channels: tuple[tuple[Channel, ...], ...]
    """Routes that can solve it: each a tuple of the channels the route needs, e.g. (("gui",), ("terminal",))."""
    instruction: str
    wording: str
    """Identity of the phrasing, never shared between splits."""
    spec: dict[str, Any]
    setup: tuple[SetupStep, ...]
    verifier: tuple[Check, ...]
    split: Split
    max_steps: int = 12
    seed: int = 0
    """Seed of the desktop's looks: theme, window positions, icon order."""

    @staticmethod
    def build(**fields: Any) -> Task:
        """A task with its id computed from its content."""
        draft = Task(task_id="", **fields)
        return draft.model_copy(update={"task_id": digest_value(draft.model_dump(mode="json", exclude={"task_id"}))})


class CheckResult(Frozen):
    check: str
    passed: bool
    reason: str = ""


class Verdict(Frozen):
    """What the verifier found. `error` set means the verifier itself broke: never a success."""

    success: bool
    results: tuple[CheckResult, ...] = ()
    error: str = ""


def channel_class(task: Task) -> str:
    """Which routes a task admits: `gui`, `terminal`, `either` (both alone) or `hybrid` (both together)."""
    routes = {frozenset(route) for route in task.channels}
    alone = {next(iter(route)) for route in routes if len(route) == 1}
    if not alone:
        return "hybrid"
    return "either" if len(alone) == 2 else next(iter(alone))
