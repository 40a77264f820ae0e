from __future__ import annotations

import json
import os

import pytest

from components.contracts.errors import TaskError
from components.contracts.task import SetupStep, Task
from components.forge.preparers import made_by, prepare
from components.sandbox.minidesk.tables import from_xlsx


def task(*steps: SetupStep) -> Task:
    return Task.build(
        skill="x", workflow="x@1", apps=(), channels=(("gui",),), instruction="", wording="", spec={}, setup=steps,
        verifier=(), split="train",
    )  # fmt: skip


def step(preparer: str, **args) -> SetupStep:
    return SetupStep(preparer=preparer, args=args)


ROWS = [["item", "qty"], ["tax", "12"]]


def test_files_folders_sheets_and_state_are_written(tmp_path):
    prepare(
        task(
            step("text_file", path="music/tax.txt", text="plan\n"),
            step("folder", path="trip"),
            step("sheet_file", path="a.csv", rows=ROWS),
            step("sheet_file", path="b.xlsx", rows=ROWS),
            step("prefs", order=["sync", "wifi"], checks={"wifi": True, "sync": False}, volume=15,
                 menu={"label": "theme", "options": ["light", "blue"], "value": "blue"}),
            step("clipboard", text="tax plan"),
            step("open_apps", apps=["notes:music/tax.txt"]),
        ),
        tmp_path,
    )  # fmt: skip
    home = tmp_path / "home"
    assert (home / "music/tax.txt").read_text() == "plan\n"
    assert (home / "trip").is_dir()
    assert (home / "a.csv").read_bytes() == b"item,qty\ntax,12\n"
    assert from_xlsx((home / "b.xlsx").read_bytes()) == ROWS
    prefs = json.loads((tmp_path / "state/prefs.json").read_text())
    assert list(prefs["values"].items()) == [("sync", False), ("wifi", True), ("volume", 15), ("theme", "blue")]
    assert json.loads((tmp_path / "state/clipboard.json").read_text())["text"] == "tax plan"
    assert json.loads((tmp_path / "state/desk.json").read_text()) == {"open": ["notes:music/tax.txt"]}


def test_what_an_earlier_episode_left_is_gone_and_links_are_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep.txt").write_text("keep")
    home = tmp_path / "slot/home"
    locked = home / "locked"
    locked.mkdir(parents=True)
    (locked / "x").write_text("")
    os.symlink(outside, home / "link")
    os.chmod(locked, 0)
    prepare(task(step("text_file", path="a.txt", text="")), tmp_path / "slot")
    assert os.listdir(home) == ["a.txt"]
    assert (outside / "keep.txt").read_text() == "keep"


def test_the_same_setup_gives_the_same_bytes(tmp_path):
    made = task(step("sheet_file", path="b.xlsx", rows=ROWS))
    prepare(made, tmp_path / "1")
    prepare(made, tmp_path / "2")
    assert (tmp_path / "1/home/b.xlsx").read_bytes() == (tmp_path / "2/home/b.xlsx").read_bytes()


@pytest.mark.parametrize(
    ("steps", "word"),
    [
        ([step("nothing")], "unknown preparer"),
        ([step("text_file", path="a.txt")], "refused its arguments"),
        ([step("folder", path="a"), step("text_file", path="a", text="")], "two setup steps"),
        ([step("text_file", path="../a.txt", text="")], "leaves the home"),
        ([step("text_file", path="/a.txt", text="")], "leaves the home"),
        ([step("text_file", path="a/../../b", text="")], "leaves the home"),
    ],
)
def test_a_malformed_setup_is_a_task_error(steps, word):
    with pytest.raises(TaskError, match=word):
        made_by(tuple(steps))
