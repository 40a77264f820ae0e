from __future__ import annotations

import json
from pathlib import Path

import pytest

from components.contracts.digests import digest_tree
from components.contracts.errors import CheckpointError, DataError
from components.contracts.stage import StepContext
from components.evaluation import step
from components.forge.generate import generate
from components.forge.store import save
from components.harness.spec import default_spec
from components.tracking.scores import Scores
from tests.unit.training.kit import params, write_policy
from tests.unit.training.test_sft import Events

SMALL = params(
    model__max_new_tokens=12, evaluate__tasks=5, evaluate__heldout_skill_tasks=2, evaluate__grounding_screens=2,
    evaluate__single_steps=8, evaluate__gallery=2, evaluate__max_steps=3, evaluate__repeats=2,
)  # fmt: skip


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("inputs")
    save(generate(0, {"heldout": 20, "heldout_skills": 4}, lambda batch: [""] * len(batch)), root / "tasks")
    (root / "harness").mkdir()
    for name in ("gui", "terminal", "hybrid"):
        (root / "harness" / f"{name}.json").write_text(default_spec(name).model_dump_json())
    return {"checkpoint": write_policy(root / "policy"), "tasks": root / "tasks", "harness": root / "harness"}


def evaluate(inputs: dict[str, Path], folder: Path, workers: int = 1, events: Events | None = None) -> dict[str, float]:
    ctx = StepContext("evaluate-gui-sft", 1, folder / "work", events or Events(), workers=workers)
    return step.run(SMALL, inputs, {"scores": folder / "scores"}, ctx)


def test_a_checkpoint_gives_the_same_bytes_every_time_whatever_the_workers(
    inputs: dict[str, Path], tmp_path: Path
) -> None:
    first = evaluate(inputs, tmp_path / "a")
    assert evaluate(inputs, tmp_path / "b", workers=2) == first
    assert digest_tree(tmp_path / "a" / "scores") == digest_tree(tmp_path / "b" / "scores")

    scores = Scores.model_validate_json((tmp_path / "a/scores/scores.json").read_text())
    assert scores.stage == "gui-sft" and scores.episodes == 10 and scores.success == first["success"] == 0.0
    assert scores.checkpoint == digest_tree(inputs["checkpoint"])
    assert scores.grounding is not None and scores.grounding.items >= 5 and scores.single_step is not None
    assert scores.heldout_skills is not None and scores.heldout_skills.n == 4

    rows = [json.loads(line) for line in (tmp_path / "a/scores/episodes.jsonl").read_text().splitlines()]
    assert len(rows) == 14 and {r["repeat"] for r in rows} == {0, 1}
    assert sum(r["split"] == "heldout_skills" for r in rows) == 4
    gallery = json.loads((tmp_path / "a/scores/gallery.json").read_text())
    assert len(gallery) == 2 and all(s["error"] for view in gallery for s in view["steps"])


def test_too_few_tasks_is_said_before_any_is_played(inputs: dict[str, Path], tmp_path: Path) -> None:
    many = params(evaluate__tasks=500)
    with pytest.raises(DataError, match="500 heldout tasks are asked for, 20 exist"):
        step.run(many, inputs, {"scores": tmp_path / "s"}, StepContext("evaluate-rl", 1, tmp_path / "w"))


def test_a_damaged_checkpoint_leaves_no_scores(inputs: dict[str, Path], tmp_path: Path) -> None:
    broken = write_policy(tmp_path / "policy")
    (broken / "model.safetensors").write_bytes(b"{}")
    with pytest.raises(CheckpointError, match="model.safetensors"):
        evaluate({**inputs, "checkpoint": broken}, tmp_path)
    assert not (tmp_path / "scores").exists()
