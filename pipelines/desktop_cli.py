"""The commands of `cowork desktop` and `cowork act`. Nothing heavy is imported before one needs it."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.cli_frame import AsJson, Sets, Unconfined, guarded

desktop = typer.Typer(
    help="Desktops for people: look at one, take it over, draw what was done on one.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

ACT_CODES = """Exit codes: 0 done (and the verifier agrees, where there is one); 10 ended without that; 1 the model or
its server failed; 2 bad parameters or usage; 3 the desktop failed; 4 data; 5 checkpoint; 130 stopped by Ctrl-C.

Examples:

  cowork act "open the notes app" --policy base

  cowork act "sum the second column of fruit.csv" --policy rl --open

  cowork act "rename every photo by its date" --backend x11 --profile desktop
  --policy http://127.0.0.1:30000/v1 --model mage-vl --key-variable MY_API_KEY
"""

Backend = Annotated[
    str,
    typer.Option("--backend", "-b", metavar="NAME", help="minidesk (drawn, no packages) or x11 (real applications)"),
]
TaskName = Annotated[
    str, typer.Option("--task", metavar="FILE_OR_ID", help="a task file, the beginning of a task's id, or with x11 a"
                      " skill over real applications (calc-total): its files are set up, its verifier grades")
]  # fmt: skip
Profile = Annotated[
    str, typer.Option("--profile", "-p", help="a profile or a YAML file: folding, coordinates and token limits of it")
]
Apps = Annotated[
    list[str] | None, typer.Option("--app", metavar="COMMAND", help="x11: start this application first; repeatable")
]
Size = Annotated[str, typer.Option("--size", metavar="WxH", help="x11: size of the screen (1280x720)")]
Model = Annotated[str, typer.Option("--model", metavar="NAME", help="the endpoint's name for the model")]
KeyVariable = Annotated[
    str, typer.Option("--key-variable", metavar="NAME", help="environment variable with the endpoint's key")
]
HarnessName = Annotated[
    str,
    typer.Option("--harness", metavar="NAME", help="gui, terminal or hybrid; as the policy was trained, if left away"),
]
MaxSteps = Annotated[int, typer.Option("--max-steps", min=0, metavar="N", help="0 = as the task or the recipe says")]
Temperature = Annotated[float, typer.Option("--temperature", min=0.0, help="0 = always the likeliest answer")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="do not ask before actions that cannot be taken back")]
Careful = Annotated[bool, typer.Option("--careful", help="ask before actions whose effect is not known, too")]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="port of the live view; 0 = any that is free")]
Out = Annotated[str, typer.Option("--out", metavar="FOLDER", help="where the episode is stored (.cowork/episodes/...)")]


@desktop.command("open", epilog=ACT_CODES)
def open_(
    backend: Backend = "minidesk",
    task: TaskName = "",
    port: Port = 0,
    policy: Annotated[
        str,
        typer.Option(
            "--policy", "--checkpoint", metavar="WHAT", help="let it work on the task: folder, stage, address"
        ),
    ] = "",
    instruction: Annotated[
        str, typer.Option("--instruction", help="what it shall do, in place of the task's own")
    ] = "",
    model: Model = "",
    key_variable: KeyVariable = "",
    harness: HarnessName = "",
    profile: Profile = "",
    set_: Sets = None,
    app: Apps = None,
    size: Size = "",
    max_steps: MaxSteps = 0,
    temperature: Temperature = 0.0,
    yes: Yes = False,
    careful: Careful = False,
    browser: Annotated[bool, typer.Option("--open/--no-open", help="open the page in a browser")] = True,
    unconfined: Unconfined = False,
) -> None:
    """Open a desktop and look at it in the browser, live. Ctrl-C closes it.

    The page shows the screen, each step of a policy (thought, action, call, outcome, seconds) and where it clicked.
    `Take control` lets your mouse and keyboard act; until then you only look on. The address holds a secret: who has
    it can do what you can. It is served on this machine alone.
    """

    def work() -> int:
        from pipelines.live import LiveOptions, run_live

        return run_live(
            LiveOptions(
                instruction=instruction, backend=backend, task=task, policy=policy, model=model,
                key_variable=key_variable, harness=harness, profile=profile, sets=tuple(set_ or ()),
                apps=tuple(app or ()), size=size, max_steps=max_steps, temperature=temperature, yes=yes,
                careful=careful, view=True, browser=browser, port=port, unconfined=unconfined, stay=True,
            )
        )  # fmt: skip

    guarded(work)


@desktop.command(epilog="Exit codes: 0 written; 2 bad usage; 4 no such episode, damaged data, no ffmpeg, disk full.")
def record(
    episode: Annotated[
        str, typer.Argument(help="an id or its beginning, a number with --in, `last` (live), or `list` to see them")
    ],
    folder: Annotated[
        str, typer.Option("--in", metavar="FOLDER", help="a folder of trajectories or of scores; else all known ones")
    ] = "",
    out: Annotated[str, typer.Option("--out", "-o", metavar="FILE", help=".png (a strip of steps), .gif or .mp4")] = "",
    kind: Annotated[str, typer.Option("--format", help="strip, gif or mp4, where --out does not say")] = "",
    json: AsJson = False,
) -> None:
    """Draw a stored episode: a strip of its steps, a GIF, or a film (where ffmpeg is installed)."""

    def work() -> int:
        from components.contracts.errors import ParamsError
        from pipelines.desktop_record import list_episodes, record_episode

        if kind not in ("", "strip", "gif", "mp4"):
            raise ParamsError(f"there is no format {kind!r}", where="--format", remedy="strip, gif or mp4")
        if episode == "list":
            return list_episodes(folder, json)
        return record_episode(episode, folder, out, kind, json)

    guarded(work)


def act(
    instruction: Annotated[str, typer.Argument(help="what it shall do; may be left away with --task")] = "",
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            metavar="WHAT",
            help="a checkpoint folder, a stage of the recipe (base, rl, ...), or the"
            " address of an OpenAI-compatible endpoint (http://.../v1)",
        ),
    ] = "",  # fmt: skip
    backend: Backend = "minidesk",
    task: TaskName = "",
    model: Model = "",
    key_variable: KeyVariable = "",
    harness: HarnessName = "",
    profile: Profile = "",
    set_: Sets = None,
    app: Apps = None,
    size: Size = "",
    max_steps: MaxSteps = 0,
    temperature: Temperature = 0.0,
    yes: Yes = False,
    careful: Careful = False,
    view: Annotated[bool, typer.Option("--open", help="watch it in the browser, live")] = False,
    port: Port = 0,
    out: Out = "",
    unconfined: Unconfined = False,
) -> None:
    """Let a policy do one thing on a live desktop, step by step before your eyes.

    Prompt, folding and parsing are those of training. Before an action that cannot be taken back (deletes, overwrites,
    sends, installs, ...) you are asked: yes, no, always for this sort, or stop. Without a terminal to ask on, such a
    step is refused and the policy is told so, unless --yes. The episode is stored with every decision.
    """

    def work() -> int:
        from components.contracts.errors import ParamsError
        from pipelines.live import LiveOptions, run_live

        if not policy:
            raise ParamsError("which policy?", where="--policy", remedy="e.g. --policy base")
        return run_live(
            LiveOptions(
                instruction=instruction, backend=backend, task=task, policy=policy, model=model,
                key_variable=key_variable, harness=harness, profile=profile, sets=tuple(set_ or ()),
                apps=tuple(app or ()), size=size, max_steps=max_steps, temperature=temperature, yes=yes,
                careful=careful, view=view, browser=view, port=port, out=out, unconfined=unconfined,
            )
        )  # fmt: skip

    guarded(work)
