"""The commands of `cowork osworld`. Nothing heavy is imported before one needs it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli_frame import AsJson, guarded

osworld = typer.Typer(
    help="OSWorld: its guest API over a real desktop, its task files, what is covered.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Tasks = Annotated[Path, typer.Argument(help="a list of tasks (JSON), or a folder of FOLDER/ID.json")]
Files = Annotated[Path | None, typer.Option("--files", help="folder of the tasks' own files; nothing is downloaded")]
Address = Annotated[
    str, typer.Option("--at", metavar="URL", help="a host that speaks OSWorld's guest API; default: a slot of ours")
]


@osworld.command()
def serve(
    port: Annotated[int, typer.Option("--port", help="on loopback; 0 takes a free one")] = 5000,
    files: Files = None,
    width: Annotated[int, typer.Option("--width", help="of the screen, in pixels")] = 1280,
    height: Annotated[int, typer.Option("--height", help="of the screen, in pixels")] = 720,
) -> None:
    """Open a desktop and serve OSWorld's guest API for it. Whoever reaches the port drives the desktop."""

    def work() -> int:
        from pipelines.osworld import serve_slot

        return serve_slot(port, files, (width, height))

    guarded(work)


@osworld.command()
def coverage() -> None:
    """Print each setup type, getter and metric of OSWorld, and what answers it here."""

    def work() -> int:
        from components.sandbox.osworld.coverage import table

        print(table())
        return 0

    guarded(work)


@osworld.command()
def check(tasks: Tasks, json: AsJson = False) -> None:
    """Load tasks and say which are damaged, share an id, or need what is not covered. Exit code 4: some are damaged."""

    def work() -> int:
        from pipelines.osworld import check_tasks

        return check_tasks(tasks, as_json=json)

    guarded(work)


@osworld.command()
def run(
    tasks: Tasks,
    actions: Annotated[
        Path, typer.Option("--actions", help="JSON: for each task's FOLDER/ID its actions (pyautogui code or calls)")
    ],
    files: Files = None,
    at: Address = "",
    json: AsJson = False,
) -> None:
    """Play recorded actions on every task and print the scores. A task without actions is played by doing nothing."""

    def work() -> int:
        from pipelines.osworld import run_tasks

        return run_tasks(tasks, actions, files, at, as_json=json)

    guarded(work)
