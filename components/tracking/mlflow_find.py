"""From an MLflow run id back to the run of ours that it tells of."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.tracking.lineage import RECORD_FILE
from components.tracking.mlflow_store import SWITCHES


@dataclass(frozen=True)
class Found:
    """`stage` is empty for the run of a whole recipe. `record`: the text of `record.json` when MLflow keeps it."""

    run: str
    stage: str
    record: str


def stores_of(state: Path) -> list[str]:
    """The MLflow stores a recipe may have written to: the one of the environment and the files beside the runs."""
    given = os.environ.get("MLFLOW_TRACKING_URI")
    files = [state / "mlflow.db", *sorted(state.glob("profiles/*/.cowork/mlflow.db"))]
    return [*([given] if given else []), *(f"sqlite:///{path}" for path in files if path.is_file())]


def locate(state: Path, run_id: str) -> Iterator[tuple[str, Found | None]]:
    """(store, what it knows of that id) for each store of the recipe; a store that does not answer knows nothing."""
    stores = stores_of(state)
    if not stores:
        return
    for name, value in SWITCHES.items():
        os.environ.setdefault(name, value)
    import mlflow

    for uri in stores:
        client = mlflow.MlflowClient(tracking_uri=uri)
        try:
            run = client.get_run(run_id)
        except Exception:  # unknown there, or not reachable: the next place may have it
            yield uri, None
            continue
        tags = run.data.tags
        parent = tags.get("mlflow.parentRunId", run_id)
        yield uri, Found(tags.get("cowork.run", ""), tags.get("cowork.stage", ""), _record(client, parent))


def _record(client: Any, run_id: str) -> str:
    with tempfile.TemporaryDirectory(prefix="cowork-record-") as folder:
        try:
            return Path(client.download_artifacts(run_id, RECORD_FILE, folder)).read_text(encoding="utf-8")
        except Exception:  # an older run, or one whose artifacts are gone
            return ""
