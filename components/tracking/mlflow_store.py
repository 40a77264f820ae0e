"""The connection to MLflow: environment switches, the local database's first use, the `dvc` dataset source.

`import mlflow` costs 2.2 CPU-seconds: it happens inside the functions here, and only when there is something to send.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

SWITCHES = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    # A dead server must not hold the shipper for minutes: the spool keeps the records, the next pump tries again.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}
EXPERIMENT = "cowork"
DIGEST_LABEL = 36
"""Characters MLflow keeps of a dataset digest (an md5 with `.dir` fits); the full one is in the source and in tags."""


class Store(NamedTuple):
    """A client and the experiment it writes to."""

    client: Any
    experiment_id: str


def state_root(run_dir: Path) -> Path:
    """The `.cowork` folder that holds this run, else the one of the current directory."""
    for parent in run_dir.resolve().parents:
        if parent.name == ".cowork":
            return parent
    return Path.cwd() / ".cowork"


def default_uri(run_dir: Path) -> str:
    """Where runs are sent: `MLFLOW_TRACKING_URI`, else a SQLite file beside the runs."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{state_root(run_dir)}/mlflow.db"


def _sqlite_file(uri: str) -> Path | None:
    return Path(uri.removeprefix("sqlite:///")) if uri.startswith("sqlite:///") else None


def connect(uri: str, experiment: str = EXPERIMENT) -> Store:
    """A client on `uri` and the id of the experiment, both made on first use.

    Processes that create one SQLite file at the same time break each other's tables, so that happens under a file lock.
    Raises MLflow's error for a database of an older version: it is never migrated unasked (`mlflow db upgrade URI`).
    """
    for name, value in SWITCHES.items():
        os.environ.setdefault(name, value)
    database = _sqlite_file(uri)
    if database is None:
        return _open(uri, experiment, None)
    database.parent.mkdir(parents=True, exist_ok=True)
    artifacts = (database.parent / "mlartifacts").resolve().as_uri()
    with (database.parent / f".{database.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _open(uri, experiment, artifacts)


def _open(uri: str, experiment: str, artifacts: str | None) -> Store:
    import mlflow
    from mlflow.exceptions import MlflowException

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    register_dvc_source()
    client = mlflow.MlflowClient(tracking_uri=uri)
    found = client.get_experiment_by_name(experiment)
    if found is None:
        try:
            return Store(client, client.create_experiment(experiment, artifact_location=artifacts))
        except MlflowException:
            # Somebody else made it between the two calls; if not, the next line has nothing to give and says why.
            found = client.get_experiment_by_name(experiment)
            if found is None:
                raise
    return Store(client, found.experiment_id)


@lru_cache(maxsize=1)
def register_dvc_source() -> Any:
    """The `DatasetSource` of DVC-tracked data, known to MLflow from then on: path, full digest, commit."""
    from mlflow.data.dataset_source import DatasetSource
    from mlflow.data.dataset_source_registry import register_dataset_source

    class DvcDatasetSource(DatasetSource):  # type: ignore[misc]
        def __init__(self, path: str, digest: str, commit: str = "") -> None:
            self.path, self.digest, self.commit = path, digest, commit

        @staticmethod
        def _get_source_type() -> str:
            return "dvc"

        def load(self, **_: Any) -> str:
            """The local path. Fetching what is not there is DVC's work: `dvc pull PATH`."""
            return self.path

        @staticmethod
        def _can_resolve(raw_source: Any) -> bool:
            return isinstance(raw_source, str) and raw_source.startswith("dvc://")

        @classmethod
        def _resolve(cls, raw_source: Any) -> DvcDatasetSource:
            path, _, digest = raw_source.removeprefix("dvc://").partition("@")
            return cls(path, digest)

        def to_dict(self) -> dict[str, Any]:
            return {"path": self.path, "digest": self.digest, "commit": self.commit}

        @classmethod
        def from_dict(cls, source_dict: dict[Any, Any]) -> DvcDatasetSource:
            return cls(source_dict["path"], source_dict["digest"], source_dict.get("commit", ""))

    register_dataset_source(DvcDatasetSource)  # type: ignore[arg-type]  # MLflow's annotation says an instance
    return DvcDatasetSource


def dataset_input(name: str, path: str, digest: str, commit: str, context: str) -> Any:
    """A `DatasetInput` for `MlflowClient.log_inputs`."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    source = {"path": path, "digest": digest, "commit": commit}
    dataset = Dataset(name, digest.split(":")[-1][:DIGEST_LABEL], "dvc", json.dumps(source, sort_keys=True))
    return DatasetInput(dataset, [InputTag("mlflow.data.context", context)])
