"""Backend `x11`: the `Desktop` of real applications. One episode, one sandbox: `reset` replaces it."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
from PIL import Image

from components.contracts.calls import BashCall, ComputerUse, DesktopCall
from components.contracts.desktop import ActResult, Observation
from components.contracts.errors import CallError, CoworkError, SandboxError
from components.contracts.task import CheckResult, Task, Verdict
from components.sandbox.x11.channel import GuestError
from components.sandbox.x11.drivers.base import Driver, Limits, Sandbox, Screen, Watchable
from components.sandbox.x11.guest_calls import LAUNCH_LIMIT, LAUNCH_QUIET, EyeCalls, GuestCalls, Settled
from components.sandbox.x11.health import Health, check_fresh

WHERE = "x11"
_ATTEMPTS = 2
"""Sandboxes that `reset` starts before it gives up: one that is unfit is replaced."""
_MAX_WAIT = 60.0
"""Seconds that a `wait` may take, whatever was asked for."""

Step = Callable[[Task, GuestCalls], None]
Verifier = Callable[[Task, GuestCalls], Verdict]


class X11Desktop:
    """One slot.

    `prepare(task, desktop)` puts files and opens applications after the fresh desktop has passed its health check.
    `finish(task, desktop)` runs before grading (saves what an application holds, say); then every process is stopped
    and `grade(task, desktop)` looks at copies of the files. `tools` are the tools a call may name; `bash_timeout`
    (seconds) holds for terminal calls that name none.
    """

    def __init__(
        self,
        driver: Driver,
        *,
        screen: Screen | None = None,
        limits: Limits | None = None,
        prepare: Step | None = None,
        finish: Step | None = None,
        grade: Verifier | None = None,
        tools: frozenset[str] = frozenset({"computer_use", "bash"}),
        bash_timeout: float = 30.0,
    ) -> None:
        self._driver = driver
        self._screen = screen or Screen()
        self._limits = limits or Limits()
        self._prepare, self._finish, self._grade = prepare, finish, grade
        self._tools = tools
        self._bash_timeout = bash_timeout
        self.size = (self._screen.width, self._screen.height)
        self._sandbox: Sandbox | None = None
        self._guest: GuestCalls | None = None
        self._health: Health | None = None
        self._task: Task | None = None
        self._seen: Observation | None = None
        self._settled: Settled | None = None
        self._done = False

    # -- Desktop ------------------------------------------------------------------------------------------------

    def reset(self, task: Task) -> Observation:
        """A fresh sandbox, set up for `task`. Raises `SandboxError` when it cannot be made ready."""
        self.close()
        guest = self._fresh()
        try:
            if self._prepare is not None:
                self._prepare(task, guest)
                self._settled = guest.settle(LAUNCH_QUIET, LAUNCH_LIMIT)
        except CoworkError:
            self.close()
            raise
        except Exception as error:
            self.close()
            raise SandboxError(f"setup failed: {error!r}", where=WHERE, remedy="look at the task's setup") from error
        self._task, self._done = task, False
        return self.observe()

    def observe(self) -> Observation:
        """The settled screen, pointer drawn in. The same until the next `act`."""
        guest = self._ready()
        if self._seen is None:
            if self._settled is None:
                self._settled = guest.settle()
            picture = guest.shot()
            with Image.open(io.BytesIO(picture.png)) as image:
                self._seen = Observation(np.asarray(image.convert("RGB")), picture.pointer)
        return self._seen

    def act(self, call: DesktopCall) -> ActResult:
        """Runs one call, at most once: nothing is repeated after a failure. Raises `CallError`, `SandboxError`."""
        guest = self._ready()
        if self._done:
            raise SandboxError("the episode has ended", where=WHERE, remedy="call reset first")
        if call.tool not in self._tools or not isinstance(call, ComputerUse | BashCall):
            raise CallError("unknown_tool", f"there is no tool `{call.tool}`", where=WHERE)
        self._seen = None
        self._settled = None
        if isinstance(call, BashCall):
            return self._bash(guest, call)
        if call.action == "terminate":
            self._done = True
            return ActResult(effect=True)
        if call.action == "wait":
            # Ends when something has happened and come to rest: that is what a wait is for.
            self._settled = guest.settle(limit=min(max(call.time, 0.0), _MAX_WAIT), change=True)
        else:
            try:
                self._settled = guest.act(call)
            except GuestError as error:
                if error.kind != "argument":
                    raise
                raise CallError("bad_argument", error.message, where=WHERE) from error
        return ActResult(effect=self._settled.painted > 0)

    def grade(self) -> Verdict:
        """What the verifier finds while nothing in the sandbox moves. Without a verifier: never a success.

        It ends the episode: a look in between may save, close or move what the policy is at work on.
        """
        guest = self._ready()
        self._done = True
        assert self._task is not None
        if self._grade is None:
            return Verdict(success=False, error="this desktop has no verifier")
        if self._finish is not None:
            self._finish(self._task, guest)
        guest.freeze()
        try:
            return self._grade(self._task, guest)
        except GuestError as error:
            # The agent lives and refused: a pipe in the place of a result, say. What lies in the sandbox is the
            # policy's doing, so that this is its zero, never an episode without a judgement.
            if error.kind not in ("missing", "os"):
                raise
            unreadable = CheckResult(check="result", passed=False, reason=error.message)
            return Verdict(success=False, results=(unreadable,))
        finally:
            guest.thaw()

    def state(self) -> dict[str, Any]:
        """JSON-able summary: windows, whether the screen settled, health at the start, limits and what keeps them."""
        guest, sandbox = self._ready(), self._sandbox
        return {
            "windows": [asdict(window) for window in guest.windows()],
            "settled": asdict(self._settled) if self._settled else None,
            "health": asdict(self._health) if self._health else None,
            "limits": sandbox.limits() if sandbox else {},
            "driver": self._driver.name,
            "done": self._done,
        }

    def close(self) -> None:
        """Kills the sandbox with everything in it. May be called again."""
        sandbox, self._sandbox = self._sandbox, None
        self._guest = self._task = self._seen = self._settled = self._health = None
        if sandbox is not None:
            sandbox.stop()

    # -- parts --------------------------------------------------------------------------------------------------

    @property
    def guest(self) -> GuestCalls:
        """The running desktop, for those who set up and look. Raises `SandboxError` when none is open."""
        return self._ready()

    def eye(self) -> EyeCalls | None:
        """The screen for people who watch; None when no desktop is open or its driver has no eye. Any thread."""
        sandbox = self._sandbox
        return EyeCalls(sandbox.eye()) if self._guest is not None and isinstance(sandbox, Watchable) else None

    def _ready(self) -> GuestCalls:
        if self._guest is None:
            raise SandboxError("no episode is open", where=WHERE, remedy="call reset first")
        return self._guest

    def _fresh(self) -> GuestCalls:
        for attempt in range(1, _ATTEMPTS + 1):
            self._sandbox = self._driver.start(self._screen, self._limits)
            try:
                guest = GuestCalls(self._sandbox.connect())
                self._health = check_fresh(guest)
            except BaseException as error:
                self.close()
                if attempt == _ATTEMPTS or not isinstance(error, SandboxError):
                    raise
                continue
            self._guest, self._settled = guest, self._health.settled
            return guest
        raise AssertionError("not reached")

    def _bash(self, guest: GuestCalls, call: BashCall) -> ActResult:
        if not call.command:
            guest.bash("", restart=call.restart)
            return ActResult(effect=call.restart, exit_code=0)
        timeout = self._bash_timeout if call.timeout is None else call.timeout
        result = guest.bash(call.command, timeout, restart=call.restart)
        return ActResult(True, result.output, result.exit_code, result.timed_out)
