"""The registered model `cowork-policy`: a version for every checkpoint a stage made, and who is candidate and champion.

Aliases follow from what the versions' tags say (`promotion`), so that two evaluations which end at the same time come
to one answer whatever the order: each writes its own result first, then moves the alias to what all results say, and
looks again after having moved it.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from pydantic import ValidationError

from components.contracts.errors import DataError, ParamsError
from components.tracking.mlflow_names import fit_tag
from components.tracking.mlflow_store import Store
from components.tracking.promotion import RULE, Claim, Evaluation, choose_candidate, choose_champion, faults, verdict

MODEL = "cowork-policy"
CANDIDATE, CHAMPION = "candidate", "champion"

_ALIAS = re.compile(r"(?!v\d+$)(?!latest$)[\w-]{1,255}", re.IGNORECASE | re.ASCII)
_CLAIM = "cowork.claim"
_ROUNDS = 20
"""Rounds of moving and looking again. Every round but the last means that somebody else moved the alias meanwhile."""


class Pinned(NamedTuple):
    """What an alias meant at the moment it was asked: users keep this, so that a moved alias does not move them."""

    version: int
    digest: str
    path: str
    stage: str
    run: str


def check_alias(alias: str) -> str:
    """`alias` itself. Raises ParamsError for a name that could be taken for a version, or that MLflow cannot hold."""
    if not _ALIAS.fullmatch(alias):
        raise ParamsError(
            f"{alias!r} cannot be an alias", where=MODEL, remedy="letters, digits, - and _; not `latest`, not like `v3`"
        )
    return alias


def resolve(store: Store, alias: str) -> Pinned:
    """The version an alias points to now. Raises DataError (`alias_not_found`) when it points to none."""
    version = _holder(store, check_alias(alias))
    if version is None:
        raise DataError(f"alias_not_found: no version of {MODEL} is {alias}", remedy="a passed evaluation sets it")
    tags = store.client.get_model_version(MODEL, str(version)).tags
    return Pinned(version, *(tags.get(f"cowork.{name}", "") for name in ("digest", "path", "stage", "run")))


def _holder(store: Store, alias: str) -> int | None:
    from mlflow.exceptions import MlflowException

    try:
        return int(store.client.get_model_version_by_alias(MODEL, alias).version)
    except MlflowException as error:
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            return None
        raise


def _versions(store: Store, more: str = "") -> list[Any]:
    found: list[Any] = []
    token = None
    while token != "":
        page = store.client.search_model_versions(f"name = '{MODEL}'{more}", max_results=1000, page_token=token)
        found += page
        token = page.token or ""
    return found


def find_version(store: Store, digest: str) -> int | None:
    """The version of the checkpoint with that full digest."""
    found = _versions(store, f" and tags.`cowork.digest` = '{digest}'")
    return min((int(version.version) for version in found), default=None)


def register(store: Store, model: Any, *, digest: str, path: str, stage: str, run: str, mlflow_run: str | None) -> int:
    """The version of a checkpoint, made when there is none: weights that come out the same again are the same version.

    `model` is its logged model, `run` the recipe run that made it, `mlflow_run` the stage's run where known.
    """
    from mlflow.exceptions import MlflowException

    known = find_version(store, digest)
    if known is not None:
        return known
    try:
        store.client.create_registered_model(MODEL, description=f"Checkpoints of the recipe's stages. {RULE}")
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    tags = {"stage": stage, "digest": digest, "path": path, "run": run}
    # By its place, not as `models:/ID`: MLflow would look that up in the process's global store, not in this one. For
    # the same reason a model that no known run made is not linked by its id.
    made = store.client.create_model_version(
        MODEL, source=model.artifact_location, run_id=mlflow_run, model_id=model.model_id if mlflow_run else None,
        tags={f"cowork.{name}": value for name, value in tags.items() if value},
        description=f"{stage}: not evaluated yet\n\nrun {run}, {digest}",
    )  # fmt: skip
    # What the page of the logged model shows as its version. MLflow's own `register_model` writes it there, too.
    link = json.dumps([{"name": MODEL, "version": int(made.version)}])
    store.client.set_logged_model_tags(model.model_id, {"mlflow.modelVersions": link})
    return int(made.version)


def note_evaluation(store: Store, version: int, evaluation: Evaluation, at: int) -> str:
    """Write an evaluation's result on the version, move the aliases if it passed, and say what came of it.

    `at`: its end in milliseconds since the epoch.
    """
    passed = not faults(evaluation)
    if passed:
        assert evaluation.success is not None
        claim = Claim(version=version, success=evaluation.success, bench=evaluation.bench, evaluated=at)
        store.client.set_model_version_tag(MODEL, str(version), _CLAIM, claim.model_dump_json())
        settle_aliases(store)
    return _say(store, version, verdict(evaluation, version, _holder(store, CHAMPION), _claims(store)))


def note_failure(store: Store, version: int, why: str) -> str:
    """An evaluation that came to no result: no alias moves for it."""
    return _say(store, version, f"not passed: the evaluation failed: {why}")


def _say(store: Store, version: int, said: str) -> str:
    store.client.set_model_version_tag(MODEL, str(version), "cowork.evaluation", fit_tag(said))
    tags = store.client.get_model_version(MODEL, str(version)).tags
    foot = f"run {tags.get('cowork.run', 'unknown')}, {tags.get('cowork.digest', '')}"
    store.client.update_model_version(MODEL, str(version), f"{tags.get('cowork.stage', '')}: {said}\n\n{foot}")
    return said


def _claims(store: Store) -> list[Claim]:
    found = []
    for version in _versions(store):
        try:
            claim = Claim.model_validate_json(version.tags.get(_CLAIM, ""))
        except ValidationError:
            continue  # never evaluated, or a tag that somebody edited: no ground to promote it
        if claim.version == int(version.version):
            found.append(claim)
    return found


def settle_aliases(store: Store) -> None:
    """Move `candidate` and `champion` to what the versions' evaluations say. Any number of processes may do this.

    Whoever moves an alias last has read, after moving it, every result that was there before: the last move is right.
    """
    for alias in (CANDIDATE, CHAMPION):
        for _ in range(_ROUNDS):
            holder, claims = _holder(store, alias), _claims(store)
            wanted = choose_candidate(claims) if alias == CANDIDATE else choose_champion(claims, holder)
            if wanted is None or wanted == holder:
                break
            store.client.set_registered_model_alias(MODEL, check_alias(alias), str(wanted))
