"""Real desktops, each in a sandbox of its own. Skipped as a whole where the packages or the rights are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from components.contracts.calls import BashCall, ComputerUse
from components.contracts.desktop import ActResult
from components.contracts.task import Task
from components.sandbox.x11.desktop import X11Desktop
from components.sandbox.x11.drivers.bwrap_host import BwrapHost
from components.sandbox.x11.guest_calls import GuestCalls, Window
from pipelines.waiting import wait_until

HERE = __file__.rpartition("/")[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ours = [item for item in items if str(item.path).startswith(HERE)]
    problem = BwrapHost().problem() if ours else ""
    for item in ours:
        if problem:
            item.add_marker(pytest.mark.skip(reason=f"no real desktop here: {problem} (make desktops)"))


def make_task() -> Task:
    return Task.build(
        skill="s", workflow="w", apps=(), channels=(), instruction="i", wording="w", spec={}, setup=(), verifier=(),
        split="train",
    )  # fmt: skip


class Person:
    """Sits at a desktop: acts through the `Desktop` interface, and looks with tools that the desktop does not use."""

    def __init__(self, desktop: X11Desktop) -> None:
        self.desktop = desktop

    @property
    def guest(self) -> GuestCalls:
        return self.desktop.guest

    def act(self, action: Any, **arguments: Any) -> ActResult:
        return self.desktop.act(ComputerUse(action=action, **arguments))

    def key(self, *keys: str) -> ActResult:
        return self.act("key", keys=keys)

    def bash(self, command: str, **arguments: Any) -> ActResult:
        return self.desktop.act(BashCall(command=command, **arguments))

    def selected(self) -> str:
        """What is selected, as another program sees it."""
        return self.bash("timeout 60 xclip -o -selection primary 2>/dev/null", timeout=90).output

    def edit(self, name: str, text: str = "") -> Window:
        """Opens a file of the home in the editor."""
        self.guest.put(name, text.encode())
        window = self.guest.open(["mousepad", name], name)
        assert window is not None, self.guest.windows()
        return window

    def saved(self, name: str) -> str:
        self.key("ctrl", "s")
        return self.guest.get(name).decode()


def line_of(window: Window, number: int, x: int = 20) -> tuple[int, int]:
    """A point in a line of the editor's text, counted from 0."""
    return window.box[0] + x, window.box[1] + 78 + 17 * number


@pytest.fixture
def person() -> Iterator[Person]:
    desktop = X11Desktop(BwrapHost())
    desktop.reset(make_task())
    yield Person(desktop)
    desktop.close()


@pytest.fixture(scope="module")
def shared() -> Iterator[Person]:
    """One desktop for all tests of a module: for those that leave nothing behind."""
    desktop = X11Desktop(BwrapHost())
    desktop.reset(make_task())
    yield Person(desktop)
    desktop.close()


def wait_for(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Poll until the condition holds; False when it did not in time."""
    return wait_until(condition, seconds, 0.02)
