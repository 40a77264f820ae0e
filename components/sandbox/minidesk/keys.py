"""A chord as a desktop understands it: one key, modifiers, and the text it types, if any."""

from __future__ import annotations

from typing import NamedTuple

_ALIASES = {
    "return": "enter", "kp_enter": "enter", "escape": "esc", "del": "delete", "page_up": "pageup",
    "page_down": "pagedown", "arrowup": "up", "arrowdown": "down", "arrowleft": "left", "arrowright": "right",
    "control": "ctrl", "option": "alt", "cmd": "super", "meta": "super", "win": "super",
}  # fmt: skip
_MODIFIERS = ("ctrl", "alt", "shift", "super")


class Chord(NamedTuple):
    key: str = ""
    ctrl: bool = False
    alt: bool = False
    shift: bool = False
    text: str = ""
    """What the chord types; empty for a command."""


def chord(keys: tuple[str, ...]) -> Chord:
    """Reads the keys of one `key` action. Unknown keys are the parser's to refuse; here they do nothing."""
    names = [_ALIASES.get(k.lower(), k if len(k) == 1 else k.lower()) for k in keys]
    held = {n for n in names if n in _MODIFIERS}
    rest = [n for n in names if n not in _MODIFIERS]
    key = rest[-1] if rest else ""
    text = ""
    if not held - {"shift"}:
        text = " " if key == "space" else key if len(key) == 1 and key.isprintable() else ""
        text = text.upper() if "shift" in held else text
    alt = "alt" in held or "super" in held
    return Chord(key if text else key.lower(), "ctrl" in held, alt, "shift" in held, text)
