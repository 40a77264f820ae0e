"""`cowork data remote|push|pull|verify|merge-lock`: a run's data and its record, to and from the remote."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from components.contracts.errors import DataError, OrchestrationError
from components.contracts.load_params import load_params
from components.tracking.lineage import RECORD_FILE
from pipelines import records
from pipelines.bundle import Bundle, contradictions, load_bundle, read_bundle
from pipelines.dvcfiles import read_lock
from pipelines.find import RUNS, find, run_key
from pipelines.incomplete import note_incomplete
from pipelines.inspection import existing_workspace
from pipelines.lockmerge import merge_files
from pipelines.objects import Report, check_out, fetch, push, unsaved, verify
from pipelines.remote import cache_store, choose_remote, find_remote, require_remote
from pipelines.runlock import run_lock
from pipelines.stores import NotStored, Store, read_bytes
from pipelines.workspace import Workspace, find_workspace


def show_remote(url: str, endpoint: str, region: str, account: str) -> int:
    """Choose the remote, or say which one is chosen."""
    workspace = find_workspace()
    if url:
        options = {"endpointurl": endpoint, "region": region, "account_name": account}
        choose_remote(workspace, url, {key: value for key, value in options.items() if value})
    remote = find_remote(workspace)
    if remote is None:
        print("no remote; choose one: cowork data remote URL (a folder, s3://bucket/prefix, azure://container/prefix)")
        return 0
    print(f"{remote.url}  (chosen in {remote.chosen_in})")
    for name, value in sorted(remote.options.items()):
        print(f"  {name} {value}")
    return 0


# Which data.


def _outs(bundle: Bundle) -> dict[str, str]:
    return {path: digest for entry in bundle.stages().values() for path, digest in entry.outs.items()}


def _bundles(workspace: Workspace, run: str, every: bool) -> list[Bundle]:
    """Records of this machine: the named run, all finished ones, or the last that finished."""
    if run:
        return [find(workspace, run).bundle]
    found = []
    for folder, record in records.read_records(workspace):
        if record.status == "finished" and (bundle := load_bundle(folder)):
            found.append(bundle)
            if not every:
                break
    if not found:
        raise OrchestrationError(
            "no finished run with a record here", where="data", remedy="cowork run; or name one with --run"
        )
    return found


def _merge(bundles: list[Bundle]) -> dict[str, str]:
    """Everything these runs wrote, by `path@run` where two runs wrote one path."""
    wanted: dict[str, str] = {}
    for bundle in bundles:
        for path, digest in _outs(bundle).items():
            if digest not in wanted.values():
                wanted[path if path not in wanted else f"{path}@{bundle.run.run_id}"] = digest
    return wanted


# The commands.


def push_data(profile: str, run: str, every: bool, check: bool, as_json: bool) -> int:
    """Objects first, records last: a record in the remote means that its data is there."""
    workspace = existing_workspace(profile)
    remote = require_remote(workspace)
    bundles = _bundles(workspace, run, every)
    for bundle in bundles:
        if found := contradictions(bundle, list(bundle.stages())):
            print(f"note: run {bundle.run.run_id}: {found[0]}", file=sys.stderr)
    store = remote.open()
    report = push(cache_store(workspace), _merge(bundles), store, check)
    report.require("this machine's cache", "cowork run makes them again; or pull them from another remote")
    sent = [bundle.run.run_id for bundle in bundles if _send_record(store, bundle)]
    text = f"{report.moved} of {report.objects} objects and {len(sent)} of {len(bundles)} records sent to {remote.url}"
    _say(as_json, text, {**_facts(report), "remote": remote.url, "runs": [b.run.run_id for b in bundles], "sent": sent})
    return 0


def _send_record(store: Store, bundle: Bundle) -> bool:
    key, text = run_key(bundle.run.run_id), bundle.text()
    try:
        if read_bytes(store, key) == text.encode():
            return False
    except NotStored:
        pass
    with tempfile.TemporaryDirectory(prefix="cowork-record-") as folder:
        draft = Path(folder) / RECORD_FILE
        draft.write_text(text, encoding="utf-8")
        store.put(key, draft)
    return True


def pull_data(profile: str, run: str, force: bool, allow_missing: bool, wait: float, as_json: bool) -> int:
    """The outputs of `dvc.lock`, or of a run with its lock; all of them or none."""
    workspace = existing_workspace(profile)
    remote = require_remote(workspace)
    store, cache = remote.open(), cache_store(workspace)
    with run_lock(workspace.state / "lock", f"cowork data pull in {workspace.root.name}", wait, _quiet):
        bundle = None
        if run:
            bundle = find(workspace, run).bundle
        elif not workspace.lock_file.is_file():
            bundle = _newest(store, load_params(workspace.params_file).profile)
        locked = bundle.stages() if bundle else read_lock(workspace.lock_file)
        wanted = {path: digest for entry in locked.values() for path, digest in entry.outs.items()}
        _require_inside(wanted)
        if not force and (lost := unsaved(cache, wanted, workspace.root)):
            raise DataError(
                f"these hold bytes that are nowhere else: {', '.join(lost)}",
                where="data pull",
                remedy="move them away, or --force to have them replaced",
            )
        report = fetch(store, wanted, cache, allow_missing)
        if not allow_missing:
            report.require(remote.url, "cowork data push --check, from a machine that has them; or --allow-missing")
        changed = check_out(cache, report, wanted, workspace.root)
        note_incomplete(workspace, _missing(report, wanted))
        if bundle:
            workspace.lock_file.write_text(bundle.lock, encoding="utf-8")
            _keep(workspace, bundle)
    name = f"run {bundle.run.run_id}" if bundle else "dvc.lock"
    text = f"{name}: {report.moved} objects fetched, {len(changed)} of {len(wanted)} outputs put in place"
    if report.faults:
        text += "".join(f"\n  {fault}" for fault in report.faults)
        text += "\nincomplete: what starts from here is marked as not reproducible"
    _say(as_json, text, {**_facts(report), "remote": remote.url, "changed": changed, "run": name})
    return 0


def _quiet(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _require_inside(wanted: Mapping[str, str]) -> None:
    for path in wanted:
        if path.startswith("/") or ".." in path.split("/"):
            raise DataError(f"{path} lies outside of the recipe", where="dvc.lock", remedy="nothing was written")


def _missing(report: Report, wanted: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for fault in report.faults:
        path = next(path for path in wanted if fault.name == path or fault.name.startswith(f"{path}/"))
        found.setdefault(path, []).append(fault.name)
    return found


def _newest(store: Store, profile: str) -> Bundle:
    """The last finished run of the profile in the remote."""
    for key in sorted(store.names(f"{RUNS}/"), reverse=True):
        bundle = read_bundle(read_bytes(store, key), key)
        if bundle.run.profile == profile and bundle.run.status == "finished":
            return bundle
    raise OrchestrationError(
        f"no finished run of profile {profile} there, and no dvc.lock here", where=store.url, remedy="name one: --run"
    )


def _keep(workspace: Workspace, bundle: Bundle) -> None:
    """The pulled run among the runs of this folder, so that status, lineage and reruns know it."""
    folder = workspace.runs / bundle.run.run_id
    if not (folder / RECORD_FILE).is_file():
        bundle.run.save(folder)
        (folder / RECORD_FILE).write_text(bundle.text(), encoding="utf-8")


def verify_data(profile: str, run: str, local: bool, as_json: bool) -> int:
    """Hash again everything a run needs, in the remote or in this machine's cache."""
    workspace = existing_workspace(profile)
    remote = None if local else require_remote(workspace)
    store: Store = remote.open() if remote else cache_store(workspace)
    if run:
        wanted = _outs(find(workspace, run).bundle)
    else:
        locked = read_lock(workspace.lock_file)
        wanted = {path: digest for entry in locked.values() for path, digest in entry.outs.items()}
        wanted = wanted or _outs(_newest(store, load_params(workspace.params_file).profile))
    report = verify(store, wanted)
    text = f"{report.state}: {report.objects} objects, {report.bytes / 1e6:.1f} MB hashed in {store.url}"
    text += "".join(f"\n  {fault}" for fault in report.faults)
    _say(as_json, text, {**_facts(report), "remote": store.url})
    return DataError.exit_code if report.faults else 0


def _facts(report: Report) -> dict[str, Any]:
    return {
        "state": report.state, "objects": report.objects, "bytes": report.bytes, "moved": report.moved,
        "faults": [asdict(fault) for fault in report.faults],
    }  # fmt: skip


def _say(as_json: bool, text: str, facts: Mapping[str, Any]) -> None:
    print(json.dumps(facts, indent=1, sort_keys=True) if as_json else text)


def merge_lock(base: Path, ours: Path, theirs: Path) -> int:
    """Merge into OURS; stages that must run again are named, and left out where both sides changed them."""
    merged = merge_files(base, ours, theirs)
    for word, names in (("both sides changed, runs again", merged.rerun), ("made from older input", merged.stale)):
        for name in names:
            print(f"{name}: {word}", file=sys.stderr)
    return 0
