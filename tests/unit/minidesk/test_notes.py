"""Notes: real text files, byte for byte."""

from __future__ import annotations

from typing import Any

import pytest

Start = Any
OPEN = {"desk": {"open": ["notes:a.txt"]}}


@pytest.mark.parametrize("text", ["é 中文 🙂", "tab\there", "a\r\nb", "\ud800 lone", "nul \0 byte", "=1+1", "   "])
def test_typed_text_is_kept_byte_for_byte(start: Start, text: str) -> None:
    d = start({"a.txt": ""}, OPEN)
    d.type(text)
    d.key("ctrl", "s")
    assert (d.home / "a.txt").read_bytes() == text.encode("utf-8", "surrogatepass") + b"\n"


def test_bytes_that_are_not_utf8_survive(start: Start) -> None:
    d = start({"a.txt": b"caf\xe9 \xff\n"}, OPEN)
    d.type("!")
    d.click("button", "save")
    assert (d.home / "a.txt").read_bytes() == b"caf\xe9 \xff!\n"


@pytest.mark.parametrize(
    ("before", "typed", "after"), [("a\n", "b", "ab\n"), ("a", "\nb", "a\nb\n"), ("", "x\n\n", "x\n"), ("", "", "")]
)
def test_a_saved_text_ends_with_one_newline_unless_empty(start: Start, before: str, typed: str, after: str) -> None:
    d = start({"a.txt": before}, OPEN)
    d.type(typed)
    d.key("ctrl", "s")
    assert (d.home / "a.txt").read_text() == after


def test_the_title_shows_what_is_not_saved(start: Start) -> None:
    d = start({"a.txt": "x"}, OPEN)
    d.key("backspace")
    assert d.find("title", "a.txt*") and (d.home / "a.txt").read_text() == "x"
    d.click("button", "save")
    assert d.find("title", "a.txt") and (d.home / "a.txt").read_text() == ""


def test_select_all_then_type_replaces(start: Start) -> None:
    d = start({"a.txt": "old text"}, OPEN)
    before = d.screen()
    d.key("ctrl", "a")
    assert d.screen() != before
    d.type("new")
    assert d.top["text"] == "new"


def test_copy_and_paste_within_notes(start: Start) -> None:
    d = start({"a.txt": "one\ntwo\n"}, OPEN)
    d.click("button", "copy")
    assert d.state["clipboard"] == {"kind": "text", "text": "one\ntwo", "path": ""}
    d.click("button", "clear")
    assert d.top["text"] == ""
    d.key("ctrl", "v")
    d.choose("field", "text", "paste")
    assert d.top["text"] == "one\ntwoone\ntwo" and d.find("field", "text").state == d.top["text"]


def test_a_new_document_asks_for_its_name(start: Start) -> None:
    d = start({"a.txt": "x"}, OPEN)
    d.click("button", "new")
    d.type("hello")
    d.key("ctrl", "s")
    d.type("memo\n")
    assert (d.home / "memo.txt").read_text() == "hello\n" and d.find("title", "memo.txt")


def test_saving_over_another_file_asks(start: Start) -> None:
    d = start({"a.txt": "x"}, {"desk": {"open": ["notes"]}})
    d.type("y")
    d.key("ctrl", "s")
    d.type("a.txt\n")
    d.click("button", "no")
    assert (d.home / "a.txt").read_text() == "x"
    d.key("ctrl", "s")
    d.type("a.txt\n")
    d.click("button", "yes")
    assert (d.home / "a.txt").read_text() == "y\n"


def test_typing_needs_the_focus(start: Start) -> None:
    d = start({"a.txt": ""}, OPEN)
    x0, y0, _, _ = d.find("title", "a.txt").box
    d.act("left_click", coordinate=(x0 + 200, y0 + 40))
    assert not d.type("lost").effect
    d.click("field", "text")
    assert d.type("kept").effect and d.top["text"] == "kept"


def test_a_long_text_shows_its_end_and_scrolls(start: Start) -> None:
    d = start({"a.txt": "\n".join(f"line {i}" for i in range(12))}, OPEN)
    end = d.screen()
    area = d.find("field", "text").center
    assert d.act("scroll", coordinate=area, pixels=300).effect and d.screen() != end
    d.act("scroll", coordinate=area, pixels=-300)
    d.act("mouse_move", coordinate=(0, 0))
    assert d.act("scroll", coordinate=area, pixels=9999).effect
    assert not d.act("scroll", coordinate=area, pixels=100).effect


def test_a_save_that_the_system_refuses_keeps_the_work(start: Start) -> None:
    d = start({"a.txt": "x"}, OPEN)
    (d.home / "a.txt").unlink()
    (d.home / "a.txt").mkdir()
    d.type("y")
    d.key("ctrl", "s")
    assert d.state["overlay"]["title"] == "error"
    d.key("esc")
    assert d.top["text"] == "xy" and d.top["modified"]
