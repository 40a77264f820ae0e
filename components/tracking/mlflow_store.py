"""The connection to MLflow: environment switches, the local database's first use, the `dvc` dataset source.

`import mlflow` costs 2.2 CPU-seconds: it happens inside the functions here, and only when there is something to send.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from components.contracts.errors import ClusterError, OrchestrationError

SWITCHES = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    # A dead server must not hold the shipper for minutes: the spool keeps the records, the next pump tries again.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_TRUNCATE_LONG_VALUES": "false",
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


def is_server(uri: str) -> bool:
    """Whether an MLflow server stands between us and the database."""
    return uri.startswith(("http://", "https://"))


def without_secrets(text: str, uri: str) -> str:
    """`text` in which the password of `uri` is not to be read: for messages, logs and names."""
    try:
        password = urlsplit(uri).password
    except ValueError:
        password = None
    for secret in {password or "", unquote(password or "")} - {""}:
        text = text.replace(secret, "***")
    return text


def require_shared(uri: str) -> None:
    """Raises ClusterError for a store that the steps of a cluster cannot share: a file on one pod's disk.

    Several pods would each write a file of their own, or fail with `database is locked` in the middle of a run.
    """
    if not uri or uri.startswith(("sqlite:", "file:")) or "://" not in uri:
        raise ClusterError(
            "store_not_shared: this MLflow store is a file, and the steps of a cluster do not share a disk",
            where=f"MLFLOW_TRACKING_URI {uri}".strip(),
            remedy="name an MLflow server (http://...) or leave it unset",
        )


def connect(uri: str, experiment: str = EXPERIMENT, artifacts: Path | None = None) -> Store:
    """A client on `uri` and the id of the experiment, both made on first use.

    `artifacts`: folder for files where no server decides on it (default: beside a SQLite file, else the working
    directory). Processes that create the tables of one database at the same time break each other's, so that happens
    under a lock. Raises OrchestrationError for a database of another MLflow version: it is never migrated unasked.
    """
    for name, value in SWITCHES.items():
        os.environ.setdefault(name, value)
    if is_server(uri):
        return _open(uri, experiment, None)
    database = _sqlite_file(uri)
    folder = artifacts or (database.parent if database else Path()) / "mlartifacts"
    uri = _with_driver(uri)
    with _alone(uri, database) as connection:
        check_schema(connection, uri)
        return _open(uri, experiment, folder.resolve().as_uri())


def _with_driver(uri: str) -> str:
    """SQLAlchemy 2.1 takes psycopg 3 for `postgresql://`; psycopg2 will do where only that is installed."""
    if not uri.startswith(("postgresql:", "postgres:")):
        return uri
    from importlib.util import find_spec

    driver = next((name for name in ("psycopg", "psycopg2") if find_spec(name)), "")
    if not driver:
        raise OrchestrationError(
            "no driver for PostgreSQL is installed",
            where="MLFLOW_TRACKING_URI",
            remedy="pip install 'cowork[postgres]'",
        )
    return f"postgresql+{driver}:{uri.partition(':')[2]}"


@contextmanager
def _alone(uri: str, database: Path | None) -> Iterator[Any]:
    """A connection to the database, under a lock that everyone who opens it takes: a file's, or PostgreSQL's own."""
    from sqlalchemy import create_engine, text
    from sqlalchemy.pool import NullPool

    with ExitStack() as held:
        if database is not None:
            database.parent.mkdir(parents=True, exist_ok=True)
            lock = held.enter_context((database.parent / f".{database.name}.lock").open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        connection = held.enter_context(create_engine(uri, poolclass=NullPool).connect())
        if uri.startswith("postgresql"):
            connection.execute(text("select pg_advisory_lock(hashtext('cowork mlflow tables'))"))
            connection.commit()  # the lock belongs to the session and ends with it; no transaction stays open
        yield connection


def check_schema(connection: Any, uri: str) -> None:
    """Raises OrchestrationError (`migration_needed`) for a database whose tables another MLflow version made.

    MLflow itself would bring an older one up to date without a word, which shuts out everyone who uses it still.
    """
    import mlflow
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory

    quiet = logging.getLogger("alembic")
    quiet.setLevel(logging.WARNING)
    found = MigrationContext.configure(connection).get_current_revision()
    wanted = ScriptDirectory(str(Path(mlflow.__file__).parent / "store" / "db_migrations")).get_current_head()
    connection.rollback()
    if found is None or found == wanted:
        return
    shown = without_secrets(uri, uri)
    raise OrchestrationError(
        f"migration_needed: the database has schema {found}, MLflow {mlflow.__version__} works with {wanted}",
        where=shown,
        remedy=f"save a copy, stop everyone who uses it, then: mlflow db upgrade {shown}; "
        "or install the MLflow that it belongs to",
    )


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
