"""Open cases of group 7 (MLflow, lineage) and C53 row g, on real stores. The adapters translate names only."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.contracts.digests import digest_bytes
from components.contracts.errors import CoworkError, DataError
from components.tracking.events import SpoolSink, spool_path
from components.tracking.lineage import Artifact, RunRecord, StageRecord, find_faults
from components.tracking.mlflow_registry import CHAMPION, MODEL, check_alias, note_evaluation, resolve
from components.tracking.mlflow_sink import MlflowShipper, drain
from components.tracking.mlflow_store import Store, connect
from components.tracking.promotion import Evaluation
from pipelines.dvcfiles import content
from tests.unit.tracking.mlflow_kit import SECONDS, Interrupting, aliases_of, client_of, runs_of, shift, uri_of
from tests.unit.tracking.writers import arrived

ROOT = Path(__file__).resolve().parents[2]
ROWS = [json.loads(line) for line in (Path(__file__).parent / "data" / "g7_lineage.jsonl").read_text().splitlines()]
HOLDS_THE_LOCK = """
import sqlite3, sys, time
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("begin exclusive")
print("locked", flush=True)
time.sleep(float(sys.argv[2]))
database.execute("rollback")
"""


def send(run_dir: Path, root: Path, *attempts: list[dict[str, Any]], key: str = "key", ends: str = "finished") -> None:
    """Attempts of the stage `rl`, each with its batches of parameters, sent to the store."""
    for number, batches in enumerate(attempts, start=1):
        with SpoolSink(spool_path(run_dir, "rl", number)) as sink:
            sink.start("rl", number, key)
            for batch in batches:
                sink.params(batch)
                sink.flush()
            last = number == len(attempts)
            sink.end(ends if last else "failed", error="" if last else "it broke")  # type: ignore[arg-type]
        assert drain(run_dir, uri_of(root)).error == ""


def stage_runs(root: Path) -> list[Any]:
    """The runs of `rl`, the oldest first."""
    found = client_of(uri_of(root)).search_runs(["1"], "tags.`cowork.stage` = 'rl'")
    return sorted(found, key=lambda run: int(run.data.tags["cowork.attempt"]))


# C65: values of any size and name.


def c65(given: dict[str, Any], root: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    if "server_limit" in given:
        from mlflow.utils import validation

        monkeypatch.setattr(validation, "MAX_PARAM_VAL_LENGTH", given["server_limit"])
    run_dir = root / "runs" / "one"
    if "parameters" in given:
        send(run_dir, root, [{f"p{number}": number for number in range(given["parameters"])}])
        return {"stored": len(stage_runs(root)[0].data.params)}
    if "parameter_name" in given:
        send(run_dir, root, [{given["parameter_name"]: 3}])
        run = stage_runs(root)[0]
        ((name, value),) = run.data.params.items()
        return {"stored": value == "3", "name_cleaned": True, "original_kept_in_tag": given["parameter_name"] in
                (name, run.data.tags.get(f"name.{name}"))}  # fmt: skip
    value = given.get("value") or "v" * given["value_chars"]
    send(run_dir, root, [{"prompt": value}])
    run = stage_runs(root)[0]
    assert run.info.status == "FINISHED", "the stage never fails for it"
    shown = run.data.params["prompt"]
    if shown == value:
        return {"stored": "parameter, whole"}
    path = client_of(uri_of(root)).download_artifacts(run.info.run_id, "params/prompt.txt")
    whole, hashed = Path(path).read_text(encoding="utf-8") == value, digest_bytes(value.encode()) in shown
    says = "artifact, whole; parameter holds a short form and the hash"
    return {"stored": says if whole and hashed else f"cut: {shown[:40]}"}


# C67: one store for many.


def c67(given: dict[str, Any], root: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    uri, run_dir = uri_of(root), root / "runs" / "one"
    if "writers" in given:
        numbers = [str(given["writers"]), str(given["metrics_each"])]
        command = [sys.executable, "-m", "tests.unit.tracking.writers", uri, str(root / "runs"), *numbers]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=2 * SECONDS)
        rows = arrived(uri, given["writers"], given["metrics_each"])
        return {"rows": rows, "errors": done.returncode + len(done.stdout.split())}
    if given.get("mode") == "cluster":
        from pipelines.kfp_settings import resolve as configure

        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        return {**refusal(lambda: configure("smoke", 0, "{}")), "when": "start"}
    if "database_version" in given:
        with sqlite3.connect(root / "mlflow.db") as database:
            database.execute("update alembic_version set version_num = 'acf3f17fdcc7'")
        got = refusal(lambda: connect(uri))
        return {**got, "how": "mlflow db upgrade" in got["said"]}
    with SpoolSink(spool_path(run_dir, "rl", 1)) as sink:
        sink.start("rl", 1, "key")
        for step in range(50):
            sink.metric("loss", 1.0 / (step + 1), step)
        sink.end("finished")
    if "tracking_server" in given:
        return outage(run_dir, uri)
    other = subprocess.Popen(
        [sys.executable, "-c", HOLDS_THE_LOCK, str(root / "mlflow.db"), "3"], stdout=subprocess.PIPE, text=True
    )
    assert other.stdout and other.stdout.readline() == "locked\n"
    result = drain(run_dir, uri)
    other.communicate()
    return {"retries": True, "stage": "succeeded" if not result.error and stage_runs(root) else result.error}


def outage(run_dir: Path, uri: str) -> dict[str, Any]:
    """A server that answers nothing for several tries, then is back."""

    class Down:
        def __getattr__(self, name: str) -> Any:
            def call(*_: Any, **__: Any) -> Any:
                raise ConnectionError("connection refused")

            return call

    shipper = MlflowShipper(run_dir, uri)
    store = connect(uri)
    shipper._store = Store(Down(), store.experiment_id)
    assert all("refused" in shipper.pump(final=True).error for _ in range(3))
    shipper._store = store
    assert shipper.pump(final=True).error == ""
    run = runs_of(uri)["rl"]
    arrived = len(client_of(uri).get_metric_history(run.info.run_id, "loss"))
    return {"stage": "goes on", "metrics": "buffered and sent later", "lost": 50 - arrived}


def refusal(work: Callable[[], Any]) -> dict[str, Any]:
    """The name of the error, which is what its message begins with."""
    try:
        work()
    except CoworkError as error:
        return {"error": error.message.partition(":")[0], "said": str(error)}
    return {"error": ""}


# C69: the same work again.


def c69(given: dict[str, Any], root: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    run_dir = root / "runs" / given.get("run_name", "one")
    if "log" in given:
        send(run_dir, root, [dict([pair]) for pair in given["log"]])
        runs = stage_runs(root)
        values = {run.data.params["depth"] for run in runs}
        if not given.get("same_run"):
            return {"ok": len(runs) == 1 and values == {"3"}}
        old = next(run for run in runs if run.data.params["depth"] == "3")
        new = next(run for run in runs if run.data.params["depth"] == "5")
        linked = new.data.tags["cowork.previous_attempt"] == old.info.run_id
        return {"new_attempt_run": linked and new.info.status == "FINISHED", "old_value_kept": old.data.params["depth"]}
    if given.get("retry_of_failed_run"):
        send(run_dir, root, [{"depth": 3}], [{"depth": 3}])
        (run,) = stage_runs(root)
        return {"ok": run.info.status == "FINISHED", "attempt_tag": int(run.data.tags["cowork.attempt"])}
    if "batch" in given:
        send(run_dir, root, [dict(given["batch"]), dict(given["then_batch"])])
        (run,) = stage_runs(root)
        return {"stored": run.data.params}
    if "resume_with" in given:
        send(run_dir, root, [given["first"]], [given["resume_with"]])
        first, second = stage_runs(root)
        linked = second.data.tags["cowork.previous_attempt"] == first.info.run_id
        return {"new_attempt_run": first.info.run_id != second.info.run_id, "link_to_first": linked}
    send(run_dir, root, [{}], [{}])
    found = [name for name in runs_of(uri_of(root)) if name == given["run_name"]]
    return {"found": len(found)}


# C71: what makes two data sets the same.


def c71(given: dict[str, Any], root: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    if "lineage_record" in given:
        weak = Artifact(name="corpus", path="outputs/corpus", digest="1234abcd")
        faults = find_faults(RunRecord(run_id="r", stages=[StageRecord(name="rl", inputs=[weak])]))
        severe = [fault.code for fault in faults if fault.severe]
        return {"gate": "fail" if severe else "pass", "reason": severe[0] if severe else ""}
    first, second = root / "one", root / "two"
    write_sets(given, first, second)
    same_content = content(first), content(second)
    assert same_content[0] and same_content[1]
    digests = [found.digest for found in same_content if found]
    got: dict[str, Any] = {"same_identity": digests[0] == digests[1]}
    if "set_1_name" in given:
        model = Artifact(name="checkpoint", path="model", digest="md5:" + "0" * 32, kind="checkpoint")
        sets = [Artifact(name=given[f"set_{n}_name"], path=f"outputs/{n}", digest=digests[n - 1]) for n in (1, 2)]
        stages = [
            StageRecord(name="rl", inputs=[sets[0]], outputs=[model]),
            StageRecord(name="evaluate-rl", inputs=[sets[1], model]),
        ]
        (fault,) = find_faults(RunRecord(run_id="r", stages=stages))
        got["warning"] = fault.code
    return got


def write_sets(given: dict[str, Any], first: Path, second: Path) -> None:
    if "set_1_column_type" in given:
        import pyarrow as pa
        import pyarrow.parquet as parquet

        flags = [number % 3 == 0 for number in range(12000)]
        parquet.write_table(pa.table({"flag": flags}), first)
        parquet.write_table(pa.table({"flag": [not flag for flag in flags]}), second)
        return
    rows = [json.dumps({"row": number, "label": 0}) for number in range(12000)]
    other = list(rows)
    if "shuffled" in str(given.get("set_2", "")):
        random.Random(1).shuffle(other)
    elif "last row" in str(given.get("set_2", "")):
        other[-1] = json.dumps({"row": 11999, "label": 1})
    first.write_text("\n".join(rows))
    second.write_text("\n".join(other))


# C73: names and moves of aliases.


def c73(given: dict[str, Any], root: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    if "alias" in given:
        return {"accept": not refusal(lambda: check_alias(given["alias"]))["error"]}
    store = connect(uri_of(root))
    store.client.create_registered_model(MODEL)
    for letter in "1234":
        store.client.create_model_version(MODEL, Path("/nowhere").as_uri(), tags={"cowork.digest": letter * 32})

    def evaluate(version: int, success: float, infra_errors: int = 0, on: Store = store) -> str:
        facts = {"episodes": 4, "expected": 4, "infra_errors": infra_errors}
        return note_evaluation(on, version, Evaluation(stage="rl", success=success, bench="b", **facts), version)

    if given.get("promotions_at_the_same_time"):
        # The worse one reads that nobody is champion; before it moves the alias the better one does.
        both = Store(Interrupting(store.client, lambda: evaluate(1, 0.5)), store.experiment_id)
        said = evaluate(2, 0.4, on=both)
        holder = aliases_of(uri_of(root))[CHAMPION]
        told = holder == 1 and "champion stays version 1" in said
        return {"alias_points_to": "exactly one, loser told" if told else f"{holder}: {said}"}
    first = given["events"][0]
    if "evaluation failed" in first:
        evaluate(1, 0.9, infra_errors=1)
        return {"promoted": bool(aliases_of(uri_of(root)))}
    evaluate(3, 0.5)
    pinned = resolve(store, CHAMPION)
    if "deleted" in given["events"][1]:
        store.client.delete_model_version(MODEL, "3")
        try:
            return {"alias_lookup": str(resolve(store, CHAMPION))}
        except DataError as error:
            return {"alias_lookup": error.message.partition(":")[0]}
    evaluate(4, 0.6)
    assert resolve(store, CHAMPION).version == 4
    return {"serving_version": pinned.version, "recorded": str(pinned.version)}


ADAPTERS = {"C65": c65, "C67": c67, "C69": c69, "C71": c71, "C73": c73}


@pytest.mark.timeout(3 * SECONDS)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["case"] + row["row"])
def test_case(row: dict[str, Any], root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    got = ADAPTERS[row["case"]](row["given"], root, monkeypatch)
    outcomes = [row["expect"], *row.get("also_ok", [])]
    assert any(all(got.get(name) == value for name, value in want.items()) for want in outcomes), (got, outcomes)


def test_every_open_row_of_the_group_is_here() -> None:
    counts = {case: sum(row["case"] == case for row in ROWS) for case in ADAPTERS}
    assert counts == {"C65": 6, "C67": 5, "C69": 6, "C71": 5, "C73": 11} and len(ROWS) == 33


def test_c53_g_a_rerun_is_a_new_run_in_lineage_that_links_the_inputs_it_reused(root: Path) -> None:
    for number, (name, status) in enumerate((("first", "finished"), ("second", "reused"))):
        run_dir = root / "runs" / name
        record = RunRecord(run_id=name, status="finished")
        tasks = Artifact(name="tasks", path="outputs/tasks", digest="md5:" + "a" * 32)
        record.stages = [StageRecord(name="prepare", key="key-p", status=status, outputs=[tasks])]  # type: ignore[arg-type]
        for stage in ("prepare", "train")[number:]:
            with SpoolSink(spool_path(run_dir, stage, 1)) as sink:
                sink.start(stage, 1, f"key-{stage[0]}" + ("" if stage == "prepare" else name))
                sink.end("finished")
            shift(spool_path(run_dir, stage, 1), 1000 * number)
        record.save(run_dir)
        assert drain(run_dir, uri_of(root)).error == ""
    found = client_of(uri_of(root)).search_runs(["1"], max_results=50)
    by_run = {(run.data.tags["cowork.run"], run.info.run_name): run for run in found}
    second, made = by_run["second", "second"], by_run["first", "prepare"]
    assert ("second", "prepare") not in by_run and ("second", "train") in by_run
    assert second.data.tags["cowork.reused_from.prepare"] == made.info.run_id
    assert f"runs/{made.info.run_id}" in second.data.tags["mlflow.note.content"], "a link to click"
