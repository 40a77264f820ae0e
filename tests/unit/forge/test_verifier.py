from __future__ import annotations

import json
import os

import pytest

from components.contracts.task import Check, SetupStep, Task
from components.forge.preparers import prepare
from components.forge.verifier import grade

ROWS = [["item", "qty"], ["tax", "12"]]
SETUP = (
    SetupStep(preparer="text_file", args={"path": "a.txt", "text": "tax plan\n"}),
    SetupStep(preparer="text_file", args={"path": "in/b.txt", "text": "trip\n"}),
    SetupStep(preparer="sheet_file", args={"path": "c.csv", "rows": ROWS}),
    SetupStep(preparer="sheet_file", args={"path": "d.xlsx", "rows": ROWS}),
    SetupStep(
        preparer="prefs",
        args={"order": ["wifi", "dark"], "checks": {"wifi": True, "dark": False}, "volume": 15,
              "menu": {"label": "lang", "options": ["french", "german"], "value": "french"}},
    ),
    SetupStep(
        preparer="form",
        args={"name": "order", "fields": [{"label": "name", "kind": "text", "required": True},
                                          {"label": "paid", "kind": "check", "value": False}]},
    ),
)  # fmt: skip


@pytest.fixture
def slot(tmp_path):
    prepare(made(), tmp_path)
    return tmp_path


def made(*checks: Check) -> Task:
    return Task.build(
        skill="x", workflow="x@1", apps=(), channels=(("gui",),), instruction="", wording="", spec={}, setup=SETUP,
        verifier=checks, split="train",
    )  # fmt: skip


def verdict(slot, name, **args):
    return grade(made(Check(check=name, args=args)), slot)


def holds(slot, name, **args) -> bool:
    found = verdict(slot, name, **args)
    assert not found.error
    assert found.success or found.results[-1].reason
    return found.success


def test_text_is_compared_exactly_unless_loose(slot):
    assert holds(slot, "file_text", path="a.txt", text="tax plan\n")
    assert not holds(slot, "file_text", path="a.txt", text="tax plan")
    assert holds(slot, "file_text", path="a.txt", text=" tax  plan", loose=True)
    assert not holds(slot, "file_text", path="a.txt", text="tax", loose=True)
    assert not holds(slot, "file_text", path="none.txt", text="")


def test_presence_of_files_and_folders(slot):
    assert holds(slot, "file_exists", path="in/b.txt") and not holds(slot, "file_exists", path="in")
    assert holds(slot, "dir_exists", path="in") and not holds(slot, "dir_exists", path="a.txt")
    assert holds(slot, "file_absent", path="x") and not holds(slot, "file_absent", path="in")


def test_a_moved_file_must_hold_what_it_held(slot):
    home = slot / "home"
    os.rename(home / "a.txt", home / "z.txt")
    assert holds(slot, "same_bytes_as_setup", path="z.txt", source="a.txt")
    (home / "z.txt").write_text("tax")
    assert not holds(slot, "same_bytes_as_setup", path="z.txt", source="a.txt")
    assert not holds(slot, "same_bytes_as_setup", path="y.txt", source="a.txt")


@pytest.mark.parametrize("path", ["c.csv", "d.xlsx"])
def test_cells_and_rows_of_both_kinds_of_sheet(slot, path):
    assert holds(slot, "sheet_cell", path=path, cell="b2", value="12")
    assert not holds(slot, "sheet_cell", path=path, cell="b2", value="13")
    assert holds(slot, "sheet_cell", path=path, cell="d9", value="")
    assert holds(slot, "sheet_rows", path=path, rows=[*ROWS, [""]])
    assert not holds(slot, "sheet_rows", path=path, rows=ROWS[:1])
    (slot / "home" / path).write_bytes(b"\xff\xfe\x00rubbish")
    assert not holds(slot, "sheet_rows", path=path, rows=ROWS)


def test_preferences_compare_value_and_type(slot):
    assert holds(slot, "pref_equals", key="wifi", value=True)
    assert not holds(slot, "pref_equals", key="wifi", value=1)
    assert holds(slot, "pref_equals", key="volume", value=15)
    assert not holds(slot, "pref_equals", key="lang", value="german")


def send(slot, *records):
    path = slot / "state/forms.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"records": list(records)}))


def test_exactly_one_record_with_nothing_extra(slot):
    assert not holds(slot, "form_record", values={"name": "tax"})
    send(slot, {"name": "tax", "paid": False})
    assert holds(slot, "form_record", values={"name": "tax"})
    assert not holds(slot, "form_record", values={"name": "plan"})
    send(slot, {"name": "tax", "paid": True})
    assert not holds(slot, "form_record", values={"name": "tax"})
    send(slot, {"name": "tax", "paid": False}, {"name": "tax", "paid": False})
    assert not holds(slot, "form_record", values={"name": "tax"})


def test_a_scene_nobody_touched_is_unchanged(slot):
    assert holds(slot, "others_unchanged")


@pytest.mark.parametrize(
    "change",
    [
        lambda home: (home / "decoy.txt").write_text("x"),
        lambda home: (home / ".hidden").write_text("x"),
        lambda home: (home / "a.txt").write_text("tax"),
        lambda home: (home / "in/b.txt").unlink(),
        lambda home: (home / "c.csv").write_text("item,qty\ntax,13\n"),
        lambda home: os.mkdir(home / "new"),
        lambda home: (os.unlink(home / "a.txt"), os.mkdir(home / "a.txt")),
        lambda home: (os.rename(home / "a.txt", home / "in/x"), os.symlink("in/x", home / "a.txt")),
    ],
)
def test_any_other_change_in_the_home_is_noticed(slot, change):
    change(slot / "home")
    assert not holds(slot, "others_unchanged")


def test_what_the_task_touches_is_let_through_and_nothing_more(slot):
    home = slot / "home"
    (home / "a.txt").write_text("new")
    prefs = slot / "state/prefs.json"
    prefs.write_text(prefs.read_text().replace('"volume": 15', '"volume": 20'))
    send(slot, {"name": "tax", "paid": False})
    assert holds(slot, "others_unchanged", files=["a.txt"], prefs=["volume"], forms=True)
    assert not holds(slot, "others_unchanged", prefs=["volume"], forms=True)
    assert not holds(slot, "others_unchanged", files=["a.txt"], forms=True)
    assert not holds(slot, "others_unchanged", files=["a.txt"], prefs=["volume"])


def test_links_pipes_and_huge_files_are_findings_not_traps(slot, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("tax plan\n")
    home = slot / "home"
    os.unlink(home / "a.txt")
    os.symlink(secret, home / "a.txt")
    assert not holds(slot, "file_text", path="a.txt", text="tax plan\n")
    os.unlink(home / "a.txt")
    os.mkfifo(home / "a.txt")
    assert not holds(slot, "file_text", path="a.txt", text="tax plan\n")
    os.unlink(home / "a.txt")
    with (home / "a.txt").open("wb") as file:
        file.truncate(2 << 20)
    assert not holds(slot, "file_exists", path="none") and not holds(slot, "file_text", path="a.txt", text="")
    os.rename(home / "in", home / "out")
    os.symlink(home / "out", home / "in")
    assert not holds(slot, "file_text", path="in/b.txt", text="trip\n")


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("no_such_check", {}),
        ("file_text", {"path": "a.txt"}),
        ("sheet_cell", {"path": "c.csv", "cell": "", "value": ""}),
        ("same_bytes_as_setup", {"path": "a.txt", "source": "never.txt"}),
        ("pref_equals", {"key": "nothing", "value": 1}),
    ],
)
def test_a_broken_check_fails_closed_with_an_error(slot, name, args):
    found = verdict(slot, name, **args)
    assert not found.success and found.error


def test_a_lost_state_file_or_home_fails_closed(slot):
    (slot / "state/prefs.json").write_text("{")
    assert verdict(slot, "pref_equals", key="wifi", value=True).error
    os.rename(slot / "home", slot / "gone")
    found = verdict(slot, "file_absent", path="a.txt")
    assert not found.success and found.error


def test_a_task_without_checks_is_never_a_success(slot):
    assert not grade(made(), slot).success and grade(made(), slot).error


def test_a_passing_check_does_not_hide_a_later_broken_one(slot):
    found = grade(made(Check(check="file_exists", args={"path": "a.txt"}), Check(check="oops")), slot)
    assert not found.success and found.error and found.results[0].passed
