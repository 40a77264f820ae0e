"""The open cases of group 6: locks, stored data, outputs, reproduction. Adapters stage `given` and translate names."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.contracts.errors import CoworkError, DataError, OrchestrationError
from components.contracts.load_params import load_params
from components.tracking.events import SpoolSink, spool_path
from components.tracking.lineage import RECORD_FILE, Artifact, RunRecord, StageRecord
from pipelines import doctor, rerun, runlock
from pipelines.bundle import Bundle, md5_text, shortcomings
from pipelines.data import pull_data
from pipelines.drive import Options as RunOptions
from pipelines.drive import run
from pipelines.dvcfiles import Locked, content
from pipelines.find import find
from pipelines.guards import only_writer
from pipelines.incomplete import incomplete_paths
from pipelines.lockmerge import merge_entries
from pipelines.objects import fetch, object_key, verify
from pipelines.plan import make_plan
from pipelines.registry import StageDef
from pipelines.reproduce import Options, _Reproduction
from pipelines.runlock import run_lock
from pipelines.source_changes import Changes
from pipelines.step import run_stage
from pipelines.stores import FolderStore
from pipelines.verdict import Output, judge
from pipelines.workspace import Workspace
from tests.unit.pipelines import toy

DATA = Path(__file__).parent / "data"
ROWS = [json.loads(line) for line in (DATA / "g6_data_versioning.jsonl").read_text().splitlines()]
SAYS = {
    "lock_conflict": "two branches' entries stand side by side",
    "lock_not_tracked": "lock_not_tracked",
    "held_by_other": "is at work here",
    "stale_lock_taken": "taking over from",
    "lock_unsupported_here": "knows no locks",
    "symlink_output": "an output holds a symbolic link",
    "input_is_read_only": "is read-only, but the stage wrote to it",
    "ambiguous_or_short_hash": "ambiguous_or_short_hash",
    "hash_not_found": "hash_not_found",
}
"""The cases' name of an error -> our words for it."""
TWO = {
    "prep": StageDef("prep", "none:none", {}, {"out": "outputs/prep"}, ()),
    "train": StageDef("train", "none:none", {"data": "outputs/prep"}, {"model": "outputs/model"}, ()),
}


def named(error: CoworkError) -> str:
    return next(name for name, words in SAYS.items() if words in str(error))


def git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), "-c", "user.name=t", "-c", "user.email=t@t", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


class Stage:
    """A recipe folder with a remote beside it, in which a row is staged."""

    def __init__(self, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.top, self.patch = top, monkeypatch
        self.root, self.remote, self.said = top / "recipe", FolderStore(top / "remote"), list[str]()
        toy.write_recipe(self.root, toy.STAGES)
        self.workspace = Workspace(self.root)
        monkeypatch.chdir(self.root)
        monkeypatch.setenv("COWORK_REMOTE", str(self.remote.root))
        monkeypatch.setenv("COWORK_REGISTRY", "tests.unit.pipelines.toy:STAGES")
        monkeypatch.delenv("COWORK_RUN_DIR", raising=False)

    def store(self, text: str) -> str:
        """An object of the remote; its md5."""
        draft = self.top / "draft"
        draft.write_text(text)
        md5 = hashlib.md5(text.encode()).hexdigest()
        self.remote.put(object_key(md5), draft)
        return md5

    def store_folder(self, files: dict[str, str]) -> str:
        rows = [{"md5": self.store(text), "relpath": name} for name, text in sorted(files.items())]
        text = json.dumps(rows, sort_keys=True)
        md5 = self.store(text)
        self.remote.path(object_key(md5)).rename(self.remote.path(object_key(f"{md5}.dir")))
        return f"md5:{md5}.dir"

    def bundle(self, outs: dict[str, str], record: dict[str, Any] | None = None, changes: str = "none") -> Bundle:
        """The record of a run whose one stage wrote these paths."""
        listed = [{"path": path, "hash": "md5", "md5": digest.removeprefix("md5:")} for path, digest in outs.items()]
        lock = yaml.safe_dump({"schema": "2.0", "stages": {"train": {"cmd": "cowork step train", "outs": listed}}})
        facts = {"run_id": "20260101-000000-tiny-0001", "commit": git(self.root, "rev-parse", "HEAD"), "seed": 7}
        known = {"params": {"seed": 7}, "environment": {"image": "d1"}, "status": "finished", **(record or {})}
        return Bundle(
            run=RunRecord(**{**facts, **known}), lock=lock, lock_md5=md5_text(lock), params="seed: 7\n",
            changes=Changes(state=changes, patch="diff" if changes == "stored" else ""),
        ).sealed()  # fmt: skip

    def keep(self, bundle: Bundle) -> None:
        folder = self.workspace.runs / bundle.run.run_id
        bundle.run.save(folder)
        (folder / RECORD_FILE).write_text(bundle.text())

    def say(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(tmp_path, monkeypatch)


# C55: the lock in git.


def c55(given: dict[str, Any], stage: Stage) -> dict[str, Any]:
    if "lock_text" in given:
        stage.workspace.lock_file.write_text(given["lock_text"])
        with pytest.raises(OrchestrationError) as error:
            run(RunOptions(ship=False))
        found = [name for name in ("prep", "train") if f"stage {name}" in str(error.value)]
        started = stage.workspace.runs.exists() or (stage.root / "outputs").exists()
        return {"error": named(error.value), "stage": found[0], "started": started}
    if "base" in given:
        sides = [given.get(side, given["base"]) for side in ("base", "ours", "theirs")]
        merged = merge_entries(*(_entries(side, given["base"]) for side in sides))
        if merged.rerun:
            return {"rerun": merged.rerun}
        outs = {name: entry["outs"][0]["md5"] for name, entry in merged.entries.items()}
        return {"merged": outs, "stages_to_check": merged.stale}
    if given.get("lock") == "ignored by version control":
        with (stage.root / ".gitignore").open("a") as handle:
            handle.write("dvc.lock\n")
        checks = doctor.quick_checks(stage.workspace, toy.STAGES, unconfined=True)
        with pytest.raises(OrchestrationError) as error:
            doctor.require(checks)
        return {"error": named(error.value)}
    lock = {"train": Locked("cowork step train", {"outputs/prep": given["lock_dep_hash"]}, {"outputs/model": "o1"})}
    here = {"outputs/prep": given["real_dep_hash"], "outputs/model": given["out_hash"]}
    params = load_params(stage.workspace.params_file)
    plan = make_plan(stage.workspace, {"train": TWO["train"]}, params, {"train": ""}, locked=lock, digests=here)
    changed = "input outputs/prep changed" in plan.named("train").reasons
    return {"stage": "changed" if changed else "up to date"}


def _entries(side: dict[str, str], base: dict[str, str]) -> dict[str, Any]:
    """A lock of prep and train; a train that this side did not run again read what it had read before."""
    read = side if side.get("train") != base.get("train") else base
    entries: dict[str, Any] = {}
    if "prep" in side:
        entries["prep"] = {"outs": [{"path": "outputs/prep", "md5": side["prep"]}]}
    deps = [{"path": "outputs/prep", "md5": read["prep"]}] if "prep" in read else []
    entries["train"] = {"deps": deps, "outs": [{"path": "outputs/model", "md5": side["train"]}]}
    return entries


def test_the_file_with_a_conflict_is_refused_by_stage_name(stage: Stage) -> None:
    text = (DATA / "files" / "C55_lock_with_conflict.txt").read_text()
    assert c55({"lock_text": text}, stage) == {"error": "lock_conflict", "stage": "train", "started": False}


# C57: partial data.


def c57(given: dict[str, Any], stage: Stage) -> dict[str, Any]:
    count = given.get("files_present")
    names = given.get("files") or [f"f{i}" for i in range(1, (count or 2) + 1)]
    files = {name: f"content of {name}\n" for name in names}
    outs = {"outputs/data": stage.store_folder(files), "outputs/other": f"md5:{stage.store('other')}"}
    lost = list(given.get("missing", []))
    if "user_asked" in given:
        lost = [names[0]]
    for name in lost:
        stage.remote.path(object_key(hashlib.md5(files[name].encode()).hexdigest())).unlink()
    if given.get("listing_object") == "missing":
        stage.remote.path(object_key(outs["outputs/data"])).unlink()
    if "pull" in given:
        stage.remote.path(object_key(outs["outputs/other"])).unlink()
    if "hash_of_f1" in given:
        spoiled = stage.remote.path(object_key(hashlib.md5(files["f1"].encode()).hexdigest()))
        spoiled.chmod(0o644)
        spoiled.write_text("other bytes\n")
    bundle = stage.bundle(outs)
    if given.get("user_asked") == "allow missing":
        stage.workspace.lock_file.write_text(bundle.lock)
        assert pull_data("", "", False, True, 0, False) == 0
        marked = incomplete_paths(stage.workspace)
        known = shortcomings(stage.bundle(outs, {"incomplete": marked}))
        state = fetch(stage.remote, outs, FolderStore(stage.top / "other cache")).state
        return {"state": state, "marked_not_reproducible": "data_missing" in known}
    side = Workspace(stage.root / ".cowork" / "profiles" / "from-run")
    side.root.mkdir(parents=True)
    started, said = True, ""
    try:
        rerun.restore(stage.workspace, side, bundle, stage.say)
    except DataError as error:
        started, said = False, str(error)
    report = verify(stage.remote, outs)
    written = [path for path in side.root.rglob("*") if path.is_file()]
    assert started == (report.state == "complete") and bool(written) == started
    assert all(str(fault) in said for fault in report.faults)
    missing = [fault.name.rpartition("/")[2] for fault in report.faults if fault.what == "missing"]
    return {
        "state": report.state,
        "names_hash": outs["outputs/data"] in said,
        "files_written": len(written),
        "missing": missing,
        "names": [fault.name.rpartition("/")[2] for fault in report.faults],
        "stage_started": started,
    }


# C59: who is at work.


def c59(given: dict[str, Any], stage: Stage) -> dict[str, Any]:
    path = stage.top / "lock"
    holder, asker = given.get("lock_holder"), given.get("asker")
    if isinstance(holder, dict):
        hosts = iter([holder["container"], asker["container"]])
        stage.patch.setattr(runlock.os, "getpid", lambda: holder["pid"])
        stage.patch.setattr(runlock.socket, "gethostname", lambda: next(hosts))
        with run_lock(path, holder["command"], 0, stage.say):
            with pytest.raises(OrchestrationError) as error, run_lock(path, asker["command"], 0, stage.say):
                pytest.fail("two owners")
        assert holder["container"] in str(error.value), "it says who"
        return {"granted": False, "reason": named(error.value)}
    if given.get("two_stages", "").startswith("read the same input"):
        assert run_stage("forge", stage.workspace)
        both = [
            subprocess.Popen(toy.command("step", name), cwd=stage.root, env=toy.environment())
            for name in ("midtrain", "feedback")
        ]
        return {"both_finish": [process.wait(200) for process in both] == [0, 0]}
    if "two_stages" in given:
        with only_writer(stage.workspace, toy.STAGES["forge"], stage.say):
            with pytest.raises(OrchestrationError) as error:
                with only_writer(stage.workspace, toy.STAGES["forge"], stage.say, 0.1):
                    pytest.fail("two writers")
        assert "stage forge, which writes outputs/tasks" in str(error.value)
        return {"second": "waits or is refused, names the holder"}
    if holder == "gone":
        path.write_text(json.dumps({"id": "x", "host": "h", "pid": 4, "what": "run train"}))
        with run_lock(path, "next", 0, stage.say):
            return {"granted": True, "logged": _logged(stage)}
    if "lock_file" in given:
        path.write_text('{"id": "x", "ho')
        kept = stage.root / "outputs" / "kept"
        kept.parent.mkdir()
        kept.write_text("data")
        with run_lock(path, "next", 0, stage.say) as owner:
            recovered = runlock.read_owner(path) == owner
        return {"recovered": recovered, "data_lost": kept.read_text() != "data"}
    if "lock_wait_s" in given:
        takes: list[bool] = []
        real = runlock._take

        def counted(descriptor: int) -> bool:
            takes.append(real(descriptor))
            return takes[-1]

        with run_lock(path, "other", 0, stage.say):
            stage.patch.setattr(runlock, "_take", counted)
            with pytest.raises(OrchestrationError), run_lock(path, "next", given["lock_wait_s"] / 5, stage.say):
                pytest.fail("two owners")
        return {"retries_with_limit": len(takes) > 2 and not any(takes)}
    assert given == {"workspace_on": "network share"}
    works, error_name = True, ""

    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    with run_lock(path, "on a share with locks", 0, stage.say):
        pass
    stage.patch.setattr(runlock.fcntl, "flock", no_locks)
    try:
        with run_lock(path, "on a share without", 0, stage.say):
            works = False
    except OrchestrationError as error:
        error_name = named(error)
    return {"works": works and error_name == "lock_unsupported_here"}


def _logged(stage: Stage) -> str:
    return "stale_lock_taken" if any(SAYS["stale_lock_taken"] in line for line in stage.said) else ""


# C61: bytes stay what they are.


def c61(given: dict[str, Any], stage: Stage) -> dict[str, Any]:
    if "manifest" in given:
        ((name, md5),) = given["manifest"].items()
        draft = stage.top / "draft"
        draft.write_bytes(bytes.fromhex(given["cached_content_hex"]))
        stage.remote.put(object_key(md5), draft)
        cache = FolderStore(stage.top / "cache")
        report = fetch(stage.remote, {name: f"md5:{md5}"}, cache)
        return {"state": report.state, "names": [f.name for f in report.faults], "used": bool(cache.names("files"))}
    if "run_1" in given:
        return _append(stage)
    if given.get("output", "").startswith("symlink") or "input_opened_for" in given:
        stage.patch.setenv("COWORK_REGISTRY", "tests.cases.careless_stages:STAGES")
        with pytest.raises(DataError) as error:
            run_stage("append" if "input_opened_for" in given else "link", stage.workspace)
        return {"accept": False, "error": named(error.value)}
    assert run_stage("forge", stage.workspace)
    path = stage.root / "outputs/tasks/data.txt"
    before = path.stat()
    recorded = content(stage.root / "outputs/tasks")
    assert recorded is not None
    path.write_bytes(path.read_bytes()[::-1])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns and path.stat().st_size == before.st_size
    lock = {"forge": Locked("cowork step forge", {}, {"outputs/tasks": recorded.digest})}
    params = load_params(stage.workspace.params_file)
    plan = make_plan(stage.workspace, {"forge": toy.STAGES["forge"]}, params, {"forge": ""}, locked=lock)
    found = "output outputs/tasks was changed by hand" in plan.named("forge").reasons
    return {"state": "corrupted" if found else "up to date"}


def _append(stage: Stage) -> dict[str, Any]:
    """With the DVC and the configuration that runs use."""
    script = (
        "from dvc.repo import Repo\n"
        "repo = Repo('.')\n"
        "for text in ('1\\n', '2\\n'):\n"
        "    open('out', 'a').write(text)\n"
        "    repo.add('out')\n"
    )
    environment = {**os.environ, **stage.workspace.dvc_environment()}
    subprocess.run([sys.executable, "-c", script], cwd=stage.root, env=environment, check=True, capture_output=True)
    cache = FolderStore(stage.root / ".dvc" / "cache")
    texts = [cache.path(object_key(hashlib.md5(text).hexdigest())).read_text() for text in (b"1\n", b"1\n2\n")]
    return {"run_1_content_still": texts[0].strip(), "run_2_content": " and ".join(texts[1].split())}


# C63: reproducing.


def c63(given: dict[str, Any], stage: Stage) -> dict[str, Any]:
    if "run_record" in given:
        return _reproducible(given["run_record"], stage)
    if "workspace_before" in given:
        return _fresh_copy(stage)
    if "given_hash" in given:
        stage.keep(stage.bundle({"outputs/data": stage.store_folder({"f": "x"})}))
        text = "a" * 32 if given["given_hash"] == "unknown" else "3f9a"
        with pytest.raises(OrchestrationError) as error:
            find(stage.workspace, text)
        looked = "runs of this machine" in str(error.value) and "remote" in str(error.value)
        return {"error": named(error.value), "lists_where_it_looked": looked}
    after = given["after_reproduce"]
    folder = stage.top / "run"
    with SpoolSink(spool_path(folder, "train", 1)) as sink:
        sink.start("train", 1)
        sink.metric("loss", 1.001, 0)
        sink.end("finished", metrics={"success": 0.5})
    outs = [Artifact(name="checkpoint", path="outputs/model", digest=after["expected_out_hash"])]
    expected = StageRecord(name="train", metrics={"success": 0.5}, outputs=outs)
    outputs = [Output("outputs/model", after["expected_out_hash"], after["real_out_hash"])]
    found = judge("train", outputs, True, expected, {"loss": [(0, 1.0)]}, folder, 0.02)
    words = {"curve loss": "loss curve within tolerance", "success": "evaluation within tolerance"}
    compared = [words[text.split(":")[0]] for text in found.compared if ", within" in text]
    return {
        "verdict": "reproduced" if found.word == "bit-equal" else "not_bit_equal",
        "compared": sorted(compared)[::-1],
    }


def _reproducible(record: dict[str, Any], stage: Stage) -> dict[str, Any]:
    seed = record["seed"]
    known = {
        "commit": record["commit"],
        "dirty": record["dirty"],
        "environment": {"image": record["image_digest"]} if record["image_digest"] else {},
        "params": {"seed": seed} if seed is not None else {},
        "seed": seed or 0,
    }
    changes = "none" if not record["dirty"] else ("stored" if record["patch"] else "unknown")
    outs = {"outputs/data": stage.store_folder({"f1": "1", "f2": "2"})}
    if record["data_hashes"] == "one missing":
        stage.remote.path(object_key(hashlib.md5(b"2").hexdigest())).unlink()
    reasons = list(shortcomings(stage.bundle(outs, known, changes)))
    if verify(stage.remote, outs).faults:
        reasons.append("data_missing")
    return {"reproducible": not reasons, **({"reason": reasons[0]} if reasons else {})}


def _fresh_copy(stage: Stage) -> dict[str, Any]:
    git(stage.root, "checkout", "-qb", "B")
    (stage.root / "of_b.txt").write_text("b")
    git(stage.root, "add", "of_b.txt")
    git(stage.root, "commit", "-qm", "b")
    bundle = stage.bundle({"outputs/data": stage.store_folder({"f": "of B"})}, {"environment": {"python": ""}})
    git(stage.root, "checkout", "-qb", "A", "HEAD~1")
    (stage.root / "of_a.txt").write_text("a")
    git(stage.root, "add", "of_a.txt")
    git(stage.root, "commit", "-qm", "a")
    (stage.root / "outputs").mkdir()
    (stage.root / "outputs" / "data").write_text("of A")
    environment = {"image": "d1"}
    stage.patch.setattr("pipelines.records.environment", lambda: environment)
    kept = bundle.model_copy(update={"run": bundle.run.model_copy(update={"environment": environment})}).sealed()
    stage.keep(kept)
    work = _Reproduction(Options(kept.run.run_id))
    assert work.prepare() is None
    tree = work._make_tree()
    head = git(tree.root, "rev-parse", "HEAD")
    left = [path.name for path in tree.root.rglob("*") if path.name == "of_a.txt" or path.name == "outputs"]
    fresh = head == bundle.run.commit and (tree.root / "of_b.txt").is_file() and tree.root != stage.root
    assert (stage.root / "outputs" / "data").read_text() == "of A", "and A's own tree stays"
    return {"uses": "a fresh copy at branch B's commit" if fresh else "", "files_of_A_left": len(left)}


ADAPTERS: dict[str, Callable[[dict[str, Any], Stage], dict[str, Any]]] = {
    "C55": c55, "C57": c57, "C59": c59, "C61": c61, "C63": c63,
}  # fmt: skip


def test_no_row_of_the_group_is_left_out() -> None:
    counts: dict[str, int] = {}
    for row in ROWS:
        counts[row["case"]] = counts.get(row["case"], 0) + 1
    assert counts == {"C55": 5, "C57": 6, "C59": 7, "C61": 5, "C63": 10}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['case']}{row['row']}")
def test_row_has_the_right_outcome(row: dict[str, Any], stage: Stage) -> None:
    got = ADAPTERS[row["case"]](row["given"], stage)
    accepted = [row["expect"], *row.get("also_ok", [])]
    assert any(all(got.get(name) == value for name, value in wanted.items()) for wanted in accepted), (got, accepted)
