from __future__ import annotations

from typing import Any

import pytest

from components.contracts.task import Verdict
from components.contracts.trajectory import Step, Trajectory
from components.rollout.filters import REASONS, mark, reason_counts, reason_to_drop

GOOD = Verdict(success=True)
CLICK = {"tool": "computer_use", "action": "left_click", "coordinate": [20, 20]}
INSIDE, OUTSIDE = {"kind": "button", "label": "x", "box": [10, 10, 30, 30]}, {"box": [50, 50, 60, 60]}


def step(
    index: int, *, call: dict[str, Any] = CLICK, screen: str = "", perturbed: bool = False, error: str = ""
) -> Step:
    screen = screen or f"s{index}"
    return Step(
        index=index, screen=screen, screen_after="z", think="", action="a", call=call, perturbed=perturbed, error=error
    )


def episode(steps: list[Step], targets: list[Any] | None = None, **fields: Any) -> Trajectory:
    infos = [{"intent": {}, "target": t} for t in (targets or [None] * len(steps))]
    base: dict[str, Any] = {
        "trajectory_id": "t", "task_id": "k", "skill": "s", "split": "train", "instruction": "do", "harness": "gui",
        "source": "teacher", "steps": tuple(steps), "verdict": GOOD, "ending": "terminated", "meta": {"steps": infos},
    }  # fmt: skip
    return Trajectory(**(base | fields))


CASES = {
    "infra_error": episode([], ending="infra_error"),
    "verifier_error": episode([step(0)], verdict=Verdict(success=False, error="broke")),
    "gave_up": episode(
        [step(0, call={"tool": "computer_use", "action": "terminate", "status": "failure"})], ending="step_limit"
    ),
    "step_limit": episode([step(0)], ending="step_limit"),
    "failed": episode([step(0)], verdict=Verdict(success=False)),
    "bad_call": episode([step(0, error="out_of_range")]),
    "loop": episode([step(i, screen="same") for i in range(3)]),
    "missed_target": episode([step(0)], [OUTSIDE]),
}


@pytest.mark.parametrize("reason", CASES)
def test_each_reason_is_given_to_its_case(reason: str):
    assert reason_to_drop(CASES[reason]) == reason


def test_every_reason_has_a_case():
    assert set(REASONS) == {*CASES, "duplicate"}


def test_a_good_episode_is_kept_and_perturbed_steps_are_nobodys_fault():
    assert reason_to_drop(episode([step(0), step(1)], [INSIDE, None])) == ""
    noisy = [step(i, screen="same", perturbed=True) for i in range(3)]
    assert reason_to_drop(episode([*noisy, step(3, error="x", perturbed=True)], [OUTSIDE] * 4)) == ""


def test_of_equal_episodes_the_first_is_kept():
    one, other = episode([step(0)]), episode([step(0)], trajectory_id="u")
    different = episode([step(0), step(1)], trajectory_id="v")
    marked = mark([one, other, different])
    assert [t.dropped for t in marked] == ["", "duplicate", ""]
    assert reason_counts(marked) == {"duplicate": 1}
