"""Nothing a policy does breaks the desktop; episodes are repeatable and do not leak into each other."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from components.contracts.calls import BashCall, ComputerUse
from components.contracts.digests import digest_tree
from components.contracts.errors import SandboxError, TaskError
from components.contracts.task import Task, Verdict
from components.sandbox.minidesk.desktop import MiniDesk, remove_tree
from components.sandbox.minidesk.screen import Screenful
from components.sandbox.minidesk.tables import to_xlsx
from tests.unit.minidesk.conftest import Driver, make_task

Start = Any
FILES: dict[str, Any] = {
    "plan.txt": "buy milk\ncall anna about the trip to the sea\n", "data.csv": "name,qty\npear,3\nfig,12\n",
    "b.xlsx": to_xlsx([["n", "v"], ["a", "1"]]), "raw.bin": b"\xff\x00", "music/song.md": "la la\n",
    **{f"f{i}.log": "hello " * i for i in range(4)},
}  # fmt: skip
STATE: dict[str, Any] = {
    "forms": {"name": "order", "records": [], "fields": [
        {"label": "name", "kind": "text", "required": True}, {"label": "size", "kind": "choice", "options": ["s", "m"]},
        {"label": "gift", "kind": "check"}, {"label": "a label that is far too long for a window", "kind": "text"},
        {"label": "last", "kind": "choice"},
    ]},
    "prefs": {"values": {"wifi": True, "a very long label": False, "volume": 250, "theme": "ocean"},
              "options": {"theme": ["ocean", "night", "x" * 60]}},
}  # fmt: skip
TEXTS = (
    "hello", "a\n", "x.txt\n", "=1+1", "42\n3\n", "é中🙂", "\ud800", "\0", "../x\n", "a" * 300 + "\n", "b.xlsx\n",
    "t\tu\t ", "\x01", "", "\n\n\n", "plan.txt\n", "x" * 5000,
)  # fmt: skip
KEYS = (
    ("enter",), ("esc",), ("tab",), ("backspace",), ("delete",), ("up",), ("down",), ("left",), ("right",), ("f2",),
    ("ctrl", "s"), ("ctrl", "c"), ("ctrl", "v"), ("ctrl", "a"), ("ctrl", "w"), ("alt", "tab"), ("a",), ("shift", "b"),
    ("space",), ("pagedown",), ("pageup",),
    ("super",), (), ("ctrl",), ("nosuchkey",), ("alt", "f4"), ("shift", "ctrl", "v"),
)  # fmt: skip
ACTIONS = {
    "left_click": 6, "double_click": 4, "right_click": 3, "middle_click": 1, "mouse_move": 1, "left_click_drag": 2,
    "scroll": 2, "type": 3, "key": 4, "wait": 0.3,
}  # fmt: skip


def random_call(rng: random.Random, d: Driver) -> ComputerUse:
    """Half at named things, half anywhere, also outside the screen."""

    def point() -> tuple[int, int]:
        elements = d.elements()
        if elements and rng.random() < 0.7:
            return rng.choice(elements).center
        return rng.randrange(-20, 320), rng.randrange(-20, 250)

    action: Any = rng.choices(list(ACTIONS), list(ACTIONS.values()))[0]
    fields: dict[str, Any] = {}
    if action == "type":
        fields["text"] = rng.choice(TEXTS)
    elif action == "key":
        fields["keys"] = rng.choice(KEYS)
    elif action != "wait":
        fields["coordinate"] = point() if rng.random() < 0.9 else None
    if action == "scroll":
        fields["pixels"] = rng.choice((-300, -100, 0, 50, 100, 10**9))
    if action == "left_click_drag" and rng.random() < 0.8:
        fields["start"] = point()
    return ComputerUse(action=action, **fields)


def play(d: Driver, seed: int, steps: int) -> list[ComputerUse]:
    rng, calls = random.Random(seed), []
    for _ in range(steps):
        calls.append(random_call(rng, d))
        d.desk.act(calls[-1])
        d.desk.observe()
    return calls


@pytest.mark.parametrize("seed", range(4))
def test_3000_random_actions_never_raise_and_keep_the_invariants(start: Start, seed: int) -> None:
    d = start(FILES, STATE, seed=seed)
    rng = random.Random(seed)
    for step in range(750):
        call = random_call(rng, d)
        d.desk.act(call)
        seen = d.desk.observe()
        assert seen.screen.shape == (224, 288, 3) and seen.screen.dtype.name == "uint8", call
        for element in seen.elements:
            x0, y0, x1, y1 = element.box
            assert 0 <= x0 < x1 <= 288 and 0 <= y0 < y1 <= 224, (step, call, element)
            assert element.label == element.label.lower()
        session = d.desk._session
        assert session is not None
        for pane in [*session.windows, *([session.overlay] if session.overlay else [])]:
            pane.dirty = True
        screen, elements = Screenful().compose(session)
        assert (screen == seen.screen).all() and elements == seen.elements, f"stale drawing after {call} (step {step})"
    assert {p.name for p in d.desk.root.iterdir()} == {"home", "state"}


def test_equal_actions_give_equal_screens_and_equal_directories(start: Start) -> None:
    first, second = start(FILES, STATE, seed=11), start(FILES, STATE, seed=11)
    calls = play(first, 3, 400)
    screens = []
    for call in calls:
        second.desk.act(call)
        screens.append(second.screen())
    assert second.state == first.state and screens[-1] == first.screen()
    assert digest_tree(second.desk.root) == digest_tree(first.desk.root)


@pytest.mark.parametrize("seed", range(3))
def test_reset_is_exact_after_arbitrary_actions(start: Start, seed: int) -> None:
    d = start(FILES, STATE, seed=seed)
    fresh = d.screen(), digest_tree(d.desk.root), d.state
    play(d, seed, 300)
    d.desk.reset(make_task(seed))
    assert (d.screen(), digest_tree(d.desk.root), d.state) == fresh


def test_reset_clears_the_clipboard_and_the_pointer(start: Start) -> None:
    d = start({"a.txt": "secret"}, {"desk": {"open": ["notes:a.txt"]}})
    d.click("button", "copy")
    assert d.state["clipboard"]["text"] == "secret"
    d.desk.reset(make_task(1))
    assert d.state["clipboard"]["text"] == "" and d.desk.observe().pointer is None


def test_reset_removes_what_an_agent_locked_or_linked(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    home = tmp_path / "home"
    (home / "locked" / "deep").mkdir(parents=True)
    (home / "link").symlink_to(kept)
    os.chmod(home / "locked" / "deep", 0)
    os.chmod(home / "locked", 0)
    remove_tree(home)
    assert not home.exists() and (kept / "file").read_text() == "x"
    (tmp_path / "home").symlink_to(kept)
    remove_tree(tmp_path / "home")
    assert (kept / "file").exists()


def test_a_setup_that_breaks_is_a_typed_error_and_leaves_no_episode(tmp_path: Path) -> None:
    errors: list[Exception] = [RuntimeError("boom"), TaskError("bad setup")]

    def prepare(task: Task, root: Path) -> None:
        raise errors[0]

    desk = MiniDesk(tmp_path, prepare=prepare, grade=lambda task, root: Verdict(success=False))
    with pytest.raises(SandboxError):
        desk.reset(make_task())
    errors.pop(0)
    with pytest.raises(TaskError):
        desk.reset(make_task())
    with pytest.raises(SandboxError):
        desk.observe()


class FakeShell:
    """Writes one file a command: `name=text`."""

    made = 0

    def __init__(self, home: Path) -> None:
        self.home, self.closed, self.restarts = home, False, 0
        FakeShell.made += 1

    def run(self, command: str, timeout: float = 30.0) -> Any:
        name, _, text = command.partition("=")
        (self.home / name).write_text(text) if text else (self.home / name).unlink()

        class Result:
            output, exit_code, timed_out = f"{timeout:g}", 0, False

        return Result()

    def restart(self) -> None:
        self.restarts += 1

    def close(self) -> None:
        self.closed = True


def test_the_screen_follows_what_the_shell_did(start: Start) -> None:
    before = FakeShell.made
    d = start({"a.txt": "one"}, {"desk": {"open": ["files"]}}, shell=FakeShell)
    assert FakeShell.made == before
    result = d.desk.act(BashCall(command="b.txt=two", timeout=5))
    assert (result.effect, result.output, result.exit_code, result.timed_out) == (True, "5", 0, False)
    assert d.labels("row") == ["a.txt", "b.txt"]
    d.double("row", "a.txt")
    d.desk.act(BashCall(command="a.txt=changed"))
    assert d.top["text"] == "changed" and FakeShell.made == before + 1
    d.type("!")
    d.desk.act(BashCall(command="a.txt=again"))
    assert d.top["text"] == "changed!"
    d.desk.act(BashCall(command="a.txt"))
    d.key("ctrl", "s")
    assert (d.home / "a.txt").read_text() == "changed!\n"
    assert d.desk.act(BashCall(restart=True)).exit_code == 0
    shell: Any = d.desk._shell
    assert shell.restarts == 1
    d.desk.reset(make_task(2))
    assert shell.closed


def test_a_folder_that_vanished_shows_its_parent(start: Start) -> None:
    d = start({"box/a.txt": ""}, {"desk": {"open": ["files"]}}, shell=FakeShell)
    d.double("row", "box")
    remove_tree(d.home / "box")
    d.desk.act(BashCall(command="c.txt=x"))
    assert d.top["folder"] == "" and d.labels("row") == ["c.txt"]
