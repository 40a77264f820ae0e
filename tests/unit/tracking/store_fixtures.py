"""A database with MLflow's tables, made once for all tests here: making it takes seconds."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from components.tracking.events import SpoolSink, spool_path
from components.tracking.mlflow_sink import drain
from tests.unit.tracking.mlflow_kit import uri_of


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `mlflow.db`: tables, an experiment, and nothing else. Test processes side by side share it."""
    folder = tmp_path_factory.getbasetemp()
    if "popen-gw" in folder.name:
        folder = folder.parent
    folder = folder / "empty-store"
    with FileLock(f"{folder}.lock"):
        if not (folder / "mlflow.db").is_file():
            _make(folder.with_name("store-being-made"))
            folder.with_name("store-being-made").rename(folder)
    return folder


def _make(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    run_dir = folder / ".cowork" / "runs" / "first"
    SpoolSink(spool_path(run_dir, "forge", 1)).close()
    assert drain(run_dir, uri_of(folder)).error == ""
    with sqlite3.connect(folder / "mlflow.db") as database:
        for table in ("tags", "latest_metrics", "metrics", "params", "runs"):
            database.execute(f"delete from {table}")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where the machine has one: SQLite waits for the disk at every commit."""
    shared = Path("/dev/shm")
    if not os.access(shared, os.W_OK) or shutil.disk_usage(shared).free < 64 << 20:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=shared, prefix="cowork-test-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def root(empty_store: Path, memory: Path) -> Path:
    """A folder with a store of its own."""
    shutil.copy(empty_store / "mlflow.db", memory / "mlflow.db")
    return memory
