from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.contracts.errors import DataError
from components.evaluation.statistics import EpisodeOutcome, aggregate, paired_difference, summarise, wilson


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_interval_holds_the_rate_and_stays_inside(pair: tuple[int, int]) -> None:
    successes, n = pair
    interval = wilson(successes, n)
    assert interval is not None
    assert 0.0 <= interval.low <= successes / n + 1e-12 and successes / n - 1e-12 <= interval.high <= 1.0
    mirrored = wilson(n - successes, n)
    assert mirrored is not None and interval.low == pytest.approx(1 - mirrored.high, abs=1e-9)


def test_wilson_interval_of_known_values() -> None:
    # 10 of 20 and 0 of 10 as tabulated for the Wilson score method without continuity correction
    half, none = wilson(10, 20), wilson(0, 10)
    assert half is not None and (half.low, half.high) == pytest.approx((0.2993, 0.7007), abs=1e-4)
    assert none is not None and (none.low, none.high) == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert wilson(0, 0) is None
    with pytest.raises(DataError, match="3 successes of 2"):
        wilson(3, 2)


def test_infrastructure_failures_count_zero_and_are_listed_by_name() -> None:
    outcomes = [
        EpisodeOutcome("b", True, calls=4, tokens=100, gui_calls=3, terminal_calls=1),
        EpisodeOutcome("c", False, calls=8, tokens=300, gui_calls=4),
        EpisodeOutcome("z", True, calls=99, tokens=9999, infra_error="sandbox: no window"),
        EpisodeOutcome("a", False, infra_error="verifier: timeout"),
    ]
    got = summarise(outcomes)
    assert got.success == 0.25 and got.episodes == 4 and got.ran == 2
    assert got.mean_calls == 6 and got.mean_tokens == 200 and got.gui_share == pytest.approx(7 / 8)
    assert got.infra_errors == (("a", "verifier: timeout"), ("z", "sandbox: no window"))


def test_a_summary_of_nothing_has_no_figures() -> None:
    got = summarise([])
    assert got.success is None and got.interval is None and got.mean_calls is None and got.gui_share is None


def test_paired_difference_is_seeded_and_compares_the_same_tasks() -> None:
    a = {f"t{i}": float(i % 2) for i in range(40)}
    b = {f"t{i}": 1.0 for i in range(40)}
    one, again = paired_difference(a, b, 7), paired_difference(dict(reversed(a.items())), b, 7)
    assert one == again and one.mean == 0.5 and (one.a_better, one.b_better) == (0, 20)
    assert 0.0 < one.interval.low < 0.5 < one.interval.high < 1.0
    calls = {task: value * 1.37 + 0.01 * int(task[1:]) for task, value in a.items()}
    assert paired_difference(calls, b, 8).interval != paired_difference(calls, b, 7).interval
    same = paired_difference(a, a, 7)
    assert same.mean == 0.0 and same.interval.low == same.interval.high == 0.0


def test_paired_difference_of_other_tasks_is_refused_by_name() -> None:
    with pytest.raises(DataError, match="e.g. t1"):
        paired_difference({"t0": 1.0}, {"t0": 1.0, "t1": 0.0}, 0)
    with pytest.raises(DataError, match="no task"):
        paired_difference({}, {}, 0)


def test_repeats_have_a_student_interval() -> None:
    two = aggregate([0.6, 0.7])
    assert (two.count, two.minimum, two.maximum) == (2, 0.6, 0.7) and two.mean == pytest.approx(0.65)
    assert two.interval is not None
    assert two.interval.high - two.mean == pytest.approx(12.7062 * 0.05, rel=1e-4)  # s / sqrt(2) = 0.05
    assert aggregate([0.5]).interval is None
    many = aggregate([0.0, 1.0] * 20)
    assert many.interval is not None and many.interval.high - many.mean == pytest.approx(0.1569, abs=1e-3)
    for bad in ([], [float("nan")]):
        with pytest.raises(DataError, match="repeats"):
            aggregate(bad)
