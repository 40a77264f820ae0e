"""Each of the 11 actions, by what it does in real applications."""

from __future__ import annotations

import io
import string

import numpy as np
import pytest
from PIL import Image

from components.contracts.errors import CallError, SandboxError

from .conftest import Person, line_of, wait_for

LINES = "".join(f"word{number} tail\n" for number in range(400))


def test_type_is_saved_byte_for_byte(person: Person) -> None:
    text = f"{string.printable[:94]}\tx\né ñ ü ß 你好 Привет € → 😀\nend"
    person.edit("typed.txt")
    assert person.act("type", text=text).effect
    assert person.saved("typed.txt") == text


def test_type_takes_more_different_characters_than_there_are_spare_keys(person: Person) -> None:
    text = "".join(chr(code) for code in range(0x4E00, 0x4E00 + 300)) + "plain" + "".join(map(chr, range(0x410, 0x450)))
    person.edit("many.txt")
    person.act("type", text=text)
    assert person.saved("many.txt") == text


def test_type_refuses_what_no_key_gives_and_presses_nothing(person: Person) -> None:
    person.edit("none.txt")
    with pytest.raises(CallError):
        person.act("type", text="abc\x07")
    person.act("type", text="z")
    assert person.saved("none.txt") == "z"


def test_key_presses_chords(person: Person) -> None:
    person.edit("chord.txt", "first")
    person.key("ctrl", "a")
    person.key("ctrl", "c")
    person.key("end")
    person.key("shift", "1")
    person.key("?")
    person.key("enter")
    person.key("ctrl", "v")
    assert person.saved("chord.txt") == "first!?\nfirst"
    person.key("alt", "f4")
    assert person.guest.windows() == []


def test_mouse_move_puts_the_pointer_where_another_program_finds_it(person: Person) -> None:
    person.act("mouse_move", coordinate=(321, 234))
    where = person.bash(
        "/usr/bin/python3 -c 'from Xlib.display import Display; "
        "at = Display().screen().root.query_pointer(); print(at.root_x, at.root_y)'"
    )
    assert where.output == "321 234\n"
    assert person.desktop.observe().pointer == (321, 234)


def test_the_pointer_is_seen_on_the_screen(person: Person) -> None:
    person.act("mouse_move", coordinate=(200, 200))
    before = person.desktop.observe().screen
    person.act("mouse_move", coordinate=(600, 300))
    changed = np.argwhere((person.desktop.observe().screen != before).any(axis=2))
    near = [[max(abs(x - at[0]), abs(y - at[1])) < 40 for y, x in changed] for at in ((200, 200), (600, 300))]
    assert any(near[0]) and any(near[1]) and all(map(max, *near))


def test_left_click_puts_the_caret(person: Person) -> None:
    window = person.edit("caret.txt", "abcdef\nsecond\n")
    person.act("left_click", coordinate=line_of(window, 1, x=2))
    person.act("type", text="X")
    assert person.saved("caret.txt") == "abcdef\nXsecond\n"


def test_two_left_clicks_at_one_place_stay_two_clicks(person: Person) -> None:
    window = person.edit("twice.txt", "alpha beta\n")
    at = line_of(window, 0)
    person.guest.act(*[_click(at), _click(at)])
    person.act("type", text="X")
    assert "alpha" not in person.saved("twice.txt").split() and "beta" in person.saved("twice.txt")
    assert len(person.saved("twice.txt")) == len("alpha beta\n") + 1  # nothing was selected and typed over


def test_double_click_selects_a_word(person: Person) -> None:
    window = person.edit("word.txt", "alpha beta\n")
    for _ in range(5):
        person.act("double_click", coordinate=line_of(window, 0))
        assert person.selected() == "alpha"
        person.act("left_click", coordinate=line_of(window, 3))


def test_drag_selects_text(person: Person) -> None:
    window = person.edit("drag.txt", "alpha beta\ngamma\n")
    person.act("left_click_drag", start=line_of(window, 0, x=2), coordinate=line_of(window, 1, x=300))
    assert person.selected() == "alpha beta\ngamma"


def test_drag_without_a_start_begins_at_the_pointer_and_moves_a_window(person: Person) -> None:
    window = person.edit("move.txt")
    title = (window.center[0], window.box[1] - 10)
    person.act("mouse_move", coordinate=title)
    person.act("left_click_drag", coordinate=(title[0] - 60, title[1] - 40))
    (moved,) = person.guest.windows()
    assert (moved.box[0], moved.box[1]) == (window.box[0] - 60, window.box[1] - 40)


def test_middle_click_pastes_and_right_click_extends_a_selection(person: Person) -> None:
    window = person.guest.open(["xterm", "-e", "printf 'one two three\\n'; cat > pasted.txt"], "xterm")
    assert window is not None
    row = window.box[1] + 10
    person.act("left_click_drag", start=(window.box[0] + 3, row), coordinate=(window.box[0] + 3 + 3 * 8, row))
    short = person.selected()
    person.act("right_click", coordinate=(window.box[0] + 3 + 9 * 8, row))
    longer = person.selected()
    assert short and longer.startswith(short) and len(longer) > len(short)
    person.act("middle_click", coordinate=(window.box[0] + 100, row + 100))
    person.key("enter")
    assert person.guest.get("pasted.txt").decode() == longer + "\n"


def test_right_click_opens_a_menu(person: Person) -> None:
    before = person.desktop.observe().screen
    assert person.act("right_click", coordinate=(640, 300)).effect
    menu = (person.desktop.observe().screen != before).any(axis=2)
    assert menu[300:400, 640:700].mean() > 0.9
    person.key("esc")
    assert (person.desktop.observe().screen == before).mean() > 0.999


@pytest.mark.parametrize("pixels", [-500, 500])
def test_scroll_changes_what_is_in_view(person: Person, pixels: int) -> None:
    window = person.edit("long.txt", LINES)
    if pixels > 0:
        person.key("ctrl", "end")
    person.act("double_click", coordinate=line_of(window, 3))
    first = int(person.selected().removeprefix("word"))
    person.act("scroll", coordinate=window.center, pixels=pixels)
    person.act("double_click", coordinate=line_of(window, 3))
    then = int(person.selected().removeprefix("word"))
    assert then > first if pixels < 0 else then < first


def test_wait_ends_when_something_has_happened(person: Person) -> None:
    person.guest.launch(["/bin/sh", "-c", "sleep 1; exec xterm"])
    assert person.act("wait", time=30.0).effect
    assert [window.app for window in person.guest.windows()] == ["XTerm"]


def test_terminate_ends_the_episode(person: Person) -> None:
    person.act("terminate", status="success")
    with pytest.raises(SandboxError):
        person.act("mouse_move", coordinate=(1, 1))


def test_the_file_manager_opens_a_file_by_double_click(person: Person) -> None:
    person.guest.put("docs/letter.txt", b"dear reader\n")
    window = person.guest.open(["pcmanfm", "docs"], "docs")
    assert window is not None
    x0, y0, x1, y1 = window.box

    def icon() -> tuple[np.ndarray, np.ndarray]:
        """Where the only thing in the white pane is: the file's icon."""
        with Image.open(io.BytesIO(person.guest.shot(pointer=False).png)) as image:
            pane = np.asarray(image.convert("RGB"))[y0 + 85 : y1 - 40, x0 + 165 : x1 - 10]
        rows, columns = np.nonzero((pane != 255).any(axis=2))
        return rows, columns

    assert wait_for(lambda: icon()[0].size > 500, 60)
    rows, columns = icon()
    at = x0 + 165 + int(np.median(columns)), y0 + 85 + int(np.median(rows))
    person.act("double_click", coordinate=at)
    assert person.guest.await_window("letter.txt", limit=120) is not None


def _click(at: tuple[int, int]):  # type: ignore[no-untyped-def]
    from components.contracts.calls import ComputerUse

    return ComputerUse(action="left_click", coordinate=at)
