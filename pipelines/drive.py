"""`cowork run` and `cowork rerun`: check, plan, let DVC do it, show it, and say what came of it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.contracts.errors import BudgetError, CoworkError, OrchestrationError, ParamsError
from components.contracts.load_params import load_params, set_values
from components.contracts.params import Params
from components.tracking.lineage import RunRecord, StageRecord
from components.tracking.meter import Caps, read_caps, write_caps
from components.tracking.mlflow_store import default_uri
from components.tracking.prices import PriceTable
from pipelines import doctor, records, rerun
from pipelines.bundle import Bundle, write_bundle
from pipelines.codekeys import code_keys, write_code_keys
from pipelines.console import Picture, open_picture, seconds_text
from pipelines.dvcfiles import read_lock
from pipelines.follow import Follower
from pipelines.incomplete import incomplete_paths
from pipelines.lineage_show import write_lineage
from pipelines.plan import Plan, Planned, make_plan
from pipelines.pricing import prices_of
from pipelines.registry import StageDef
from pipelines.remote import main_root
from pipelines.runlock import run_lock
from pipelines.scope import Options, ancestors, in_scope, phases
from pipelines.session import Session
from pipelines.source_changes import PATCH_FILE, changes_of
from pipelines.stale import last_word, settle_mlflow, settle_records
from pipelines.workspace import SOURCE, Workspace, find_workspace, profile_path, registry, side_workspace, stage_named

Say = Callable[[str], None]
TAIL_LINES = 20
SHIP_SECONDS = 20.0


@dataclass
class Outcome:
    """How it ended. `status`: finished, nothing (to do), capped (the spend cap is reached), failed, killed."""

    status: str
    run_id: str = ""
    failed: str = ""
    code: int = 0
    executed: list[str] = field(default_factory=list)
    reused: list[str] = field(default_factory=list)
    seconds: float = 0.0
    """Wall seconds of this call."""


# What to run, and with which parameters.


def open_workspace(profile: str, sets: Sequence[str], say: Say) -> Workspace:
    """The recipe folder for these options.

    Without a profile: the repository, `--set` edits its params.yaml in place (comments stay). With one: a folder of
    its own under `.cowork/profiles`, so that no outputs are replaced. Raises ParamsError before anything is written.
    """
    main = find_workspace()
    active = load_params(main.params_file)
    if profile and profile != active.profile:
        path = profile_path(profile)
        text, _ = set_values(path.read_text(encoding="utf-8"), sets, path.name)
        side = side_workspace(main, path.stem, text)
        say(f"profile {path.stem}: a recipe folder of its own, {side.root.relative_to(main.root)}")
        return side
    if sets:
        before = main.params_file.read_text(encoding="utf-8")
        after, _ = set_values(before, sets, main.params_file.name)
        if after != before:
            main.params_file.write_text(after, encoding="utf-8")
            say(f"params.yaml: set {', '.join(sets)} (git diff params.yaml shows it)")
    return main


def check_runnable(workspace: Workspace, params: Params, stages: Mapping[str, StageDef]) -> None:
    """Raises ParamsError for a profile whose base model is not here (`desktop`, `b200`: figures only)."""
    given = {path for stage in stages.values() for path in stage.inputs.values()}
    if params.model.base not in given and given:
        raise ParamsError(
            f"model.base is {params.model.base}, which is not a checkpoint of this repository",
            where=f"profile {params.profile}",
            remedy="this profile records the figures of a larger deployment and is not run here yet; see README.md",
        )


def refresh_keys(workspace: Workspace, stages: Mapping[str, StageDef]) -> dict[str, str]:
    keys = code_keys(stages, SOURCE, cache_file=workspace.state / "codekeys.json")
    write_code_keys(workspace.codekeys_file, keys)
    return keys


# The run itself.


def run(options: Options) -> Outcome:
    """Do it. Raises CoworkError when nothing could be started."""
    say = _sayer(options)
    stages = registry()
    for name in (options.only, options.force):
        if name:
            stage_named(name, stages)
    Caps().changed(options.cap_usd, options.cap_tokens)  # refused before anything is touched
    base = rerun.base_run(find_workspace(), options.from_run, options.force) if options.from_run else None
    if base:
        workspace = rerun.folder_of(find_workspace(), base, options.sets, say)
    else:
        workspace = open_workspace(options.profile, options.sets, say)
    with run_lock(workspace.state / "lock", f"cowork run in {workspace.root.name}", options.wait, say):
        if base:
            rerun.restore(find_workspace(), workspace, base, say)
        params = load_params(workspace.params_file)
        check_runnable(workspace, params, stages)
        prices = prices_of(workspace)
        settle_records(workspace)
        keys = refresh_keys(workspace, stages)
        forced = frozenset([options.force]) if options.force else frozenset()
        scope = in_scope(stages, options)
        looked = {name: stages[name] for name in scope} if options.narrow else stages
        plan = make_plan(workspace, looked, params, keys, forced)
        if options.narrow:
            rerun.require_inputs(workspace, stages, options.force)
        plan.stages = [planned for planned in plan.stages if planned.stage in scope]
        if plan.empty:
            say("nothing to do: every output is that of the present code, parameters and inputs")
            outcome = Outcome("nothing", reused=scope)
            if options.ship:
                settle_mlflow(workspace, say)
        else:
            doctor.require(doctor.quick_checks(workspace, stages, options.unconfined))
            outcome = _Driver(workspace, stages, params, plan, options, say, prices, base).run()
    conclude(workspace, stages, outcome, options, say)
    return outcome


def _sayer(options: Options) -> Say:
    return lambda text: print(text, file=sys.stderr if options.as_json else sys.stdout, flush=True)


class _Driver:
    """One run from its record to its end."""

    def __init__(
        self,
        workspace: Workspace,
        stages: Mapping[str, StageDef],
        params: Params,
        plan: Plan,
        options: Options,
        say: Say,
        prices: PriceTable,
        base: Bundle | None = None,
    ) -> None:
        self.workspace, self.stages, self.plan, self.options, self.say = workspace, stages, plan, options, say
        self.params, self.began, self.base = params, time.monotonic(), base
        self.origins: dict[str, str] = {}
        before = next(
            (record.run_id for _, record in records.read_records(workspace) if record.status == "finished"), ""
        )
        self.run_dir, self.record, goes_on = records.open_record(workspace, params, stages)
        if options.force:
            self.record.rerun, self.record.from_run = options.force, base.run.run_id if base else before
        self.record.incomplete = incomplete_paths(workspace)
        (self.run_dir / PATCH_FILE).write_text(changes_of(main_root(workspace)).model_dump_json(), encoding="utf-8")
        word = "goes on with" if goes_on else "run"
        runs, maybe = plan.count("run"), plan.count("maybe")
        say(f"{word} {self.record.run_id}: {runs} to run, {maybe} to decide, {plan.count('keep')} as they are")
        self.follower = Follower(self.run_dir, [planned.stage for planned in plan.stages])
        self.follower.skip_existing()
        self.prices = prices
        if options.cap_usd is not None or options.cap_tokens is not None:
            write_caps(self.run_dir, read_caps(self.run_dir).changed(options.cap_usd, options.cap_tokens))
        self.capped = ""
        """The stage that the spend cap stopped."""
        self.executed: list[str] = []
        self.started: set[str] = set()
        self.picture: Picture | None = None

    def run(self) -> Outcome:
        for planned in self.plan.stages:
            if planned.action == "keep":
                self._reuse(planned.stage)
        if self.options.narrow:
            locked = read_lock(self.workspace.lock_file)
            for name in ancestors(self.stages, self.options.force)[:-1]:
                if name in locked and rerun.as_locked(self.workspace, locked[name].outs):
                    self._reuse(name)
        self.record.save(self.run_dir)
        self.picture = open_picture(self.follower.views, to_stderr=self.options.as_json)
        status, code = "killed", 0
        # A rerun from another run belongs beside that one in MLflow, not into a store of its own folder.
        uri = default_uri(main_root(self.workspace) / ".cowork" / "runs") if self.base else None
        session = Session(self.workspace, self.run_dir, self.options.unconfined, self.options.ship, self._tick, uri)
        try:
            with session:
                try:
                    for arguments in phases(self.plan, self.stages, self.options):
                        code = session.phase(arguments)
                        if code:
                            break
                except KeyboardInterrupt:
                    # Said before the shipper ends: what the user stopped is no crash.
                    self.record.status = "killed"
                    self.record.save(self.run_dir)
                    raise
                status = "failed" if code else "finished"
                self._settle(session, status)
                self._write_page()
                if self.options.ship and not session.finish_shipping(SHIP_SECONDS):
                    why = last_word(self.run_dir / "ship.log")
                    self.say(f"MLflow has not everything yet; the rest stays in {self._relative(self.run_dir)}: {why}")
        except KeyboardInterrupt:
            self.say("stopped; `cowork run` continues here")
            self._settle(session, "killed")
        finally:
            self.picture.close()
        outcome = Outcome(status, self.record.run_id, executed=self.executed, seconds=time.monotonic() - self.began)
        outcome.reused = [entry.name for entry in self._reused()]
        if status == "failed" and self.capped:
            outcome.status, outcome.code, outcome.failed = "capped", BudgetError.exit_code, self.capped
            self._tell_cap()
        elif status == "failed":
            outcome.code = OrchestrationError.exit_code
            outcome.failed = self._tell_failure(session)
        if status == "killed":
            outcome.code = 130
        return outcome

    def _tick(self) -> None:
        assert self.picture is not None
        save = False
        for view, event in self.follower.look():
            self.picture.news(view, event)
            save |= records.note_event(self.record, view, event)
            if event["k"] == "start":
                self.started.add(view.name)
            if event["k"] == "end" and event["status"] == "finished":
                self.executed.append(view.name)
            if event["k"] == "end" and event.get("border") == BudgetError.border:
                self.capped = view.name
        if save:
            self.record.save(self.run_dir)
        self.picture.refresh()

    def _reuse(self, name: str) -> None:
        """Note a stage that is up to date: made by an earlier call of this run, or by another run."""
        locked = read_lock(self.workspace.lock_file).get(name)
        if locked is None:
            return
        entry = self.record.stage(name)
        own = entry.status == "finished" and {a.digest for a in entry.outputs} == set(locked.outs.values())
        if not own:
            made = records.origin(self.workspace, name, locked.outs)
            earlier = made[1] if made else None
            if made:
                self.origins[name] = made[0].name
            elif self.base:
                earlier = self.base.run.stage(name)
                self.origins[name] = self.base.origins.get(name, self.base.run.run_id)
            records.note_reused(self.record, self.stages[name], locked, earlier)
        if view := self.follower.views.get(name):
            view.state, view.seconds, view.metrics = entry.status, entry.seconds, dict(entry.metrics)  # type: ignore[assignment]

    def _settle(self, session: Session, status: str) -> None:
        """Bring the record to its end: what was restored or left alone, and what was cut off."""
        self._tick()
        assert self.picture is not None
        for name in session.restored():
            if name in self.follower.views and self.follower.views[name].state == "waiting":
                self._reuse(name)
                self.picture.restored(self.follower.views[name])
        for entry in self.record.stages:
            if entry.status == "running":
                entry.status = "killed"
            if entry.status == "pending" and status == "finished" and entry.name in self.follower.views:
                self._reuse(entry.name)
        self.record.status = status  # type: ignore[assignment]
        self.record.finished = records.now_text()
        write_bundle(
            self.run_dir, self.record, self.workspace.lock_file, self.workspace.params_file, self.origins
        )  # before the record says that the run is over: whoever sees that finds both
        self.record.save(self.run_dir)

    def _write_page(self) -> None:
        """The run's own page: the report stage's with times, costs and lineage. A half-finished run gets one too."""
        from components.tracking.step import write_run_report

        checked = write_lineage(self.workspace, self.stages, self.run_dir, self.record)
        stage = self.stages.get("report")
        if stage is None:
            return
        inputs = {role: self.workspace.root / path for role, path in stage.inputs.items()}
        made = {e.name: records.made_by(self.workspace, e) for e in self._reused()}
        made_by = {name: folder for name, folder in made.items() if folder is not None}
        try:
            episodes = self.params.report.episodes
            write_run_report(self.run_dir, inputs, self.record.params, episodes, made_by, self.prices, checked)
        except (
            CoworkError,
            OSError,
            ValueError,
            KeyError,
        ) as error:  # the page is for people; the run stands without it
            self.say(f"the run's page could not be written: {error}")

    def _reused(self) -> list[StageRecord]:
        return [entry for entry in self.record.stages if entry.status == "reused"]

    def _relative(self, path: Path) -> str:
        return str(path.relative_to(self.workspace.root))

    def _tell_cap(self) -> None:
        """Say how far it came and how to go on."""
        self.say(f"\nstopped in {self.capped}: {self.record.stage(self.capped).error.removeprefix('BudgetError: ')}")
        self.say("what is done is kept; with a higher cap `cowork run` goes on there. `cowork costs` lists the spend")

    def _tell_failure(self, session: Session) -> str:
        """Say which stage failed, its last log lines and what to type next; the stage's name."""
        # A stage cut off in an earlier call is not what stopped this one.
        ended = (entry for entry in self.record.stages if entry.status in ("failed", "killed"))
        failed = next((entry for entry in ended if entry.name in self.started), None)
        log = session.log if failed is None else self.run_dir / "logs" / f"{failed.name}.log"
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
        if failed is None:
            self.say("\nDVC could not go on:")
            lines = session.said().splitlines()
        else:
            self.say(f"\nstage {failed.name} {failed.status}" + (f": {failed.error}" if failed.error else ""))
        for line in lines[-TAIL_LINES:]:
            self.say(f"  | {line}")
        self.say(f"log: {self._relative(log)}")
        if failed is not None:
            self.say(f"next: mend the cause, then `cowork run`; it continues at {failed.name}")
        else:
            self.say("next: `cowork plan` shows what is left, `cowork doctor` checks the machine")
        return failed.name if failed else ""


def conclude(
    workspace: Workspace, stages: Mapping[str, StageDef], outcome: Outcome, options: Options, say: Say
) -> None:
    """The table of scores and the path of the report; with --json one object on stdout."""
    from components.tracking.scores import table

    try:
        summary: dict[str, Any] = records.load_summary(workspace, stages)
    except CoworkError as error:
        summary = {"stages": {}}
        say(str(error))
    page = records.report_page(workspace, stages)
    if outcome.status in ("finished", "nothing") and any(
        row["success"] is not None for row in summary["stages"].values()
    ):
        say("\n" + table(summary).rstrip())
    if page and outcome.status in ("finished", "nothing"):
        say(f"report: {_short(page)}")
    if outcome.status == "finished":
        record = RunRecord.load(workspace.runs / outcome.run_id)
        took = sum(record.stage(name).seconds for name in outcome.executed)
        counts = f"{len(outcome.executed)} stages run, {len(outcome.reused)} reused"
        say(f"run {outcome.run_id}: {counts}, {seconds_text(outcome.seconds)} (stages {seconds_text(took)})")
    if options.as_json:
        result = {
            "status": outcome.status, "run": outcome.run_id, "failed": outcome.failed,
            "executed": outcome.executed, "reused": outcome.reused, "seconds": round(outcome.seconds, 1),
            "report": str(page) if page else None, **summary,
        }  # fmt: skip
        print(json.dumps(result, indent=1, sort_keys=True, allow_nan=False))


def _short(path: Path) -> str:
    """Relative to where the user stands, when that is shorter."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def describe_plan(planned: Sequence[Planned]) -> str:
    """The plan for a console, a line a stage and a line a reason."""
    width = max((len(item.stage) for item in planned), default=0)
    marks = {"run": "run  ", "maybe": "maybe", "keep": "keep "}
    lines = []
    for item in planned:
        first, *rest = item.reasons or ("",)
        lines.append(f"{marks[item.action]}  {item.stage:<{width}}  {first}".rstrip())
        lines += [f"{'':>{width + 9}}{reason}" for reason in rest]
    return "\n".join(lines)
