"""A rerun and the run it started from, each a click away from the other in MLflow."""

from __future__ import annotations

from components.contracts.digests import digest_value
from components.tracking.lineage import RunRecord
from components.tracking.mlflow_child import send_tags
from components.tracking.mlflow_store import Store


def link_tags(record: RunRecord) -> dict[str, str]:
    """What the rerun's own run says; empty for a run that is none."""
    return {"cowork.from_run": record.from_run, "cowork.rerun_stage": record.rerun} if record.from_run else {}


def link_runs(store: Store, mlflow_run: str, record: RunRecord) -> None:
    """Note each run's MLflow id with the other, where the earlier run is known to this store."""
    identity = digest_value(["recipe", record.from_run])
    found = store.client.search_runs([store.experiment_id], f"tags.`cowork.identity` = '{identity}'", max_results=1)
    if found:
        earlier = str(found[0].info.run_id)
        send_tags(store, mlflow_run, {"cowork.from_mlflow_run": earlier})
        send_tags(store, earlier, {f"cowork.rerun.{record.run_id}": mlflow_run})
