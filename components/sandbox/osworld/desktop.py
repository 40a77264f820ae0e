"""OSWorld tasks on a desktop of the product: a slot of ours, or a remote host that speaks OSWorld's guest API.

A task is a product task made by `task.as_task`. `terminate` with status failure is OSWorld's FAIL, any other DONE.
"""

from __future__ import annotations

import io
import re
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image

from components.contracts.calls import BashCall, ComputerUse, DesktopCall
from components.contracts.desktop import ActResult, Observation
from components.contracts.errors import CallError, CoworkError, SandboxError, VerifierError
from components.contracts.task import CheckResult, Task, Verdict
from components.sandbox.osworld.client import HttpGuest
from components.sandbox.osworld.evaluation import Evaluation
from components.sandbox.osworld.judge import Judge
from components.sandbox.osworld.native import NativeGuest
from components.sandbox.osworld.remote_calls import bash_script, in_terminal, pyautogui_code
from components.sandbox.osworld.scoring import Ending, Scored
from components.sandbox.osworld.sources import Sources
from components.sandbox.osworld.task import OsworldTask, of_task
from components.sandbox.x11.desktop import X11Desktop
from components.sandbox.x11.drivers.base import Driver
from components.sandbox.x11.guest_calls import GuestCalls

_MAX_WAIT = 60.0
_SETTLE_SECONDS, _LOOK = 5.0, 0.1


def ending_of(call: ComputerUse) -> Ending:
    return "fail" if call.status == "failure" else "done"


def verdict_of(task: OsworldTask, scored: Scored) -> Verdict:
    """Success is a full score; the checks' own scores are in the results, as far as they were asked."""
    names = [probe.func for probe in task.evaluator.probes] or ["infeasible"]
    parts = scored.parts or (scored.score,) * len(names)
    results = tuple(
        CheckResult(check=name, passed=part == 1.0, reason="" if part == 1.0 else f"score {part:.4g}")
        for name, part in zip(names, parts, strict=False)
    )
    return Verdict(success=scored.score == 1.0, results=results)


class OsworldX11(X11Desktop):
    """A slot of ours. `score` is the last grade's, in [0, 1]; None before it or when the check broke."""

    def __init__(self, driver: Driver, sources: Sources, judge: Judge | None = None, **options: Any) -> None:
        super().__init__(driver, prepare=self._set_up, finish=self._before_grading, grade=self._grade_frozen, **options)
        self._sources, self._judge = sources, judge
        self._evaluation: Evaluation | None = None
        self._ending: Ending = "steps"
        self._broken = ""
        self.score: float | None = None

    def act(self, call: DesktopCall) -> ActResult:
        result = super().act(call)
        if isinstance(call, ComputerUse) and call.action == "terminate":
            self._ending = ending_of(call)
        return result

    def close(self) -> None:
        super().close()
        if self._evaluation is not None:
            self._evaluation.close()
            self._evaluation = None

    def _set_up(self, task: Task, calls: GuestCalls) -> None:
        self._ending, self._broken, self.score = "steps", "", None
        self._evaluation = Evaluation(of_task(task), NativeGuest.begin(calls, self.size), self._sources, self._judge)
        self._evaluation.setup()

    def _before_grading(self, task: Task, calls: GuestCalls) -> None:
        assert self._evaluation is not None
        self._broken, self.score = "", None
        try:
            self._evaluation.finish()
        except (VerifierError, CoworkError) as error:
            if error.border not in ("task", "verifier"):
                raise
            self._broken = str(error)

    def _grade_frozen(self, task: Task, calls: GuestCalls) -> Verdict:
        assert self._evaluation is not None
        if self._broken:
            return Verdict(success=False, error=self._broken)
        try:
            scored = self._evaluation.grade(self._ending)
        except VerifierError as error:
            return Verdict(success=False, error=str(error))
        self.score = scored.score
        return verdict_of(self._evaluation.task, scored)


class OsworldRemote:
    """A remote host as one slot, by HTTP alone.

    `revert` brings the host back to its clean state before each task, as its provider does it (a snapshot of a virtual
    machine, say); None: by the reset of our own slots. After a failure of unknown outcome nothing is sent any more
    until the next `reset`.
    """

    def __init__(
        self,
        address: str,
        sources: Sources,
        *,
        revert: Callable[[], None] | None = None,
        judge: Judge | None = None,
        tools: frozenset[str] = frozenset({"computer_use", "bash"}),
        bash_timeout: float = 30.0,
        size: tuple[int, int] = (1280, 720),
        any_character: bool = True,
    ) -> None:
        """`any_character` False: the host's pyautogui types only what is on its keyboard; other texts are refused."""
        self.size = size
        self._guest = HttpGuest(address)
        self._revert = revert or self._guest.reset
        self._sources, self._judge = sources, judge
        self._tools, self._bash_timeout, self._any_character = tools, bash_timeout, any_character
        self._evaluation: Evaluation | None = None
        self._ending: Ending = "steps"
        self._done = False
        self._lost = ""
        self._seen: Observation | None = None
        self.score: float | None = None

    # -- Desktop --------------------------------------------------------------------------------------------------

    def reset(self, task: Task) -> Observation:
        """Reverts the host and sets the task up. Raises `SandboxError`."""
        self._end()
        self._lost, self._done, self._ending, self.score, self._seen = "", False, "steps", None, None
        with _Lost(self):
            self._revert()
            size = self._guest.screen_size()
            if (size["width"], size["height"]) != self.size:
                raise SandboxError(f"the host's screen is {size}, not {self.size}", where="osworld remote",
                                   remedy="set its resolution, or name the size")  # fmt: skip
            self._evaluation = Evaluation(of_task(task), self._guest, self._sources, self._judge)
            self._evaluation.setup()
        return self.observe()

    def observe(self) -> Observation:
        """The screen once two looks in a row agree, or after 5 s as it is. The same until the next `act`."""
        self._ready()
        if self._seen is None:
            with _Lost(self):
                picture = self._settled_picture()
                pointer = self._guest.cursor_position()
            with Image.open(io.BytesIO(picture)) as image:
                self._seen = Observation(np.asarray(image.convert("RGB")), pointer)
        return self._seen

    def act(self, call: DesktopCall) -> ActResult:
        """One request, sent at most once. Raises `CallError`, `SandboxError`."""
        self._ready()
        if self._done:
            raise SandboxError("the episode has ended", where="osworld remote", remedy="call reset first")
        if call.tool not in self._tools or not isinstance(call, ComputerUse | BashCall):
            raise CallError("unknown_tool", f"there is no tool `{call.tool}`", where="osworld remote")
        if isinstance(call, ComputerUse) and call.action == "type" and not self._any_character:
            if not re.fullmatch(r"[\t\n -~]*", call.text):
                raise CallError("cannot_type", "this host types only what is on its keyboard", where="osworld remote")
        before, self._seen = self._seen, None
        with _Lost(self):
            if isinstance(call, BashCall):
                return self._bash(call)
            if call.action == "terminate":
                self._done, self._ending = True, ending_of(call)
                return ActResult(effect=True)
            if call.action == "wait":
                self._guest.pause(min(max(call.time, 0.0), _MAX_WAIT))
            else:
                done = self._guest.execute(["python", "-c", pyautogui_code(call)])
                if done.returncode:
                    raise CallError("bad_argument", done.error.strip()[-300:], where="osworld remote")
        # Whether the screen changed is known only by looking; without an earlier look it is taken to have.
        return ActResult(effect=before is None or not np.array_equal(before.screen, self.observe().screen))

    def grade(self) -> Verdict:
        """Runs the steps before grading and the checks. Nothing on the host is stopped meanwhile: its API cannot."""
        self._ready()
        assert self._evaluation is not None
        try:
            with _Lost(self):
                self._evaluation.finish()
                scored = self._evaluation.grade(self._ending)
        except CoworkError as error:
            if error.border not in ("task", "verifier"):
                raise
            return Verdict(success=False, error=str(error))
        self.score = scored.score
        return verdict_of(self._evaluation.task, scored)

    def state(self) -> dict[str, Any]:
        return {"driver": "osworld-remote", "done": self._done, "lost": self._lost, "score": self.score}

    def close(self) -> None:
        self._end()
        self._guest.close()

    # -- parts ----------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        if self._evaluation is not None:
            self._evaluation.close()
            self._evaluation = None

    def _ready(self) -> None:
        if self._lost:
            raise SandboxError(self._lost, where="osworld remote", remedy="reset the desktop")
        if self._evaluation is None:
            raise SandboxError("no episode is open", where="osworld remote", remedy="call reset first")

    def lose(self, reason: str) -> None:
        self._lost = self._lost or reason

    def _settled_picture(self) -> bytes:
        deadline = time.monotonic() + _SETTLE_SECONDS
        picture, waiter = self._guest.screenshot(), threading.Event()
        while time.monotonic() < deadline:
            waiter.wait(_LOOK)
            following = self._guest.screenshot()
            if following == picture:
                break
            picture = following
        return picture

    def _bash(self, call: BashCall) -> ActResult:
        timeout = self._bash_timeout if call.timeout is None else call.timeout
        done = self._guest.bash_script(bash_script(call), timeout=max(timeout, 0.1))
        return in_terminal(call, done, timeout)


class _Lost:
    """Remembers that a host is lost: what it did last is not known."""

    def __init__(self, desktop: OsworldRemote) -> None:
        self._desktop = desktop

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, SandboxError):
            self._desktop.lose(error.message)
