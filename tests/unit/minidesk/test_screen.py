"""What is drawn and what is listed: windows over each other, overlays, looks, and the widgets' pixels."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.sandbox.minidesk.draw import APPS, HEIGHT, THEMES, WIDTH, Canvas
from components.sandbox.minidesk.font import text_mask
from components.sandbox.minidesk.gallery import SCENES, contact_sheet, main, scenes
from components.sandbox.minidesk.looks import looks
from components.sandbox.minidesk.screen import seen

Start = Any

WIDGETS = "f4dfa3caa9a44a075972e512 69f6d0e1c4586897e6d52967 9982beca38ea7929a2c50b20 " \
          "dcc6324b4ff3afe8e2189a10 737f6f30680b5343db97b56e df548b62cbc9c18055ea4809"  # fmt: skip


def _all_widgets(c: Canvas) -> None:
    for i, (app, active) in enumerate(zip(APPS, (0, 1, 0, 0, 0), strict=True)):
        c.icon(0, 32 * i, app, active=bool(active))
    c.rect((56, 16, 264, 224), c.theme.panel)
    c.title_bar((56, 16, 264, 32), "files", active=True)
    c.button(64, 32, "save")
    c.button(112, 32, "open", hot=True)
    c.button(168, 32, "lang", kind="menu")
    c.row(64, 64, "a.txt", 96)
    c.row(64, 96, "music", 96, selected=True, folder=True)
    c.row(64, 128, "x", 96, folder=True)
    c.row(64, 160, "abcdefghijklmnop.csv", 96, selected=True)
    c.checkbox(168, 64, "wifi", True)
    c.checkbox(168, 96, "sync", False)
    c.slider(168, 128, "volume", 35, 80)
    c.item(168, 160, "copy", 72)
    c.item(168, 180, "move", 72, selected=True)
    c.field(64, 192, "name", "anna smith", 96, focus=True)
    c.cell(0, 160, "a1", "12")
    c.cell(0, 192, "a2", "hello you", selected=True)
    c.field(208, 200, "n", "é longer value", 64, bare=True)
    c.title_bar((200, 0, 288, 16), "idle", active=False)
    c.pointer((120, 100))
    c.pointer((285, 220))
    c.text(280, 208, "zz", (1, 2, 3), (4, 5, 6))


@pytest.mark.parametrize(("theme", "digest"), list(zip(THEMES, WIDGETS.split(), strict=True)), ids=lambda v: str(v)[:8])
def test_widget_pixels_are_those_the_base_model_was_trained_on(theme: Any, digest: str) -> None:
    canvas = Canvas(theme)
    _all_widgets(canvas)
    assert hashlib.sha256(canvas.pixels.tobytes()).hexdigest()[:24] == digest


def test_drawing_outside_is_clipped() -> None:
    canvas = Canvas(THEMES[0])
    before = canvas.pixels.copy()
    canvas.button(-400, -400, "x")
    canvas.cell(WIDTH, HEIGHT, "a1", "x")
    canvas.row(0, 5000, "x", 90)
    canvas.pointer((WIDTH + 5, 0))
    assert (canvas.pixels == before).all()
    canvas.button(-8, -4, "xx")
    assert not (canvas.pixels == before).all()


def test_text_that_has_no_glyph_is_drawn_as_question_marks() -> None:
    assert (text_mask("é\0中") == text_mask("???")).all()


def test_looks_are_a_function_of_the_seed() -> None:
    assert looks(7) == looks(7)
    many = [looks(s) for s in range(400)]
    assert {n.theme.name for n in many} == {t.name for t in THEMES}
    assert {n.window[0] for n in many} == {48, 56, 64, 72, 80} and {n.window[1] for n in many} == {0, 16}
    assert all(sorted(n.dock) == sorted(APPS) for n in many)
    assert 0.3 < sum(bool(n.opened) for n in many) / 400 < 0.5


def test_a_demanded_app_replaces_the_one_of_the_looks(start: Start) -> None:
    seed = next(s for s in range(1000) if looks(s).opened == "forms")
    assert start(seed=seed).state["active"] == "forms"
    assert start(state={"desk": {"open": ["prefs"]}}, seed=seed).state["active"] == "prefs"


def test_an_upper_window_covers_the_elements_of_a_lower_one(start: Start) -> None:
    d = start(state={"desk": {"open": ["prefs"]}})
    d.open("notes")
    x, y = d.find("title", "notes").center
    d.drag("title", "notes", (x, y + 48))
    assert d.find("checkbox", "wifi")
    titles = {e.label: e for e in d.elements("title")}
    assert titles["prefs"].state == "" and titles["notes"].state == "active"
    assert "sync" not in d.labels("checkbox")
    d.click("title", "prefs")
    assert d.state["active"] == "prefs" and "sync" in d.labels("checkbox") and "text" not in d.labels("field")


def test_a_window_over_the_dock_hides_its_icons(start: Start) -> None:
    d = start(state={"desk": {"open": ["notes"]}})
    assert len(d.elements("icon")) == 5
    x, y = d.find("title", "notes").center
    d.drag("title", "notes", (x - 80, y - 16))
    assert d.top["x"] == 0 and d.labels("icon") == []


def test_a_window_partly_off_the_screen_has_clipped_boxes(start: Start) -> None:
    d = start(state={"desk": {"open": ["notes"]}})
    d.drag("title", "notes", (287, 223))
    d.drag("title", "notes", (287, 223))
    for e in d.elements():
        x0, y0, x1, y1 = e.box
        assert 0 <= x0 < x1 <= WIDTH and 0 <= y0 < y1 <= HEIGHT
    assert d.find("title", "notes")


def test_only_the_overlay_can_be_clicked_while_one_is_shown(start: Start) -> None:
    d = start({"a.txt": ""}, {"desk": {"open": ["files"]}})
    d.right("row", "a.txt")
    assert {e.kind for e in d.elements()} == {"item"}
    d.click("item", "delete")
    assert [(e.kind, e.label) for e in d.elements()] == [
        ("title", "delete"), ("text", "delete a.txt?"), ("button", "yes"), ("button", "no"),
    ]  # fmt: skip
    assert not d.act("left_click", coordinate=(287, 223)).effect
    assert d.state["overlay"]["title"] == "delete"


def test_the_close_box_closes_and_the_next_window_takes_over(start: Start) -> None:
    d = start(state={"desk": {"open": ["prefs"]}})
    d.open("notes")
    d.click("close", "notes")
    assert d.state["active"] == "prefs" and d.find("title", "prefs").state == "active"
    d.key("ctrl", "w")
    assert d.state["windows"] == []


def test_labels_are_lower_case_and_long_names_are_cut(start: Start) -> None:
    d = start({"README.TXT": "", "a" * 40 + ".txt": ""}, {"desk": {"open": ["files"]}})
    assert d.labels("row") == ["a" * 21 + "~", "readme.txt"]


def test_every_listed_element_is_what_a_click_on_its_middle_hits(start: Start) -> None:
    d = start({f"f{i}.txt": "" for i in range(4)}, {"desk": {"open": ["files"]}})
    d.open("prefs")
    d.drag("title", "prefs", (d.find("title", "prefs").center[0] + 100, 120))
    for element in d.elements():
        at = element.center
        inside = [e for e in d.elements() if e.box[0] <= at[0] < e.box[2] and e.box[1] <= at[1] < e.box[3]]
        assert inside[-1] == element or (element.kind, inside[-1].kind) == ("slider", "handle")


def test_seen_agrees_with_painting() -> None:
    rng = random.Random(5)
    for _ in range(300):
        boxes = []
        for _ in range(4):
            x0, y0 = rng.randrange(0, 280), rng.randrange(0, 220)
            boxes.append((x0, y0, x0 + rng.randrange(8, 120), y0 + rng.randrange(8, 120)))
        target, covers = boxes[0], boxes[1:]
        owner = np.zeros((HEIGHT, WIDTH), dtype=int)
        for number, (x0, y0, x1, y1) in enumerate([target, *covers], 1):
            owner[y0:y1, x0:x1] = number
        box = seen(target, covers)
        if box is None:
            continue
        x0, y0, x1, y1 = box
        assert x0 < x1 and y0 < y1 and (owner[y0:y1, x0:x1] == 1).all()


def test_the_gallery_draws_six_different_scenes(tmp_path: Path) -> None:
    screens = scenes(tmp_path / "root")
    assert len(screens) == len(SCENES) == len({s.tobytes() for s in screens}) == 6
    assert contact_sheet(screens).shape == (2 * (448 + 8) + 8, 3 * (576 + 8) + 8, 3)
    assert main([str(tmp_path / "g.png")]) == 0 and (tmp_path / "g.png").stat().st_size > 5000
    assert main([]) == 2


def test_setup_opens_several_windows_the_last_on_top(start: Start) -> None:
    d = start({"a.txt": "x"}, {"desk": {"open": ["prefs", "notes:a.txt", "nonsense", 3]}})
    assert [w["app"] for w in d.state["windows"]] == ["prefs", "notes"] and d.top["text"] == "x"
    seed = next(s for s in range(1000) if looks(s).opened)
    assert start(state={"desk": {"open": []}}, seed=seed).state["windows"] == []
