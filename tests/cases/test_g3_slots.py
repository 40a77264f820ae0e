"""Open cases C31 and C33 as far as no real application is needed; tests/x11/test_g3_slots.py has the others.

Adapters stage `given` and translate names: `not_ready` is what our gate says, an infrastructure error a `SandboxError`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.contracts.calls import BashCall, ComputerUse
from components.contracts.digests import digest_value
from components.contracts.errors import SandboxError
from components.contracts.task import Task, Verdict
from components.sandbox.minidesk.desktop import MiniDesk
from components.sandbox.shell.files import list_files, read_file_nofollow
from components.sandbox.x11.health import window_problem

DATA = Path(__file__).parent / "data" / "g3_desktop_eval.jsonl"
ROWS = {row["case"] + row["row"]: row for row in map(json.loads, DATA.read_text(encoding="utf-8").splitlines())}


def make_task(name: str) -> Task:
    return Task.build(
        skill="s", workflow=name, apps=(), channels=(), instruction="i", wording="w", spec={}, setup=(), verifier=(),
        split="train",
    )  # fmt: skip


@pytest.mark.parametrize("name", ["C31b", "C31c", "C31d", "C31g"])
def test_only_the_right_window_makes_a_desktop_ready(name: str) -> None:
    given, expect = ROWS[name]["given"], ROWS[name]["expect"]
    titles = [given["first_window_title"]] if "first_window_title" in given else []
    if "recovery dialog" in given.get("app_state", ""):
        titles = ["Document Recovery - LibreOffice"]
    problem = window_problem(titles, "report.xlsx")
    assert problem.startswith("not_ready")
    assert expect.get("sandbox_state", "not_ready") == "not_ready" and expect.get("outcome", "infra_error")
    assert window_problem(["report.xlsx - LibreOffice Calc"], "report.xlsx") == ""


def _note(desk: MiniDesk) -> None:
    (desk.root / "home" / "note.txt").write_text("a note")


def _nothing(desk: MiniDesk) -> None:
    """The right answer to counting is here in the verifier."""


TASKS: dict[str, tuple[Callable[[MiniDesk], None], Callable[[Path], bool]]] = {
    "create_note": (_note, lambda home: list_files(home) == ["note.txt"]),
    "count_notes_expect_0": (_nothing, lambda home: list_files(home) == []),
}


def slot(root: Path, start: dict[str, bytes] | None = None) -> MiniDesk:
    def prepare(task: Task, folder: Path) -> None:
        for name, data in (start or {}).items():
            (folder / "home" / name).write_bytes(data)

    def grade(task: Task, folder: Path) -> Verdict:
        return Verdict(success=TASKS[task.workflow][1](folder / "home"))

    return MiniDesk(root, prepare=prepare, grade=grade)


def test_scores_do_not_depend_on_the_order_of_tasks(tmp_path: Path) -> None:
    row = ROWS["C33a"]
    for number in ("1", "2"):
        desk = slot(tmp_path / number)
        scores = []
        for name in row["given"][f"order_{number}"]:
            desk.reset(make_task(name))
            TASKS[name][0](desk)
            scores.append(int(desk.grade().success))
        desk.close()
        assert scores == row["expect"][f"scores_order_{number}"]


def state_hash(desk: MiniDesk) -> str:
    home = desk.root / "home"
    return digest_value({name: read_file_nofollow(home, name).decode() for name in list_files(home)})


def test_each_rollout_of_a_group_starts_alike_on_its_own_copy(tmp_path: Path) -> None:
    row = ROWS["C33b"]
    desks = [slot(tmp_path / str(n), {"list.txt": b"one\n"}) for n in range(row["given"]["group_of_rollouts"])]
    try:
        starts = []
        for desk in desks:  # each begins when the ones before have already written
            desk.reset(make_task("create_note"))
            starts.append(state_hash(desk))
            _note(desk)
            (desk.root / "home" / "list.txt").write_text("two\n")
        assert (len(set(starts)) == 1) is row["expect"]["start_state_hash_equal"]
        assert row["expect"]["each_has_own_copy"] and len({desk.root for desk in desks}) == len(desks)
    finally:
        for desk in desks:
            desk.close()


def test_a_slot_whose_reset_failed_cannot_be_used_and_the_next_task_starts_clean(tmp_path: Path) -> None:
    assert ROWS["C33d"]["expect"] == {"sandbox": "discarded", "next_task": "gets a fresh one"}
    fail: list[Any] = []

    def prepare(task: Task, folder: Path) -> None:
        (folder / "home" / "left.txt").write_text("half of a setup")
        if fail.pop():
            raise RuntimeError("the setup broke")
        (folder / "home" / "left.txt").unlink()

    desk = MiniDesk(tmp_path, prepare=prepare, grade=lambda task, folder: Verdict(success=True))
    fail.append(True)
    with pytest.raises(SandboxError):
        desk.reset(make_task("create_note"))
    for use in (desk.observe, desk.grade, lambda: desk.act(ComputerUse(action="wait")),
                lambda: desk.act(BashCall(command="true"))):  # fmt: skip
        with pytest.raises(SandboxError):
            use()
    fail.append(False)
    desk.reset(make_task("create_note"))
    assert list_files(tmp_path / "home") == []
    desk.close()
