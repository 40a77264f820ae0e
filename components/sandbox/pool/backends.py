"""What a slot holds: a desktop of one kind, made from a description that fits on a line.

A backend is named `module:function` and called in the slot's own process with a `SlotSetup`. Setup, verifier and shell
are named likewise in `options`: the host gives functions, their names travel (`name_of`), the slot imports them.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from components.contracts.desktop import Desktop
from components.contracts.errors import ParamsError, SandboxError
from components.contracts.task import Task, Verdict
from components.sandbox.pool.processes import Process, start_of
from components.sandbox.pool.starts import GatedGuest, StartGate
from components.sandbox.x11.channel import Channel
from components.sandbox.x11.drivers.base import Driver, Limits, Sandbox, Screen
from components.sandbox.x11.guest_calls import GuestCalls
from components.sandbox.x11.health import check_fresh

WHERE = "backend"
MINIDESK = "components.sandbox.pool.backends:minidesk"
X11 = "components.sandbox.pool.backends:x11"
PRELOAD = {
    MINIDESK: ("components.sandbox.minidesk.desktop", "components.sandbox.shell"),
    X11: ("components.sandbox.x11.desktop", "components.sandbox.x11.drivers.bwrap_host"),
}
"""Modules that a backend imports late; a process that makes many slots has them before it forks."""


@dataclass(frozen=True)
class SlotSetup:
    """`folder`: the slot's own, removed with it. `screen`: (width, height) or None for the backend's own. `gate`: for
    application starts. `limits`: `SlotLimits` as plain data."""

    folder: Path
    gate: StartGate
    screen: tuple[int, int] | None = None
    limits: dict[str, int] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


class SlotDesktop(Protocol):
    """A desktop that can be made ready before its task is known."""

    desktop: Desktop

    def warm(self) -> None:
        """Makes the sandbox and checks that it is fit. Raises `SandboxError`."""
        ...

    def processes(self) -> list[Process]:
        """Processes on the host which must be gone when the slot is, beside the slot's own."""
        ...

    def fit(self) -> str:
        """Why it should not be handed out; "" when nothing speaks against it."""
        ...

    def close(self) -> None: ...


def named(name: str) -> Callable[..., Any]:
    """The function behind `module:function`. Raises `ParamsError`."""
    module, _, attribute = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ParamsError(f"there is no {name!r}: {error}", where=WHERE, remedy="write module:function") from error
    if not callable(found):
        raise ParamsError(f"{name!r} is no function", where=WHERE, remedy="write module:function")
    return found  # type: ignore[no-any-return]


def name_of(function: Callable[..., Any] | None) -> str:
    """`module:function`, by which a slot's process can import it; "" for None. Raises `ParamsError` for closures."""
    if function is None:
        return ""
    name = f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', '')}"
    if "<" in name or named(name) is not function:
        raise ParamsError(
            f"{name} cannot be imported by a slot", where=WHERE, remedy="use a function at the top of a module"
        )
    return name


def options_of(
    *,
    prepare: Callable[..., None] | None = None,
    finish: Callable[..., None] | None = None,
    grade: Callable[..., Verdict] | None = None,
    shell: Callable[[Path], Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """The options of a backend, from functions. `more` is plain data that the backend knows."""
    functions = {"prepare": prepare, "finish": finish, "grade": grade, "shell": shell}
    return {**{key: name_of(function) for key, function in functions.items() if function is not None}, **more}


# -- minidesk ---------------------------------------------------------------------------------------------------------


class MiniDeskSlot:
    """The embedded desktop in a folder of its own: nothing to warm."""

    def __init__(self, setup: SlotSetup) -> None:
        from components.sandbox.minidesk.desktop import MiniDesk

        options = setup.options
        unknown = set(options) - {"prepare", "grade", "shell", "tools"}
        if unknown:
            raise ParamsError(f"minidesk knows no option {min(unknown)!r}", where=WHERE)
        if setup.screen not in (None, MiniDesk.size):
            raise ParamsError(
                f"a minidesk screen has {MiniDesk.size[0]} x {MiniDesk.size[1]} pixels", where=WHERE,
                remedy="ask for no size, or for a backend that can change it",
            )  # fmt: skip
        shell = named(options["shell"]) if options.get("shell") else default_shell
        self.desktop: Desktop = MiniDesk(
            setup.folder / "desk",
            prepare=named(options["prepare"]) if options.get("prepare") else _no_setup,
            grade=named(options["grade"]) if options.get("grade") else _no_verifier,
            shell=lambda home: shell(home, setup.limits),
            tools=frozenset(options.get("tools", ("computer_use", "bash"))),
        )

    def warm(self) -> None: ...

    def processes(self) -> list[Process]:
        return []  # its shell ends with the slot's process

    def fit(self) -> str:
        return ""

    def close(self) -> None:
        self.desktop.close()


def minidesk(setup: SlotSetup) -> MiniDeskSlot:
    return MiniDeskSlot(setup)


def default_shell(home: Path, limits: dict[str, int]) -> Any:
    """A confined shell with the slot's limits."""
    from components.sandbox.shell import GUEST_LIBRARY, ShellLimits, ShellSession

    known = {name: limits[name] for name in ("memory_bytes", "processes") if name in limits}
    return ShellSession(home, guest=GUEST_LIBRARY, limits=ShellLimits(**known))


def _no_setup(task: Task, root: Path) -> None: ...


def _no_verifier(task: Task, root: Path) -> Verdict:
    return Verdict(success=False, error="this desktop has no verifier")


# -- x11 --------------------------------------------------------------------------------------------------------------


class WarmDriver:
    """A driver that has its next sandbox ready: started, painted and past the health gate."""

    def __init__(self, driver: Driver, screen: Screen, limits: Limits) -> None:
        self._driver, self._screen, self._limits = driver, screen, limits
        self._ready: Sandbox | None = None
        self._latest: Sandbox | None = None
        self.name = driver.name

    def problem(self) -> str:
        return self._driver.problem()

    def warm(self) -> None:
        sandbox = self._latest = self._driver.start(self._screen, self._limits)
        try:
            check_fresh(GuestCalls(sandbox.connect()))
        except BaseException:
            sandbox.stop()
            raise
        self._ready = sandbox

    def start(self, screen: Screen, limits: Limits) -> Sandbox:
        """The ready one, once; the desktop's own health gate looks at it again. Else a new one."""
        ready, self._ready = self._ready, None
        if ready is None or (screen, limits) != (self._screen, self._limits):
            if ready is not None:
                ready.stop()
            ready = self._driver.start(screen, limits)
        self._latest = ready
        return ready

    def fit(self) -> str:
        """A quick look at the sandbox that waits: its agent answers and all its parts live."""
        if self._ready is None:
            return "it holds no sandbox"
        began = time.monotonic()
        gone = GuestCalls(self._ready.connect()).gone()
        took = time.monotonic() - began
        return f"{', '.join(gone)} ended" if gone else f"its agent took {took:.1f} s" if took > 1.0 else ""

    def processes(self) -> list[Process]:
        pid = getattr(self._latest, "pid", None)
        return [Process(pid, start_of(pid))] if pid else []

    def close(self) -> None:
        ready, self._ready = self._ready, None
        if ready is not None:
            ready.stop()


class X11Slot:
    """Real applications: `X11Desktop` over a driver whose sandbox is made in advance."""

    def __init__(self, setup: SlotSetup, driver: Driver) -> None:
        from components.sandbox.x11.desktop import X11Desktop

        options = setup.options
        unknown = set(options) - {"prepare", "finish", "grade", "tools", "bash_timeout"}
        if unknown:
            raise ParamsError(f"x11 knows no option {min(unknown)!r}", where=WHERE)
        problem = driver.problem()
        if problem:
            raise SandboxError(problem, where=driver.name, remedy="make desktops")
        screen, limits = Screen(*setup.screen) if setup.screen else Screen(), Limits(**setup.limits)
        self._driver = WarmDriver(driver, screen, limits)
        prepare = named(options["prepare"]) if options.get("prepare") else None

        def gated(task: Task, guest: GuestCalls) -> None:
            assert prepare is not None
            prepare(task, GatedGuest(guest, setup.gate))

        self.desktop: Desktop = X11Desktop(
            self._driver, screen=screen, limits=limits, prepare=gated if prepare else None,
            finish=named(options["finish"]) if options.get("finish") else None,
            grade=named(options["grade"]) if options.get("grade") else None,
            tools=frozenset(options.get("tools", ("computer_use", "bash"))),
            bash_timeout=float(options.get("bash_timeout", 30.0)),
        )  # fmt: skip

    def warm(self) -> None:
        try:
            self._driver.warm()
        except SandboxError:
            self._driver.warm()  # as a reset does: one that is unfit is replaced, once

    def processes(self) -> list[Process]:
        return self._driver.processes()

    def fit(self) -> str:
        return self._driver.fit()

    def close(self) -> None:
        self.desktop.close()
        self._driver.close()


def x11(setup: SlotSetup) -> X11Slot:
    from components.sandbox.x11.drivers.bwrap_host import BwrapHost

    return X11Slot(setup, BwrapHost())


__all__ = [
    "MINIDESK", "X11", "Channel", "MiniDeskSlot", "SlotDesktop", "SlotSetup", "WarmDriver", "X11Slot", "default_shell",
    "minidesk", "name_of", "named", "options_of", "x11",
]  # fmt: skip
