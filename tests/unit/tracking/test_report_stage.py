"""Promises of the report stage: it shows what the stages left, byte for byte the same, and names what is broken."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from components.contracts.digests import digest_tree
from components.contracts.errors import DataError
from components.contracts.load_params import load_params
from components.contracts.stage import StepContext
from components.tracking.events import SpoolSink, spool_path
from components.tracking.gather import choose, gather
from components.tracking.report.data import EpisodeView
from components.tracking.step import run, write_run_report
from tests.unit.tracking.sample_report import record, sample

PARAMS = {"profile": "tiny", "seed": 7, "report": {"episodes": 2}}


def put(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in value) if path.suffix == ".jsonl" else json.dumps(value)
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, Path]:
    """Folders as the stages leave them."""
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    data, root = sample(), tmp_path / "outputs"
    found = {name: root / name for name in ("tasks", "harness", "feedback", "trajectories-hybrid", "corpus-hybrid-sft")}
    found |= {"model-midtrain": root / "model-midtrain", "model-rl": root / "model-rl"}
    for stage, scores in data.scores.items():
        found[f"scores-{stage}"] = folder = root / f"scores-{stage}"
        put(folder / "scores.json", scores.model_dump(mode="json"))
        views = [e.model_copy(update={"stage": stage}).model_dump(mode="json") for e in data.episodes]
        put(folder / "gallery.json", views)
        table = arrow.table({"digest": list(data.screens), "png": list(data.screens.values()), "elements": ["", ""]})
        parquet.write_table(table, folder / "screens.parquet")
    put(
        found["tasks"] / "summary.json",
        {
            "splits": {"train": {"tasks": 90, "skills": {"a": 90}, "wordings": 4}},
            "rejected": 11,
            "rejected_by_case": {"no-op": 8, "wrong_value": 3},
        },
    )
    failing = {"id": "sum a column", "success": 0.25, "episodes": 8, "weight": 1.6, "failures": {"did not finish": 6}}
    put(found["feedback"] / "taxonomy.json", {"skills": [failing]})
    trial = {"harness": "hybrid", "tools": ["bash"], "guest": ["sheet"], "operator": "install sheet", "episodes": 40}
    trial |= {"teacher_success": 0.9, "teacher_steps": 3.5, "overlap": 0.25, "chosen": True}
    put(found["harness"] / "trials.json", {"rule": "most success", "trials": [trial]})
    corpus = {"samples": 250, "agent_steps": 200, "click_packs": 50, "accepted": 40, "dropped": {"loop": 5}}
    put(found["corpus-hybrid-sft"] / "summary.json", corpus)
    put(found["model-midtrain"] / "curves.jsonl", [{"step": s, "loss": 1 / s, "lr": 1e-3} for s in range(1, 9)])
    put(found["model-midtrain"] / "record.json", {"parameters": 712345})
    rows = [{"step": s, "reward": 0.1 * s, "success": 0.5, "infra_errors": 1} for s in range(1, 4)]
    put(found["model-rl"] / "curves.jsonl", rows)
    found["trajectories-hybrid"].mkdir()
    parquet.write_table(
        arrow.table({"dropped": ["", "", "loop"]}), found["trajectories-hybrid"] / "trajectories.parquet"
    )
    return found


def test_what_the_stages_left_is_gathered(inputs: dict[str, Path]) -> None:
    data = gather(inputs, PARAMS, 2)
    assert data.scores == sample().scores
    assert [(c.stage, c.name, len(c.points)) for c in data.curves] == [("midtrain", "loss", 8)]
    assert data.rl is not None and list(data.rl.series) == ["success", "reward", "infra_errors"]
    assert data.rl.facts["infrastructure failures masked"] == "3"
    rows = {(row.area, row.name): (row.kept, row.reasons) for row in data.funnel}
    assert rows["tasks", "all splits"] == (90, {"no-op": 8, "wrong value": 3})
    assert rows["trajectories", "collect-hybrid"] == (2, {"loop": 1})
    assert rows["corpora", "curate-hybrid-sft"] == (40, {"loop": 5})
    assert data.harness[0].chosen and data.feedback[0].skill == "sum a column"
    assert data.facts == {"profile": "tiny", "seed": "7", "parameters": "712,345"}
    assert len(data.episodes) == 2 * 6 and set(data.screens) == {"one", "two"}
    assert any(note.startswith("evaluate-rl: 1 ended by an infrastructure failure") for note in data.notes)


def test_equal_artifacts_give_an_equal_page_with_or_without_a_run(inputs: dict[str, Path], tmp_path: Path) -> None:
    from components.tracking.report.build import build_report

    assert build_report(gather(inputs, PARAMS, 2)) == build_report(gather(dict(sorted(inputs.items())), PARAMS, 2))
    assert str(tmp_path) not in build_report(gather(inputs, PARAMS, 2))


def test_the_stage_writes_the_same_bytes_twice_and_a_summary_for_machines(
    inputs: dict[str, Path], tmp_path: Path
) -> None:
    params = load_params(Path("params.yaml"))
    digests = set()
    for name in ("first", "second"):
        target, work = tmp_path / name / "report", tmp_path / name / "work"
        metrics = run(params, inputs, {"report": target}, StepContext("report", 7, work))
        assert (metrics["stages"], sorted(path.name for path in target.iterdir())) == (
            6,
            ["report.html", "summary.json"],
        )
        digests.add(digest_tree(target))
    assert len(digests) == 1
    assert json.loads((tmp_path / "first" / "report" / "summary.json").read_text())["stages"]["rl"]["success"] == 0.68


@pytest.mark.parametrize(
    ("part", "name", "content"),
    [
        ("scores-rl", "scores.json", '{"stage": "rl", "sucess": 1}'),
        ("scores-rl", "scores.json", '{"stage": '),
        ("scores-rl", "gallery.json", '[{"stage": "rl"}]'),
        ("scores-rl", "screens.parquet", "PAR1 torn"),
        ("model-midtrain", "curves.jsonl", '{"step": 1, "loss": "x"}\n'),
        ("tasks", "summary.json", '{"splits": {"train": 3}}'),
        ("feedback", "taxonomy.json", '{"skills": [{"id": "a"}]}'),
        ("harness", "trials.json", '{"trials": [{"harness": "h"}]}'),
        ("trajectories-hybrid", "trajectories.parquet", "not parquet"),
    ],
)
def test_a_broken_artifact_is_named(inputs: dict[str, Path], part: str, name: str, content: str) -> None:
    (inputs[part] / name).write_text(content)
    with pytest.raises(DataError) as caught:
        gather(inputs, PARAMS, 2)
    assert str(inputs[part] / name) in str(caught.value)


def test_missing_artifacts_leave_gaps_and_no_error(inputs: dict[str, Path], tmp_path: Path) -> None:
    for name in ("scores.json", "gallery.json", "screens.parquet"):
        (inputs["scores-rl"] / name).unlink()
    data = gather(inputs, PARAMS, 2)
    assert "rl" not in data.scores and len(data.episodes) == 2 * 5
    assert gather({"tasks": tmp_path / "nowhere", "model-rl": tmp_path / "nowhere"}, {}, 3).funnel == []


def test_shown_episodes_are_solved_and_failed_ones_of_many_skills() -> None:
    def view(skill: str, number: int, success: bool | None) -> EpisodeView:
        return EpisodeView(
            stage="rl", task_id=f"{skill}{number}", skill=skill, instruction="do", success=success
        )  # fmt: skip

    views = [view(skill, n, n % 2 == 0) for skill in "abc" for n in range(6)] + [view("d", 0, None)]
    chosen = choose(views, 7)
    assert [bool(v.success) for v in chosen] == [True, False] * 3 + [True]
    assert [v.skill for v in chosen if v.success] == ["a", "b", "c", "a"]
    assert [v.skill for v in chosen if not v.success] == ["a", "b", "c"]
    assert choose(views, 99) != [] and len(choose(views, 99)) == len(views)


def test_the_page_of_a_run_adds_its_costs_times_and_lineage(inputs: dict[str, Path], tmp_path: Path) -> None:
    run_dir, earlier = tmp_path / "runs" / "r2", tmp_path / "runs" / "r1"
    made = record()
    made.stage("rl").error = "out of memory"
    made.stage("forge").status = "reused"
    made.save(run_dir)
    for folder, stage, tokens in ((run_dir, "rl", 10), (earlier, "rl", 99), (earlier, "forge", 7)):
        with SpoolSink(spool_path(folder, stage, 1)) as sink:
            sink.ledger("teacher", model="strange", calls=tokens)
            sink.ledger("teacher", model="priced", calls=0, tokens_in=1, tokens_out=1, usd=2.5)
            sink.end("finished")
    missing = {"scores-base": tmp_path / "not made yet"}
    page = write_run_report(run_dir, inputs | missing, PARAMS, 1, {"forge": earlier}).read_text()
    assert "rl finished: out of memory" in page
    assert '<svg xmlns="http://www.w3.org/2000/svg" class="lineage"' in page
    calls = page[page.index('<section id="costs">') : page.index('<section id="lineage">')]
    assert '<th scope="row" class="nowrap">forge <small title="the work of run r1, used again">reused' in calls
    assert ">99<" not in calls and ">17<" in calls, "rl once, forge of the run that made it"
    assert "spent by this run" in calls and "kept trajectory" in calls
    models = {cells[0]: cells[1] for cells in re.findall(r'nowrap">(\w+)</th><td class="num">([^<]*)</td>', calls)}
    assert models["priced"] == "5.00" and models["strange"] == "?", "unknown is shown as unknown"
    assert [path.name for path in run_dir.iterdir() if path.name.startswith(".")] == []
