"""Which actions on the screen cannot be taken back: keys, typed commands, and buttons by what they say."""

from __future__ import annotations

import re
from collections.abc import Sequence

from components.contracts.calls import AccessibilityCall, ComputerUse
from components.contracts.desktop import Element
from components.rollout.live.risk import NONE, Kind, Places, Risk, irreversible, unknown, worst
from components.rollout.live.shell_risk import judge_command

_WORDS: dict[str, Kind] = {
    **dict.fromkeys(("delete", "remove", "erase", "discard", "trash", "wipe", "clear", "uninstall", "format", "purge"),
                    "delete"),
    **dict.fromkeys(("overwrite", "replace"), "overwrite"),
    **dict.fromkeys(("send", "publish", "post", "share", "upload", "reply", "transfer", "tweet"), "network"),
    **dict.fromkeys(("buy", "pay", "order", "purchase", "checkout", "subscribe", "donate", "book", "bid"), "confirm"),
    **dict.fromkeys(("submit", "yes", "confirm", "accept", "agree", "sign", "approve"), "confirm"),
    **dict.fromkeys(("install", "update", "upgrade"), "install"),
    **dict.fromkeys(("shutdown", "restart", "reboot", "poweroff"), "power"),
    "save": "save",
}  # fmt: skip
_PHRASES: tuple[tuple[str, Kind], ...] = (
    ("don't save", "delete"), ("do not save", "delete"), ("close without saving", "delete"), ("empty trash", "delete"),
    ("shut down", "power"), ("log out", "power"), ("power off", "power"), ("place order", "confirm"),
)  # fmt: skip
_QUIET = ("unknown", "not sent", "no", "cancel")
_PRESSED = ("button", "item", "menu", "option", "link", "icon", "")
"""Kinds of elements whose label says what a click does. A row or a cell is only chosen."""
_CLICKS = ("left_click", "double_click", "middle_click")
_TARGETED = re.compile(r"\b(?:click|double click|press|choose|select|hit|push|tap)\b(.*)", re.IGNORECASE)
_LOOKING = ("mouse_move", "scroll", "wait", "terminate", "right_click")


def judge_screen(
    call: ComputerUse | AccessibilityCall,
    elements: Sequence[Element] = (),
    says: str = "",
    places: Places | None = None,
) -> Risk:
    """`elements`: what is known of the screen; `says`: the model's own action line, which counts where nothing is."""
    if isinstance(call, AccessibilityCall):
        return NONE if call.action == "tree" else _by_words(says, "a click by its number")
    if call.action in _LOOKING:
        return NONE
    if call.action == "key":
        return _keys(call.keys, elements)
    if call.action == "type":
        return _typed(call.text, places)
    if call.action in _CLICKS and call.coordinate is not None:
        return _click(call.coordinate, elements, says)
    if call.action == "left_click_drag":
        return _by_words(says, "a drag may move something")
    return unknown(call.action)


def risky_words(label: str) -> tuple[Kind, str] | None:
    """The kind and the word that make a label one to ask about."""
    text = " ".join(label.lower().replace("_", " ").split())
    if text in _QUIET:
        return None
    for phrase, kind in _PHRASES:
        if phrase in text:
            return kind, phrase
    return next(((_WORDS[word], word) for word in re.findall(r"[a-z]+", text) if word in _WORDS), None)


def _click(at: tuple[int, int], elements: Sequence[Element], says: str) -> Risk:
    x, y = at
    hit = [e for e in elements if e.box[0] <= x < e.box[2] and e.box[1] <= y < e.box[3]]
    if not hit:
        if elements:
            return NONE  # everything that can be pressed there is known
        return _by_words(says, "a click on something unknown")
    top = hit[-1]
    found = risky_words(top.label) if top.kind in _PRESSED else None
    return irreversible(found[0], f"clicks {top.label!r}") if found else NONE


def _by_words(says: str, otherwise: str) -> Risk:
    """By the model's own words for what it is about to do."""
    target = _TARGETED.search(says)
    found = risky_words(target.group(1) if target else says)
    return irreversible(found[0], f"by its own words: {says}") if found else unknown(otherwise)


def _keys(keys: Sequence[str], elements: Sequence[Element]) -> Risk:
    held = set(keys)
    name = "+".join(keys)
    if "delete" in held:
        return irreversible("delete", f"presses {name}")
    if held == {"ctrl", "s"} or held == {"ctrl", "shift", "s"}:
        return irreversible("save", f"presses {name}, which saves over the open file")
    if held in ({"alt", "f4"}, {"ctrl", "q"}, {"ctrl", "w"}):
        return unknown(f"{name} closes something")
    if held == {"ctrl", "alt", "delete"} or held == {"ctrl", "alt", "backspace"}:
        return irreversible("power", f"presses {name}")
    if held in ({"enter"}, {"ctrl", "enter"}, {"space"}, {"y"}, {"alt", "y"}):
        buttons = [(risky_words(e.label), e.label) for e in elements if e.kind == "button"]
        for found, label in buttons:
            if found and found[0] != "save":
                return irreversible(found[0], f"presses {name} while the button {label!r} is shown")
        if "ctrl" in held:
            return irreversible("network", f"presses {name}, which sends in many applications")
    return NONE


def _typed(text: str, places: Places | None) -> Risk:
    """Text may go to a terminal window, where a line end runs it. Prose is not judged by the names of files in it."""
    found = [judge_command(line, places) for line in text.splitlines() if line.strip()]
    risk = worst(r for r in found if r.kind in _TYPED_KINDS)
    if risk.level == "irreversible" and ("\n" in text or len(text.split()) > 1):
        return irreversible(risk.kind, f"types what would, in a terminal, do this: {risk.reason}")
    return NONE


_TYPED_KINDS = ("delete", "disk", "power", "processes", "permissions", "install", "network", "outside")
"""Kinds that typed text is asked about; a quote that is never closed is only prose."""
