"""The stores behind MLflow: PostgreSQL with writers side by side (SQLite: case C67), old databases, secrets."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from components.contracts.errors import ClusterError, OrchestrationError
from components.tracking.events import SpoolSink, spool_path
from components.tracking.mlflow_sink import MlflowShipper
from components.tracking.mlflow_store import connect, require_shared, without_secrets
from tests.unit.tracking.mlflow_kit import SECONDS, uri_of
from tests.unit.tracking.postgres import missing, postgres
from tests.unit.tracking.writers import arrived

SOURCE = Path(__file__).resolve().parents[3]


@pytest.mark.slow
@pytest.mark.timeout(3 * SECONDS)
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_stages_side_by_side_lose_nothing_on_postgresql_not_even_when_all_of_them_are_the_first(memory: Path) -> None:
    with postgres() as uri:
        command = [sys.executable, "-m", "tests.unit.tracking.writers", uri, str(memory / "runs"), "8", "200"]
        done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, timeout=2 * SECONDS)
        assert done.returncode == 0, done.stdout + done.stderr[-2000:]
        from sqlalchemy import create_engine, text

        from components.tracking.mlflow_store import _with_driver

        assert arrived(_with_driver(uri), 8, 200) == 1600
        with create_engine(_with_driver(uri)).connect() as connection:
            where = connection.execute(text("select artifact_location from experiments where name = 'cowork'")).scalar()
            open_locks = connection.execute(text("select count(*) from pg_locks where locktype = 'advisory'")).scalar()
        assert str(where).startswith("file:///") and open_locks == 0
        assert not (SOURCE / "mlruns").exists() and not (SOURCE / "mlartifacts").exists()


@pytest.mark.parametrize("revision", ["acf3f17fdcc7", "fffffffffff1"])
def test_a_database_of_another_mlflow_is_left_alone_and_the_way_out_is_named(root: Path, revision: str) -> None:
    with sqlite3.connect(root / "mlflow.db") as database:
        database.execute("update alembic_version set version_num = ?", [revision])
        database.execute("drop table model_version_tags")  # MLflow takes a missing table as leave to migrate
    with pytest.raises(OrchestrationError, match="migration_needed.*mlflow db upgrade sqlite:"):
        connect(uri_of(root))
    with sqlite3.connect(root / "mlflow.db") as database:
        assert database.execute("select version_num from alembic_version").fetchall() == [(revision,)]
    run_dir = root / "runs" / "one"
    SpoolSink(spool_path(run_dir, "forge", 1)).close()
    shipper = MlflowShipper(run_dir, uri_of(root))
    assert "migration_needed" in shipper.pump(final=True).error and shipper.pending(), "the records wait in the spool"


@pytest.mark.parametrize("uri", ["sqlite:////data/mlflow.db", "file:/data/mlruns", "mlruns", ""])
def test_a_cluster_refuses_a_store_that_its_steps_cannot_share(uri: str) -> None:
    with pytest.raises(ClusterError, match="store_not_shared"):
        require_shared(uri)


@pytest.mark.parametrize("uri", ["http://mlflow:5000", "https://mlflow.example/x", "postgresql://u@h/db"])
def test_a_cluster_takes_a_server(uri: str) -> None:
    require_shared(uri)


def test_the_password_of_a_store_is_in_no_message_and_no_file(tmp_path: Path) -> None:
    uri = "http://someone:ca%40nary@127.0.0.1:9"
    assert (
        without_secrets(f"cannot reach {uri} with ca@nary", uri)
        == "cannot reach http://someone:***@127.0.0.1:9 with ***"
    )
    run_dir = tmp_path / "runs" / "one"
    SpoolSink(spool_path(run_dir, "forge", 1)).close()
    error = MlflowShipper(run_dir, uri).pump().error
    assert error and "nary" not in error
    written = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert written and not any("nary" in text for text in written)
    same = MlflowShipper(run_dir, uri.replace("ca%40nary", "another"))
    assert same._positions == MlflowShipper(run_dir, uri)._positions, "a new password is no new server"
