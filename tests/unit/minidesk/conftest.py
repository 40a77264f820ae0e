"""A driver that plays a person: it looks for elements by their words and acts through the `Desktop` interface only."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from components.contracts.calls import ComputerUse
from components.contracts.desktop import ActResult, Element
from components.contracts.task import Task, Verdict
from components.sandbox.minidesk.desktop import MiniDesk
from components.sandbox.minidesk.looks import looks

Files = dict[str, bytes | str]


def make_task(seed: int = 0) -> Task:
    return Task.build(
        skill="s", workflow="w", apps=(), channels=(), instruction="i", wording="w", spec={}, setup=(), verifier=(),
        split="train", seed=seed,
    )  # fmt: skip


def plain_seed(start: int = 0) -> int:
    """A seed whose looks open no application."""
    return next(s for s in range(start, start + 1000) if not looks(s).opened)


class Driver:
    def __init__(self, desk: MiniDesk) -> None:
        self.desk = desk

    @property
    def home(self) -> Path:
        return self.desk.root / "home"

    def private(self, name: str) -> Any:
        return json.loads((self.desk.root / "state" / f"{name}.json").read_text())

    def act(self, action: Any, **arguments: Any) -> ActResult:
        return self.desk.act(ComputerUse(action=action, **arguments))

    def elements(self, kind: str = "") -> list[Element]:
        return [e for e in self.desk.observe().elements if not kind or e.kind == kind]

    def labels(self, kind: str) -> list[str]:
        return [e.label for e in self.elements(kind)]

    def find(self, kind: str, label: str) -> Element:
        found = [e for e in self.elements(kind) if e.label == label]
        assert found, f"no {kind} {label!r} among {[(e.kind, e.label) for e in self.elements()]}"
        return found[-1]

    def click(self, kind: str, label: str) -> ActResult:
        return self.act("left_click", coordinate=self.find(kind, label).center)

    def double(self, kind: str, label: str) -> ActResult:
        return self.act("double_click", coordinate=self.find(kind, label).center)

    def right(self, kind: str, label: str) -> ActResult:
        return self.act("right_click", coordinate=self.find(kind, label).center)

    def choose(self, kind: str, label: str, item: str) -> None:
        """Context menu of an element, then one of its items."""
        self.right(kind, label)
        self.click("item", item)

    def drag(self, kind: str, label: str, to: tuple[int, int]) -> ActResult:
        return self.act("left_click_drag", start=self.find(kind, label).center, coordinate=to)

    def type(self, text: str) -> ActResult:
        return self.act("type", text=text)

    def key(self, *keys: str) -> ActResult:
        return self.act("key", keys=keys)

    def open(self, app: str) -> None:
        self.double("icon", app)

    @property
    def state(self) -> dict[str, Any]:
        return self.desk.state()

    @property
    def top(self) -> dict[str, Any]:
        return self.state["windows"][-1]

    def screen(self) -> bytes:
        return self.desk.observe().screen.tobytes()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    """`start(files, state, seed)` opens an episode. Files end in "/" for a folder."""
    desks: list[MiniDesk] = []

    def begin(
        files: Files | None = None, state: dict[str, Any] | None = None, seed: int | None = None, **options: Any
    ) -> Driver:
        def prepare(task: Task, root: Path) -> None:
            for name, content in (files or {}).items():
                path = root / "home" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                if name.endswith("/"):
                    path.mkdir(exist_ok=True)
                else:
                    path.write_bytes(content if isinstance(content, bytes) else content.encode())
            for name, value in (state or {}).items():
                (root / "state" / f"{name}.json").write_text(json.dumps(value))

        def grade(task: Task, root: Path) -> Verdict:
            return Verdict(success=(root / "home" / "done.txt").exists())

        desk = MiniDesk(tmp_path / f"slot{len(desks)}", prepare=prepare, grade=grade, **options)
        desks.append(desk)
        desk.reset(make_task(plain_seed() if seed is None else seed))
        return Driver(desk)

    yield begin
    for desk in desks:
        desk.close()
