"""Files: what its gestures do to the real directory."""

from __future__ import annotations

import os
from typing import Any

Start = Any
OPEN = {"desk": {"open": ["files"]}}


def test_folders_come_first_and_dot_files_are_hidden(start: Start) -> None:
    d = start({"b.txt": "", "a.txt": "", "zoo/": "", ".secret": ""}, OPEN)
    assert d.labels("row") == ["zoo", "a.txt", "b.txt"]


def test_double_click_opens_folders_and_documents_in_their_app(start: Start) -> None:
    d = start({"box/t.csv": "a,b\n", "n.md": "hi\n"}, OPEN)
    d.double("row", "box")
    assert d.top["folder"] == "box" and d.find("title", "box")
    d.double("row", "t.csv")
    assert d.top["app"] == "sheet" and d.top["path"] == "box/t.csv"
    d.open("files")
    d.click("button", "up")
    d.double("row", "n.md")
    assert d.top["app"] == "notes" and d.top["text"] == "hi"


def test_a_file_that_no_app_opens_is_an_error_dialog(start: Start) -> None:
    d = start({"p.bin": b"\x00\xff"}, OPEN)
    d.double("row", "p.bin")
    assert d.state["overlay"]["title"] == "error"
    d.click("button", "ok")
    assert d.state["overlay"] is None


def test_rename_by_menu_and_enter(start: Start) -> None:
    d = start({"a.txt": "x"}, OPEN)
    d.choose("row", "a.txt", "rename")
    assert d.find("title", "rename") and d.find("field", "name")
    assert d.labels("button") == ["ok", "cancel"]
    d.type("b.txt")
    d.key("enter")
    assert os.listdir(d.home) == ["b.txt"]
    assert d.find("row", "b.txt").state == "selected"


def test_rename_can_be_cancelled_and_an_empty_name_is_not_taken(start: Start) -> None:
    d = start({"a.txt": "x"}, OPEN)
    d.choose("row", "a.txt", "rename")
    assert not d.click("button", "ok").effect
    assert d.state["overlay"]["title"] == "rename"
    d.type("b.txt")
    d.click("button", "cancel")
    assert os.listdir(d.home) == ["a.txt"]


def test_a_rename_never_replaces_a_file(start: Start) -> None:
    d = start({"a.txt": "x", "b.txt": "y"}, OPEN)
    d.choose("row", "a.txt", "rename")
    d.type("b.txt\n")
    assert d.state["overlay"]["message"] == "file exists"
    assert (d.home / "b.txt").read_text() == "y"


def test_names_that_leave_the_folder_are_refused(start: Start) -> None:
    d = start({"a.txt": "x"}, OPEN)
    for name in ("../up.txt", "..", "nul\0byte", "n" * 300):
        d.choose("row", "a.txt", "rename")
        d.type(name + "\n")
        assert d.state["overlay"]["title"] == "error", name
        d.key("enter")
    assert os.listdir(d.home) == ["a.txt"] and not (d.desk.root / "up.txt").exists()


def test_delete_asks_first(start: Start) -> None:
    d = start({"a.txt": "x", "box/b.txt": "y"}, OPEN)
    d.click("row", "a.txt")
    d.key("delete")
    d.click("button", "no")
    assert (d.home / "a.txt").exists()
    d.choose("row", "a.txt", "delete")
    d.click("button", "yes")
    d.choose("row", "box", "delete")
    d.key("enter")
    assert os.listdir(d.home) == [] and d.labels("row") == []


def test_copy_and_paste_find_a_free_name(start: Start) -> None:
    d = start({"a.txt": "x", "box/": ""}, OPEN)
    d.choose("row", "a.txt", "copy")
    d.key("ctrl", "v")
    d.key("ctrl", "v")
    assert sorted(os.listdir(d.home)) == ["a.txt", "a2.txt", "a3.txt", "box"]
    d.double("row", "box")
    d.key("ctrl", "v")
    assert (d.home / "box" / "a.txt").read_text() == "x"


def test_a_folder_is_copied_with_its_content_but_not_into_itself(start: Start) -> None:
    d = start({"box/in/a.txt": "x"}, OPEN)
    d.click("row", "box")
    d.key("ctrl", "c")
    d.key("ctrl", "v")
    assert (d.home / "box2" / "in" / "a.txt").read_text() == "x"
    d.double("row", "box")
    d.key("ctrl", "v")
    assert d.state["overlay"]["title"] == "error"


def test_dragging_a_row_onto_a_folder_moves_it(start: Start) -> None:
    d = start({"a.txt": "x", "box/": ""}, OPEN)
    d.drag("row", "a.txt", d.find("row", "box").center)
    assert (d.home / "box" / "a.txt").read_text() == "x" and d.labels("row") == ["box"]


def test_an_open_document_follows_its_file(start: Start) -> None:
    d = start({"a.txt": "x", "box/": ""}, OPEN)
    d.double("row", "a.txt")
    d.open("files")
    d.drag("row", "a.txt", d.find("row", "box").center)
    d.choose("row", "box", "rename")
    d.type("bag\n")
    d.open("notes")
    d.type("y")
    d.key("ctrl", "s")
    assert (d.home / "bag" / "a.txt").read_text() == "xy\n" and not (d.home / "a.txt").exists()


def test_new_folder(start: Start) -> None:
    d = start({}, OPEN)
    d.click("button", "new")
    d.type("box")
    d.click("button", "ok")
    assert (d.home / "box").is_dir() and d.labels("row") == ["box"]


def test_arrow_keys_select_and_enter_opens(start: Start) -> None:
    d = start({f"f{i}.txt": str(i) for i in range(7)}, OPEN)
    for _ in range(7):
        d.key("down")
    assert d.top["selected"] == "f6.txt" and "f6.txt" in d.labels("row")
    d.key("enter")
    assert d.top["text"] == "6"


def test_links_out_of_home_are_never_followed(start: Start, tmp_path: Any) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    d = start({}, OPEN)
    (d.home / "door").symlink_to(outside)
    (d.home / "leak.txt").symlink_to(outside / "secret.txt")
    os.mkfifo(d.home / "pipe.txt")
    d.click("button", "new")
    d.type("x\n")
    for name in ("door", "leak.txt", "pipe.txt"):
        d.double("row", name)
        assert d.state["overlay"]["title"] == "error"
        d.key("enter")
    d.choose("row", "door", "delete")
    d.key("enter")
    assert (outside / "secret.txt").read_text() == "secret" and not (d.home / "door").is_symlink()
