"""`python -m tests.unit.tracking.writers URI FOLDER COUNT METRICS`: stages that send their metrics side by side.

Each writer is a process of its own with a run of its own, forked once MLflow is loaded (loading it takes seconds).
Prints the errors; exit code 1 when there are any.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from components.tracking.events import SpoolSink, spool_path
from components.tracking.mlflow_sink import drain


def write(uri: str, folder: Path, number: int, metrics: int) -> str:
    run_dir = folder / f"writer-{number}"
    with SpoolSink(spool_path(run_dir, f"stage-{number}", 1)) as sink:
        sink.start(f"stage-{number}", 1, f"key-{number}")
        for step in range(metrics):
            sink.metric("loss", number + step / metrics, step)
        digest = f"md5:{number:032x}"
        sink.artifact("output", "checkpoint", digest, kind="checkpoint", path=f"outputs/models/{number}")
        sink.end("finished")
    return drain(run_dir, uri, tries=6).error


def arrived(uri: str, count: int, metrics: int) -> int:
    """Rows of metrics in the store, each checked to be what its writer said; every writer's checkpoint is a version."""
    from components.tracking.mlflow_registry import MODEL
    from tests.unit.tracking.mlflow_kit import client_of, runs_of

    runs, client, rows = runs_of(uri), client_of(uri), 0
    for number in range(count):
        run = runs[f"stage-{number}"]
        assert run.info.status == "FINISHED"
        history = sorted((m.step, m.value) for m in client.get_metric_history(run.info.run_id, "loss"))
        assert history == [(step, number + step / metrics) for step in range(metrics)]
        rows += len(history)
    versions = client.search_model_versions(f"name = '{MODEL}'")
    assert sorted(int(version.version) for version in versions) == list(range(1, count + 1))
    assert len({version.tags["cowork.digest"] for version in versions}) == count
    return rows


def main(uri: str, folder: Path, count: int, metrics: int) -> int:
    import mlflow.store.model_registry.sqlalchemy_store
    import mlflow.store.tracking.sqlalchemy_store  # noqa: F401

    children = []
    for number in range(count):
        if (pid := os.fork()) == 0:
            error = write(uri, folder, number, metrics)
            print(error, flush=True, end="\n" if error else "")
            os._exit(1 if error else 0)
        children.append(pid)
    return max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
