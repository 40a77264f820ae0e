"""The compiled Kubeflow pipeline on this machine: `python -m pipelines.local_kfp --profile smoke --folder runs/kfp`.

What kfp.local leaves behind is kept in one folder: its task files, the store, the log. It swaps logging handlers and
`print`, ends no grandchildren on a signal and fills the system's temporary folder, so it runs in a child process with a
process group and a temporary folder of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.contracts.errors import OrchestrationError
from components.contracts.processes import die_with
from components.tracking.output import OutputFilter
from pipelines.forkserver import open_listener
from pipelines.kfp_compile import COMPILED
from pipelines.kfp_settings import BASE_TASK, check_length
from pipelines.kfp_store import read_manifest
from pipelines.processes import end_group
from pipelines.registry import STAGES
from pipelines.step import stage_environment
from pipelines.workspace import SOURCE

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_FAILED = re.compile(r"^.*Task '(?P<task>[^']+)' finished with status FAILURE", re.MULTILINE)
_ERROR = re.compile(r"^[\w.]+(Error|Interrupt|Exit|Exception): ", re.MULTILINE)


@dataclass(frozen=True)
class LocalRun:
    """`digests`: stage -> output -> digest of what was made in this run; `reused`: tasks taken from the cache."""

    digests: dict[str, dict[str, str]]
    reused: tuple[str, ...]
    log: Path


def run_local(
    profile: str,
    folder: Path,
    *,
    seed: int = 0,
    overrides: Mapping[str, Any] | None = None,
    caching: bool = False,
    preload: bool = True,
    seconds: float = 3600.0,
) -> LocalRun:
    """Run the recipe by kfp.local under `folder`, which is made. `caching` reuses tasks of earlier runs there.

    `profile` is a name or the path of a YAML file. `preload` keeps a server with the heavy libraries loaded for all
    tasks. Nothing started here is left when this returns, for whatever reason.

    Raises ParamsError for overrides that are too long, and OrchestrationError when a task fails, with the task's
    words, or when the time is over.
    """
    told = check_length("overrides", json.dumps(dict(overrides or {})))
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.resolve()
    log = folder / "log.txt"
    before = set((folder / "tasks").glob("*/"))
    arguments = [str(os.getpid()), str(folder), profile, str(seed), told, str(int(caching))]
    with tempfile.TemporaryDirectory(prefix="cowork-") as temporary, log.open("wb") as output:
        env = stage_environment({**os.environ, "TMPDIR": temporary, "COWORK_RUN_DIR": str(folder / "run")})
        with server(Path(temporary), env, output.fileno()) if preload else _nothing():
            child = subprocess.Popen(
                [sys.executable, "-m", "pipelines.local_kfp", "--child", *arguments],
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=env, cwd=SOURCE,
                start_new_session=True,
            )  # fmt: skip
            try:
                code = child.wait(seconds)
            except subprocess.TimeoutExpired:
                raise OrchestrationError(
                    f"not done after {seconds:.0f} seconds", where="kfp.local", remedy=f"see {log}"
                ) from None
            finally:
                end_group(child.pid)
                child.wait()
    if code:
        raise OrchestrationError(_words_of_failure(plain_log(log)), where="kfp.local", remedy=f"all of it: {log}")
    (fresh,) = set((folder / "tasks").glob("*/")) - before
    names = (*STAGES, BASE_TASK)
    # A task that came from the cache has no folder in this run.
    digests = {name: _digests(fresh / name) for name in names if (fresh / name).is_dir()}
    return LocalRun(digests, tuple(name for name in names if name not in digests), log)


@contextmanager
def server(folder: Path, env: dict[str, str], log: int) -> Iterator[None]:
    """A fork server for the tasks (see `forkserver`); its socket goes into `env`."""
    path = folder / "fork.sock"
    listener = open_listener(path)
    with listener:
        process = subprocess.Popen(
            [sys.executable, "-m", "pipelines.forkserver", str(listener.fileno()), str(os.getpid())],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[listener.fileno()], env=env, cwd=SOURCE,
            start_new_session=True,
        )  # fmt: skip
    env["COWORK_FORKSERVER"] = str(path)
    try:
        yield
    finally:
        end_group(process.pid, 0.0)  # it holds nothing; its stages are bound to its life
        process.wait()


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def plain_log(log: Path) -> str:
    """The log without colours and without kfp's growing indentation."""
    lines = _COLOUR.sub("", log.read_text(encoding="utf-8", errors="replace")).splitlines()
    return "\n".join(line.lstrip() for line in lines)


def _words_of_failure(text: str) -> str:
    """What the failed task said last: its error, not kfp's own stack."""
    failed = _FAILED.search(text)
    said = text[: failed.start()] if failed else text
    errors = list(_ERROR.finditer(said))
    words = said[errors[-1].start() :] if errors else "\n".join(said.splitlines()[-20:])
    lines = [line for line in words.splitlines() if line and not line.startswith(("[KFP", "Task ", "--"))]
    return f"task {failed['task'] if failed else '(none)'} failed: " + "\n".join(lines[:20])


def _digests(task: Path) -> dict[str, str]:
    """The manifests in a task's folder: output -> digest."""
    files = [file for file in task.iterdir() if file.name not in ("executor_output.json", "metrics", "page")]
    manifests = [read_manifest(file) for file in sorted(files)]
    return {manifest.output: manifest.digest for manifest in manifests}


def _child(parent: int, folder: Path, profile: str, seed: int, overrides: str, caching: bool) -> None:
    """The process that kfp.local may do with as it likes."""
    die_with(parent)
    OutputFilter().start()
    from kfp import components, local

    local.init(
        local.SubprocessRunner(use_venv=False),
        pipeline_root=str(folder / "tasks"),
        cache_root=str(folder / "cache"),
        enable_caching=caching,
    )
    recipe = components.load_component_from_file(str(COMPILED))
    for task in recipe.component_spec.implementation.graph.root.dag.tasks.values():
        task.ClearField("retry_policy")  # no node can be lost here: a retry would only be a wait
    recipe(profile=profile, seed=seed, overrides=overrides, store=str(folder / "store"))


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        parent, folder, profile, seed, overrides, caching = sys.argv[2:]
        _child(int(parent), Path(folder), profile, int(seed), overrides, caching == "1")
        return 0
    parser = argparse.ArgumentParser(prog="python -m pipelines.local_kfp", description=__doc__.splitlines()[0])
    parser.add_argument("--profile", default="tiny")
    parser.add_argument("--folder", type=Path, default=Path(".cowork/kfp"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--overrides", type=json.loads, default={}, help='e.g. {"rl.iterations": 4}')
    parser.add_argument("--fresh", action="store_true", help="forget what earlier runs made in the folder")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _stop)
    if options.fresh:
        shutil.rmtree(options.folder, ignore_errors=True)
    run = run_local(options.profile, options.folder, seed=options.seed, overrides=options.overrides, caching=True)
    print(json.dumps({"digests": run.digests, "reused": run.reused}, indent=1))
    return 0


def _stop(number: int, _frame: object) -> None:
    raise KeyboardInterrupt(f"signal {number}")


if __name__ == "__main__":
    raise SystemExit(main())
