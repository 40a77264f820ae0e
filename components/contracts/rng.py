"""Named random streams: the only source of randomness in the product.

A stream is a pure function of (seed, stage, item), so the order in which items are processed, the number of
workers and a resume in the middle change nothing.
"""

from __future__ import annotations

import hashlib
import random


def stream_seed(seed: int, stage: str, item: str | int = "") -> int:
    """63-bit seed of the named stream."""
    digest = hashlib.sha256(f"{seed}\x1f{stage}\x1f{item}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def stream(seed: int, stage: str, item: str | int = "") -> random.Random:
    """A fresh generator of the named stream."""
    return random.Random(stream_seed(seed, stage, item))
