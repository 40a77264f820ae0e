"""Content digests. The algorithm is part of the text (`sha256:...`); an identity is never a shortened digest."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

_CHUNK = 1 << 20


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest_bytes(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def digest_value(value: Any) -> str:
    """Digest of a JSON-able value."""
    return digest_bytes(canonical_json(value).encode())


def digest_file(path: Path) -> str:
    hasher = hashlib.sha256()
    with path.open("rb") as handle:
        while chunk := handle.read(_CHUNK):
            hasher.update(chunk)
    return "sha256:" + hasher.hexdigest()


def digest_tree(root: Path) -> str:
    """Digest of a file, or of a directory as the sorted list of (relative path, file digest)."""
    if root.is_file():
        return digest_file(root)
    listing = [[p.relative_to(root).as_posix(), digest_file(p)] for p in sorted(root.rglob("*")) if p.is_file()]
    return digest_value(listing)


def bare(digest: str) -> str:
    """A digest without the name of its algorithm, as DVC's files have it."""
    return digest.rpartition(":")[2]


def short(digest: str, length: int = 12) -> str:
    """A label for people. Never an identity."""
    return digest.split(":", 1)[-1][:length]
