from __future__ import annotations

import json
from pathlib import Path

import pytest

from components.contracts.errors import DataError
from components.evaluation.duel import compare, summary


def episode(
    task: int, success: bool, calls: int = 3, split: str = "heldout", broken: str = "", repeat: int = 0
) -> dict[str, object]:
    return {
        "task_id": f"t{task}", "success": success, "calls": calls, "tokens": 20 * calls, "split": split,
        "infra_error": broken, "repeat": repeat,
    }  # fmt: skip


def write(folder: Path, rows: list[dict[str, object]]) -> Path:
    folder.mkdir()
    (folder / "episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_students_are_compared_task_by_task(tmp_path: Path) -> None:
    pruned = write(tmp_path / "a", [episode(i, i < 30, 2) for i in range(40)])
    overlapping = write(tmp_path / "b", [episode(i, 10 <= i < 20, 4) for i in range(40)])
    row = compare(1, pruned, overlapping)
    assert (row.seed, row.pruned.success, row.overlapping.success) == (1, 0.75, 0.25)
    assert row.success.mean == 0.5 and (row.success.b_better, row.success.a_better) == (20, 0)
    assert 0.3 < row.success.interval.low < 0.5 < row.success.interval.high < 0.7
    assert row.calls is not None and row.calls.mean == -2.0
    assert row.pruned.tokens == 40.0 and compare(1, pruned, overlapping) == row


def test_held_out_skills_stay_apart_and_repeats_are_averaged_first(tmp_path: Path) -> None:
    rows = [episode(0, True), episode(0, False, repeat=1), episode(1, False), episode(1, False, repeat=1)]
    apart = [episode(9, True, 90, split="heldout_skills")]
    row = compare(0, write(tmp_path / "a", rows + apart), write(tmp_path / "b", rows))
    assert row.pruned.success == 0.25 and row.pruned.calls == 3.0 and row.success.tasks == 2
    assert row.success.mean == 0.0


def test_a_broken_sandbox_is_no_success_and_has_no_calls(tmp_path: Path) -> None:
    ours = [episode(0, False, 1, broken="reset"), episode(1, True, 2)]
    row = compare(0, write(tmp_path / "a", ours), write(tmp_path / "b", [episode(0, True, 5), episode(1, True, 4)]))
    assert row.pruned.success == 0.5 and row.pruned.calls == 2.0 and row.success.mean == -0.5
    assert row.calls is not None and row.calls.tasks == 1 and row.calls.mean == -2.0


def test_arms_on_other_tasks_are_not_compared(tmp_path: Path) -> None:
    more = write(tmp_path / "a", [episode(0, True), episode(2, True)])
    with pytest.raises(DataError, match="t2"):
        compare(0, more, write(tmp_path / "b", [episode(0, True)]))
    with pytest.raises(DataError, match="no episodes"):
        compare(0, tmp_path / "a", tmp_path / "missing")


def test_the_summary_counts_the_seeds_in_which_pruning_paid(tmp_path: Path) -> None:
    rows = []
    for seed, wins in enumerate((3, 1, 4)):
        a = write(tmp_path / f"a{seed}", [episode(i, i < wins) for i in range(4)])
        b = write(tmp_path / f"b{seed}", [episode(i, i < 2) for i in range(4)])
        rows.append(compare(seed, a, b))
    total = summary(rows)
    assert total["seeds"] == 3 and total["pruned_better"] == 2
    assert total["success_difference"] == pytest.approx((0.25 - 0.25 + 0.5) / 3)
    assert (total["success_difference_low"], total["success_difference_high"]) == (-0.25, 0.5)
