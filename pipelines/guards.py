"""What the frame of a stage sees to, so that a digest always means the bytes it names: one writer an output, inputs
that are what the lock says and stay as they are, outputs that hold their own bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from components.contracts.errors import DataError
from pipelines.dvcfiles import Content, read_lock
from pipelines.registry import StageDef
from pipelines.runlock import run_lock
from pipelines.workspace import Workspace

WAIT_SECONDS = 60.0
"""For another process that writes the same output: a stage that was just stopped may take a moment to be gone."""

Stats = dict[Path, tuple[int, int, int]]


@contextmanager
def only_writer(
    workspace: Workspace, stage: StageDef, say: Callable[[str], None], wait: float = WAIT_SECONDS
) -> Iterator[None]:
    """Hold the outputs of a stage for this process. Raises OrchestrationError that names the holder after `wait` s."""
    with ExitStack() as stack:
        for path in sorted(stage.outputs.values()):
            lock = workspace.state / "locks" / path.replace("/", "-")
            stack.enter_context(run_lock(lock, f"stage {stage.name}, which writes {path},", wait, say))
        yield


def require_locked(workspace: Workspace, stage: StageDef, inputs: Mapping[str, Content]) -> None:
    """Inputs as their makers' last recorded runs wrote them. For stages that DVC runs: it has the lock up to date then.

    Raises DataError: bytes changed since, or DVC restored them from a damaged cache (it trusts its own files).
    """
    made = {path: digest for entry in read_lock(workspace.lock_file).values() for path, digest in entry.outs.items()}
    for role, path in stage.inputs.items():
        if path in made and made[path] != inputs[role].digest:
            raise DataError(
                f"input {role} is corrupted: {path} is {inputs[role].digest}, dvc.lock says {made[path]}",
                where=f"stage {stage.name}",
                remedy="cowork data verify --local names the damaged files of the cache; rerun the stage that makes it",
            )


def stats_of(root: Path) -> Stats:
    """Size, time of change and identity of every file of an input."""
    files = [root] if root.is_file() else [Path(folder) / name for folder, _, names in os.walk(root) for name in names]
    found = {}
    for file in files:
        facts = file.stat()
        found[file] = (facts.st_size, facts.st_mtime_ns, facts.st_ino)
    return found


def require_untouched(stage: StageDef, before: Mapping[str, Stats], root: Path) -> None:
    """Raises DataError when the stage wrote to one of its inputs: then its output belongs to no recorded input."""
    for role, old in before.items():
        now = stats_of(root / stage.inputs[role])
        if changed := sorted(str(p.relative_to(root)) for p in {*old, *now} if old.get(p) != now.get(p)):
            raise DataError(
                f"input {role} is read-only, but the stage wrote to it: {', '.join(changed[:5])}",
                where=f"stage {stage.name}",
                remedy="write to an output; `cowork run` makes the input anew",
            )


def require_own_bytes(stage: StageDef, root: Path) -> None:
    """Raises DataError when an output is or holds a symbolic link: what it points to is in nobody's keeping."""
    for path in stage.outputs.values():
        top = root / path
        found = [top] if top.is_symlink() else []
        for folder, folders, files in os.walk(top):
            found += [Path(folder) / name for name in (*folders, *files) if (Path(folder) / name).is_symlink()]
        if found:
            raise DataError(
                f"an output holds a symbolic link: {found[0].relative_to(root)}",
                where=f"stage {stage.name}",
                remedy="copy the bytes into the output",
            )
