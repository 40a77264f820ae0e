"""Is this machine fit for a run? Each check says what it found and, when it is not, what to do."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from components.contracts.errors import OrchestrationError, SandboxError
from pipelines.git import ask
from pipelines.registry import StageDef
from pipelines.runlock import holder
from pipelines.workspace import Workspace

SPACE_BYTES = 1_500_000_000
"""What a run may write beside the environment: outputs, DVC's copy of them, unfinished state, MLflow's files."""
MEMORY_BYTES = 4_000_000_000
NEEDED = {
    "dvc": "data", "torch": "train", "transformers": "train", "tokenizers": "train", "safetensors": "train",
    "pyarrow": "data", "mlflow": "track", "openpyxl": "the core",
}  # fmt: skip
"""Packages without which a run fails, and the extra that brings each."""

Level = Literal["ok", "warning", "bad"]


@dataclass(frozen=True)
class Check:
    """`bad` stops a run; a `warning` does not."""

    name: str
    level: Level
    found: str
    remedy: str = ""


def _space(workspace: Workspace) -> Check:
    free = shutil.disk_usage(workspace.root).free
    text = f"{free / 1e9:.1f} GB free, a run may need {SPACE_BYTES / 1e9:.1f} GB"
    if free >= SPACE_BYTES:
        return Check("disk space", "ok", text)
    return Check("disk space", "bad", text, "free some space (make clean removes old runs and caches), then run again")


def _git(workspace: Workspace) -> Check:
    if shutil.which("git") is None:
        return Check("git", "bad", "git is not installed", "install it (apt install git): run records name the commit")
    commit, _ = git_state(workspace.root)
    if not commit and any((folder / ".git").exists() for folder in (workspace.root, *workspace.root.parents)):
        remedy = "make a first commit; or, if git calls the owner dubious: git config --global --add safe.directory '*'"
        return Check("git", "bad", "git does not name a commit here", remedy)
    if not commit:
        remedy = "work in a clone of the repository, or run: git init && git add . && git commit -m start"
        return Check("git", "bad", "this folder is in no git repository with a commit", remedy)
    if _ignored_lock(workspace):
        remedy = "take it out of .gitignore and commit it: it says which data belongs to a commit"
        return Check("git", "bad", "dvc.lock is ignored by git (lock_not_tracked)", remedy)
    return Check("git", "ok", f"at {commit[:12]}")


def git_state(root: Path) -> tuple[str, bool]:
    """(commit, whether tracked files differ from it); ("", False) outside of a repository."""
    commit = ask(root, "rev-parse", "HEAD", seconds=20).strip()
    changes = ask(root, "status", "--porcelain", "--untracked-files=no", seconds=20) if commit else ""
    return commit, bool(changes.strip())


def _ignored_lock(workspace: Workspace) -> bool:
    """Whether git would never see this recipe's `dvc.lock`. A side folder lies in `.cowork` with all it holds."""
    if ".cowork" in workspace.root.parts:
        return False
    command = ["git", "-C", str(workspace.root), "check-ignore", "--quiet", "--no-index", "dvc.lock"]
    return subprocess.run(command, capture_output=True, timeout=20, stdin=subprocess.DEVNULL).returncode == 0


def _packages(workspace: Workspace) -> Check:
    missing = [name for name in NEEDED if find_spec(name) is None]
    if not missing:
        return Check("packages", "ok", f"{len(NEEDED)} of {len(NEEDED)} found")
    extras = ", ".join(sorted({NEEDED[name] for name in missing}))
    return Check("packages", "bad", f"missing: {', '.join(missing)}", f"make env (or install the extras: {extras})")


def _dvc(workspace: Workspace) -> Check:
    if (workspace.root / ".dvc" / "config").is_file():
        return Check("dvc", "ok", "initialised")
    return Check("dvc", "bad", "no .dvc/config here", "restore it from git, or run: dvc init")


def _inputs(workspace: Workspace, stages: Mapping[str, StageDef]) -> Check:
    made = {path for stage in stages.values() for path in stage.outputs.values()}
    given = {path for stage in stages.values() for path in stage.inputs.values()} - made
    missing = sorted(path for path in given if not (workspace.root / path).exists())
    if missing:
        return Check(
            "given inputs", "bad", f"missing: {', '.join(missing)}", "they come with the repository: git restore"
        )
    return Check("given inputs", "ok", ", ".join(sorted(given)) or "none needed")


def _confinement(unconfined: bool) -> Check:
    from components.sandbox.confine import detect

    probe = detect()
    if probe.confinement != "none":
        level: Level = "ok" if probe.process_limit else "warning"
        return Check("confinement", level, probe.details, probe.remedy)
    if unconfined:
        return Check("confinement", "warning", "none; going on because of --unconfined", probe.remedy)
    return Check("confinement", "bad", probe.details or "none works here", probe.remedy)


def _desktops() -> Check:
    """Never more than a word: only runs on the backend `x11` need them."""
    from components.sandbox.x11.drivers.choose import choose_driver

    try:
        choice = choose_driver()
    except SandboxError as error:
        return Check("real desktops", "ok", f"none here ({error.message}; minidesk needs none)", error.remedy)
    others = "".join(f"; {name}: {reason}" for name, reason in choice.reasons.items())
    return Check("real desktops", "ok", f"{choice.driver.name} works{others}")


def _lock(workspace: Workspace) -> Check:
    owner = holder(workspace.state / "lock")
    return (
        Check("run lock", "warning", f"held by {owner}", "cowork status shows it")
        if owner
        else Check("run lock", "ok", "free")
    )


def _memory() -> Check:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return Check("memory", "warning", "unknown")
    text = f"{total / 1e9:.1f} GB, a run needs up to {MEMORY_BYTES / 1e9:.0f} GB"
    if total >= MEMORY_BYTES:
        return Check("memory", "ok", text)
    return Check("memory", "warning", text, "expect swapping; close other programs")


def _machine() -> Check:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    text = f"Python {platform.python_version()}, {cores} cores, {platform.system()} {platform.machine()}"
    return Check("machine", "ok" if cores > 1 else "warning", text, "" if cores > 1 else "one core doubles the time")


def quick_checks(workspace: Workspace, stages: Mapping[str, StageDef], unconfined: bool) -> list[Check]:
    """What `cowork run` looks at before it starts anything: about a second, most of it the confinement's trial."""
    looks: list[Callable[[], Check]] = [
        _machine,
        lambda: _git(workspace),
        lambda: _dvc(workspace),
        lambda: _packages(workspace),
        lambda: _inputs(workspace, stages),
        lambda: _space(workspace),
        lambda: _confinement(unconfined),
    ]
    return [look() for look in looks]


def all_checks(workspace: Workspace, stages: Mapping[str, StageDef], unconfined: bool) -> list[Check]:
    return [*quick_checks(workspace, stages, unconfined), _memory(), _desktops(), _lock(workspace)]


def require(checks: list[Check]) -> None:
    """Raises OrchestrationError that names every bad check with its remedy."""
    bad = [check for check in checks if check.level == "bad"]
    if bad:
        lines = "".join(f"\n  {check.name}: {check.found}\n    -> {check.remedy}" for check in bad)
        raise OrchestrationError(f"this machine is not ready, nothing was started:{lines}", remedy="")


def text(checks: list[Check]) -> str:
    """The checks for a console."""
    marks = {"ok": "ok  ", "warning": "warn", "bad": "BAD "}
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        lines.append(f"{marks[check.level]}  {check.name:<{width}}  {check.found}")
        if check.remedy and check.level != "ok":
            lines.append(f"{'':>{width + 6}}  -> {check.remedy}")
    return "\n".join(lines)
