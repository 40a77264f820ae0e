"""Which model is meant by `--policy`, and with which harness and folding it was trained."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from components.contracts.errors import CheckpointError, OrchestrationError
from components.contracts.load_params import load_params, nearest
from components.contracts.params import Params
from pipelines.workspace import SOURCE, Workspace, find_workspace, profile_path

if TYPE_CHECKING:
    from components.evaluation.live_policy import LivePolicy
    from components.harness.spec import HarnessSpec


def recipe() -> Workspace | None:
    """The recipe around this folder, if there is one: a live desktop needs none."""
    try:
        return find_workspace()
    except OrchestrationError:
        return None


def live_params(workspace: Workspace | None, profile: str, sets: list[str]) -> Params:
    """Folding, coordinate space and token limits: of a profile, of the recipe here, or the ones that ship."""
    if profile:
        return load_params(profile_path(profile), sets)
    return load_params((workspace or Workspace(SOURCE)).params_file, sets)


def stage_checkpoints(workspace: Workspace | None, params: Params) -> dict[str, Path]:
    """Checkpoints that can be named by their stage."""
    root = workspace.root if workspace else SOURCE
    found = {path.name: path for path in sorted((root / "outputs" / "models").glob("*")) if path.is_dir()}
    base = root / params.model.base
    return {"base": base if base.is_dir() else SOURCE / params.model.base, **found}


def load_policy(
    policy: str, workspace: Workspace | None, params: Params, *, model: str, key_variable: str, work: Path
) -> LivePolicy:
    """A folder, a stage of the recipe, or the address of an endpoint. Raises CheckpointError, ParamsError."""
    from components.evaluation.live_policy import from_checkpoint, from_endpoint

    if policy.startswith(("http://", "https://")):
        return from_endpoint(
            policy, model, max_tokens=params.model.max_new_tokens, key_variable=key_variable, work=work
        )
    stages = stage_checkpoints(workspace, params)
    if Path(policy).is_dir():
        return from_checkpoint(Path(policy), params.model.max_new_tokens)
    if policy in stages:
        return from_checkpoint(stages[policy], params.model.max_new_tokens)
    raise CheckpointError(
        f"no checkpoint {policy!r}: neither a folder nor a stage that has one; did you mean "
        f"{nearest(policy, list(stages))!r}?",
        where="--policy", remedy=f"a folder, an http address, or one of {', '.join(stages)}",
    )  # fmt: skip


def live_harness(name: str, policy: str, workspace: Workspace | None) -> HarnessSpec:
    """The harness by its name, as the recipe here evolved it where it has; else as authored.

    Without a name: the one that the stage was trained in, `hybrid` for any other policy.
    """
    from components.harness.spec import default_spec, load_spec

    if not name:
        from components.evaluation.step import HARNESS_OF

        name = HARNESS_OF.get(policy, "hybrid")
    evolved = workspace.root / "outputs" / "harness" / f"{name}.json" if workspace else None
    if evolved is not None and evolved.is_file():
        return load_spec(evolved)
    if name not in ("gui", "terminal", "hybrid", "overlapping"):
        raise CheckpointError(f"there is no harness {name!r}", where="--harness", remedy="gui, terminal, hybrid")
    return default_spec(name)  # type: ignore[arg-type]
