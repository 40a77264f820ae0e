"""A run's whole record: from this one file the run can be found, checked and repeated.

`record.json` in a run's folder holds the run record (commit, resolved parameters, digests, environment, seed), the text
of `dvc.lock` and `params.yaml`, what differed from the commit, and the curves to compare a rerun with. It goes to the
remote with the data and to MLflow with the run. It carries its own digest, so a changed or damaged record shows.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from components.contracts.digests import digest_value
from components.contracts.errors import DataError, OrchestrationError
from components.tracking.events import list_spools, read_events
from components.tracking.lineage import RECORD_FILE, RunRecord
from pipelines.dvcfiles import Locked, parse_lock
from pipelines.plan import differences
from pipelines.source_changes import PATCH_FILE, Changes
from pipelines.stage_params import pick

SCHEMA = "cowork-record/1"
Curves = dict[str, dict[str, list[tuple[int, float]]]]
"""Stage -> metric -> (step, value)."""


class Bundle(BaseModel):
    """See the module. `mlflow` grows with the shipping; everything else is written once."""

    model_config = ConfigDict(extra="forbid")
    schema_: str = Field(default=SCHEMA, alias="schema")
    run: RunRecord
    lock: str
    lock_md5: str = ""
    """The md5 of the `dvc.lock` file, a name by which the run can be found."""
    params: str
    changes: Changes
    curves: Curves = Field(default_factory=dict)
    origins: dict[str, str] = Field(default_factory=dict)
    """Stage whose outputs were reused -> the run that made them, where that is known."""
    mlflow: dict[str, str] = Field(default_factory=dict)
    """MLflow run id -> stage; "" for the run of the whole recipe."""
    digest: str = ""

    def stages(self) -> dict[str, Locked]:
        """The stages of its lock. Raises OrchestrationError for a lock that cannot be read."""
        return parse_lock(self.lock, f"dvc.lock of run {self.run.run_id}")

    def sealed(self) -> Bundle:
        """The same with its digest."""
        return self.model_copy(update={"digest": digest_value(self._content())})

    def _content(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True, exclude={"digest"})

    def text(self) -> str:
        return json.dumps(self.sealed().model_dump(mode="json", by_alias=True), indent=1, sort_keys=True) + "\n"


def read_bundle(text: str | bytes, where: str) -> Bundle:
    """Raises DataError for what is no record, or one whose content does not fit its digest."""
    try:
        bundle = Bundle.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(
            f"not a run's record: {'.'.join(str(part) for part in first['loc'])}: {first['msg']}", where=where
        ) from None
    if bundle.schema_ != SCHEMA:
        raise DataError(f"a record of schema {bundle.schema_!r}; this code reads {SCHEMA!r}", where=where)
    if bundle.digest != digest_value(bundle._content()):
        raise DataError(
            "the record was changed after it was written: its content does not fit its digest",
            where=where,
            remedy="take the record from another place (the run's folder, the remote, MLflow)",
        )
    if bundle.lock_md5 != md5_text(bundle.lock):
        raise DataError("the record's dvc.lock is not the one of its md5", where=where)
    return bundle


def md5_text(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def load_bundle(run_dir: Path) -> Bundle | None:
    """The record of a run's folder with the MLflow runs known by now; None where the run ended without one."""
    path = run_dir / RECORD_FILE
    if not path.is_file():
        return None
    bundle = read_bundle(path.read_bytes(), f"{run_dir.name}/{RECORD_FILE}")
    return bundle.model_copy(update={"mlflow": {**bundle.mlflow, **mlflow_runs(run_dir)}}).sealed()


def write_bundle(run_dir: Path, record: RunRecord, lock: Path, params: Path, origins: Mapping[str, str]) -> None:
    """Keep the record of a run that ends now; nothing where the run never came to a `dvc.lock`."""
    if not lock.is_file():
        return
    try:
        changes = Changes.model_validate_json((run_dir / PATCH_FILE).read_bytes())
    except (OSError, ValidationError):
        changes = Changes(state="unknown")
    text = lock.read_text(encoding="utf-8")
    bundle = Bundle(
        run=record, lock=text, lock_md5=md5_text(text), params=params.read_text(encoding="utf-8"), changes=changes,
        curves=curves_of(run_dir), origins=dict(origins), mlflow=mlflow_runs(run_dir),
    )  # fmt: skip
    draft = run_dir / f".{RECORD_FILE}.{os.getpid()}"
    draft.write_text(bundle.text(), encoding="utf-8")
    os.replace(draft, run_dir / RECORD_FILE)


def curves_of(run_dir: Path) -> Curves:
    """The metric curves in the spools of a run: the last value said of each step."""
    found: dict[str, dict[str, dict[int, float]]] = {}
    for spool in list_spools(run_dir):
        for event in read_events(spool.path).events:
            if event["k"] == "metric" and (value := float(event["value"])) == value and abs(value) != float("inf"):
                found.setdefault(spool.stage, {}).setdefault(event["name"], {})[int(event["step"])] = value
    return {
        stage: {name: sorted(points.items()) for name, points in sorted(curves.items())}
        for stage, curves in sorted(found.items())
    }


def mlflow_runs(run_dir: Path) -> dict[str, str]:
    """MLflow run ids that the shipper noted for this run, with the stage of each."""
    found: dict[str, str] = {}
    for path in sorted((run_dir / "ship").glob("*/*.json")):
        try:
            known = json.loads(path.read_text(encoding="utf-8")).get("mlflow_run", "")
        except (OSError, ValueError, AttributeError):
            continue
        if known:
            found[known] = "" if path.stem == "parent" else path.stem.rpartition(".")[0]
    return found


# Does a record fit together?


def makers(stages: Mapping[str, Locked]) -> dict[str, str]:
    """Output path -> stage."""
    return {path: name for name, entry in stages.items() for path in entry.outs}


def needed(stages: Mapping[str, Locked], wanted: list[str]) -> list[str]:
    """The wanted stages and all that they depend on, makers before users."""
    made, done, order = makers(stages), set(), []

    def visit(name: str) -> None:
        if name not in done:
            done.add(name)
            for path in stages[name].deps:
                if path in made:
                    visit(made[path])
            order.append(name)

    for name in wanted:
        visit(name)
    return order


def contradictions(bundle: Bundle, names: list[str]) -> list[str]:
    """What does not fit in a record, for these stages: a lock against itself and against the run record, parameters
    against both, stage keys against what they are made of. Empty for a sound one."""
    stages = bundle.stages()
    made = makers(stages)
    read = sorted({dotted for name in names for dotted in stages[name].params})
    found = _params_faults(bundle, read)
    for name in names:
        entry = stages[name]
        for path in (*entry.deps, *entry.outs):
            if path.startswith("/") or ".." in path.split("/"):
                found.append(f"{name}: {path} lies outside of the recipe")
        for path, digest in entry.deps.items():
            if path in made and stages[made[path]].outs[path] != digest:
                found.append(
                    f"{name} read {path} as {digest}, but {made[path]} wrote it as {stages[made[path]].outs[path]}"
                )
        for dotted, value in entry.params.items():
            try:
                now = pick(bundle.run.params, dotted)
            except (KeyError, TypeError):
                found.append(f"{name}: the lock has parameter {dotted}, the run record has not")
                continue
            found += [f"{name}: lock and run record differ in {line}" for line in differences(value, now, dotted)]
        found += _run_faults(bundle, name, entry)
    return found


def _params_faults(bundle: Bundle, read: list[str]) -> list[str]:
    """Of the sections that count."""
    import yaml

    try:
        written = yaml.safe_load(bundle.params)
    except yaml.YAMLError:
        return ["params.yaml of the record cannot be read"]
    both = [dotted for dotted in read if _has(written, dotted) and _has(bundle.run.params, dotted)]
    return [
        f"params.yaml and run record differ in {line}"
        for dotted in both
        for line in _leaves(pick(written, dotted), pick(bundle.run.params, dotted), dotted)
    ]


def _leaves(written: Any, resolved: Any, dotted: str) -> list[str]:
    """Values that params.yaml gives and the resolved parameters have otherwise; what it leaves out has defaults."""
    if isinstance(written, Mapping) and isinstance(resolved, Mapping):
        found = []
        for key, value in written.items():
            name = f"{dotted}.{key}".lstrip(".")
            found += _leaves(value, resolved[key], name) if key in resolved else [f"{name} is unknown"]
        return found
    if isinstance(resolved, str) and not isinstance(written, str):
        return []  # text that YAML takes for something else; the run read it by its declared type
    return differences(written, resolved, dotted)


def _run_faults(bundle: Bundle, name: str, entry: Locked) -> list[str]:
    known = next((stage for stage in bundle.run.stages if stage.name == name), None)
    if known is None or known.status not in ("finished", "reused"):
        return []
    found = []
    for word, artifacts, locked in (("wrote", known.outputs, entry.outs), ("read", known.inputs, entry.deps)):
        for artifact in artifacts:
            if artifact.path in locked and locked[artifact.path] != artifact.digest:
                found.append(
                    f"{name} {word} {artifact.path} as {artifact.digest} by the run record, "
                    f"as {locked[artifact.path]} by its dvc.lock"
                )
    if known.key and known.inputs and entry.code_key:
        own = {dotted: pick(bundle.run.params, dotted) for dotted in entry.params if _has(bundle.run.params, dotted)}
        reads = {artifact.name: artifact.digest for artifact in known.inputs}
        if known.key != digest_value([name, own, reads, entry.code_key]):
            found.append(f"{name}: its stage key is not that of its parameters, inputs and code")
    return found


def _has(values: Mapping[str, Any], dotted: str) -> bool:
    try:
        pick(values, dotted)
        return True
    except (KeyError, TypeError):
        return False


def require_sound(bundle: Bundle, names: list[str]) -> None:
    """Raises DataError that names each contradiction."""
    if found := contradictions(bundle, names):
        raise DataError(
            "the record contradicts itself:" + "".join(f"\n  {line}" for line in found[:20]) + "\n",
            where=f"run {bundle.run.run_id}",
            remedy="dvc.lock or the record was edited or merged by hand; nothing was started",
        )


def shortcomings(bundle: Bundle) -> dict[str, str]:
    """Why a run cannot be repeated exactly, by a short name for each reason. Empty when all is known."""
    run, found = bundle.run, {}
    if not run.commit:
        found["no_commit"] = "the run names no commit"
    if bundle.changes.state == "unknown":
        found["uncommitted_changes"] = (
            "its code differed from the commit and the difference was not kept"
            + (f" (digest {bundle.changes.digest})" if bundle.changes.digest else "")
            + (f": {bundle.changes.why}" if bundle.changes.why else "")
        )
    if not bundle.lock:
        found["no_lock"] = "it has no dvc.lock"
    if not (run.environment.get("image") or run.environment.get("python")):
        found["environment_unknown"] = "neither its image nor the versions of its libraries are known"
    if run.params.get("seed") is None or run.params["seed"] != run.seed:
        found["no_seed"] = "its seed is not known"
    if run.incomplete:
        found["data_missing"] = f"it began with incomplete data: {', '.join(run.incomplete)}"
    return found


def require_known(bundle: Bundle, ignore: tuple[str, ...] = ()) -> None:
    """Raises OrchestrationError that lists what is unknown."""
    found = {name: text for name, text in shortcomings(bundle).items() if name not in ignore}
    if found:
        raise OrchestrationError(
            "it cannot be reproduced:" + "".join(f"\n  {name}: {text}" for name, text in found.items()) + "\n",
            where=f"run {bundle.run.run_id}",
            remedy="nothing was started",
        )
