from __future__ import annotations

import json

import pytest

from components.contracts.errors import DataError
from components.forge.generate import Generated, Rejected, generate
from components.forge.store import load_tasks, save


@pytest.fixture
def made() -> Generated:
    found = generate(1, {"train": 32, "heldout": 32}, lambda tasks: [""] * len(tasks))
    found.rejected.append(Rejected(found.tasks[0].model_copy(update={"seed": 1}), "noop: passes and must not"))
    return found


def test_tasks_survive_a_round_trip(made, tmp_path):
    save(made, tmp_path)
    assert load_tasks(tmp_path) == made.tasks
    assert load_tasks(tmp_path, "train") == [t for t in made.tasks if t.split == "train"]


def test_refused_tasks_are_written_with_their_reason(made, tmp_path):
    save(made, tmp_path)
    record = json.loads((tmp_path / "rejected.jsonl").read_text())
    assert record["reason"] == "noop: passes and must not" and record["task"]["seed"] == 1


def test_the_summary_counts_what_is_there(made, tmp_path):
    save(made, tmp_path)
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["splits"]["train"]["tasks"] == 32 and sum(summary["splits"]["train"]["skills"].values()) == 32
    assert summary["rejected"] == 1 and summary["rejected_by_case"] == {"noop": 1}


def test_a_missing_or_damaged_file_is_named(made, tmp_path):
    with pytest.raises(DataError, match="no task file"):
        load_tasks(tmp_path)
    save(made, tmp_path)
    path = tmp_path / "tasks.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[1][:50]]) + "\n")
    with pytest.raises(DataError, match=r"tasks.jsonl:2"):
        load_tasks(tmp_path)
