"""MiniDesk: the `Desktop` of the embedded profile. Routes events to overlays, windows and the dock; real files below.

The screen is a pure function of the state: nothing is drawn from the clock. Nothing that a policy clicks or types
raises; what is refused becomes a dialog. Only misuse by the caller (acting before `reset` or after the end) raises.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from components.contracts.calls import AccessibilityCall, BashCall, ComputerUse, DesktopCall
from components.contracts.desktop import ActResult, Element, Observation
from components.contracts.errors import CallError, CoworkError, SandboxError
from components.contracts.rng import stream
from components.contracts.task import Task, Verdict
from components.sandbox.minidesk.draw import HEIGHT, WIDTH
from components.sandbox.minidesk.screen import Screenful
from components.sandbox.minidesk.session import Session

WHERE = "minidesk"


class ShellResult(Protocol):
    @property
    def output(self) -> str: ...

    @property
    def exit_code(self) -> int | None: ...

    @property
    def timed_out(self) -> bool: ...


class Shell(Protocol):
    """What a terminal call needs of a shell session in the episode's home."""

    def run(self, command: str, timeout: float = ...) -> ShellResult: ...

    def restart(self) -> Any: ...

    def close(self) -> None: ...


class MiniDesk:
    """One slot over `root`: `root/home` holds the files, `root/state` private app state. Both are made anew by `reset`.

    `prepare(task, root)` fills them, `grade(task, root)` looks at them after the episode, `shell(home)` starts the
    terminal at the first `bash` call. `tools` are the tools a call may name.
    """

    size = (WIDTH, HEIGHT)

    def __init__(
        self,
        root: Path,
        *,
        prepare: Callable[[Task, Path], None],
        grade: Callable[[Task, Path], Verdict],
        shell: Callable[[Path], Shell] | None = None,
        tools: frozenset[str] = frozenset({"computer_use", "bash"}),
    ) -> None:
        self.root = root
        self._prepare = prepare
        self._grade = grade
        self._make_shell = shell
        self._tools = tools
        self._task: Task | None = None
        self._session: Session | None = None
        self._screenful = Screenful()
        self._seen: Observation | None = None
        self._shell: Shell | None = None
        self._done = False
        self._trees = 0
        self._ids: dict[int, Element] = {}

    # -- Desktop ------------------------------------------------------------------------------------------------

    def reset(self, task: Task) -> Observation:
        """A fresh home and state, a fresh screen. Raises `SandboxError` when the slot cannot be made ready."""
        self._drop()
        home, state = self.root / "home", self.root / "state"
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            for folder in (home, state):
                remove_tree(folder)
                folder.mkdir()
            self._prepare(task, self.root)
            self._session = Session(task.seed, home, state)
        except CoworkError:
            raise
        except Exception as error:
            raise SandboxError(
                f"reset failed: {error!r}", where=WHERE, remedy="look at the task's setup; use a new root"
            ) from error
        self._task, self._done, self._trees = task, False, 0
        return self.observe()

    def observe(self) -> Observation:
        session = self._ready()
        if self._seen is None:
            screen, elements = self._screenful.compose(session)
            self._seen = Observation(screen, session.pointer, elements)
        return self._seen

    def act(self, call: DesktopCall) -> ActResult:
        session = self._ready()
        if self._done:
            raise SandboxError("the episode has ended", where=WHERE, remedy="call reset first")
        if call.tool not in self._tools:
            raise CallError("unknown_tool", f"there is no tool `{call.tool}`", where=WHERE)
        if isinstance(call, AccessibilityCall):
            return self._accessibility(session, call)
        self._seen, self._ids = None, {}
        if isinstance(call, BashCall):
            return self._bash(session, call)
        if call.action == "terminate":
            self._done = True
            return ActResult(effect=True)
        return ActResult(effect=session.computer_use(call))

    def grade(self) -> Verdict:
        """What the task's checks say about home and state as they are now."""
        self._ready()
        assert self._task is not None
        return self._grade(self._task, self.root)

    def state(self) -> dict[str, Any]:
        """JSON-able summary for tests and teachers: windows bottom to top, overlay, clipboard, pointer..."""
        return {**self._ready().summary(), "done": self._done}

    def close(self) -> None:
        """Ends the shell and lets go of the files, which stay. May be called again."""
        self._drop()

    # -- parts --------------------------------------------------------------------------------------------------

    def _ready(self) -> Session:
        if self._session is None:
            raise SandboxError("no episode is open", where=WHERE, remedy="call reset first")
        return self._session

    def _drop(self) -> None:
        if self._shell is not None:
            self._shell.close()
        if self._session is not None:
            self._session.close()
        self._shell = self._session = self._task = self._seen = None
        self._ids = {}

    def _bash(self, session: Session, call: BashCall) -> ActResult:
        if self._make_shell is None:
            raise SandboxError("this desktop has no shell", where=WHERE, remedy="pass `shell` to MiniDesk")
        if self._shell is None:
            self._shell = self._make_shell(self.root / "home")
        elif call.restart:
            self._shell.restart()
        try:
            if not call.command:
                return ActResult(effect=call.restart, exit_code=0)
            limit = () if call.timeout is None else (call.timeout,)
            result = self._shell.run(call.command, *limit)
        finally:
            session.disk_changed()
        return ActResult(True, result.output, result.exit_code, result.timed_out)

    def _accessibility(self, session: Session, call: AccessibilityCall) -> ActResult:
        """`tree` lists `id kind label`, with new random ids each time; `click` takes an id of the last list."""
        if call.action == "tree":
            elements = self.observe().elements
            rng = stream(session.seed, "minidesk-accessibility", self._trees)
            self._trees += 1
            self._ids = dict(zip(rng.sample(range(100, 1000), len(elements)), elements, strict=True))
            listing = "\n".join(f"{number} {e.kind} {e.label}" for number, e in self._ids.items())
            return ActResult(effect=False, output=listing)
        element = self._ids.get(call.element) if call.element is not None else None
        if element is None:
            return ActResult(effect=False, output="no such element: ask for the tree again")
        self._seen, self._ids = None, {}
        return ActResult(session.computer_use(ComputerUse(action="left_click", coordinate=element.center)))


def remove_tree(folder: Path) -> None:
    """Removes a folder that a policy had its hands on: links are not followed, locked folders are unlocked first."""
    if not os.path.lexists(folder):
        return
    if folder.is_symlink() or not folder.is_dir():
        folder.unlink()
        return
    try:
        shutil.rmtree(folder)
    except OSError:
        os.chmod(folder, 0o700)
        for path, names, _ in os.walk(folder):
            for name in names:
                if not os.path.islink(os.path.join(path, name)):
                    os.chmod(os.path.join(path, name), 0o700)
        shutil.rmtree(folder)
