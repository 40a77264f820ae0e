"""`cowork rerun STAGE --from RUN`: the stage on that run's outputs, in a folder of its own beside the recipe.

The folder `.cowork/profiles/from-<run>` gets the run's parameters, its `dvc.lock` and every output by digest, from the
cache or the remote, all or nothing. The recipe's own parameters, outputs and lock are not touched.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from components.contracts.errors import DataError, OrchestrationError
from components.contracts.load_params import edit_text, load_params, parse_set
from components.contracts.params import Params
from pipelines.bundle import Bundle, needed, require_sound
from pipelines.dvcfiles import content
from pipelines.find import find
from pipelines.objects import check_out, fetch
from pipelines.plan import Plan, make_plan
from pipelines.registry import StageDef
from pipelines.remote import cache_store, find_remote
from pipelines.workspace import Workspace, side_workspace

Say = Callable[[str], None]


def base_run(main: Workspace, given: str, stage: str) -> Bundle:
    """The run to start from, by its name or any hash. Raises OrchestrationError or DataError."""
    target = find(main, given)
    stages = target.bundle.stages()
    if stage not in stages:
        raise OrchestrationError(
            f"{stage} did not run in it", where=f"run {target.bundle.run.run_id}", remedy=f"it has: {', '.join(stages)}"
        )
    require_sound(target.bundle, needed(stages, [stage]))
    return target.bundle


def params_of(bundle: Bundle, sets: Sequence[str]) -> tuple[str, Params]:
    """The run's `params.yaml` with these values set. Raises ParamsError before anything is written."""
    with tempfile.TemporaryDirectory(prefix="cowork-params-") as folder:
        path = Path(folder) / "params.yaml"
        text = bundle.params
        path.write_text(text, encoding="utf-8")
        params = load_params(path, sets)
        for item in sets:
            key, value = parse_set(item)
            text = edit_text(text, key, value, path.name)
        return text, params


def folder_of(main: Workspace, bundle: Bundle, sets: Sequence[str], say: Say) -> Workspace:
    """The folder for reruns from that run; its outputs come with `restore`."""
    text, _ = params_of(bundle, sets)
    side = side_workspace(main, f"from-{bundle.run.run_id}", text)
    say(f"from run {bundle.run.run_id}, in a folder of its own: {side.root.relative_to(main.root)}")
    return side


def restore(main: Workspace, side: Workspace, bundle: Bundle, say: Say) -> None:
    """All outputs of the run into its folder, checked, or none. Raises DataError with the missing names."""
    stages = bundle.stages()
    wanted = {path: digest for entry in stages.values() for path, digest in entry.outs.items()}
    cache = cache_store(main)
    remote = find_remote(main)
    report = fetch(remote.open() if remote else cache, wanted, cache)
    report.require(remote.url if remote else "this machine's cache", "cowork data push, from a machine that has them")
    changed = check_out(cache, report, wanted, side.root)
    side.lock_file.write_text(bundle.lock, encoding="utf-8")
    say(f"{len(wanted)} outputs by digest" + (f", {len(changed)} restored" if changed else ", all in place"))


def planned(
    workspace: Workspace, bundle: Bundle, stages: Mapping[str, StageDef], params: Params, keys: Mapping[str, str],
    forced: str,
) -> Plan:  # fmt: skip
    """The plan of a rerun from that run, without restoring anything."""
    locked = bundle.stages()
    now = {path: digest for entry in locked.values() for path, digest in (entry.deps | entry.outs).items()}
    return make_plan(workspace, stages, params, keys, frozenset([forced]), locked, now)


def require_inputs(workspace: Workspace, stages: Mapping[str, StageDef], name: str) -> None:
    """For a stage that is to run alone. Raises DataError that names a missing input and who makes it."""
    for path in stages[name].inputs.values():
        if not (workspace.root / path).exists():
            maker = next((other.name for other in stages.values() if path in other.outputs.values()), "")
            raise DataError(
                f"input {path} is missing, and --only makes nothing else",
                where=f"stage {name}",
                remedy=f"leave --only away, or: cowork run --stage {maker}" if maker else "restore it from git",
            )


def as_locked(workspace: Workspace, outs: Mapping[str, str]) -> bool:
    """Whether these outputs are here with the bytes that the lock says."""
    found = {path: content(workspace.root / path) for path in outs}
    return all(what is not None and what.digest == outs[path] for path, what in found.items())
