"""The commands that look: plan, status, report, doctor; and `step`, which hands one stage to its process."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from components.contracts.digests import short
from components.contracts.errors import OrchestrationError
from components.contracts.load_params import load_params
from pipelines import doctor, records
from pipelines.codekeys import code_keys
from pipelines.drive import Options as DriveOptions
from pipelines.drive import describe_plan, in_scope
from pipelines.plan import make_plan
from pipelines.workspace import SOURCE, Workspace, find_workspace, profile_path, registry, stage_named


def existing_workspace(profile: str) -> Workspace:
    """The recipe folder of a profile without making or changing one. Raises OrchestrationError."""
    main = find_workspace()
    if not profile or profile == load_params(main.params_file).profile:
        return main
    side = Workspace(main.state / "profiles" / profile)  # also the folder of `rerun --from`
    if not side.params_file.is_file():
        side = Workspace(main.state / "profiles" / profile_path(profile).stem)
    if not side.params_file.is_file():
        raise OrchestrationError(f"profile {profile} never ran here", remedy=f"cowork run --profile {profile}")
    return side


def show_plan(
    profile: str, sets: Sequence[str], force: str, as_json: bool, downstream: bool = True, from_run: str = ""
) -> int:
    stages = registry()
    if force:
        stage_named(force, stages)
    workspace = existing_workspace(profile)
    keys = code_keys(stages, SOURCE, cache_file=workspace.state / "codekeys.json")
    options = DriveOptions(force=force, downstream=downstream, from_run=from_run)
    scope = in_scope(stages, options)
    looked = {name: stages[name] for name in scope} if options.narrow else stages
    if from_run:
        from pipelines import rerun

        base = rerun.base_run(workspace, from_run, force)
        plan = rerun.planned(workspace, base, looked, rerun.params_of(base, sets)[1], keys, force)
    else:
        params = load_params(workspace.params_file, sets)
        plan = make_plan(workspace, looked, params, keys, frozenset([force] if force else []))
    chosen = [planned for planned in plan.stages if planned.stage in scope]
    if as_json:
        print(json.dumps({"stages": [asdict(planned) for planned in chosen]}, indent=1))
    else:
        print(describe_plan(chosen))
    return 0


def run_step(stage: str, unconfined: bool) -> int:
    """Through the fork server of a running `cowork run`, else in a fresh process of the same settings."""
    stages = registry()
    stage_named(stage, stages)
    workspace = find_workspace()
    if unconfined:
        os.environ["COWORK_UNCONFINED"] = "1"
    if server := os.environ.get("COWORK_FORKSERVER"):
        from pipelines.forkserver import ask

        code = ask(server, stage, workspace.root, stages[stage].libraries)
        if code is not None:
            return code
    from pipelines.step import stage_environment

    sys.stdout.flush()
    os.chdir(workspace.root)
    os.execve(sys.executable, [sys.executable, "-m", "pipelines.step", stage], stage_environment(os.environ))


def show_status(profile: str, as_json: bool) -> int:
    from pipelines.console import metrics_text, progress_text, rate_text, seconds_text
    from pipelines.follow import Follower
    from pipelines.runlock import holder

    workspace = existing_workspace(profile)
    owner = holder(workspace.state / "lock")
    if owner is None:
        from pipelines.stale import settle_runs

        settle_runs(workspace)
    found = next(iter(records.read_records(workspace)), None)
    if found is None:
        print(json.dumps({"run": None}) if as_json else "no run yet; `cowork run` starts one")
        return 0
    folder, record = found
    follower = Follower(folder, registry())
    follower.look()
    if as_json:
        live = {v.name: {"done": v.done, "total": v.total, "left": v.left} for v in follower.views.values() if v.total}
        print(
            json.dumps(
                {"active": owner is not None, "record": record.model_dump(mode="json"), "progress": live}, indent=1
            )
        )
        return 0
    state = record.status if record.status != "running" or owner else "killed (cowork run continues it)"
    print(f"run {record.run_id}: {state}" + (f", by {owner}" if owner else ""))
    width = max(len(entry.name) for entry in record.stages)
    for entry in record.stages:
        view = follower.views.get(entry.name)
        if entry.status == "running" and view:
            left = f"{seconds_text(view.left)} left" if view.left else ""
            parts = [progress_text(view), rate_text(view), left, metrics_text(view.metrics)]
        else:
            made = " ".join(short(artifact.digest) for artifact in entry.outputs)
            took = seconds_text(entry.seconds) if entry.seconds else ""
            parts = [made, took, metrics_text(entry.metrics), entry.error]
        print(f"  {entry.status:<9} {entry.name:<{width}}  " + "  ".join(part for part in parts if part))
    return 0


def show_report(profile: str, as_json: bool, open_page: bool) -> int:
    from components.tracking.scores import table

    stages = registry()
    workspace = existing_workspace(profile)
    summary = records.load_summary(workspace, stages)
    page = records.report_page(workspace, stages)
    if as_json:
        print(json.dumps({**summary, "report": str(page) if page else None}, indent=1, sort_keys=True, allow_nan=False))
    elif all(row["success"] is None for row in summary["stages"].values()):
        print("no scores yet; `cowork run` makes them")
    else:
        print(table(summary))
        print(f"report: {page}" if page else "no report page yet; `cowork run` makes it")
    if open_page:
        if page is None:
            raise OrchestrationError("no report page yet", remedy="cowork run")
        import webbrowser

        webbrowser.open(Path(page).resolve().as_uri())
    return 0


def show_doctor(profile: str, unconfined: bool, as_json: bool) -> int:
    workspace = existing_workspace(profile)
    checks = doctor.all_checks(workspace, registry(), unconfined)
    print(json.dumps([asdict(check) for check in checks], indent=1) if as_json else doctor.text(checks))
    return OrchestrationError.exit_code if any(check.level == "bad" for check in checks) else 0
