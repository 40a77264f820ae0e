"""One stage of a run on the MLflow side: its child run, what it read and wrote, its metrics and its end."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from components.contracts.digests import digest_value, short
from components.tracking.events import Event, start_of
from components.tracking.ledger import StageCost, add_events
from components.tracking.mlflow_names import (
    OLD_PARAM_LIMIT,
    PARAM_LIMIT,
    chunks,
    clean_name,
    fit_param,
    fit_tag,
    param_file,
    whole_in,
)
from components.tracking.mlflow_registry import find_version, note_evaluation, note_failure, register
from components.tracking.mlflow_store import DIGEST_LABEL, Store, dataset_input
from components.tracking.promotion import Evaluation

FINAL = {"finished": "FINISHED", "failed": "FAILED", "killed": "KILLED"}
EVALUATES = "evaluate-"
"""What the names of stages that measure a checkpoint begin with."""
WITHOUT_A_WORD = "ended without a word: killed, out of memory, or the machine went down"


def find_or_create_run(store: Store, identity: str, name: str, tags: dict[str, str], started: int | None = None) -> str:
    """The run with that identity tag, made when there is none: a shipper killed after creating it finds it again."""
    found = store.client.search_runs([store.experiment_id], f"tags.`cowork.identity` = '{identity}'", max_results=1)
    if found:
        return str(found[0].info.run_id)
    tags = {clean_name(k): fit_tag(v) for k, v in {**tags, "cowork.identity": identity}.items() if v}
    run = store.client.create_run(store.experiment_id, start_time=started, tags=tags, run_name=name)
    return str(run.info.run_id)


def send_tags(store: Store, run_id: str, tags: dict[str, str]) -> None:
    from mlflow.entities import RunTag

    fitted = [RunTag(clean_name(name), fit_tag(value)) for name, value in sorted(tags.items())]
    for batch in chunks(fitted, 100):
        store.client.log_batch(run_id, tags=batch)


def send_params(store: Store, run_id: str, values: dict[str, str], limit: int = PARAM_LIMIT) -> None:
    """All parameters, in batches; values over the limit as files, renamed ones with the original name in a tag.

    A server of an older version refuses values over 500 characters, or cuts them without a word: then they are files.
    """
    from mlflow.entities import Param
    from mlflow.exceptions import MlflowException

    fitted = [fit_param(name, value, limit) for name, value in sorted(values.items())]
    for param in fitted:
        if param.whole is not None:
            store.client.log_text(run_id, param.whole, param_file(param.name))
    try:
        for batch in chunks(fitted, 50):
            store.client.log_batch(run_id, params=[Param(param.name, param.value) for param in batch])
    except MlflowException as error:
        if limit <= OLD_PARAM_LIMIT or "length" not in str(error):
            raise
        return send_params(store, run_id, values, OLD_PARAM_LIMIT)
    said = {f"name.{p.name}": n for p, n in zip(fitted, sorted(values), strict=True) if p.name != n}
    if any(len(param.value) > OLD_PARAM_LIMIT for param in fitted):
        known = store.client.get_run(run_id).data.params
        for param in fitted:
            if param.whole is None and known.get(param.name, "") != param.value:
                store.client.log_text(run_id, param.value, param_file(param.name))
                said[f"cut.{param.name}"] = f"cut by the server; {whole_in(param.name, param.value)}"
    send_tags(store, run_id, said)


def _is_known_as(known: str | None, name: str, value: str, limit: int) -> bool:
    """Whether what a server has of a parameter (None = nothing yet) is that value, as it or an old one holds it."""
    forms = (fit_param(name, value, limit).value, fit_param(name, value, OLD_PARAM_LIMIT).value)
    return known is None or known in forms or (len(known) >= OLD_PARAM_LIMIT and value.startswith(known))


def send_results(store: Store, run_id: str, values: dict[str, float]) -> None:
    """Final figures of a run. Sent twice, they are one: their time is that of the run's start."""
    from mlflow.entities import Metric

    at = store.client.get_run(run_id).info.start_time
    for batch in chunks([Metric(name, value, at, 0) for name, value in sorted(values.items())], 500):
        store.client.log_batch(run_id, metrics=batch)


class ChildRun:
    """The child run of one attempt.

    `run` names the recipe run, `parent` is its MLflow id; `previous` is the MLflow run of the attempt before and
    `previous_status` how that one ended.
    """

    def __init__(
        self, store: Store, *, run: str, parent: str, stage: str, attempt: int, start: Event, param_limit: int,
        previous: str, previous_status: str, commit: str = "", mlflow_run: str = "",
    ) -> None:  # fmt: skip
        self._store, self._run, self._parent, self._stage, self._attempt = store, run, parent, stage, attempt
        self._start, self._limit, self._previous_status = start, param_limit, previous_status
        self._commit = start.get("tags", {}).get("commit", commit)
        self.mlflow_run = mlflow_run or self._open("", previous)

    def _open(self, variant: str, previous: str) -> str:
        key = self._start.get("key", "")
        tags = {
            "mlflow.parentRunId": self._parent, "mlflow.source.git.commit": self._commit, "cowork.kind": "stage",
            "cowork.run": self._run, "cowork.stage": self._stage, "cowork.stage_key": key,
            "mlflow.source.name": f"cowork step {self._stage}", "mlflow.source.type": "LOCAL",
        }  # fmt: skip
        identity = digest_value(["stage", self._run, self._stage, key, variant])
        found = find_or_create_run(self._store, identity, self._stage, tags, self._start.get("t"))
        said = {"cowork.attempt": str(self._attempt)} | self._start.get("tags", {})
        if previous and previous != found:
            said["cowork.previous_attempt"] = previous
        send_tags(self._store, found, said)
        return found

    def send(self, events: Iterable[Event], earlier: dict[tuple[str, int], float]) -> None:
        """Send a batch of records. `earlier`: metrics this run knows from earlier attempts, not to be said again."""
        batch = list(events)
        for event in batch:
            if event["k"] == "params" and event["values"]:
                self._params(event["values"])
        for event in batch:
            if event["k"] == "artifact":
                self._artifact(event)
        self._metrics([event for event in batch if event["k"] == "metric"], earlier)
        notes = [event["text"] for event in batch if event["k"] == "note"]
        if notes:
            send_tags(self._store, self.mlflow_run, {"cowork.last_note": notes[-1]})

    def _params(self, values: dict[str, str]) -> None:
        """A parameter cannot change in a run: changed ones open a run of their own, linked to this one."""
        known = self._store.client.get_run(self.mlflow_run).data.params
        if any(not _is_known_as(known.get(clean_name(n)), n, value, self._limit) for n, value in values.items()):
            old = self.mlflow_run
            self.mlflow_run = self._open(digest_value(values), old)
            self._leave(old)
        send_params(self._store, self.mlflow_run, values, self._limit)

    def _leave(self, old: str) -> None:
        """The run that this attempt turned away from keeps its values, and how its own attempt ended."""
        said = {"cowork.continued_in": self.mlflow_run}
        if self._previous_status:  # it was opened again for this attempt
            said["cowork.attempt"] = str(self._attempt - 1)
        send_tags(self._store, old, said)
        self._store.client.set_terminated(old, self._previous_status or "KILLED", end_time=self._start.get("t"))

    def _metrics(self, events: list[Event], earlier: dict[tuple[str, int], float]) -> None:
        from mlflow.entities import Metric

        finite, odd = [], {}
        for event in events:
            name, step, value = event["name"], int(event["step"]), float(event["value"])
            if not math.isfinite(value):
                # MLflow would show the newest value as the metric's value: a NaN must not win over a number.
                odd[f"nonfinite.{name}"] = f"{value} at step {step}"
            elif earlier.get((name, step)) != value:
                finite.append(Metric(clean_name(name), value, event["t"], step))
        for batch in chunks(finite, 500):
            self._store.client.log_batch(self.mlflow_run, metrics=batch)
        if odd:
            send_tags(self._store, self.mlflow_run, odd)

    # What was read and written.

    def _artifact(self, event: Event) -> None:
        name, digest, role = event["name"], event["digest"], event["role"]
        send_tags(self._store, self.mlflow_run, {f"{role}.{name}": digest})
        if event["kind"] == "checkpoint":
            if role == "input":
                self._model_input(event)
            else:
                self._model_output(event)
        elif role == "input":
            context = "evaluation" if self._stage.startswith(EVALUATES) else "training"
            # The path tells data sets apart; a stage's own word for it ("corpus") does not.
            data = dataset_input(event["path"] or name, event["path"], digest, self._commit, context)
            self._store.client.log_inputs(self.mlflow_run, datasets=[data])

    def _find_model(self, tag: str, value: str) -> Any | None:
        """The logged model with that tag: this recipe run's if it made one, else the newest."""
        found = self._store.client.search_logged_models(
            [self._store.experiment_id], filter_string=f"tags.`{tag}` = '{value}'", max_results=50,
            order_by=[{"field_name": "creation_timestamp", "ascending": False}],
        )  # fmt: skip
        ours = [model for model in found if model.tags.get("cowork.run") == self._run]
        return next(iter([*ours, *found]), None)

    def _create_model(self, event: Event, source: str | None, tags: dict[str, str]) -> Any:
        """A logged model for a checkpoint, not READY yet."""
        tags = {"cowork.digest": event["digest"], "cowork.path": event["path"], **tags}
        return self._store.client.create_logged_model(
            self._store.experiment_id, name=f"{Path(event['path']).name or event['name']}-{short(event['digest'], 8)}",
            source_run_id=source, tags={name: value for name, value in tags.items() if value}, model_type="checkpoint",
        )  # fmt: skip

    def _publish(self, model: Any, event: Event) -> Any:
        """READY, with a manifest as its only file: the weights themselves are DVC's, found by the digest."""
        if model.status == "READY":
            return model
        client = self._store.client
        facts = {name: event[name] for name in ("name", "path", "digest", "size", "parent")}
        with tempfile.TemporaryDirectory() as folder:
            manifest = Path(folder) / "checkpoint.json"
            manifest.write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n")
            client.log_model_artifact(model.model_id, str(manifest))
        return client.finalize_logged_model(model.model_id, "READY")

    def _model_input(self, event: Event) -> None:
        from mlflow.entities import LoggedModelInput

        model = self._find_model("cowork.digest", event["digest"])
        if model is None:
            # Made outside every run we know, like the base checkpoint: still a node of the lineage.
            model = self._create_model(event, None, {"cowork.external": "true"})
        model = self._publish(model, event)
        self._store.client.log_inputs(self.mlflow_run, models=[LoggedModelInput(model.model_id)])

    def _model_output(self, event: Event) -> None:
        from mlflow.entities import LoggedModelOutput

        run = self._store.client.get_run(self.mlflow_run)
        known = {output.model_id for output in (run.outputs.model_outputs if run.outputs else [])}
        identity = digest_value(["model", self.mlflow_run, event["name"], event["digest"]])
        model = self._find_model("cowork.identity", identity)
        if model is None:
            parent = self._find_model("cowork.digest", event["parent"]) if event["parent"] else None
            tags = {"cowork.identity": identity, "cowork.run": self._run, "cowork.stage": self._stage}
            tags |= {"cowork.parent_digest": event["parent"], "cowork.parent_model": parent.model_id if parent else ""}
            model = self._create_model(event, self.mlflow_run, tags)
        model = self._publish(model, event)
        if model.model_id not in known:
            self._store.client.log_outputs(self.mlflow_run, [LoggedModelOutput(model.model_id, 0)])
        register(
            self._store, model, digest=event["digest"], path=event["path"], stage=self._stage, run=self._run,
            mlflow_run=self.mlflow_run,
        )  # fmt: skip

    # The end.

    def finish(self, end: Event, attempts: list[list[Event]]) -> None:
        """Results, costs of all attempts of this run, and the status the stage ended with."""
        from mlflow.entities import Metric

        client, at = self._store.client, int(end["t"])
        run = client.get_run(self.mlflow_run)
        curves = {clean_name(e["name"]) for events in attempts for e in events if e["k"] == "metric"}
        models = [item.model_id for item in run.inputs.model_inputs] if run.inputs else []
        writes = [item.model_id for item in run.outputs.model_outputs] if run.outputs else []
        data = [item.dataset for item in run.inputs.dataset_inputs] if run.inputs else []
        scored: dict[str, Any] = {}
        if models and not writes:
            # A stage that reads a checkpoint and makes none has measured it: its results belong to the model's page.
            scored = {"model_id": models[0]}
            if data:
                scored |= {"dataset_name": data[0].name, "dataset_digest": data[0].digest[:DIGEST_LABEL]}
        results, odd = [], {}
        for name, value in end["metrics"].items():
            clean = clean_name(name)
            number = float(value)
            if math.isfinite(number):
                results.append(Metric(f"final.{clean}" if clean in curves else clean, number, at, 0, **scored))
            else:
                odd[f"nonfinite.{name}"] = f"{number} at the end"
        cost = StageCost(stage=self._stage)
        for events in attempts:
            add_events(cost, events)
        amounts = sorted(cost.figures().items())
        costs = [Metric(clean_name(f"cost.{name}"), value, at, 0) for name, value in amounts if value]
        for batch in chunks(results, 500):
            client.log_batch(self.mlflow_run, metrics=batch)
        client.log_batch(self.mlflow_run, metrics=costs)
        if end["error"]:
            odd["cowork.error"] = end["error"]
        elif "cowork.error" in run.data.tags:
            client.delete_tag(self.mlflow_run, "cowork.error")  # of an earlier attempt that this one made good
        if said := self._judge(attempts[-1], end):
            odd["cowork.evaluation"] = said
        send_tags(self._store, self.mlflow_run, odd)
        self.terminate(FINAL[end["status"]], at)

    def _judge(self, events: list[Event], end: Event) -> str:
        """What an evaluation means for the registry, in words; empty for a stage that is none."""
        said = next((event for event in reversed(events) if event["k"] == "evaluation"), None)
        read = [e for e in events if e["k"] == "artifact" and e["role"] == "input" and e["kind"] == "checkpoint"]
        if not read or not (said or self._stage.startswith(EVALUATES)):
            return ""
        stage = said["stage"] if said else self._stage.removeprefix(EVALUATES)
        version = find_version(self._store, read[0]["digest"])
        if version is None:
            model = self._find_model("cowork.digest", read[0]["digest"])
            if model is None or stage == "base" or said is None:
                return ""  # the base checkpoint is no stage's work
            version = register(
                self._store, model, digest=read[0]["digest"], path=read[0]["path"], stage=stage,
                run=model.tags.get("cowork.run", "unknown"), mlflow_run=model.source_run_id or None,
            )  # fmt: skip
        if said is None or end["status"] != "finished":
            return note_failure(self._store, version, str(end["error"] or end["status"]))
        fields = {**said, "success": None if said["success"] is None else float(said["success"])}
        return note_evaluation(self._store, version, Evaluation.model_validate(fields), int(end["t"]))

    def reopen(self) -> None:
        self._store.client.update_run(self.mlflow_run, status="RUNNING")

    def cut_off(self, by_user: bool, at: int | None) -> str:
        """The end of a stage that did not say one: stopped by the user, or crashed. The status it got."""
        status = "KILLED" if by_user else "FAILED"
        if not by_user:
            send_tags(self._store, self.mlflow_run, {"cowork.error": WITHOUT_A_WORD})
        self.terminate(status, at)
        return status

    def terminate(self, status: str, at: int | None) -> None:
        self._store.client.set_terminated(self.mlflow_run, status, end_time=at)


def same_work(attempts: list[list[Event]]) -> list[list[Event]]:
    """The attempts that share the stage key of the last one."""
    key = start_of(attempts[-1]).get("key", "")
    return [events for events in attempts if start_of(events).get("key", "") == key]
