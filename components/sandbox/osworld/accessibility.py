"""OSWorld's accessibility XML as far as X tells it: applications and their windows, not what is inside these.

The desktop runs without an accessibility bus, so there is nothing to ask about buttons and texts. Names and attributes
are those that OSWorld's checks select by.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from components.sandbox.x11.guest_calls import Window

_BASE = "https://accessibility.ubuntu.example.org/ns/"
_STATE, _COMPONENT, _ATTRIBUTES = f"{_BASE}state", f"{_BASE}component", f"{_BASE}attributes"


def window_tree(windows: Sequence[Window], size: tuple[int, int]) -> str:
    """<desktop-frame> with an <application> for each class of windows and a <frame> (or <dialog>) for each window."""
    for prefix, uri in (("st", _STATE), ("cp", _COMPONENT), ("attr", _ATTRIBUTES)):
        ElementTree.register_namespace(prefix, uri)
    root = ElementTree.Element("desktop-frame", {"name": "main", **_box((0, 0, *size))})
    applications: dict[str, ElementTree.Element] = {}
    for window in windows:
        if window.app not in applications:
            applications[window.app] = ElementTree.SubElement(root, "application", {"name": _clean(window.app)})
        attributes = {"name": _clean(window.title), f"{{{_STATE}}}visible": "true", **_box(window.box)}
        if window.active:
            attributes[f"{{{_STATE}}}active"] = "true"
        attributes[f"{{{_ATTRIBUTES}}}window-type"] = window.kind
        ElementTree.SubElement(applications[window.app], "dialog" if window.kind == "dialog" else "frame", attributes)
    return ElementTree.tostring(root, encoding="unicode")


def _box(box: tuple[int, int, int, int]) -> dict[str, str]:
    x0, y0, x1, y1 = box
    return {f"{{{_COMPONENT}}}screencoord": f"({x0}, {y0})", f"{{{_COMPONENT}}}size": f"({x1 - x0}, {y1 - y0})"}


def _clean(text: str) -> str:
    """Titles are the applications' own: what XML cannot hold is left out."""
    return "".join(c for c in text if c in "\t\n\r" or 0x20 <= ord(c) <= 0xD7FF or 0xE000 <= ord(c) <= 0xFFFD)
