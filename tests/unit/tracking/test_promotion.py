"""What a passed evaluation is, and which checkpoint is the best: no number that is none ever wins."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import pytest

from components.contracts.errors import DataError
from components.tracking.promotion import (
    Claim,
    Evaluation,
    choose_candidate,
    choose_champion,
    faults,
    read_evaluation,
    verdict,
)
from components.tracking.scores import Scores

SETTINGS = {"tasks": 4, "repeats": 1, "max_steps": 16}


def evaluation(success: float | None = 0.5, **changed: int) -> Evaluation:
    facts = {"episodes": 4, "expected": 4, "infra_errors": 0, **changed}
    return Evaluation(stage="rl", success=success, bench="b", **facts)


def claim(version: int, success: float, bench: str = "b", evaluated: int | None = None) -> Claim:
    return Claim(version=version, success=success, bench=bench, evaluated=version if evaluated is None else evaluated)


@pytest.mark.parametrize("success", [0.0, 0.5, 1.0])
def test_a_whole_sound_evaluation_passes_however_low_its_score(success: float) -> None:
    assert faults(evaluation(success)) == []


@pytest.mark.parametrize("success", [None, math.nan, math.inf, -math.inf, 1.5, -0.1])
def test_a_success_that_is_no_share_does_not_pass(success: float | None) -> None:
    assert faults(evaluation(success)) == [f"success is {success}"]


@pytest.mark.parametrize(
    ("changed", "word"),
    [({"episodes": 3}, "3 of 4"), ({"episodes": 0}, "0 of 4"), ({"expected": 0, "episodes": 0}, "0 of 0"),
     ({"infra_errors": 1}, "infrastructure")],
)  # fmt: skip
def test_an_evaluation_that_was_cut_short_or_met_a_broken_sandbox_does_not_pass(
    changed: dict[str, int], word: str
) -> None:
    (fault,) = faults(evaluation(0.99, **changed))
    assert word in fault


def test_the_highest_success_is_champion_and_of_equal_ones_the_newest_in_any_order() -> None:
    claims = [claim(1, 0.4), claim(2, 0.6), claim(3, 0.6), claim(4, 0.59)]
    for order in itertools.permutations(claims):
        assert choose_champion(order, None) == 3
        assert choose_champion(order, 1) == 3
        assert choose_candidate(order) == 4


def test_nan_never_wins_and_never_holds() -> None:
    claims = [claim(1, 0.1), claim(2, math.nan), claim(3, math.inf)]
    for order in itertools.permutations(claims):
        assert choose_champion(order, None) == 1
        assert choose_champion(order, 1) == 1
        assert choose_candidate(order) == 1
    assert choose_champion([claim(2, math.nan)], None) is None and choose_candidate([]) is None


def test_figures_of_another_held_out_set_are_not_compared() -> None:
    claims = [claim(1, 0.5, "old"), claim(2, 0.9, "new"), claim(3, 0.4, "new"), claim(4, 0.45, "old")]
    assert choose_champion(claims, 1) == 1, "0.9 on other tasks says nothing against it"
    assert choose_champion(claims, 2) == 2
    assert choose_champion([*claims, claim(5, 0.5, "old")], 1) == 5
    assert choose_champion(claims, 9) == 9, "a version that somebody chose by hand stays until somebody says otherwise"
    assert choose_champion(claims[:3], None) == 2, "without a champion the newest evaluation's held-out set counts"


def test_the_verdict_says_what_came_of_it() -> None:
    claims = [claim(1, 0.5), claim(2, 0.4), claim(3, 0.9, "other")]
    assert verdict(evaluation(0.5), 1, 1, claims) == "passed: 50.0 % of 4 held-out episodes; became champion"
    assert "champion stays version 1 with 50.0 %" in verdict(evaluation(0.4), 2, 1, claims)
    assert "another held-out set" in verdict(evaluation(0.4), 2, 3, claims)
    assert verdict(evaluation(math.nan), 2, 1, claims) == "not passed: success is nan"


def write_scores(folder: Path, tasks: list[str], success: float | None = 0.5, split: str = "heldout") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    scores = Scores(stage="rl", success=success, episodes=len(tasks), infra_errors=1)
    (folder / "scores.json").write_text(scores.model_dump_json())
    rows = [{"task_id": task, "repeat": 0, "split": split} for task in tasks]
    rows += [{"task_id": "other", "repeat": 0, "split": "heldout_skills"}]
    (folder / "episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_an_evaluation_is_read_from_what_the_stage_wrote(tmp_path: Path) -> None:
    found = read_evaluation(write_scores(tmp_path / "a", list("abcd")), "rl", SETTINGS)
    assert found and (found.success, found.episodes, found.expected, found.infra_errors) == (0.5, 4, 4, 1)
    again = read_evaluation(write_scores(tmp_path / "b", list("dcba")), "hybrid-sft", SETTINGS)
    assert again and again.bench == found.bench, "the same tasks in another order"
    for tasks, settings in ((list("abce"), SETTINGS), (list("abcd"), SETTINGS | {"max_steps": 8})):
        other = read_evaluation(write_scores(tmp_path / "c", tasks), "rl", settings)
        assert other and other.bench != found.bench
    twice = read_evaluation(write_scores(tmp_path / "d", list("aabb")), "rl", SETTINGS)
    assert twice and faults(twice)[0].startswith("2 of 4"), "a task played twice is not two tasks"


def test_scores_that_are_none_are_named_or_left_alone(tmp_path: Path) -> None:
    assert read_evaluation(tmp_path, "rl", SETTINGS) is None
    folder = write_scores(tmp_path, list("abcd"))
    for name, text in (("episodes.jsonl", '{"task_id": 1}\n'), ("scores.json", '{"stage": "rl", "surprise": 1}')):
        (folder / name).write_text(text)
        with pytest.raises(DataError, match="not the scores"):
            read_evaluation(folder, "rl", SETTINGS)
