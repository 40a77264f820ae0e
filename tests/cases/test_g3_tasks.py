"""Cases of group 3 about task files, infeasible tasks and checks (C23, C25, C27 a-i). Adapters translate names only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from components.contracts.admission import Trials, pool_refusal, refusal
from components.contracts.errors import TaskError
from components.sandbox.osworld.loading import Loaded, listed_keys, load_entries, load_list, shared_ids, success_rate
from components.sandbox.osworld.scoring import Ending, always_infeasible, final_score
from components.sandbox.osworld.task import TaskFileError, read_task
from components.sandbox.osworld.trial import trials

DATA = Path(__file__).parent / "data"
ROWS = [json.loads(line) for line in (DATA / "g3_desktop_eval.jsonl").read_text(encoding="utf-8").splitlines()]
ROWS = [
    row for row in ROWS
    if row["case"] in ("C23", "C25") or (row["case"] == "C27" and row["row"] in "abcdefghi")
]  # fmt: skip
FILES = json.loads((DATA / "files" / "C23_tasks.json").read_text(encoding="utf-8"))
CHECKS = json.loads((DATA / "files" / "C27_tasks.json").read_text(encoding="utf-8"))["tasks"]

ENDINGS: dict[str, Ending] = {"finish:infeasible": "fail", "finish:success": "done", "step_limit": "steps"}
"""The cases' words for how an episode ended -> ours."""

EVALUATOR = {
    "func": "exact_match", "result": {"type": "vm_command_line", "command": "true"},
    "expected": {"type": "rule", "rules": {"expected": "x"}},
}  # fmt: skip


def _task_file(folder: Path, key: str, instruction: str) -> None:
    path = folder / f"{key}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    task = {"id": key.partition("/")[2], "instruction": instruction, "config": [], "evaluator": EVALUATOR}
    path.write_text(json.dumps(task), encoding="utf-8")


def c23(given: dict[str, Any], folder: Path) -> dict[str, Any]:
    if "results" in given:
        success, tasks = success_rate(given["results"], given["results"])
        return {"success": success, "tasks": tasks}
    for key, instruction in given.get("instructions", {}).items():
        _task_file(folder, key, instruction)
    (folder / "list.json").write_text(json.dumps(given["task_list"]), encoding="utf-8")
    try:
        loaded = load_list(folder / "list.json")
    except TaskFileError as error:
        return {"error": error.code, "task": error.key}
    return {
        "entries": len(listed_keys(given["task_list"])),
        "unique_tasks": len(loaded.tasks),
        "ids_shared_by_two_tasks": list(loaded.shared_ids),
        "result_keys": list(loaded.tasks),
        "instructions": {key: task.instruction for key, task in loaded.tasks.items()},
    }


def c25(given: dict[str, Any]) -> dict[str, Any]:
    if "training_pool" in given:
        reason = pool_refusal(given["training_pool"]["tasks"], given["training_pool"]["infeasible"])
        return {"gate": "fail" if reason else "pass", "reason": reason}
    if "agent" in given:
        infeasible = given["infeasible_tasks"]
        rate = always_infeasible(given["tasks"] - infeasible, infeasible)
        return {"score": rate, "reported_as": "trivial baseline in the evaluation report"}
    return {"score": final_score(given["task_feasible"], ENDINGS[given["last_action"]], given["checker_score"])}


def _scores(value: Any) -> tuple[float, ...]:
    return tuple(value) if isinstance(value, list) else () if value is None else (value,)


def c27(given: dict[str, Any]) -> dict[str, Any]:
    names = ("score_without_any_action", "score_of_reference_solution", "score_of_empty_output_file")
    return _admitted(Trials(*(_scores(given.get(name)) for name in names)))


def _admitted(tried: Trials) -> dict[str, Any]:
    reason = refusal(tried)
    return {"accept": not reason, "reason": reason}


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r["case"] + r["row"])
def test_case(row: dict[str, Any], tmp_path: Path) -> None:
    given = row["given"]
    got = c23(given, tmp_path) if row["case"] == "C23" else {"C25": c25, "C27": c27}[row["case"]](given)
    assert all(got.get(key) == value for key, value in row["expect"].items()), got
    if "instructions" in given:
        assert got["instructions"] == given["instructions"]


@pytest.fixture(scope="module")
def loaded() -> Loaded:
    return load_entries((entry["path"].removesuffix(".json"), entry["task"]) for entry in FILES["entries"])


@pytest.mark.parametrize("entry", FILES["entries"], ids=lambda e: e["path"])
def test_a_damaged_task_file_is_refused_by_name_and_a_good_one_is_kept(entry: dict[str, Any], loaded: Loaded) -> None:
    key, want = entry["path"].removesuffix(".json"), entry["expect"]
    refused = {error.key: error.code for error in loaded.rejected}
    assert (key in loaded.tasks) is (want["load"] == "ok")
    assert refused.get(key) == want.get("error")
    if key in loaded.tasks:
        task = loaded.tasks[key]
        assert task.key == want.get("key", key) and task.feasible is want.get("feasible", True)
        assert len(task.config) == want.get("setup_steps", 0)
        assert (task.id in loaded.shared_ids) is (want.get("flag") == "id_shared_by_two_tasks" or key == "mail/t-01")


def test_the_loader_counts_what_it_kept_and_what_it_refused(loaded: Loaded) -> None:
    want = FILES["expect_summary"]
    assert (len(loaded.tasks), len(loaded.rejected)) == (want["loaded"], want["rejected"])
    assert list(loaded.shared_ids) == want["ids_shared_by_two_tasks"]


@pytest.mark.parametrize("case", CHECKS, ids=lambda c: c["name"])
def test_a_check_enters_the_pool_only_if_work_passes_it_and_nothing_else_does(case: dict[str, Any]) -> None:
    raw = {"id": "check", "instruction": "do it", "config": [], "evaluator": case["check"]}
    files = [
        {f"Desktop/{name}": text.encode() for name, text in case[when].items()}
        for when in ("initial_files", "reference_files")
    ]
    got = _admitted(trials(read_task("pool/check", raw), *files))
    assert all(got[key] == value for key, value in case["expect"].items()), got


def test_a_result_of_a_task_that_nobody_listed_is_an_error_and_a_missing_one_counts_nothing() -> None:
    assert success_rate({"mail/t-01": 1.0, "mail/t-02": None}, ["mail/t-01", "mail/t-02", "mail/t-03"]) == (1 / 3, 3)
    with pytest.raises(TaskError):
        success_rate({"mail/t-09": 1.0}, ["mail/t-01"])
    assert shared_ids(["a/1", "b/1", "a/2"]) == ("1",)
