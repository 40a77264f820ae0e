"""What crosses HTTP between a client and the slot host. Unknown fields are refused on both sides."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from components.contracts.calls import AccessibilityCall, BashCall, ComputerUse, DesktopCall
from components.contracts.desktop import ActResult
from components.contracts.task import Frozen, Task, Verdict

Key = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{8,80}$")]
"""Made by the client, new for each thing it wants done: a request repeated with its key is carried out once."""
Label = Annotated[str, StringConstraints(max_length=200)]
Seconds = Annotated[float, Field(gt=0, le=7 * 86400, allow_inf_nan=False)]
Wait = Annotated[float, Field(ge=0, le=86400, allow_inf_nan=False)]


HEADROOM = 15.0
"""Seconds that a call may take beyond what its action asks for: settling, a busy machine."""
SECONDS_A_CHARACTER = 0.2


class ScreenSize(Frozen):
    """Pixels. A backend with one size of its own refuses another."""

    width: int = Field(ge=64, le=7680)
    height: int = Field(ge=64, le=4320)


class SlotLimits(Frozen):
    """Of one sandbox; None = the backend's own. Memory in bytes, processes count threads."""

    memory_bytes: int | None = Field(default=None, ge=64 << 20, le=1 << 40)
    processes: int | None = Field(default=None, ge=16, le=65536)


class SlotSpec(Frozen):
    """What a sandbox is made for; sandboxes of equal specifications can stand in for each other."""

    backend: str = Field(min_length=1, max_length=40)
    screen: ScreenSize | None = None
    limits: SlotLimits = SlotLimits()


class Deadlines(Frozen):
    """Seconds that each may take: a sandbox to be made, a task to be set up, one action, the whole episode (from the
    end of its setup), grading."""

    create: Seconds = 60.0
    setup: Seconds = 120.0
    act: Seconds = 120.0
    episode: Seconds = 1800.0
    grading: Seconds = 120.0

    def capped(self, most: Deadlines) -> Deadlines:
        """These, none longer than the host's."""
        return Deadlines(**{name: min(getattr(self, name), getattr(most, name)) for name in type(self).model_fields})


def act_seconds(call: DesktopCall, deadlines: Deadlines) -> float:
    """How long an action may take: the deadline, or longer when the action itself asks for it (a command's timeout, a
    wait, a long text)."""
    if isinstance(call, BashCall):
        asked = call.timeout or 0.0
    else:
        asked = call.time + SECONDS_A_CHARACTER * len(call.text) if isinstance(call, ComputerUse) else 0.0
    return max(deadlines.act, asked + HEADROOM) if asked else deadlines.act


class LeaseRequest(Frozen):
    """`labels["run"]` is who shares slots fairly. `ttl`: seconds without a heartbeat after which the lease ends.

    `wait`: seconds in the queue before the host says that it is full.
    """

    key: Key
    slot: SlotSpec
    labels: dict[Label, Label] = Field(default_factory=dict, max_length=20)
    ttl: Seconds = 30.0
    wait: Wait = 60.0
    deadlines: Deadlines | None = None


class LeaseInfo(Frozen):
    """A lease as its holder sees it. `expires_in` in seconds; `size` of the screen in pixels."""

    lease: str
    host: str
    backend: str
    size: tuple[int, int]
    ttl: float
    expires_in: float
    deadlines: Deadlines
    waited: float = 0.0


class TaskRequest(Frozen):
    """For reset."""

    key: Key
    task: Task


class PrefetchRequest(Frozen):
    """Prepare this task while the current episode goes on. The reset that names the same task takes it."""

    task: Task


class ActRequest(Frozen):
    key: Key
    call: Annotated[ComputerUse | BashCall | AccessibilityCall, Field(discriminator="tool")]


class GradeRequest(Frozen):
    key: Key


class Act(Frozen):
    """`ActResult` on the wire."""

    effect: bool
    output: str = ""
    exit_code: int | None = None
    timed_out: bool = False

    def result(self) -> ActResult:
        return ActResult(self.effect, self.output, self.exit_code, self.timed_out)


class Seen(Frozen):
    """`Observation` on the wire: the screen as base64 of a PNG. `elements`: (kind, label, box, state)."""

    png: str
    pointer: tuple[int, int] | None = None
    elements: tuple[tuple[str, str, tuple[int, int, int, int], str], ...] = ()


class Failure(Frozen):
    """An error on the wire. `kind`: call, task, verifier, deadline, gone, lease, full, key, auth, request, sandbox."""

    kind: str
    message: str
    where: str = ""
    remedy: str = ""
    code: str = ""
    """Of a call error its short name, of a deadline which one passed."""
    seconds: float = 0.0


class Outcome(Frozen):
    """What became of the request with a key. `unknown`: this host never began it, so it may be sent again."""

    state: Literal["ran", "failed", "running", "unknown"]
    what: str = ""
    result: Act | Seen | Verdict | None = None
    failure: Failure | None = None


class PrefetchInfo(Frozen):
    state: Literal["preparing", "ready", "failed"]


class Done(Frozen):
    done: bool = True


class Status(Frozen):
    """The whole host, for people and dashboards. No task content, no secrets."""

    host: str
    capacity: int
    leased: int
    waiting: int
    standby: dict[str, int]
    standby_wanted: dict[str, int]
    sandboxes: int
    starts_waiting: int
    leases: tuple[dict[str, Any], ...]
    problem: str = ""
    """Why standby sandboxes cannot be made at the moment; "" when all is well."""
