"""Turns at the start of applications."""

from __future__ import annotations

import threading

from components.sandbox.x11 import starts


def test_no_more_starts_are_under_way_than_the_limit_allows() -> None:
    limiter = starts.at_once(2)
    lock = threading.Lock()
    inside, most = 0, 0
    together = threading.Barrier(2)

    def start() -> None:
        nonlocal inside, most
        with limiter():
            with lock:
                inside += 1
                most = max(most, inside)
            together.wait(30)  # two are in here at the same time, or this breaks
            with lock:
                inside -= 1

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 2


def test_a_start_that_fails_gives_its_turn_back() -> None:
    limiter = starts.at_once(1)
    for _ in range(3):
        try:
            with limiter():
                raise OSError("no such program")
        except OSError:
            pass
    with limiter():
        pass


def test_another_limiter_can_be_put_in_place_and_taken_out_again() -> None:
    mine = starts.at_once(1)
    before = starts.limit_by(mine)
    assert starts.limit_by(before) is mine
    with starts.turn():
        pass
