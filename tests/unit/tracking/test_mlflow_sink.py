"""Promises of the MLflow shipper, on a real SQLite store."""

from __future__ import annotations

import math
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from components.tracking.events import SpoolSink, spool_path
from components.tracking.lineage import RunRecord, StageRecord
from components.tracking.mlflow_names import PARAM_LIMIT, TAG_LIMIT, clean_name, fit_param, fit_tag
from components.tracking.mlflow_sink import MlflowShipper, drain
from components.tracking.mlflow_store import register_dvc_source
from tests.unit.tracking.mlflow_kit import SECONDS, client_of, runs_of, shift, uri_of

BASE, MIDTRAINED, TRAINED = "b" * 32 + ".dir", "c" * 32 + ".dir", "d" * 32 + ".dir"
CORPUS, TASKS = "1" * 32 + ".dir", "2" * 32 + ".dir"


def client(root: Path) -> Any:
    return client_of(uri_of(root))


def runs(root: Path) -> dict[str, Any]:
    return runs_of(uri_of(root))


def history(root: Path, run: Any, name: str) -> list[tuple[int, float]]:
    return sorted((m.step, m.value) for m in client(root).get_metric_history(run.info.run_id, name))


def tell(run_dir: Path) -> None:
    """A small recipe: midtrain from an outside base, gui-sft from it, an evaluation of the result."""
    with SpoolSink(spool_path(run_dir, "midtrain", 1)) as sink:
        sink.start("midtrain", 1, "key-m", commit="c0ffee")
        sink.params({"lr": 1e-3, "steps": 40})
        sink.artifact("input", "corpus", CORPUS, path="data/corpus")
        sink.artifact("input", "base", BASE, kind="checkpoint", path="models/base")
        for step in range(40):
            sink.metric("loss", 1 / (step + 1), step)
        sink.artifact("output", "midtrain", MIDTRAINED, kind="checkpoint", path="models/midtrain", parent=BASE, size=9)
        sink.ledger("train", tokens=1000, parameters=500)
        sink.end("finished", metrics={"final_loss": 0.025})
    with SpoolSink(spool_path(run_dir, "gui-sft", 1)) as sink:
        sink.start("gui-sft", 1, "key-g", commit="c0ffee")
        sink.artifact("input", "midtrain", MIDTRAINED, kind="checkpoint", path="models/midtrain")
        sink.artifact("output", "gui-sft", TRAINED, kind="checkpoint", path="models/gui-sft", parent=MIDTRAINED)
        sink.end("finished")
    with SpoolSink(spool_path(run_dir, "evaluate-gui-sft", 1)) as sink:
        sink.start("evaluate-gui-sft", 1, "key-e")
        sink.artifact("input", "tasks", TASKS, path="data/tasks")
        sink.artifact("input", "gui-sft", TRAINED, kind="checkpoint", path="models/gui-sft")
        sink.end("finished", metrics={"success": 0.5, "calls": 4.0})
    for second, stage in enumerate(("midtrain", "gui-sft", "evaluate-gui-sft")):
        shift(spool_path(run_dir, stage, 1), second * 1000)


def assert_told_once(root: Path) -> None:
    """What the store must hold after `tell`, however often and with whatever accidents it was sent."""
    found = runs(root)
    assert set(found) == {"recipe-1", "midtrain", "gui-sft", "evaluate-gui-sft"}
    assert {run.info.status for run in found.values()} == {"FINISHED"}
    assert history(root, found["midtrain"], "loss") == [(step, 1 / (step + 1)) for step in range(40)]
    assert found["midtrain"].data.params == {"lr": "0.001", "steps": "40"}
    assert len(found["midtrain"].inputs.dataset_inputs) == 1
    for name in ("midtrain", "gui-sft"):
        assert len(found[name].inputs.model_inputs) == 1
        assert len(found[name].outputs.model_outputs) == 1
    models = client(root).search_logged_models(["1"])
    assert sorted(model.tags["cowork.digest"] for model in models) == sorted([BASE, MIDTRAINED, TRAINED])
    assert {str(model.status) for model in models} == {"READY"}
    versions = client(root).search_model_versions("name = 'cowork-policy'")
    assert sorted(version.tags["cowork.digest"] for version in versions) == sorted([MIDTRAINED, TRAINED])


def recipe(root: Path, status: str = "finished") -> Path:
    run_dir = root / "runs" / "recipe-1"
    record = RunRecord(run_id="recipe-1", commit="c0ffee", dirty=True, profile="tiny", seed=7)
    record.params = {"rl": {"lr": 1e-4}}
    record.stages = [StageRecord(name="forge", key="key-f", status="reused")]
    record.status = status  # type: ignore[assignment]
    record.save(run_dir)
    return run_dir


def test_every_stage_is_a_child_of_the_recipe_run_with_its_params_costs_and_status(root: Path) -> None:
    run_dir = recipe(root)
    tell(run_dir)
    assert drain(run_dir, uri_of(root)).error == ""
    assert_told_once(root)
    found = runs(root)
    parent = found["recipe-1"]
    children = [run for name, run in found.items() if name != "recipe-1"]
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}
    assert parent.data.tags["mlflow.source.git.commit"] == "c0ffee"
    assert parent.data.tags["cowork.dirty"] == "true"
    assert parent.data.tags["cowork.reused.forge"] == "key-f"
    assert parent.data.params == {"rl.lr": "0.0001"}
    midtrain = found["midtrain"]
    assert midtrain.data.tags["cowork.stage_key"] == "key-m"
    assert midtrain.data.metrics["cost.flops"] == 6 * 500 * 1000
    assert midtrain.data.metrics["final_loss"] == 0.025
    files = {item.path for item in client(root).list_artifacts(parent.info.run_id)}
    assert files == {"run.json", "lineage.svg"}


def test_the_lineage_of_a_score_can_be_walked_back_to_the_corpus(root: Path) -> None:
    run_dir = recipe(root)
    tell(run_dir)
    drain(run_dir, uri_of(root))
    api = client(root)
    evaluation = runs(root)["evaluate-gui-sft"]
    assert evaluation.inputs.dataset_inputs[0].dataset.digest == TASKS
    assert [tag.value for tag in evaluation.inputs.dataset_inputs[0].tags] == ["evaluation"]
    scored = api.get_logged_model(evaluation.inputs.model_inputs[0].model_id)
    assert scored.tags["cowork.digest"] == TRAINED
    assert {(m.key, m.value, m.dataset_digest) for m in scored.metrics} == {
        ("success", 0.5, TASKS),
        ("calls", 4.0, TASKS),
    }
    maker = api.get_run(scored.source_run_id)
    assert maker.info.run_name == "gui-sft"
    before = api.get_logged_model(maker.inputs.model_inputs[0].model_id)
    assert before.model_id == scored.tags["cowork.parent_model"]
    first = api.get_run(before.source_run_id)
    source = first.inputs.dataset_inputs[0].dataset
    assert (first.info.run_name, source.source_type) == ("midtrain", "dvc")
    data = register_dvc_source().from_json(source.source)
    assert (data.path, data.digest, data.commit) == ("data/corpus", CORPUS, "c0ffee")
    base = api.get_logged_model(first.inputs.model_inputs[0].model_id)
    assert (base.source_run_id or "", base.tags["cowork.external"]) == ("", "true")


def test_sending_everything_a_second_time_changes_nothing(root: Path) -> None:
    run_dir = recipe(root)
    tell(run_dir)
    drain(run_dir, uri_of(root))
    assert not MlflowShipper(run_dir, uri_of(root)).pending(final=True)
    shutil.rmtree(run_dir / "ship")
    assert drain(run_dir, uri_of(root)).records > 40
    assert_told_once(root)


class Killed(BaseException):
    """Ends the shipper the way a signal does: nothing below catches it."""


class DyingClient:
    """The client of a shipper that is killed right after, or right before, its n-th call."""

    def __init__(self, real: Any, calls: int, before: bool) -> None:
        self._real, self.left, self._before = real, calls, before

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **more: Any) -> Any:
            self.left -= 1
            if self.left == 0 and self._before:
                raise Killed
            result = getattr(self._real, name)(*args, **more)
            if self.left == 0:
                raise Killed
            return result

        return call


@pytest.mark.parametrize("before", [False, True])
def test_a_shipper_killed_at_any_call_is_continued_by_the_next_one_and_nothing_is_doubled(
    root: Path, before: bool
) -> None:
    run_dir = recipe(root)
    tell(run_dir)
    deaths = 0
    for calls in [*range(1, 12), *range(12, 60, 5)]:
        shipper = MlflowShipper(run_dir, uri_of(root))
        from components.tracking import mlflow_store

        store = mlflow_store.connect(uri_of(root))
        shipper._store = mlflow_store.Store(DyingClient(store.client, calls, before), store.experiment_id)
        try:
            shipper.pump(final=True)
        except Killed:
            deaths += 1
    assert deaths >= 6
    assert drain(run_dir, uri_of(root)).error == ""
    assert_told_once(root)


def test_a_resumed_stage_goes_on_in_its_run_and_the_last_word_on_a_step_is_current(root: Path) -> None:
    run_dir = recipe(root, "running")
    with SpoolSink(spool_path(run_dir, "rl", 1)) as sink:
        sink.start("rl", 1, "key")
        sink.params({"lr": "0.1"})
        for step, value in ((1, 0.9), (2, 0.8), (3, 0.7)):
            sink.metric("loss", value, step)
    assert drain(run_dir, uri_of(root)).error == ""
    found = runs(root)
    assert (found["rl"].info.status, found["recipe-1"].info.status) == ("FAILED", "FAILED")
    assert "without a word" in found["rl"].data.tags["cowork.error"]
    with SpoolSink(spool_path(run_dir, "rl", 2)) as sink:
        sink.start("rl", 2, "key")
        sink.params({"lr": "0.1"})
        for step, value in ((2, 0.8), (3, 0.65), (4, 0.6)):
            sink.metric("loss", value, step)
        sink.flush()
        assert drain(run_dir, uri_of(root), final=False).error == ""
        assert runs(root)["rl"].info.status == "RUNNING"
        sink.end("finished")
    recipe(root, "finished")
    assert drain(run_dir, uri_of(root)).error == ""
    found = runs(root)
    assert (found["rl"].info.status, found["recipe-1"].info.status) == ("FINISHED", "FINISHED")
    assert found["rl"].data.tags["cowork.attempt"] == "2"
    assert "cowork.error" not in found["rl"].data.tags, "the second attempt made it good"
    # Step 2 came out the same and is not said twice; step 3 changed, its old value stays in the history.
    assert history(root, found["rl"], "loss") == [(1, 0.9), (2, 0.8), (3, 0.65), (3, 0.7), (4, 0.6)]
    assert found["rl"].data.metrics["loss"] == 0.6
    assert found["rl"].data.metrics["cost.attempts"] == 2


def test_an_attempt_with_changed_params_gets_a_run_of_its_own_linked_to_the_first(root: Path) -> None:
    run_dir = recipe(root)
    for attempt, steps in ((1, 1000), (2, 2000)):
        with SpoolSink(spool_path(run_dir, "rl", attempt)) as sink:
            sink.start("rl", attempt, "key")
            sink.params({"steps": steps})
            sink.end("failed" if attempt == 1 else "finished", error="out of memory" if attempt == 1 else "")
    assert drain(run_dir, uri_of(root)).error == ""
    found = client(root).search_runs(["1"], "tags.`cowork.stage` = 'rl'")
    by_steps = {run.data.params["steps"]: run for run in found}
    assert {steps: run.info.status for steps, run in by_steps.items()} == {"1000": "FAILED", "2000": "FINISHED"}
    assert by_steps["1000"].data.tags["cowork.error"] == "out of memory"
    assert by_steps["2000"].data.tags["cowork.previous_attempt"] == by_steps["1000"].info.run_id


def test_attempts_with_another_stage_key_are_runs_apart_and_the_left_one_is_failed(root: Path) -> None:
    run_dir = recipe(root, "running")
    for attempt, key in ((1, "old"), (2, "new")):
        with SpoolSink(spool_path(run_dir, "rl", attempt)) as sink:
            sink.start("rl", attempt, key)
    assert drain(run_dir, uri_of(root), final=False).error == ""
    found = client(root).search_runs(["1"], "tags.`cowork.stage` = 'rl'")
    assert {run.data.tags["cowork.stage_key"]: run.info.status for run in found} == {"old": "FAILED", "new": "RUNNING"}
    assert drain(run_dir, uri_of(root), final=True).error == ""
    assert {run.info.status for run in client(root).search_runs(["1"], "tags.`cowork.stage` = 'rl'")} == {"FAILED"}


def test_a_metric_that_is_not_a_number_is_told_but_never_the_metric_s_value(root: Path) -> None:
    run_dir = recipe(root)
    with SpoolSink(spool_path(run_dir, "rl", 1)) as sink:
        sink.start("rl", 1, "key")
        sink.metric("loss", 0.5, 1)
        sink.metric("loss", math.nan, 2)
        sink.metric("kl", math.inf, 2)
        sink.end("finished", metrics={"reward": math.nan})
    assert drain(run_dir, uri_of(root)).error == ""
    run = runs(root)["rl"]
    assert run.data.metrics["loss"] == 0.5
    assert "kl" not in run.data.metrics and "reward" not in run.data.metrics
    assert run.data.tags["nonfinite.loss"] == "nan at step 2"
    assert run.data.tags["nonfinite.kl"] == "inf at step 2"


def test_long_and_odd_params_are_kept_whole(root: Path) -> None:
    run_dir = recipe(root)
    values = {f"p{number}": number for number in range(350)}
    values |= {"fits": "x" * 6000, "long": "é" * 6001, "stage/1 lr (warm-up)": 3, "../up": 1, "a//b": 2}
    with SpoolSink(spool_path(run_dir, "rl", 1)) as sink:
        sink.start("rl", 1, "key")
        sink.params(values)
        sink.end("finished")
    assert drain(run_dir, uri_of(root)).error == ""
    run = runs(root)["rl"]
    assert len(run.data.params) == 355
    assert run.data.params["fits"] == "x" * 6000
    short = run.data.params["long"]
    assert len(short) < 500 and "6001 characters" in short and "sha256:" in short
    path = client(root).download_artifacts(run.info.run_id, "params/long.txt")
    assert Path(path).read_text() == "é" * 6001
    renamed = next(name for name in run.data.params if name.startswith("stage/1 lr"))
    assert run.data.tags[f"name.{renamed}"] == "stage/1 lr (warm-up)"
    assert run.data.params[clean_name("../up")] == "1"


@pytest.mark.parametrize(
    ("letter", "length", "limit", "whole"),
    [("v", 6000, PARAM_LIMIT, True), ("v", 6001, PARAM_LIMIT, False), ("é", 6000, PARAM_LIMIT, True),
     ("é", 6001, PARAM_LIMIT, False), ("v", 500, 500, True), ("v", 501, 500, False)],
)  # fmt: skip
def test_a_value_is_a_whole_parameter_or_a_file_with_a_short_form_and_its_hash(
    letter: str, length: int, limit: int, whole: bool
) -> None:
    """Case C65."""
    value = letter * length
    param = fit_param("name", value, limit)
    assert len(param.value) <= limit
    assert (param.value == value, param.whole) == ((True, None) if whole else (False, value))
    assert whole or "sha256:" in param.value


def test_a_tag_is_never_cut_without_a_sign() -> None:
    assert fit_tag("x" * TAG_LIMIT) == "x" * TAG_LIMIT
    assert len(fit_tag("x" * 9000)) <= TAG_LIMIT and "9000 characters" in fit_tag("x" * 9000)


def test_a_dead_server_keeps_the_records_in_the_spool(root: Path) -> None:
    run_dir = recipe(root)
    tell(run_dir)
    refused = drain(run_dir, "http://127.0.0.1:9", tries=1)
    assert refused.error and refused.records == 0
    assert MlflowShipper(run_dir, "http://127.0.0.1:9").pending()
    assert drain(run_dir, uri_of(root)).error == ""
    assert_told_once(root)


def test_a_locked_database_is_waited_out(root: Path) -> None:
    run_dir = recipe(root)
    tell(run_dir)
    other = sqlite3.connect(root / "mlflow.db")
    other.execute("begin exclusive")
    shipper = MlflowShipper(run_dir, uri_of(root))
    assert "locked" in shipper.pump().error
    other.rollback()
    assert shipper.pump(final=True).error == ""
    assert_told_once(root)


def test_only_one_process_sends_a_run_at_a_time(root: Path) -> None:
    run_dir = recipe(root)
    tell(run_dir)
    first, second = MlflowShipper(run_dir, uri_of(root)), MlflowShipper(run_dir, uri_of(root))
    first._positions.mkdir(parents=True)
    with first._alone() as alone:
        assert alone
        assert second.pump().error == "another process is sending this run"
    assert second.pump(final=True).error == ""
    assert_told_once(root)


def test_nothing_to_send_costs_no_mlflow(tmp_path: Path) -> None:
    assert not MlflowShipper(tmp_path / "no-run", "sqlite:////nowhere/x.db").pending(final=True)
    assert drain(tmp_path, "sqlite:////nowhere/x.db").error == ""
    assert not Path("/nowhere").exists()


def test_the_module_sends_a_run_by_command(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from components.tracking.ship import main

    run_dir = recipe(root)
    tell(run_dir)
    assert main([str(run_dir), "--uri", uri_of(root)]) == 0
    assert "records sent" in capsys.readouterr().out
    assert_told_once(root)
    with pytest.raises(SystemExit):
        main([str(root / "missing")])


def test_a_followed_run_arrives_while_it_goes_on_and_ends_with_the_signal(root: Path) -> None:
    """The process of its own that `cowork run` keeps; an earlier run that died half sent is finished on the way."""
    from components.tracking.ship import spawn

    died = root / "runs" / "died"
    with SpoolSink(spool_path(died, "rl", 1)) as sink:
        sink.start("rl", 1, "key")
        assert drain(died, uri_of(root), final=False).error == ""
    run_dir = recipe(root, "running")
    process = spawn(run_dir, uri_of(root))
    try:
        process.terminate()  # at once: the records below must arrive all the same
        tell(run_dir)
        recipe(root)
        assert process.wait(SECONDS) == 0, (run_dir / "ship.log").read_text()
    finally:
        process.kill()
    found = client(root).search_runs(["1"], max_results=100)
    assert {run.info.run_name: run.info.status for run in found} == {
        "died": "FAILED", "rl": "FAILED", "recipe-1": "FINISHED", "midtrain": "FINISHED", "gui-sft": "FINISHED",
        "evaluate-gui-sft": "FINISHED",
    }  # fmt: skip
