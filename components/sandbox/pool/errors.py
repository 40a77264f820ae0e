"""What can go wrong between a client, the slot host and a slot: failures of the infrastructure, never the agent's."""

from __future__ import annotations

from typing import Literal

from components.contracts.errors import SandboxError

Deadline = Literal["create", "setup", "act", "episode", "grading"]


class DeadlineError(SandboxError):
    """A deadline passed: `which` says which. The slot was killed; a reset takes another."""

    def __init__(self, which: Deadline, seconds: float, *, where: str = "pool") -> None:
        super().__init__(
            f"deadline `{which}` passed: {seconds:g} s", where=where,
            remedy="the slot was killed; reset for another, or lease with longer deadlines",
        )  # fmt: skip
        self.which, self.seconds = which, seconds


class SlotGoneError(SandboxError):
    """The slot's process or pod ended by itself. The episode is lost."""

    def __init__(self, reason: str, *, where: str = "pool") -> None:
        super().__init__(f"the sandbox is gone: {reason}", where=where, remedy="the episode is lost; reset for another")


class LeaseEndedError(SandboxError):
    """The lease is over: released, not heard from for its ttl, or unknown to this host (it was restarted)."""

    def __init__(self, reason: str, *, where: str = "pool") -> None:
        super().__init__(reason, where=where, remedy="lease again; the episode is lost")


class PoolFullError(SandboxError):
    """No slot came free within the time the client would wait. `retry_after` in seconds."""

    def __init__(self, reason: str, retry_after: float, *, where: str = "pool") -> None:
        super().__init__(reason, where=where, remedy=f"try again in {retry_after:g} s, or give the host more slots")
        self.retry_after = retry_after


class KeyReusedError(SandboxError):
    """A request came with the key of another request: a fault of the client. Nothing was done."""

    def __init__(self, *, where: str = "pool") -> None:
        super().__init__("this key belongs to another request", where=where, remedy="give each request its own key")


class UnreachableError(SandboxError):
    """The slot host cannot be reached, or its answer never came. `sent`: the request may have been carried out."""

    def __init__(self, reason: str, *, sent: bool, where: str = "pool") -> None:
        remedy = "its outcome is unknown: the episode is lost" if sent else "is the slot host running at this address?"
        super().__init__(reason, where=where, remedy=remedy)
        self.sent = sent
