from __future__ import annotations

import os
import signal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.contracts.errors import SandboxError
from components.rollout.workers import fork_map


def _squares(part: list[int]) -> list[tuple[int, int]]:
    return [(n * n, os.getpid()) for n in part]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(), max_size=12), st.integers(1, 4))
def test_results_are_in_order_whatever_the_number_of_workers(items: list[int], workers: int) -> None:
    found = fork_map(_squares, items, workers)
    assert [square for square, _ in found] == [n * n for n in items]
    assert len({pid for _, pid in found}) == min(workers, len(items))


def test_parts_depend_on_the_number_of_workers_alone() -> None:
    parts = fork_map(lambda part: [part] * len(part), list(range(7)), 3)
    assert parts == [[0, 3, 6], [1, 4], [2, 5]] * 2 + [[0, 3, 6]]


def _children() -> set[str]:
    with open(f"/proc/self/task/{os.getpid()}/children") as handle:
        return set(handle.read().split())


@pytest.mark.parametrize("how", ["raises", "is killed", "exits"])
def test_a_worker_that_dies_fails_the_call(how: str, capfd: pytest.CaptureFixture[str]) -> None:
    before, owner = _children(), os.getpid()

    def work(part: list[int]) -> list[int]:
        if os.getpid() != owner:
            if how == "raises":
                raise ValueError("broken on purpose")
            os.kill(os.getpid(), signal.SIGKILL) if how == "is killed" else os._exit(0)
        return part

    with pytest.raises(SandboxError, match="worker process died"):
        fork_map(work, [1, 2, 3], 2)
    assert _children() == before
    assert how != "raises" or "broken on purpose" in capfd.readouterr().err


def test_a_failure_of_the_first_part_ends_the_workers() -> None:
    before, owner = _children(), os.getpid()

    def work(part: list[int]) -> list[int]:
        if os.getpid() == owner:
            raise KeyError("mine")
        signal.pause()
        return part

    with pytest.raises(KeyError):
        fork_map(work, [1, 2, 3], 3)
    assert _children() == before
