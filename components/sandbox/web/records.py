"""Reading a `SiteRecord`: rows, differences, visits. Fails closed: what cannot be read is a `VerifierError`."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import Any

from components.contracts.errors import VerifierError
from components.sandbox.web.seed import COLUMNS
from components.sandbox.web.site import SiteRecord

Tables = dict[str, list[dict[str, Any]]]


def tables(database: bytes) -> Tables:
    """All rows of all tables, in the order of their keys. Raises `VerifierError` when the bytes are no whole shop."""
    try:
        with closing(sqlite3.connect(":memory:")) as opened:
            opened.deserialize(database)
            opened.row_factory = sqlite3.Row
            problem = opened.execute("PRAGMA integrity_check").fetchone()[0]
            if problem != "ok":
                raise VerifierError(f"the site's database is damaged: {problem}", where="shop")
            return {
                table: [dict(row) for row in opened.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY 1, 2")]
                for table, columns in COLUMNS.items()
            }
    except (sqlite3.Error, OverflowError, TypeError, MemoryError) as error:
        raise VerifierError(f"the site's database cannot be read: {error}", where="shop") from error


def differences(record: SiteRecord) -> Tables:
    """Table -> changed rows, each `{"was": row or None, "is": row or None}`; tables without changes are left out."""
    was, now = tables(record.before), tables(record.after)
    found: Tables = {}
    for table, columns in COLUMNS.items():
        width = 2 if table == "items" else 1
        keys = columns[:width]
        old = {tuple(row[key] for key in keys): row for row in was[table]}
        new = {tuple(row[key] for key in keys): row for row in now[table]}
        changed = [
            {"was": old.get(key), "is": new.get(key)} for key in sorted(old.keys() | new.keys())
            if old.get(key) != new.get(key)
        ]  # fmt: skip
        if changed:
            found[table] = changed
    return found


def missing_visits(record: SiteRecord, wanted: list[str]) -> list[str]:
    """Patterns (regular expressions over `METHOD path`, whole) that no visit fits. Raises `re.error` for a bad one."""
    lines = [f"{visit.method} {visit.path}" for visit in record.visits]
    patterns = [re.compile(pattern) for pattern in wanted]
    return [one.pattern for one in patterns if not any(one.fullmatch(line) for line in lines)]
