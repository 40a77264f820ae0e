"""Text of a model or a guest, made fit for a person's terminal: nothing in it can move the cursor or hide a word."""

from __future__ import annotations

import unicodedata

from components.contracts.calls import AccessibilityCall, BashCall, DesktopCall

_HIDING = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")


def plain(text: str, *, limit: int = 2000) -> str:
    """Line ends and tabs stay; any other control or direction character is written out as its number."""
    shown = "".join(
        char if char in "\n\t" or unicodedata.category(char) not in _HIDING else f"<{ord(char):x}>" for char in text
    )
    return shown if len(shown) <= limit else f"{shown[:limit]} ... ({len(shown) - limit} more characters)"


def one_line(text: str, *, limit: int = 300) -> str:
    """The same in one line: line ends are shown, so that a command cannot hide below the first one."""
    return plain(text.replace("\n", " ⏎ ").replace("\t", " "), limit=limit)


def describe(call: DesktopCall | None) -> str:
    """An action in a few words, as it would be carried out."""
    if call is None:
        return "nothing that could be carried out"
    if isinstance(call, BashCall):
        return "restart the shell" if call.restart else f"$ {call.command}"
    if isinstance(call, AccessibilityCall):
        return f"accessibility {call.action}" + ("" if call.element is None else f" {call.element}")
    parts: list[str] = [call.action]
    if call.start:
        parts.append(f"from {call.start[0]},{call.start[1]} to")
    if call.coordinate:
        parts.append(f"{call.coordinate[0]},{call.coordinate[1]}")
    if call.keys:
        parts.append("+".join(call.keys))
    if call.text:
        parts.append(repr(call.text))
    if call.pixels:
        parts.append(f"{call.pixels} px")
    if call.action == "wait":
        parts.append(f"{call.time:g} s")
    if call.status:
        parts.append(call.status)
    return " ".join(parts)
