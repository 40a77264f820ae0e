"""The command line. Nothing heavy is imported before a command needs it: `--help` answers in a blink."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

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

Profile = Annotated[
    str,
    typer.Option("--profile", "-p", help="a profile of pipelines/profiles or a YAML file; runs in a folder of its own"),
]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="KEY=VALUE", help="change a value of params.yaml, e.g. rl.lr=1e-4; repeatable"),
]
Unconfined = Annotated[bool, typer.Option("--unconfined", help="let episodes run shell commands without isolation")]
Wait = Annotated[
    float, typer.Option("--wait", metavar="SECONDS", help="how long to wait for another run in this folder")
]
AsJson = Annotated[bool, typer.Option("--json", help="one JSON object on stdout, everything else on stderr")]
NoTracking = Annotated[bool, typer.Option("--no-mlflow", help="keep events in the run's folder only")]
CapUsd = Annotated[
    float | None,
    typer.Option("--cap-usd", metavar="USD", help="stop new work when the run has spent this; kept until changed"),
]
CapTokens = Annotated[
    float | None, typer.Option("--cap-tokens", metavar="N", help="the same for tokens of model calls, in and out")
]


def guarded(work: Callable[[], int]) -> None:
    """Run a command's work; a typed error becomes its message and exit code."""
    from components.contracts.errors import CoworkError

    try:
        code = work()
    except CoworkError as error:
        print(f"error ({error.border}): {error}", file=sys.stderr)
        code = error.exit_code
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        code = 130
    raise typer.Exit(code)


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
        from pipelines.drive import Options, run

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


@app.command(epilog=EXIT_CODES)
def rerun(
    stage: Annotated[str, typer.Argument(help="the stage to run again")],
    profile: Profile = "",
    set_: Sets = None,
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
        from pipelines.drive import Options, run

        if dry_run:
            return _plan(profile, set_ or [], json, stage)
        options = Options(
            profile, tuple(set_ or ()), force=stage, unconfined=unconfined, wait=wait, as_json=json, ship=not no_mlflow,
            cap_usd=cap_usd, cap_tokens=cap_tokens,
        )  # fmt: skip
        return run(options).code

    guarded(work)


@app.command(epilog=EXIT_CODES)
def plan(profile: Profile = "", set_: Sets = None, json: AsJson = False) -> None:
    """What a run would do, stage by stage, and why: which input, parameter or code changed. Changes nothing."""
    guarded(lambda: _plan(profile, set_ or [], json))


def _plan(profile: str, sets: list[str], as_json: bool, force: str = "") -> int:
    from pipelines.inspection import show_plan

    return show_plan(profile, sets, force, as_json)


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
