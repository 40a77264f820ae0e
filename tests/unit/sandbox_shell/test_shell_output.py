"""Output is kept whole up to the limit; beyond it, its ends and the size of what is missing."""

from __future__ import annotations

import random

import pytest

from components.sandbox.shell.output import CappedOutput


def collect(limit: int, data: bytes, sizes: list[int]) -> tuple[str, bool]:
    output = CappedOutput(limit)
    start = 0
    for size in [*sizes, len(data)]:
        output.feed(data[start : start + size])
        start += size
    return output.finish()


@pytest.mark.parametrize("seed", range(20))
def test_any_chunking_gives_the_same_ends_and_count(seed: int) -> None:
    rng = random.Random(seed)
    text = "".join(rng.choice("ab\n→🙂é") for _ in range(rng.randrange(200)))
    limit = rng.randrange(0, 100)
    sizes = [rng.randrange(1, 30) for _ in range(rng.randrange(30))]
    got, cut = collect(limit, text.encode(), sizes)
    if len(text) <= limit:
        assert (got, cut) == (text, False)
    else:
        head, tail = limit - limit // 2, limit // 2
        middle = f"\n[... {len(text) - limit} characters cut ...]\n"
        assert (got, cut) == (text[:head] + middle + text[len(text) - tail :], True)


def test_bytes_that_are_no_text_become_replacement_characters() -> None:
    assert collect(100, b"a\xff\xe2\x86", [2]) == ("a\ufffd\ufffd", False)
