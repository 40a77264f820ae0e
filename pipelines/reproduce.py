"""`cowork reproduce HASH`: run again what led to an artifact, in a clean tree at its commit, and compare byte for byte.

Order: find the run, see that its record is whole, say how the environment differs, see that the stored data is whole,
make the tree, see that the code is the recorded one; only then work. Stages are run by their own code (`cowork step` of
that tree): no DVC, no run cache, no leftover of an earlier run.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from components.contracts.errors import DataError, OrchestrationError
from components.tracking.lineage import StageRecord
from pipelines import records, verdict
from pipelines.bundle import Bundle, makers, needed, require_known, require_sound
from pipelines.codekeys import LIBRARIES
from pipelines.console import Picture, open_picture
from pipelines.dvcfiles import Locked, content
from pipelines.find import Target, find
from pipelines.follow import Follower
from pipelines.objects import check_out, fetch, verify
from pipelines.processes import end_group
from pipelines.remote import cache_store, find_remote, main_root
from pipelines.runlock import run_lock
from pipelines.source_changes import git_top
from pipelines.step import with_source
from pipelines.stores import Store
from pipelines.verdict import Output, StageVerdict, Verdict
from pipelines.workspace import SOURCE, Workspace, find_workspace

ENVIRONMENT_DIFFERS = 12
"""Exit code: nothing was run because the recorded environment is not this one."""
TICK = 0.2
VERDICT_FILE = "verdict.json"
_EXACT = ("python", "platform", "image", *sorted(set(LIBRARIES.values())))
"""Facts that must agree for bytes to be expected to."""


@dataclass(frozen=True)
class Options:
    """`only`: the one stage that made it, on its recorded inputs, instead of everything up to it."""

    given: str
    stage: str = ""
    only: bool = False
    into: Path | None = None
    any_environment: bool = False
    local: bool = False
    dry_run: bool = False
    tolerance: float = verdict.TOLERANCE
    unconfined: bool = False
    as_json: bool = False


def reproduce(options: Options) -> int:
    """Returns the exit code. Raises CoworkError where it cannot be begun."""
    work = _Reproduction(options)
    code = work.prepare()
    if code is not None:
        return code
    with run_lock(work.folder.with_name(f".{work.folder.name}.lock"), f"cowork reproduce {options.given}", 0, work.say):
        return work.run()


@dataclass(frozen=True)
class Difference:
    """One fact of the environment. `exact`: bytes depend on it; the others (the processor) are only said."""

    name: str
    recorded: str
    here: str
    exact: bool

    def __str__(self) -> str:
        return f"{self.name}: {self.recorded or 'none'} recorded, {self.here or 'none'} here"


def environment_differences(recorded: Mapping[str, str], here: Mapping[str, str]) -> list[Difference]:
    """Facts in which two environments differ, those that bytes depend on first."""
    found = []
    for name in (*_EXACT, "cpu"):
        old, new = recorded.get(name, ""), here.get(name, "")
        if old and old != new:
            found.append(Difference(name, old, new, name in _EXACT))
    return found


@dataclass
class _Plan:
    """`order`: stages to run. `restored`: stages whose outputs are taken by digest, with the reason."""

    order: list[str]
    restored: dict[str, str] = field(default_factory=dict)


class _Reproduction:
    def __init__(self, options: Options) -> None:
        self.options = options
        self.main = Workspace(main_root(find_workspace()))
        self.target: Target = find(self.main, options.given, options.stage)
        self.bundle: Bundle = self.target.bundle
        self.stages: dict[str, Locked] = self.bundle.stages()
        self.wanted = [self.target.stage] if self.target.stage else list(self.stages)
        self.order = needed(self.stages, self.wanted)
        short = self.target.digest.removeprefix("md5:")[:12]
        self.folder = options.into or self.main.state / "reproduce" / short

    def say(self, text: str) -> None:
        print(text, file=sys.stderr if self.options.as_json else sys.stdout, flush=True)

    # Before the work.

    def prepare(self) -> int | None:
        """Everything that can be said before the work; an exit code when it ends here."""
        options, bundle = self.options, self.bundle
        self.say(f"{self.target}")
        for note in self.target.notes:
            self.say(f"note: {note}")
        ignored = ("environment_unknown",) if options.any_environment else ()
        require_known(bundle, ignored)
        require_sound(bundle, self.order)
        code = self._environment()
        if code is not None:
            return code
        self._commit()
        self._data()
        self.plan = _Plan([self.target.stage] if options.only else self.order)
        if options.only and not self.target.stage:
            raise OrchestrationError("--only needs one stage", where=options.given, remedy="--stage names it")
        if options.dry_run:
            self.say(f"would run at commit {bundle.run.commit[:12]}: {', '.join(self.plan.order)}")
            return 0
        return None

    def _environment(self) -> int | None:
        found = environment_differences(self.bundle.run.environment, records.environment())
        for difference in found:
            if not difference.exact:
                self.say(f"note: {difference}; the last bits of numbers may differ")
        exact = [difference for difference in found if difference.exact]
        if not exact:
            return None
        self.say("environment differs" + "".join(f"\n  {difference}" for difference in exact))
        if self.options.any_environment:
            self.say("going on because of --any-environment; the verdict is about this environment")
            return None
        print("nothing was run; install the recorded versions, or go on with --any-environment", file=sys.stderr)
        return ENVIRONMENT_DIFFERS

    def _commit(self) -> None:
        self.top = git_top(self.main.root)
        if self.top is None:
            raise OrchestrationError("no git repository here", where=str(self.main.root.name), remedy="work in a clone")
        known = self._git("cat-file", "-e", f"{self.bundle.run.commit}^{{commit}}", check=False)
        if known.returncode != 0:
            raise OrchestrationError(
                f"commit {self.bundle.run.commit} is not in this repository",
                where=f"run {self.bundle.run.run_id}",
                remedy="git fetch --all, or push it from where the run was made",
            )

    def _store(self) -> tuple[Store, str]:
        remote = None if self.options.local else find_remote(self.main)
        if remote is None:
            return cache_store(self.main), "this machine's cache"
        return remote.open(), f"remote {remote.url}"

    def _data(self) -> None:
        """All that the run read and wrote up to the artifact, whole and unchanged where it is stored."""
        made = makers(self.stages)
        self.outs = {path: digest for name in self.order for path, digest in self.stages[name].outs.items()}
        self.given = {
            path: digest for name in self.order for path, digest in self.stages[name].deps.items() if path not in made
        }
        self.store, where = self._store()
        report = verify(self.store, self.outs)
        report.require(where, "cowork data push --check, from a machine that has them, mends it")
        self.say(f"data: {report.objects} objects, {report.bytes / 1e6:.1f} MB, whole in {where}")

    # The tree.

    def _git(self, *arguments: str, check: bool = True, text: str = "") -> subprocess.CompletedProcess[str]:
        assert self.top is not None
        done = subprocess.run(
            ["git", "-C", str(self.top), "-c", "core.hooksPath=/dev/null", *arguments],
            capture_output=True, text=True, timeout=300, input=text,
        )  # fmt: skip
        if check and done.returncode != 0:
            said = done.stderr.strip().splitlines() or ["no word"]
            raise OrchestrationError(f"git {arguments[0]} failed: {said[-1]}", where=str(self.folder.name))
        return done

    def _make_tree(self) -> Workspace:
        """A clean tree at the commit, with the run's own changes and parameters."""
        assert self.top is not None
        if self.folder.exists():
            if not (self.folder / ".git").is_file() and any(self.folder.iterdir()):
                raise OrchestrationError(
                    "the folder is not empty and no tree of ours", where=str(self.folder), remedy="choose another"
                )
            self._git("worktree", "remove", "--force", "--force", str(self.folder), check=False)
            shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self._git("worktree", "prune")
        self._git("worktree", "add", "--detach", "--force", str(self.folder), self.bundle.run.commit)
        if self.bundle.changes.state == "stored":
            command = ["git", "-C", str(self.folder), "apply", "--binary", "--whitespace=nowarn", "-"]
            done = subprocess.run(command, input=self.bundle.changes.patch.encode(), capture_output=True, timeout=300)
            if done.returncode != 0:
                said = done.stderr.decode(errors="replace").strip().splitlines()
                raise DataError(f"the run's changes do not fit its commit: {said[0]}", where=self.bundle.run.run_id)
        tree = Workspace(self.folder / self.main.root.relative_to(self.top))
        if not tree.dvc_file.is_file():
            raise OrchestrationError("no recipe at that commit", where=self.bundle.run.commit[:12])
        tree.params_file.write_text(self.bundle.params, encoding="utf-8")
        tree.lock_file.unlink(missing_ok=True)  # nothing ran in this tree: what the lock says is to be shown
        for path, digest in self.given.items():
            found = content(tree.root / path)
            if found is None or found.digest != digest:
                raise DataError(
                    f"given input {path} is {found.digest if found else 'missing'} there, the run read {digest}",
                    where=f"commit {self.bundle.run.commit[:12]}",
                    remedy="it changed without a commit; nothing was started",
                )
        return tree

    def _code(self, tree: Workspace) -> None:
        """The code of that tree is the recorded one, stage by stage. What another run made with other code is taken."""
        run = self.bundle.run
        if any(d.exact for d in environment_differences(run.environment, records.environment())):
            self.say("note: code keys hold library versions, so they were not compared")
            return
        keys = self._keys(tree)
        for name in list(self.plan.order):
            recorded = self.stages[name].code_key
            if not recorded or keys.get(name) == recorded:
                continue
            origin = self.bundle.origins.get(name, "")
            if not origin or origin == run.run_id or name in self.wanted:
                raise DataError(
                    f"the code of {name} at commit {run.commit[:12]} is not the one that was run",
                    where=f"run {run.run_id}",
                    remedy=f"that stage was made by run {origin}: cowork reproduce {origin}"
                    if origin and origin != run.run_id
                    else "the recorded commit or changes are not the run's; nothing was started",
                )
            self.plan.restored[name] = f"made by run {origin} with other code; its own hash reproduces it"
        self.plan.order = [name for name in self.plan.order if name not in self.plan.restored]

    def _keys(self, tree: Workspace) -> dict[str, str]:
        done = subprocess.run(
            [sys.executable, "-m", "pipelines.codekeys"], cwd=tree.root, env=self._step_environment(tree, None),
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        if done.returncode != 0:
            said = done.stderr.strip().splitlines() or ["no word"]
            raise OrchestrationError(
                f"its code cannot be read: {said[-1]}", where=f"commit {self.bundle.run.commit[:12]}"
            )
        lines = tree.codekeys_file.read_text(encoding="utf-8").splitlines()
        return dict(line.split(": ", 1) for line in lines if ": " in line and not line.startswith("#"))

    def _step_environment(self, tree: Workspace, run_dir: Path | None) -> dict[str, str]:
        """For processes of the tree's own code; of the installed code where the repository holds only a recipe."""
        code = tree.root if (tree.root / "pipelines" / "cli.py").is_file() else SOURCE
        env = {name: value for name, value in os.environ.items() if not name.startswith("COWORK_")}
        for name in ("COWORK_REGISTRY", "COWORK_UNCONFINED"):
            if name in os.environ:
                env[name] = os.environ[name]
        if self.options.unconfined:
            env["COWORK_UNCONFINED"] = "1"
        if run_dir:
            env["COWORK_RUN_DIR"] = str(run_dir)
        before = [str(code), *(p for p in env.get("PYTHONPATH", "").split(os.pathsep) if p and p != str(SOURCE))]
        env["PYTHONPATH"] = os.pathsep.join(before)
        return env if code != SOURCE else with_source(env)

    # The work.

    def run(self) -> int:
        tree = self._make_tree()
        self._code(tree)
        run_dir = tree.runs / f"reproduce-{self.bundle.run.run_id}"
        (run_dir / "logs").mkdir(parents=True, exist_ok=True)
        result = Verdict(str(self.target), tolerance=self.options.tolerance)
        self._restore(tree, result)
        self.say(f"running {len(self.plan.order)} stages at commit {self.bundle.run.commit[:12]} in {self.folder}")
        follower = Follower(run_dir, self.plan.order)
        picture = open_picture(follower.views, to_stderr=self.options.as_json)
        try:
            for index, name in enumerate(self.plan.order):
                if not self._step(name, tree, run_dir, follower, picture):
                    result.stages.append(StageVerdict(name, "failed", note=self._failure(run_dir, name)))
                    result.stages += [StageVerdict(rest, "not run") for rest in self.plan.order[index + 1 :]]
                    break
                result.stages.append(self._judge(name, tree, run_dir))
        finally:
            picture.close()
        text = json.dumps(result.as_json(), indent=1, sort_keys=True)
        (run_dir / VERDICT_FILE).write_text(text + "\n", encoding="utf-8")
        self.say("\n" + verdict.table(result))
        if self.options.as_json:
            print(text)
        return result.exit_code

    def _restore(self, tree: Workspace, result: Verdict) -> None:
        """Outputs that are taken, not made: the inputs of a single stage, and those of stages with other code."""
        made = makers(self.stages)
        wanted = {
            path: digest
            for name in self.plan.order
            for path, digest in self.stages[name].deps.items()
            if path in made and made[path] not in self.plan.order
        }
        if not wanted:
            return
        cache = cache_store(self.main)
        report = fetch(self.store, wanted, cache)
        report.require(self.store.url, "cowork data push --check, from a machine that has them, mends it")
        check_out(cache, report, wanted, tree.root)
        for path, digest in wanted.items():
            found = content(tree.root / path)
            got = found.digest if found else ""
            if got != digest:
                raise DataError(f"{path} was restored as {got}, not as {digest}", where="reproduce")
            note = self.plan.restored.get(made[path], "taken by its digest")
            result.stages.append(StageVerdict(made[path], "restored", [Output(path, digest, got)], note=note))

    def _step(self, name: str, tree: Workspace, run_dir: Path, follower: Follower, picture: Picture) -> bool:
        with (run_dir / "logs" / f"{name}.start.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "pipelines.cli", "step", name], cwd=tree.root, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, env=self._step_environment(tree, run_dir), start_new_session=True,
            )  # fmt: skip
        try:
            while True:
                try:
                    code = process.wait(TICK)
                    break
                except subprocess.TimeoutExpired:
                    self._show(follower, picture)
            self._show(follower, picture)
            return code == 0
        finally:
            end_group(process.pid)
            process.wait()

    @staticmethod
    def _show(follower: Follower, picture: Picture) -> None:
        for view, event in follower.look():
            picture.news(view, event)
        picture.refresh()

    def _failure(self, run_dir: Path, name: str) -> str:
        for log in (run_dir / "logs" / f"{name}.log", run_dir / "logs" / f"{name}.start.log"):
            lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() if log.is_file() else []
            if lines:
                return lines[-1]
        return "it ended without a word"

    def _judge(self, name: str, tree: Workspace, run_dir: Path) -> StageVerdict:
        locked = self.stages[name]

        def digest_of(path: str) -> str:
            found = content(tree.root / path)
            return found.digest if found else ""

        outputs = [Output(path, digest, digest_of(path)) for path, digest in locked.outs.items()]
        inputs_equal = all(digest_of(path) == digest for path, digest in locked.deps.items())
        entry: StageRecord | None = next((e for e in self.bundle.run.stages if e.name == name), None)
        curves = self.bundle.curves.get(name, {})
        return verdict.judge(name, outputs, inputs_equal, entry, curves, run_dir, self.options.tolerance)
