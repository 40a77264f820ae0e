"""A desktop that can be watched and taken over. For whoever acts it is a `Desktop` like any other."""

from __future__ import annotations

import threading
import time
from typing import Any

from components.contracts.arguments import build_call
from components.contracts.calls import BashCall, ComputerUse, DesktopCall
from components.contracts.coords import ScreenSpace
from components.contracts.desktop import ActResult, Desktop, Observation
from components.contracts.errors import CallError, CoworkError, RefusedCall, SandboxError
from components.contracts.marks import mark_of
from components.contracts.task import Task, Verdict
from components.sandbox.live.hub import Hub

PERSON_TOOLS = ("computer_use",)
_LOOK = 0.2


class LiveSlot:
    """Calls reach the inner desktop one at a time, whoever makes them.

    While a person is in control the agent's calls wait. A call that was thought out on a screen which the person has
    changed since is refused: the agent looks again.
    """

    def __init__(self, desktop: Desktop, hub: Hub) -> None:
        self.inner = desktop
        self.hub = hub
        self.size = desktop.size
        self._lock = threading.RLock()
        self._free = threading.Event()
        self._free.set()
        self._touched = False
        self._closing = False
        self._person: object | None = None

    # -- Desktop: for the agent ----------------------------------------------------------------------------------

    def reset(self, task: Task) -> Observation:
        with self._lock:
            self._touched = False
            return self._seen(self.inner.reset(task))

    def observe(self) -> Observation:
        with self._lock:
            self._touched = False
            return self._seen(self.inner.observe())

    def act(self, call: DesktopCall) -> ActResult:
        self._wait_for_control()
        with self._lock:
            if self._touched:
                raise RefusedCall("a person has used the desktop meanwhile; look at it again", where="live view")
            return self.inner.act(call)

    def grade(self) -> Verdict:
        with self._lock:
            return self.inner.grade()

    def state(self) -> dict[str, Any]:
        with self._lock:
            return self.inner.state()

    def close(self) -> None:
        """Ends whoever waits for control, then the desktop."""
        self._closing = True
        self._free.set()
        with self._lock:
            self.inner.close()

    # -- for people ----------------------------------------------------------------------------------------------

    def take(self, person: object) -> bool:
        """Gives the control to a person; False when another one has it."""
        if self._person not in (None, person):
            return False
        self._person = person
        self._free.clear()
        return True

    def give_back(self, person: object) -> None:
        if self._person is person:
            self._person = None
            self._free.set()

    @property
    def person(self) -> object | None:
        """Who is in control, if anybody."""
        return self._person

    def person_act(self, person: object, arguments: dict[str, Any]) -> str:
        """Carries out one action of the person in control, written as an agent's would be, in pixels of the screen.

        Returns what went wrong, "" when nothing did. It stands in the log either way.
        """
        if self._person is not person:
            return "take control first"
        start = time.monotonic()
        call: ComputerUse | None = None
        problem = ""
        try:
            with self._lock:
                built = build_call("computer_use", arguments, ScreenSpace("pixel_screen", self.size),
                                   pointer=None, tools=PERSON_TOOLS)  # fmt: skip
                assert isinstance(built, ComputerUse)
                if built.action == "terminate":
                    return "only the agent ends an episode"
                call = built
                self._touched = True
                self.inner.act(call)
                self._seen(self.inner.observe())
        except CallError as error:
            problem = error.message
        except CoworkError as error:
            problem = str(error)
        self.hub.tell(step_entry("person", call, self.size, error=problem, seconds=time.monotonic() - start))
        return problem

    # -- parts ---------------------------------------------------------------------------------------------------

    def _seen(self, seen: Observation) -> Observation:
        self.hub.show(seen)
        return seen

    def _wait_for_control(self) -> None:
        if self._free.is_set():
            return
        before = self.hub.state
        self.hub.set_state("a person is in control; the agent waits", "waiting")
        while not self._free.wait(_LOOK):
            pass
        if self._closing:
            raise SandboxError("the live view was closed", where="live view", remedy="start it again")
        self.hub.set_state(before["text"], before["kind"])


def step_entry(
    who: str,
    call: DesktopCall | None,
    size: tuple[int, int],
    *,
    number: int = 0,
    think: str = "",
    action: str = "",
    output: str = "",
    error: str = "",
    seconds: float = 0.0,
    model_seconds: float | None = None,
    decision: str = "",
) -> dict[str, Any]:
    """A line of the log. `who`: policy or person. Seconds of the action; `model_seconds` those of its thought."""
    mark = mark_of(call.model_dump(mode="json") if call is not None else None, size)
    where = "".join(f" {x:g},{y:g}" for x, y in mark["points"][: 2 if mark["kind"] == "drag" else 1])
    return {
        "type": "step", "who": who, "number": number, "think": think, "action": action,
        "caption": mark["caption"] + where,
        "tool": "" if call is None else "terminal" if isinstance(call, BashCall) else "screen",
        "mark": {"kind": mark["kind"], "points": [list(point) for point in mark["points"]]}, "output": output,
        "error": error, "seconds": round(seconds, 2), "decision": decision,
        "model_seconds": None if model_seconds is None else round(model_seconds, 2),
    }  # fmt: skip
