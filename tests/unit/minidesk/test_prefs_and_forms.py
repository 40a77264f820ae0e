"""Prefs and Forms: private state files that only their windows change."""

from __future__ import annotations

from typing import Any

import pytest

Start = Any
PREFS = {
    "desk": {"open": ["prefs"]},
    "prefs": {
        "values": {"wifi": True, "alarm": False, "dark": False, "volume": 40, "theme": "x"},
        "options": {"theme": ["x", "y", "z"]},
    },
}
FORM = {
    "desk": {"open": ["forms"]},
    "forms": {
        "name": "Order",
        "fields": [
            {"label": "name", "kind": "text", "required": True},
            {"label": "city", "kind": "text", "required": False},
            {"label": "size", "kind": "choice", "options": ["small", "large"], "value": ""},
            {"label": "gift", "kind": "check", "value": False},
            {"label": "note", "kind": "text", "value": "-"},
        ],
        "records": [],
    },
}


def test_a_check_box_is_saved_at_once(start: Start) -> None:
    d = start(state=PREFS)
    assert [(e.label, e.state) for e in d.elements("checkbox")] == [("wifi", "on"), ("alarm", "off"), ("dark", "off")]
    d.click("checkbox", "alarm")
    assert d.private("prefs")["values"] == {"wifi": True, "alarm": True, "dark": False, "volume": 40, "theme": "x"}
    assert list(d.private("prefs")["values"]) == list(PREFS["prefs"]["values"])
    assert d.private("prefs")["options"] == PREFS["prefs"]["options"]


@pytest.mark.parametrize("value", [0, 5, 35, 50, 95, 100])
def test_every_step_of_the_slider_is_reached_by_drag_and_by_click(start: Start, value: int) -> None:
    d = start(state=PREFS)
    x0, y0, x1, y1 = d.find("slider", "volume").box
    target = (x0 + 6 + (x1 - x0 - 12) * value // 100, (y0 + y1) // 2)
    d.act("mouse_move", coordinate=d.find("handle", "volume").center)
    d.act("left_click_drag", coordinate=target)
    assert d.private("prefs")["values"]["volume"] == value
    d.act("left_click", coordinate=(x0 + (x1 - x0) // 4, (y0 + y1) // 2))
    assert d.find("handle", "volume").state == "25"
    d.act("left_click", coordinate=target)
    assert d.find("slider", "volume").state == str(value)


def test_a_drop_down_offers_its_options(start: Start) -> None:
    d = start(state=PREFS)
    assert d.find("menu", "theme").state == "x"
    d.click("menu", "theme")
    assert d.labels("item") == ["x", "y", "z"] and d.find("item", "x").state == "selected"
    d.click("item", "z")
    assert d.find("menu", "theme").state == "z" and d.private("prefs")["values"]["theme"] == "z"


def test_the_arrow_of_a_drop_down_opens_it_whatever_its_option(start: Start) -> None:
    d = start(state=PREFS)
    x0, y0, x1, y1 = d.find("menu", "theme").box
    d.act("left_click", coordinate=(x1 - 6, (y0 + y1) // 2))
    assert d.state["overlay"]["title"] == "theme"


def test_a_menu_is_closed_by_esc_or_a_click_outside_and_used_by_keys(start: Start) -> None:
    d = start(state=PREFS)
    for close in (lambda: d.key("esc"), lambda: d.act("left_click", coordinate=(280, 2))):
        d.click("menu", "theme")
        assert close().effect and d.state["overlay"] is None and d.find("menu", "theme").state == "x"
    d.click("menu", "theme")
    d.key("down")
    d.key("enter")
    assert d.find("menu", "theme").state == "y"


def test_choosing_a_theme_by_name_repaints_the_desktop(start: Start) -> None:
    prefs = {"values": {"theme": ""}, "options": {"theme": ["night", "sand"]}}
    d = start(state={"desk": {"open": ["prefs"]}, "prefs": prefs})
    d.click("menu", "theme")
    d.click("item", "night")
    assert d.state["theme"] == "night"
    night = d.screen()
    d.click("menu", "theme")
    d.click("item", "sand")
    assert d.state["theme"] == "sand" and d.screen() != night


def test_prefs_without_a_state_file_show_defaults(start: Start) -> None:
    d = start()
    d.open("prefs")
    assert d.find("checkbox", "wifi").state == "on"
    d.click("checkbox", "wifi")
    assert d.private("prefs")["values"]["wifi"] is False


def test_a_form_is_filled_and_sent(start: Start) -> None:
    d = start(state=FORM)
    assert d.find("title", "order")
    d.click("field", "name")
    d.type("Anna Smith")
    d.key("tab")
    d.type("Zürich")
    d.click("menu", "size")
    d.click("item", "large")
    d.click("checkbox", "gift")
    d.click("button", "send")
    assert d.state["overlay"]["title"] == "sent"
    d.click("button", "ok")
    record = {"name": "Anna Smith", "city": "Zürich", "size": "large", "gift": True, "note": "-"}
    assert d.private("forms")["records"] == [record]
    assert d.find("field", "name").state == "" and d.find("checkbox", "gift").state == "off"
    assert d.private("forms")["fields"] == FORM["forms"]["fields"]


def test_a_required_field_is_named_when_it_is_empty(start: Start) -> None:
    d = start(state=FORM)
    d.click("button", "send")
    assert d.state["overlay"]["title"] == "error" and d.state["overlay"]["message"] == "name is empty"
    d.key("enter")
    assert d.private("forms")["records"] == []
    assert d.type("x").effect and d.find("field", "name").state == "x"


def test_reset_brings_the_first_values_back(start: Start) -> None:
    d = start(state=FORM)
    d.click("field", "name")
    d.type("x")
    d.click("checkbox", "gift")
    d.click("button", "reset")
    assert d.top["values"] == {"name": "", "city": "", "size": "", "gift": False, "note": "-"}


def test_a_long_form_scrolls_and_tab_goes_round(start: Start) -> None:
    d = start(state=FORM)
    assert "note" not in d.labels("field")
    for _ in range(5):
        d.key("tab")
    d.type("!")
    assert d.find("field", "note").state == "-!"
    d.key("tab")
    assert d.top["focus"] == "name" and "name" in d.labels("field")
    d.act("scroll", coordinate=d.find("field", "name").center, pixels=-100)
    assert "name" not in d.labels("field") and "note" in d.labels("field")


def test_keys_work_on_a_focused_check_box_and_drop_down(start: Start) -> None:
    d = start(state=FORM)
    d.type("\t\t\t")
    d.key("enter")
    d.key("down")
    d.key("enter")
    d.key("tab")
    d.key("space")
    assert d.top["values"]["size"] == "small" and d.top["values"]["gift"] is True


def test_backspace_and_paste_edit_a_field(start: Start) -> None:
    d = start(state={**FORM, "clipboard": {"text": "two\nlines"}})
    d.click("field", "name")
    d.type("abc")
    d.key("backspace")
    d.key("ctrl", "v")
    assert d.find("field", "name").state == "abtwo lines"


def test_forms_without_a_definition_are_empty(start: Start) -> None:
    d = start()
    d.open("forms")
    assert d.find("title", "forms") and d.elements("button") == []


@pytest.mark.parametrize(
    "bad",
    [[], "x", {"values": []}, {"values": {"a": None, "b": [1], "c": {}}}, {"fields": 3}, {"fields": [1, {"label": 2}]}],
)
def test_malformed_state_files_never_break_a_window(start: Start, bad: Any) -> None:
    d = start(state={"prefs": bad, "forms": bad, "clipboard": bad, "desk": bad})
    for app in ("prefs", "forms", "notes"):
        d.open(app)
        d.key("ctrl", "v")
        d.desk.observe()
        assert d.state["active"] == app
