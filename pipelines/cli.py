"""The command line. Nothing heavy is imported before a command needs it: `--help` answers in a blink."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pipelines.cli_frame import AsJson, NoTracking, Profile, Sets, Unconfined, Wait, guarded
from pipelines.data_cli import REPRODUCE_CODES, data, reproduce
from pipelines.desktop_cli import ACT_CODES, act, desktop
from pipelines.desktop_serve import EPILOG, serve
from pipelines.osworld_cli import osworld

EXIT_CODES = """Exit codes: 0 done (or nothing to do); 1 internal error; 2 bad parameters or usage; 3 sandbox; 4 data;
5 checkpoint; 6 the run could not start or a stage failed; 7 the spend cap is reached; 130 stopped by the user."""

app = typer.Typer(
    name="cowork",
    help="The complete Mage-VL-Cowork recipe: tasks, trajectories, five training stages, evaluation, report.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

CapUsd = Annotated[
    float | None,
    typer.Option("--cap-usd", metavar="USD", help="stop new work when the run has spent this; kept until changed"),
]
CapTokens = Annotated[
    float | None, typer.Option("--cap-tokens", metavar="N", help="the same for tokens of model calls, in and out")
]


@app.command(epilog=EXIT_CODES)
def run(
    profile: Profile = "",
    set_: Sets = None,
    stage: Annotated[str, typer.Option("--stage", help="bring only this stage and what it needs up to date")] = "",
    unconfined: Unconfined = False,
    json: AsJson = False,
    wait: Wait = 60.0,
    no_mlflow: NoTracking = False,
    cap_usd: CapUsd = None,
    cap_tokens: CapTokens = None,
) -> None:
    """Run what is not up to date: continues where an earlier run stopped, does nothing when all is done."""

    def work() -> int:
        from pipelines.drive import run
        from pipelines.scope import Options

        return run(
            Options(
                profile,
                tuple(set_ or ()),
                only=stage,
                unconfined=unconfined,
                wait=wait,
                as_json=json,
                ship=not no_mlflow,
                cap_usd=cap_usd,
                cap_tokens=cap_tokens,
            )
        ).code

    guarded(work)


app.command(epilog=REPRODUCE_CODES)(reproduce)
app.add_typer(data, name="data", epilog=EXIT_CODES)
desktop.command("serve", epilog=EPILOG)(serve)
app.add_typer(desktop, name="desktop", epilog=EXIT_CODES)
app.add_typer(osworld, name="osworld", epilog=EXIT_CODES)
app.command(epilog=ACT_CODES)(act)


@app.command(epilog=EXIT_CODES)
def rerun(
    stage: Annotated[str, typer.Argument(help="the stage to run again")],
    profile: Profile = "",
    set_: Sets = None,
    from_: Annotated[
        str,
        typer.Option("--from", metavar="RUN", help="on that run's outputs (by name or any hash), in a folder beside"),
    ] = "",
    downstream: Annotated[
        bool, typer.Option("--downstream/--only", help="with the stages whose inputs change by it, or this one alone")
    ] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="say what would run and why, and stop")] = False,
    unconfined: Unconfined = False,
    json: AsJson = False,
    wait: Wait = 60.0,
    no_mlflow: NoTracking = False,
    cap_usd: CapUsd = None,
    cap_tokens: CapTokens = None,
) -> None:
    """Run one stage again whether or not anything changed; later stages follow only if its output differs."""

    def work() -> int:
        from components.contracts.errors import ParamsError
        from pipelines.drive import run
        from pipelines.scope import Options

        if from_ and profile:
            raise ParamsError("--from brings the profile of its run with it", where="--profile", remedy="leave it away")
        if dry_run:
            from pipelines.inspection import show_plan

            return show_plan(profile, set_ or [], stage, json, downstream, from_)
        options = Options(
            profile, tuple(set_ or ()), force=stage, unconfined=unconfined, wait=wait, as_json=json,
            ship=not no_mlflow, downstream=downstream, from_run=from_,
            cap_usd=cap_usd, cap_tokens=cap_tokens,
        )  # fmt: skip
        return run(options).code

    guarded(work)


@app.command(epilog=EXIT_CODES)
def plan(profile: Profile = "", set_: Sets = None, json: AsJson = False) -> None:
    """What a run would do, stage by stage, and why: which input, parameter or code changed. Changes nothing."""

    def work() -> int:
        from pipelines.inspection import show_plan

        return show_plan(profile, set_ or [], "", json)

    guarded(work)


@app.command(epilog=EXIT_CODES)
def step(stage: Annotated[str, typer.Argument(help="the stage to run")], unconfined: Unconfined = False) -> None:
    """Run one stage's function here and now, as dvc.yaml does; the result is the same as in a run."""

    def work() -> int:
        from pipelines.inspection import run_step

        return run_step(stage, unconfined)

    guarded(work)


@app.command(epilog=EXIT_CODES)
def status(profile: Profile = "", json: AsJson = False) -> None:
    """The run that is going on, or the last one: state, progress and figures of every stage."""

    def work() -> int:
        from pipelines.inspection import show_status

        return show_status(profile, json)

    guarded(work)


@app.command(epilog=EXIT_CODES)
def report(
    profile: Profile = "",
    json: AsJson = False,
    open_: Annotated[bool, typer.Option("--open", help="open the page in a browser")] = False,
) -> None:
    """The scores of every checkpoint and where the report lies."""

    def work() -> int:
        from pipelines.inspection import show_report

        return show_report(profile, json, open_)

    guarded(work)


@app.command(epilog=EXIT_CODES)
def costs(
    profile: Profile = "",
    run: Annotated[str, typer.Option("--run", help="a run's name or its beginning; without it the last run")] = "",
    json: AsJson = False,
) -> None:
    """What a run cost: by stage, by model, per kept task, per kept trajectory and per point of score."""

    def work() -> int:
        from pipelines.costs import show_costs

        return show_costs(profile, run, json)

    guarded(work)


@app.command(epilog=EXIT_CODES)
def lineage(
    what: Annotated[str, typer.Argument(help="a stage, path, digest (4 digits do), run, MLflow run, or `champion`")],
    profile: Profile = "",
    json: AsJson = False,
    svg: Annotated[str, typer.Option("--svg", metavar="FILE", help="write the tree as a picture, too")] = "",
    params: Annotated[bool, typer.Option("--params", help="every parameter of every stage")] = False,
    no_verify: Annotated[bool, typer.Option("--no-verify", help="do not hash the files again")] = False,
) -> None:
    """What an artifact came from, down to tasks, parameters and commit; every digest is checked against the files."""

    def work() -> int:
        from pipelines.lineage_show import show_lineage

        return show_lineage(what, profile, as_json=json, svg=svg, verify=not no_verify, params=params)

    guarded(work)


@app.command(epilog=EXIT_CODES)
def doctor(profile: Profile = "", unconfined: Unconfined = False, json: AsJson = False) -> None:
    """Check this machine: git, packages, confinement, disk space, memory; with a remedy for each fault."""

    def work() -> int:
        from pipelines.inspection import show_doctor

        return show_doctor(profile, unconfined, json)

    guarded(work)


def main(arguments: list[str] | None = None) -> Any:
    """Entry point of the `cowork` script."""
    return app(args=arguments, prog_name="cowork")


if __name__ == "__main__":
    main()
