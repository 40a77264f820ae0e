"""The commands of `cowork data` and `cowork reproduce`. Nothing heavy is imported before one needs it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli_frame import AsJson, Profile, Wait, guarded

data = typer.Typer(
    help="A run's data and record, to and from a remote: a folder, S3 or Azure Blob.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Run = Annotated[str, typer.Option("--run", help="a run by its name or any hash of it")]

REPRODUCE_CODES = """Exit codes: 0 bit-equal; 10 equal within the tolerance; 11 different; 12 the environment differs,
nothing was run; 2 bad parameters or usage; 4 stored data or a record is missing, damaged or contradictory; 6 unknown or
ambiguous hash, not reproducible, or a stage failed; 130 stopped by the user."""


@data.command()
def remote(
    url: Annotated[str, typer.Argument(help="a folder, s3://bucket/prefix or azure://container/prefix")] = "",
    endpoint: Annotated[str, typer.Option("--endpoint", help="S3: address of a server that is not Amazon's")] = "",
    region: Annotated[str, typer.Option("--region", help="S3: region of the bucket")] = "",
    account: Annotated[str, typer.Option("--account", help="Azure: name of the storage account")] = "",
) -> None:
    """Choose the remote (written to .dvc/config, without credentials), or say which one is chosen."""

    def work() -> int:
        from pipelines.data import show_remote

        return show_remote(url, endpoint, region, account)

    guarded(work)


@data.command()
def push(
    profile: Profile = "",
    run: Run = "",
    every: Annotated[bool, typer.Option("--all", help="every finished run of this folder, not only the last")] = False,
    check: Annotated[bool, typer.Option("--check", help="read what is there and replace what is damaged")] = False,
    json: AsJson = False,
) -> None:
    """Send the outputs and the record of the last finished run."""

    def work() -> int:
        from pipelines.data import push_data

        return push_data(profile, run, every, check, json)

    guarded(work)


@data.command()
def pull(
    profile: Profile = "",
    run: Run = "",
    force: Annotated[bool, typer.Option("--force", help="replace outputs whose bytes are nowhere else")] = False,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="take what there is; later runs are marked as not reproducible")
    ] = False,
    wait: Wait = 60.0,
    json: AsJson = False,
) -> None:
    """Bring the outputs that dvc.lock (or a run) names into this folder: all of them, checked, or none."""

    def work() -> int:
        from pipelines.data import pull_data

        return pull_data(profile, run, force, allow_missing, wait, json)

    guarded(work)


@data.command()
def verify(
    profile: Profile = "",
    run: Run = "",
    local: Annotated[bool, typer.Option("--local", help="this machine's cache instead of the remote")] = False,
    json: AsJson = False,
) -> None:
    """Hash every stored object again and name the missing and the damaged ones (exit code 4)."""

    def work() -> int:
        from pipelines.data import verify_data

        return verify_data(profile, run, local, json)

    guarded(work)


@data.command("merge-lock")
def merge_lock(base: Path, ours: Path, theirs: Path) -> None:
    """Merge dvc.lock by stage into OURS, as a merge driver of git does it (cowork data merge-lock %O %A %B)."""

    def work() -> int:
        from pipelines.data import merge_lock

        return merge_lock(base, ours, theirs)

    guarded(work)


def reproduce(
    hash_: Annotated[
        str, typer.Argument(metavar="HASH", help="of an output or a dvc.lock (short will do), an MLflow run, a commit")
    ],
    stage: Annotated[str, typer.Option("--stage", help="up to this stage, where the hash is that of a whole run")] = "",
    only: Annotated[bool, typer.Option("--only", help="the one stage, on its recorded inputs")] = False,
    into: Annotated[Path | None, typer.Option("--into", help="folder of the clean tree")] = None,
    any_environment: Annotated[
        bool, typer.Option("--any-environment", help="go on although versions differ from the recorded ones")
    ] = False,
    local: Annotated[bool, typer.Option("--local", help="check data in this machine's cache, not the remote")] = False,
    tolerance: Annotated[
        float, typer.Option("--tolerance", min=0.0, help="for scores and losses: relative, absolute below 1")
    ] = 0.02,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="find it and check everything, run nothing")] = False,
    unconfined: Annotated[bool, typer.Option("--unconfined", help="let episodes run without isolation")] = False,
    json: AsJson = False,
) -> None:
    """Run again, in a clean tree at its commit, what led to an artifact; say stage by stage whether it is the same."""

    def work() -> int:
        from pipelines.reproduce import Options, reproduce

        return reproduce(
            Options(hash_, stage, only, into, any_environment, local, dry_run, tolerance, unconfined, json)
        )

    guarded(work)
