"""`python -m pipelines.dvc_repro ROOT PARENT [OPTIONS] [STAGE...]`: one `dvc repro`, in a process of its own.

The only place that imports DVC (its `dvc.repo` is no stable interface, hence the pin in pyproject.toml). What DVC says
goes to stdout as plain lines; `pipelines.drive` reads two of them, see `RESTORED`.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from components.contracts.processes import die_with
from components.tracking.output import OutputFilter
from pipelines.dvc_locks import release_dead_locks

RESTORED = re.compile(r"Stage '(?P<stage>[^']+)' is cached - skipping run")
"""DVC's word for outputs taken from an earlier run with the same key."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m pipelines.dvc_repro")
    parser.add_argument("root")
    parser.add_argument("parent", type=int)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--single", action="store_true", help="the targets alone, not what they depend on")
    parser.add_argument("--downstream", action="store_true", help="the targets and what depends on them")
    parser.add_argument("--force", action="store_true", help="run even if nothing changed, and not from the run cache")
    options = parser.parse_intermixed_args(arguments)
    die_with(options.parent)
    output = OutputFilter().start()
    try:
        return _reproduce(options)
    finally:
        output.finish()


def _reproduce(options: argparse.Namespace) -> int:
    os.chdir(options.root)
    release_dead_locks(Path.cwd())
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    try:
        with Repo(".") as repo:
            repo.reproduce(
                options.targets or None,
                single_item=options.single,
                downstream=options.downstream,
                force=options.force,
            )
        return 0
    except DvcException as error:
        cause = error.__cause__
        print(f"{error}" + (f": {cause}" if cause else ""))
        return 1
    finally:
        sys.stdout.flush()
        # DVC's git library complains from its destructors while the interpreter goes down.
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


if __name__ == "__main__":
    raise SystemExit(main())
