"""Each of the 11 actions has an effect, and the interface's own rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from components.contracts.calls import AccessibilityCall, BashCall, ComputerUse
from components.contracts.errors import CallError, SandboxError
from tests.unit.minidesk.conftest import make_task

Start = Any


def test_key_saves_a_document(start: Start) -> None:
    d = start({"a.txt": "one\n"}, {"desk": {"open": ["notes:a.txt"]}})
    d.type(" two")
    assert d.key("ctrl", "s").effect
    assert (d.home / "a.txt").read_bytes() == b"one two\n"


def test_type_writes_into_the_focused_document(start: Start) -> None:
    d = start(state={"desk": {"open": ["notes"]}})
    assert d.type("hello").effect
    assert d.top["text"] == "hello"


def test_mouse_move_moves_the_pointer_and_highlights_a_menu_item(start: Start) -> None:
    d = start({"a.txt": ""}, {"desk": {"open": ["files"]}})
    assert d.desk.observe().pointer is None
    assert d.act("mouse_move", coordinate=(100, 200)).effect
    assert d.desk.observe().pointer == (100, 200)
    d.right("row", "a.txt")
    d.act("mouse_move", coordinate=d.find("item", "copy").center)
    assert [e.label for e in d.elements("item") if e.state == "selected"] == ["copy"]


def test_left_click_selects(start: Start) -> None:
    d = start({"a.txt": ""}, {"desk": {"open": ["files"]}})
    assert d.click("row", "a.txt").effect
    assert d.find("row", "a.txt").state == "selected"
    assert not d.click("row", "a.txt").effect


def test_left_click_drag_moves_a_window_by_its_title(start: Start) -> None:
    d = start(state={"desk": {"open": ["prefs"]}})
    before = d.top["x"], d.top["y"]
    x, y = d.find("title", "prefs").center
    assert d.drag("title", "prefs", (x + 24, y + 32)).effect
    assert (d.top["x"], d.top["y"]) == (before[0] + 24, before[1] + 32)


def test_a_drag_without_start_begins_at_the_pointer(start: Start) -> None:
    d = start({"a.txt": "x", "box/": ""}, {"desk": {"open": ["files"]}})
    assert not d.act("left_click_drag", coordinate=d.find("row", "box").center).effect
    d.act("mouse_move", coordinate=d.find("row", "a.txt").center)
    d.act("left_click_drag", coordinate=d.find("row", "box").center)
    assert (d.home / "box" / "a.txt").read_text() == "x"


def test_right_click_opens_a_context_menu(start: Start) -> None:
    d = start({"a.txt": ""}, {"desk": {"open": ["files"]}})
    assert d.right("row", "a.txt").effect
    assert d.labels("item") == ["open", "rename", "copy", "delete"]


def test_middle_click_pastes_the_clipboard(start: Start) -> None:
    d = start(state={"desk": {"open": ["notes"]}, "clipboard": {"text": "from elsewhere"}})
    assert d.act("middle_click", coordinate=d.find("field", "text").center).effect
    assert d.top["text"] == "from elsewhere"


def test_middle_click_on_a_title_sends_the_window_to_the_back(start: Start) -> None:
    d = start(state={"desk": {"open": ["prefs"]}})
    d.open("notes")
    d.act("middle_click", coordinate=d.find("title", "notes").center)
    assert [w["app"] for w in d.state["windows"]] == ["notes", "prefs"]


def test_double_click_opens_an_application_and_raises_it_again(start: Start) -> None:
    d = start()
    d.open("prefs")
    d.open("forms")
    assert d.state["active"] == "forms"
    d.open("prefs")
    assert [w["app"] for w in d.state["windows"]] == ["forms", "prefs"]


def test_double_click_without_a_meaning_is_two_clicks(start: Start) -> None:
    d = start(state={"desk": {"open": ["prefs"]}})
    before = d.find("checkbox", "wifi").state
    d.double("checkbox", "wifi")
    assert d.find("checkbox", "wifi").state == before


@pytest.mark.parametrize(("pixels", "first"), [(-100, 1), (-300, 3), (-40, 1), (-100000, 3)])
def test_scroll_moves_one_row_per_100_pixels(start: Start, pixels: int, first: int) -> None:
    d = start({f"f{i}.txt": "" for i in range(8)}, {"desk": {"open": ["files"]}})
    assert d.labels("row")[0] == "f0.txt" and len(d.labels("row")) == 5
    assert d.act("scroll", coordinate=d.find("row", "f0.txt").center, pixels=pixels).effect
    assert d.labels("row")[0] == f"f{first}.txt"
    d.act("scroll", pixels=100000)
    assert d.labels("row")[0] == "f0.txt"


def test_wait_ends_a_toast(start: Start) -> None:
    d = start({"a.txt": "x"}, {"desk": {"open": ["notes:a.txt"]}})
    before = d.screen()
    d.key("ctrl", "s")
    assert d.state["toast"] == "saved" and d.screen() != before
    assert d.act("wait", time=1.0).effect
    assert d.screen() == before
    assert not d.act("wait", time=1.0).effect


def test_a_toast_goes_away_by_itself(start: Start) -> None:
    d = start({"a.txt": "x"}, {"desk": {"open": ["notes:a.txt"]}})
    d.key("ctrl", "s")
    for _ in range(3):
        d.act("mouse_move", coordinate=(0, 0))
    assert d.state["toast"] == ""


def test_terminate_ends_the_episode(start: Start) -> None:
    d = start()
    assert d.act("terminate", status="success").effect
    assert d.state["done"]
    assert d.desk.observe().screen.any()
    with pytest.raises(SandboxError):
        d.act("wait")
    assert d.desk.grade().success is False


def test_nothing_works_before_reset_or_after_close(start: Start) -> None:
    d = start()
    d.desk.close()
    d.desk.close()
    for use in (d.desk.observe, d.desk.grade, d.desk.state, lambda: d.act("wait")):
        with pytest.raises(SandboxError):
            use()
    assert d.desk.reset(make_task(1)).screen.shape == (224, 288, 3)


def test_grade_sees_the_files(start: Start) -> None:
    d = start(state={"desk": {"open": ["notes"]}})
    assert not d.desk.grade().success
    d.type("x")
    d.key("ctrl", "s")
    d.type("done\n")
    assert d.desk.grade().success


def test_a_tool_that_the_harness_does_not_offer_is_a_call_error(start: Start) -> None:
    d = start(tools=frozenset({"computer_use"}))
    for call in (BashCall(command="ls"), AccessibilityCall(action="tree")):
        with pytest.raises(CallError):
            d.desk.act(call)


def test_the_screen_is_a_read_only_picture_of_the_stated_size(start: Start) -> None:
    d = start()
    seen = d.desk.observe()
    assert d.desk.size == (288, 224)
    assert seen.screen.shape == (224, 288, 3) and seen.screen.dtype == np.uint8
    before = seen.screen.copy()
    d.open("files")
    assert (seen.screen == before).all()
    with pytest.raises(ValueError):
        seen.screen[0, 0] = 0


def test_clicks_outside_the_screen_are_kept_on_it(start: Start) -> None:
    d = start()
    d.act("left_click", coordinate=(10**6, -5))
    assert d.desk.observe().pointer == (287, 0)


def test_the_accessibility_tree_lists_ids_that_can_be_clicked_once(start: Start) -> None:
    d = start(state={"desk": {"open": ["prefs"]}}, tools=frozenset({"computer_use", "accessibility"}))
    listing = d.desk.act(AccessibilityCall(action="tree")).output
    again = d.desk.act(AccessibilityCall(action="tree")).output
    assert listing != again
    number = next(int(line.split()[0]) for line in again.splitlines() if line.endswith("checkbox wifi"))
    assert d.find("checkbox", "wifi").state == "on"
    assert d.desk.act(AccessibilityCall(action="click", element=number)).effect
    assert d.find("checkbox", "wifi").state == "off"
    stale = d.desk.act(AccessibilityCall(action="click", element=number))
    assert not stale.effect and "tree" in stale.output


def test_a_computer_use_call_cannot_name_another_action() -> None:
    with pytest.raises(ValueError):
        ComputerUse(action="triple_click")  # type: ignore[arg-type]
