from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contracts.errors import CallError
from components.contracts.keys import ALIASES, KEYS, parse_keys


@pytest.mark.parametrize(
    ("value", "chord"),
    [
        (["Return"], ("enter",)),
        (["Page_Down"], ("pagedown",)),
        (["page down"], ("pagedown",)),
        (["PageUp"], ("pageup",)),
        (["Prior"], ("pageup",)),
        (["arrowleft"], ("left",)),
        (["Right_Arrow"], ("right",)),
        (["Escape"], ("esc",)),
        (["DEL"], ("delete",)),
        (["cmd", "c"], ("super", "c")),
        (["Win", "d"], ("super", "d")),
        (["Control_L", "Alt_R", "Delete"], ("ctrl", "alt", "delete")),
        (["option", "F4"], ("alt", "f4")),
        (["KP_Enter"], ("enter",)),
        (["num7"], ("7",)),
        (["A"], ("shift", "a")),
        (["shift", "A"], ("shift", "a")),
        (["ctrl", "Z"], ("ctrl", "shift", "z")),
        (["ctrl", "+"], ("ctrl", "+")),
        (["+"], ("+",)),
        (["ctrl", "minus"], ("ctrl", "-")),
        (["-"], ("-",)),
        ([" "], ("space",)),
        (["\n"], ("enter",)),
        ("ctrl+shift+Page_Down", ("ctrl", "shift", "pagedown")),
        ("ctrl + c", ("ctrl", "c")),
        ("ctrl++", ("ctrl", "+")),
        ("+", ("+",)),
        ("a", ("a",)),
        (["ctrl+c"], ("ctrl", "c")),
        (("alt", "tab"), ("alt", "tab")),
    ],
)
def test_spellings_name_their_keys(value: Any, chord: tuple[str, ...]) -> None:
    assert parse_keys(value) == chord


@pytest.mark.parametrize(
    "value", [["NoSuchKey"], ["ctrl", "NoSuchKey"], ["f25"], ["é"], [""], ["ctrl c"], ["ctrl", "ß"]]
)
def test_an_unknown_name_is_an_error_and_never_a_shorter_chord(value: Any) -> None:
    with pytest.raises(CallError) as caught:
        parse_keys(value)
    assert caught.value.code == "unknown_key"


@pytest.mark.parametrize("value", [None, [], (), ""])
def test_no_key_is_a_missing_argument(value: Any) -> None:
    with pytest.raises(CallError) as caught:
        parse_keys(value)
    assert caught.value.code == "missing_argument"


@pytest.mark.parametrize(
    "value",
    [
        5,
        True,
        {"a": 1},
        [5],
        ["ctrl", None],
        [["ctrl", "c"]],
        "ctrl+",
        "+ctrl",
        "ctrl+++",
        "++",
        ["a", "a"],
        ["A", "shift"],
    ],
)
def test_what_is_not_one_chord_is_a_bad_argument(value: Any) -> None:
    with pytest.raises(CallError) as caught:
        parse_keys(value)
    assert caught.value.code == "bad_argument"


@given(st.lists(st.sampled_from(KEYS), min_size=1, max_size=5, unique=True))
def test_canonical_names_stand_for_themselves(chord: list[str]) -> None:
    assert parse_keys(chord) == tuple(chord)


@given(st.text(max_size=12))
def test_any_name_is_a_known_key_or_a_call_error(name: str) -> None:
    try:
        assert set(parse_keys([name])) <= set(KEYS)
    except CallError as error:
        assert error.code in ("unknown_key", "bad_argument")


def test_every_alias_leads_into_the_closed_list() -> None:
    assert set(ALIASES.values()) <= set(KEYS)
    assert len(set(KEYS)) == len(KEYS)
    assert set(string.printable.strip()) <= set(KEYS) | set(string.ascii_uppercase)
