"""The closed list of keys, with the spellings people and models use for them.

Everything is checked before anything is pressed: an unknown name is an error, never a shorter chord.
"""

from __future__ import annotations

import string
from typing import Any

from components.contracts.errors import CallError

MODIFIERS = ("ctrl", "alt", "shift", "super")

_NAMED = (
    "enter", "tab", "space", "backspace", "delete", "insert", "esc", "home", "end", "pageup", "pagedown",
    "left", "right", "up", "down", "capslock", "numlock", "scrolllock", "printscreen", "pause", "menu",
)  # fmt: skip
_PUNCTUATION = tuple(c for c in string.punctuation)

KEYS: tuple[str, ...] = (
    *MODIFIERS,
    *_NAMED,
    *(f"f{n}" for n in range(1, 25)),
    *string.ascii_lowercase,
    *string.digits,
    *_PUNCTUATION,
)
"""Canonical names. A character stands for the key that types it."""

_MODIFIER_WORDS = {
    "ctrl": "ctrl control",
    "alt": "alt option opt",
    "shift": "shift",
    "super": "super cmd command win windows meta",
}
_SIDES = ("{}", "{}l", "{}r", "l{}", "r{}", "{}left", "{}right", "left{}", "right{}")

_SPELLINGS = {
    "enter": "return kpenter numpadenter",
    "space": "spacebar",
    "backspace": "bksp",
    "delete": "del",
    "insert": "ins",
    "esc": "escape",
    "pageup": "pgup prior",
    "pagedown": "pgdn pgdown pagedn next",
    "left": "arrowleft leftarrow",
    "right": "arrowright rightarrow",
    "up": "arrowup uparrow",
    "down": "arrowdown downarrow",
    "capslock": "caps",
    "printscreen": "print prtsc prtscr printscrn",
    "pause": "break",
    "menu": "apps contextmenu",
    "+": "plus kpadd add",
    "-": "minus hyphen dash kpsubtract subtract",
    "*": "asterisk kpmultiply multiply",
    "/": "slash kpdivide divide",
    "=": "equal equals",
    ",": "comma",
    ".": "period dot kpdecimal decimal",
    ";": "semicolon",
    ":": "colon",
    "'": "apostrophe quote",
    '"': "quotedbl doublequote",
    "`": "grave backtick backquote",
    "\\": "backslash",
    "[": "bracketleft leftbracket",
    "]": "bracketright rightbracket",
    "(": "parenleft",
    ")": "parenright",
    "{": "braceleft",
    "}": "braceright",
    "_": "underscore",
    "?": "question",
    "!": "exclam",
    "@": "at",
    "#": "numbersign",
    "$": "dollar",
    "%": "percent",
    "^": "asciicircum",
    "&": "ampersand",
    "~": "asciitilde tilde",
    "|": "bar pipe",
    "<": "less",
    ">": "greater",
}

ALIASES: dict[str, str] = {
    **{name: name for name in KEYS},
    **{side.format(word): key for key, words in _MODIFIER_WORDS.items() for word in words.split() for side in _SIDES},
    **{alias: key for key, spellings in _SPELLINGS.items() for alias in spellings.split()},
    **{f"{prefix}{digit}": digit for prefix in ("kp", "num", "numpad", "digit") for digit in string.digits},
    **{f"key{letter}": letter for letter in string.ascii_lowercase},
}
"""Spelling (lower case, without `_`, `-` and spaces) -> canonical name. Cmd is super: never silently ctrl."""

_CONTROL_CHARACTERS = {" ": "space", "\n": "enter", "\r": "enter", "\t": "tab"}
_SEPARATORS = str.maketrans("", "", "_- ")


def canonical_key(name: str) -> tuple[str, ...]:
    """One key name -> the keys it needs: ("pagedown",), or ("shift", "a") for "A". Error: unknown_key."""
    if name in _CONTROL_CHARACTERS:
        return (_CONTROL_CHARACTERS[name],)
    name = name.strip()
    if len(name) == 1 and name in string.ascii_uppercase:
        return "shift", name.lower()
    key = ALIASES.get(name if len(name) == 1 else name.lower().translate(_SEPARATORS))
    if key is None:
        raise CallError("unknown_key", f"unknown key {name[:40]!r}", remedy="e.g. ctrl, enter, f5, a")
    return (key,)


def split_chord(text: str) -> list[str]:
    """`ctrl+shift+s` -> three names; a last `+` after a `+` is the plus key. Error: bad_argument for an empty part."""
    if len(text) <= 1:
        return [text]
    parts = text.split("+")
    if text.endswith("++") and not text.endswith("+++"):
        parts = [*parts[:-2], "+"]
    if len(parts) > 1 and any(not part.strip() for part in parts):
        raise CallError("bad_argument", f"{text[:40]!r} names an empty key", remedy="write the keys as a list")
    return parts


def parse_keys(value: Any) -> tuple[str, ...]:
    """A list of key names (or one `a+b` string) -> the chord in pressing order.

    Errors, all before a key goes down: missing_argument (none given), bad_argument (not names, a key twice),
    unknown_key.
    """
    if value is None or value == [] or value == "" or value == ():
        raise CallError("missing_argument", "no key was named", remedy='give keys, e.g. ["ctrl", "s"]')
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise CallError("bad_argument", "keys must be a list of key names", remedy='e.g. ["ctrl", "s"]')
    chord: list[str] = []
    for item in value:
        for name in split_chord(item):
            keys = canonical_key(name)
            # "A" in a chord that already holds shift is the letter.
            chord += keys[1:] if len(keys) == 2 and "shift" in chord else keys
    if len(set(chord)) != len(chord):
        raise CallError("bad_argument", f"a key is named twice in {'+'.join(chord)[:60]}", remedy="one chord a call")
    return tuple(chord)
