"""What the commands share: options that mean the same everywhere, and the way an error becomes an exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import typer

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
