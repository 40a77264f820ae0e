"""What a loader hands to the rules: tables of plain values, and the records that did not fit their schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from components.curation.datagates.border import Read
from components.curation.datagates.verdict import Violation


@dataclass
class Table:
    """Rows of plain values. Columns are declared, so that a table without rows is still a table."""

    columns: tuple[str, ...]
    rows: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, int] = field(default_factory=dict)
    """Records by file (or store, or corpus)."""

    def add(self, **values: Any) -> None:
        """One row; it has exactly the declared columns."""
        if values.keys() != set(self.columns):
            raise ValueError(f"a row with {sorted(values)}, the table has {sorted(self.columns)}")
        self.rows.append(values)


@dataclass
class Loaded:
    """Everything a gate looks at."""

    tables: dict[str, Table]
    violations: list[Violation] = field(default_factory=list)

    def take(self, read: Read[Any]) -> None:
        """Keep a reading's violations."""
        self.violations += read.violations


def shares(counts: Mapping[str, int], names: Sequence[str]) -> dict[str, float]:
    """The share of each name among all counts, 0 where there is nothing."""
    total = sum(counts.values())
    return {name: counts.get(name, 0) / total if total else 0.0 for name in names}
