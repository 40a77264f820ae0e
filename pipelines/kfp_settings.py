"""What one Kubeflow step is told in words: its stage, parameters and the key of its code, as one short string.

The string is the step's cache key beside its input artifacts and image, so it holds exactly what may change the
outcome: the seed and the sections of the parameters that the registry names for the stage, and nothing else.
"""

from __future__ import annotations

import json
import os
from collections import namedtuple
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from components.contracts.digests import canonical_json, digest_tree
from components.contracts.errors import CheckpointError, ParamsError
from components.contracts.params import Params
from components.tracking.events import flatten
from components.tracking.mlflow_store import require_shared
from pipelines.registry import StageDef
from pipelines.stage_params import sections
from pipelines.workspace import SOURCE, profile_path, registry

LIMIT = 10_000
"""Characters of one parameter. Kubeflow keeps parameters in the workflow's status (1 MiB for all of them), and the
local runner puts them on a command line of 128 KiB; anything longer is data and belongs in an artifact."""

BASE_TASK = "base"
"""The task that publishes the stored base checkpoint: no stage of the recipe, but where its models come from."""


class StepSettings(BaseModel):
    """One step. `params` are values by dotted section: `{"seed": 0, "collect.gui": {...}, "model": {...}}`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    stage: str
    params: dict[str, Any]
    code_key: str = Field(min_length=1)

    def encode(self) -> str:
        """Raises ParamsError when the result is too long for a parameter."""
        return check_length(self.stage, canonical_json(self.model_dump()))

    @staticmethod
    def decode(text: str) -> StepSettings:
        """Raises ParamsError for text that `encode` did not write."""
        try:
            return StepSettings.model_validate_json(text)
        except ValidationError as error:
            raise ParamsError(
                f"not a step's settings: {error.errors()[0]['msg']}",
                where=text[:80],
                remedy="pass an output of the configure task",
            ) from error

    def typed(self) -> Params:
        """The stage's parameters as its function takes them (`stage_params`), checked again."""
        try:
            typed: Params = _typed(Params, self.params)
        except (KeyError, ValidationError) as error:
            raise ParamsError(f"not this version's parameters: {error}", where=self.stage) from error
        return typed


def _typed(schema: type[BaseModel], values: Mapping[str, Any]) -> Any:
    """`schema` with the given dotted sections only; the others are absent on purpose."""
    whole: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {}
    for dotted, value in values.items():
        head, _, rest = dotted.partition(".")
        if rest:
            inner.setdefault(head, {})[rest] = value
        else:
            kind = schema.model_fields[head].annotation
            nested = isinstance(kind, type) and issubclass(kind, BaseModel)
            whole[head] = kind.model_validate(value) if nested else value  # type: ignore[union-attr]
    for head, rest_values in inner.items():
        kind = schema.model_fields[head].annotation
        assert isinstance(kind, type) and issubclass(kind, BaseModel)
        whole[head] = _typed(kind, rest_values)
    return schema.model_construct(_fields_set=set(whole), **whole)


def check_length(name: str, text: str) -> str:
    """`text`, or ParamsError that names the parameter when it is longer than `LIMIT`."""
    if len(text) > LIMIT:
        raise ParamsError(
            f"{len(text)} characters in one pipeline parameter, the limit is {LIMIT}",
            where=name,
            remedy="make a profile of these values and name it instead",
        )
    return text


def settings_by_stage(params: Params, code_keys: Mapping[str, str], stages: Mapping[str, StageDef]) -> dict[str, str]:
    """Encoded settings of every stage."""
    return {
        name: StepSettings(stage=name, params=sections(params, stage), code_key=code_keys[name]).encode()
        for name, stage in stages.items()
    }


def base_settings(base: str) -> str:
    """Encoded settings of the base task; their code key is the checkpoint's digest, so new weights are a new key.

    Raises CheckpointError when the checkpoint is not there.
    """
    folder = SOURCE / base
    if not folder.exists():
        raise CheckpointError("no base checkpoint", where=base, remedy="restore it from git")
    return StepSettings(stage=BASE_TASK, params={"model.base": base}, code_key=digest_tree(folder)).encode()


def read_overrides(text: str) -> list[str]:
    """The pipeline's `overrides` as assignments ("rl.lr=0.0001"): a JSON object of dotted or nested names.

    Raises ParamsError when it is too long or not such an object.
    """
    check_length("overrides", text)
    remedy = 'e.g. {"rl.iterations": 4}'
    try:
        values = json.loads(text)
    except ValueError as error:
        raise ParamsError(f"not JSON: {error}", where="overrides", remedy=remedy) from error
    if not isinstance(values, dict):
        raise ParamsError("a JSON object is expected", where="overrides", remedy=remedy)
    return [f"{name}={value}" for name, value in flatten(values).items()]


def profile_file(profile: str) -> Path:
    """The active `params.yaml` when it bears that name, else the profile's file. Raises ParamsError."""
    active = SOURCE / "params.yaml"
    if active.is_file() and f"profile: {profile}" in active.read_text(encoding="utf-8").splitlines():
        return active
    return profile_path(profile)


def resolve(profile: str, seed: int, overrides: str) -> tuple[str, ...]:
    """Settings of the base task and of every stage as a named tuple (dashes as underscores in its field names).

    Raises ParamsError before any work when a name is unknown or a value is of the wrong type, and ClusterError for a
    place of MLflow that the steps of a cluster cannot share.
    """
    from components.contracts.load_params import load_params
    from pipelines.codekeys import code_keys

    if "KUBERNETES_SERVICE_HOST" in os.environ and (uri := os.environ.get("MLFLOW_TRACKING_URI")):
        require_shared(uri)
    params = load_params(profile_file(profile), [*read_overrides(overrides), f"seed={seed}"])
    stages = registry()
    told = {BASE_TASK: base_settings(params.model.base)}
    told |= settings_by_stage(params, code_keys(stages, SOURCE), stages)
    fields = namedtuple("Settings", [name.replace("-", "_") for name in told])  # type: ignore[misc]
    return fields(*told.values())
