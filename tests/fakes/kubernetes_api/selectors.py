"""Label and field selectors as the API server reads them."""

from __future__ import annotations

import re
from typing import Any

Object = dict[str, Any]


def labels_match(selector: str, labels: dict[str, str]) -> bool:
    """`a=b,c!=d,e in (f,g),h notin (i),j,!k`."""
    return all(_label(part.strip(), labels) for part in re.split(r",(?![^(]*\))", selector) if part.strip())


def _label(part: str, labels: dict[str, str]) -> bool:
    member = re.fullmatch(r"(\S+)\s+(in|notin)\s+\(([^)]*)\)", part)
    if member:
        values = {value.strip() for value in member[3].split(",")}
        inside = labels.get(member[1]) in values
        return inside if member[2] == "in" else not inside
    if "!=" in part:
        key, _, value = part.partition("!=")
        return labels.get(key.strip()) != value.strip()
    if "=" in part:
        key, _, value = part.replace("==", "=").partition("=")
        return labels.get(key.strip()) == value.strip()
    return part[1:] not in labels if part.startswith("!") else part in labels


def fields_match(selector: str, thing: Object) -> bool:
    """`metadata.name=x,status.phase!=Running`."""
    for part in filter(None, selector.split(",")):
        negative = "!=" in part
        path, _, value = part.replace("!=", "=").replace("==", "=").partition("=")
        if (str(field(thing, path)) == value) == negative:
            return False
    return True


def field(thing: Object, path: str) -> Any:
    found: Any = thing
    for name in path.split("."):
        found = found.get(name, "") if isinstance(found, dict) else ""
    return found
