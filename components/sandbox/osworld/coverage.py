"""What of OSWorld's setup types, getters and metrics works here: `python -m components.sandbox.osworld.coverage`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from components.sandbox.osworld import metrics, package
from components.sandbox.osworld.registry import GETTERS, INFEASIBLE, PACKAGE_METRICS, SETUP_TYPES

Status = Literal["ours", "package", "not supported"]
_NO_TWIN = "not written here, and "


@dataclass(frozen=True)
class Entry:
    """`kind`: setup, getter or metric. `reason`: why it is not supported."""

    kind: str
    name: str
    status: Status
    reason: str = ""


def entries() -> Iterator[Entry]:
    """Everything that a task file may name, in the order of OSWorld's own lists."""
    for kind, table in (("setup", SETUP_TYPES), ("getter", GETTERS)):
        for name, reason in table.items():
            yield Entry(kind, name, "not supported" if reason else "ours", reason)
    for name in (name for listed in PACKAGE_METRICS.values() for name in listed.split()):
        yield metric_entry(name)
    yield Entry("metric", INFEASIBLE, "ours")


def metric_entry(name: str) -> Entry:
    """Which implementation a metric's name leads to."""
    found, reason = package.metric(name)
    if found is not None:
        return Entry("metric", name, "package")
    if metrics.of(name) is not None:
        return Entry("metric", name, "ours")
    return Entry("metric", name, "not supported", _NO_TWIN + reason)


def unsupported(kind: str, name: str) -> str:
    """Why a setup type, getter or metric cannot be used; "" when it can."""
    if kind == "metric":
        return "" if name == INFEASIBLE else metric_entry(name).reason
    return (SETUP_TYPES if kind == "setup" else GETTERS).get(name, f"unknown {kind}")


def table() -> str:
    """The table as text, and the counts."""
    rows = list(entries())
    width = max(len(row.name) for row in rows)
    lines = [f"{row.kind:7} {row.name:{width}} {row.status:13} {row.reason}".rstrip() for row in rows]
    for kind in ("setup", "getter", "metric"):
        mine = [row.status for row in rows if row.kind == kind]
        counts = ", ".join(f"{mine.count(status)} {status}" for status in ("ours", "package", "not supported"))
        lines.append(f"{kind}: {len(mine)} known, {counts}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
