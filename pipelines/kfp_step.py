"""The one body behind every Kubeflow component: manifests in, the stage's function, manifests out.

Nothing here imports kfp. A component hands over its artifacts (`path`, `uri`, `metadata`), so the same call works
in a pod, under `kfp.local` and inside a test.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from filelock import FileLock

from components.contracts.digests import digest_value
from components.contracts.errors import CheckpointError, DataError, OrchestrationError
from components.contracts.secrets import redact
from pipelines.kfp_call import PASSING, StageCall, call_stage
from pipelines.kfp_settings import BASE_TASK, StepSettings
from pipelines.kfp_store import Manifest, describe, entry_path, fetch, publish, read_manifest
from pipelines.registry import StageDef
from pipelines.workspace import SOURCE, registry, stage_named

IMAGE = "cowork-step:0.1.0"
"""Default image of a step on a cluster; the pipeline's `image` parameter replaces it. Unused by the local runner."""


class Artifact(Protocol):
    """The part of a KFP artifact that is used here."""

    uri: str
    metadata: dict[str, Any]

    @property
    def path(self) -> str: ...


def run_step(
    settings: str,
    store: str,
    inputs: Mapping[str, Artifact | None],
    outputs: Mapping[str, Artifact],
    metrics: Artifact,
    page: Artifact | None = None,
) -> dict[str, Manifest]:
    """Run one stage as a Kubeflow task.

    `settings` is an output of the configure step. Inputs (None = not connected) hold manifests; their data is fetched
    from the `store` folder by digest and checked before the stage sees it. Outputs are published to the store and
    get manifests. `metrics` takes the stage's figures, `page` the HTML file of the first output, written even where
    the stage then fails.

    Raises OrchestrationError at once, without doing the work, when an earlier attempt of the same task failed for a
    reason that stays; so Kubeflow's retries, which cannot tell one failure from another, cost nothing then.
    """
    told = StepSettings.decode(settings)
    stage = stage_named(told.stage, registry())
    folder = Path(store)
    refusal = folder / ".refused" / f"{digest_value(sorted(a.uri for a in outputs.values()))[7:]}.json"
    if refusal.exists():
        raise OrchestrationError(
            f"an earlier attempt failed and this one would too: {json.loads(refusal.read_text())['error']}",
            where=told.stage,
        )
    try:
        return _run(told, stage, folder, inputs, outputs, metrics, page)
    except PASSING:
        raise
    except Exception as error:
        refusal.parent.mkdir(parents=True, exist_ok=True)
        refusal.write_text(
            json.dumps({"stage": told.stage, "error": redact(f"{type(error).__name__}: {error}")}), encoding="utf-8"
        )
        raise


def publish_base(settings: str, store: str, checkpoint: Artifact) -> Manifest:
    """The body of the `base` task: put the stored base checkpoint into the store.

    Raises CheckpointError when it is not the one that the settings were made for.
    """
    told = StepSettings.decode(settings)
    folder = SOURCE / told.params["model.base"]
    digest = publish(folder, Path(store))
    if digest != told.code_key:
        raise CheckpointError(
            f"the base checkpoint is {digest}, the run began with {told.code_key}",
            where=str(folder),
            remedy="use one image for all steps of a run",
        )
    manifest = describe(BASE_TASK, "checkpoint", digest, Path(store))
    _fill(checkpoint, manifest)
    return manifest


def _run(
    told: StepSettings,
    stage: StageDef,
    store: Path,
    inputs: Mapping[str, Artifact | None],
    outputs: Mapping[str, Artifact],
    metrics: Artifact,
    page: Artifact | None,
) -> dict[str, Manifest]:
    read = {name: read_manifest(Path(artifact.path)) for name, artifact in inputs.items() if artifact is not None}
    _check_names(stage, set(read), set(outputs))
    sources = {name: fetch(manifest.digest, store) for name, manifest in read.items()}
    key = digest_value([told.model_dump(), {name: manifest.digest for name, manifest in read.items()}])
    work = store / ".work" / key[7:]
    work.mkdir(parents=True, exist_ok=True)
    # The state of a killed attempt is resumed, so two steps of one key must not write it at the same time.
    with FileLock(f"{work}.lock"):
        (work / "state").mkdir(parents=True, exist_ok=True)
        drafts = {name: work / "outputs" / name for name in outputs}
        shutil.rmtree(work / "outputs", ignore_errors=True)
        (work / "outputs").mkdir()
        call = StageCall(settings=told, key=key, inputs=sources, outputs=drafts, state=work / "state")
        try:
            figures = call_stage(call, work)
        except Exception:
            _keep_page(drafts, page, store)
            raise
        if page is not None:
            _publish_page(drafts[next(iter(outputs))], page)
        manifests = {}
        for name, artifact in outputs.items():
            digest = publish(drafts[name], store, move=True)
            manifests[name] = describe(told.stage, name, digest, store)
            _fill(artifact, manifests[name])
        _fill_metrics(metrics, figures)
        shutil.rmtree(work)
    return manifests


def _check_names(stage: StageDef, inputs: set[str], outputs: set[str]) -> None:
    for what, given, declared in (("inputs", inputs, set(stage.inputs)), ("outputs", outputs, set(stage.outputs))):
        if given != declared:
            raise OrchestrationError(
                f"{what} {sorted(given)} were connected, the registry names {sorted(declared)}", where=stage.name
            )


def _fill(artifact: Artifact, manifest: Manifest) -> None:
    Path(artifact.path).write_text(manifest.text(), encoding="utf-8")
    artifact.metadata.update(digest=manifest.digest, files=manifest.files, bytes=manifest.bytes, counts=manifest.counts)


def _fill_metrics(metrics: Artifact, figures: Mapping[str, float]) -> None:
    """Figures for Kubeflow's table (its JSON has no NaN), and in a file, without which kfp.local caches nothing."""
    plain = {name: float(value) if math.isfinite(value) else str(value) for name, value in sorted(figures.items())}
    metrics.metadata.update(plain)
    Path(metrics.path).write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")


def _keep_page(drafts: Mapping[str, Path], page: Artifact | None, store: Path) -> None:
    """The page of a stage that failed and said why (a data gate): it stays in the store, and the log says where."""
    folder = drafts[next(iter(drafts))]
    if page is not None and any(folder.glob("*.html")):
        _publish_page(folder, page)
        print(f"page of the failed stage: {entry_path(store, publish(folder, store))}", flush=True)


def _publish_page(folder: Path, page: Artifact) -> None:
    found = sorted(folder.glob("*.html"))
    if not found:
        raise DataError("the report holds no page", where=str(folder))
    shutil.copyfile(found[0], page.path)
