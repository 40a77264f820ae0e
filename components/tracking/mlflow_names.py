"""Names and values as MLflow can hold them, with nothing lost: what does not fit is kept whole elsewhere."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

from components.contracts.digests import digest_bytes
from components.contracts.secrets import redact, scrub

NAME_LIMIT = 250
TAG_LIMIT = 5000
"""MLflow allows 8,000 characters of a tag; older servers 5,000."""

PARAM_LIMIT = 6000
"""Characters of a parameter in MLflow 3."""

OLD_PARAM_LIMIT = 500
"""What older servers allow."""

_FORBIDDEN = re.compile(r"[^\w\-. :/]", re.ASCII)

T = TypeVar("T")


class Param(NamedTuple):
    """A parameter ready to send. `whole` is set when the value went over the limit: it must be stored as a file."""

    name: str
    value: str
    whole: str | None


def clean_name(name: str) -> str:
    """`name` itself when MLflow takes it, else the nearest allowed name with a mark of the original's digest.

    MLflow takes letters, digits and `_-. :/`, at most 250 characters, and refuses names that mean another path.
    """
    clean = _FORBIDDEN.sub("_", name)
    if posixpath.normpath(clean) != clean or clean in ("", ".") or clean.startswith(("..", "/")):
        clean = clean.replace("/", "_").strip(".") or "_"
    if clean == name and len(name) <= NAME_LIMIT:
        return name
    mark = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{clean[: NAME_LIMIT - 9]}-{mark}"


def fit_param(name: str, value: str, limit: int = PARAM_LIMIT) -> Param:
    """The value whole up to `limit` characters; beyond it a short form that says so, with the digest of the whole."""
    clean, value = clean_name(name), redact(value)
    if len(value) <= limit:
        return Param(clean, value, None)
    said = f"... [{whole_in(clean, value)}]"
    return Param(clean, value[: max(0, min(200, limit - len(said)))] + said, value)


def whole_in(clean: str, value: str) -> str:
    """Where a long value is kept whole, and how to know it."""
    return f"{len(value)} characters, whole in {param_file(clean)}, {digest_bytes(value.encode())}"


def param_file(clean: str) -> str:
    """Artifact path of a long parameter."""
    return f"params/{clean.replace('/', '_').replace(':', '_')}.txt"


def fit_tag(value: str) -> str:
    """A tag's text without secrets, cut with a sign when it is too long."""
    value = scrub(value)
    return value if len(value) <= TAG_LIMIT else f"{value[: TAG_LIMIT - 60]}... [cut, {len(value)} characters]"


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for at in range(0, len(items), size):
        yield items[at : at + size]
