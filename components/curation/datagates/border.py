"""The border: every record against an explicit schema before any rule sees it. Nothing is skipped in silence.

A schema is a pydantic model, applied strictly: a number in quotes is text, a field nobody declared is an error, and no
file decides what type a field has in the next one. Text that is no JSON ends the reading of its file (what follows a
broken line cannot be trusted); other records that do not fit are all named.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from components.contracts.errors import DataError
from components.curation.datagates.verdict import Violation

Schema = TypeVar("Schema", bound=BaseModel)
_SMALL = 2_000
"""Characters up to which a text is looked through key by key. Longer ones come from a table of ours, in bulk."""
_UNUSUAL = re.compile(r"\bNaN\b|\bInfinity\b")
"""What Python's JSON and pydantic take and JSON does not know: as a missing value it could pass a rule."""
_CODES = {"missing": "missing", "extra_forbidden": "extra"}


@dataclass
class Read(Generic[Schema]):
    """Records with their numbers (from 1; for text files the line), and those that did not fit."""

    records: list[tuple[int, Schema]] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)


def read_lines(path: Path, schema: type[Schema], *, name: str = "") -> Read[Schema]:
    """A .jsonl file. `name` stands for the file in violations. DataError when it is not there.

    UTF-8 with or without a byte order mark; an empty line is allowed at the end only.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"the file cannot be read: {error}", where=str(path), remedy="run its stage again") from error
    return parse_lines(data, schema, name=name or path.name)


def parse_lines(data: bytes, schema: type[Schema], *, name: str) -> Read[Schema]:
    """`read_lines` of bytes."""
    read: Read[Schema] = Read()
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    while lines and not lines[-1].strip():
        lines.pop()
    for number, raw in enumerate(lines, start=1):
        code, said = _not_json(raw)
        if code:
            read.violations.append(Violation(name, number, code, "", said, line=number))
            if code in ("not_json", "not_utf8"):
                break
            continue
        _keep(read, schema, raw, name, number, line=number)
    return read


def check_texts(texts: Iterable[str], schema: type[Schema], *, name: str) -> Read[Schema]:
    """Records given as JSON texts: rows of a table, or whole files."""
    read: Read[Schema] = Read()
    for number, text in enumerate(texts, start=1):
        code, said = _not_json(text.encode()) if len(text) < _SMALL or _UNUSUAL.search(text) else ("", "")
        if code:
            read.violations.append(Violation(name, number, code, "", said))
        else:
            _keep(read, schema, text, name, number, line=0)
    return read


def check_rows(rows: Iterable[Mapping[str, Any]], schema: type[Schema], *, name: str) -> Read[Schema]:
    """Records given as values, from a table."""
    read: Read[Schema] = Read()
    for number, row in enumerate(rows, start=1):
        try:
            read.records.append((number, schema.model_validate(row, strict=True)))
        except ValidationError as error:
            read.violations += _violations(error, name, number, 0)
    return read


def _keep(read: Read[Schema], schema: type[Schema], text: str | bytes, name: str, number: int, line: int) -> None:
    try:
        read.records.append((number, schema.model_validate_json(text, strict=True)))
    except ValidationError as error:
        read.violations += _violations(error, name, number, line)


def _violations(error: ValidationError, name: str, record: int, line: int) -> list[Violation]:
    found = []
    for entry in error.errors(include_url=False, include_context=False):
        place = ".".join(str(part) for part in entry["loc"])
        kind = str(entry["type"])
        code = _CODES.get(kind) or ("not_json" if kind == "json_invalid" else "type" if "_type" in kind else "value")
        found.append(Violation(name, record, code, place, f"{entry['msg']}: {str(entry['input'])[:80]!r}", line))
    return found


class _Twice(ValueError):
    pass


class _NotFinite(ValueError):
    pass


def _not_json(raw: bytes) -> tuple[str, str]:
    """(code, words) of a line that is no JSON object of ours; ("", "") for one that is."""
    if not raw.strip():
        return "empty_line", "an empty line between records"
    try:
        value = json.loads(raw.decode("utf-8"), object_pairs_hook=_object, parse_constant=_constant)
    except UnicodeDecodeError as error:
        return "not_utf8", str(error)
    except _Twice as error:
        return "key_twice", str(error)
    except _NotFinite as error:
        return "not_finite", str(error)
    except ValueError as error:
        return "not_json", str(error)
    return ("", "") if isinstance(value, dict) else ("not_an_object", f"a {type(value).__name__}")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise _Twice(f"the key {next(n for n in names if names.count(n) > 1)!r} stands twice")
    return made


def _constant(text: str) -> Any:
    raise _NotFinite(f"{text} is no JSON number")
