"""Runs that ended without a word (kill -9, power cut, a server that was down): the next command brings them to an end.

On disk a run that nobody works on any more is no longer `running`; in MLflow it is FAILED, not RUNNING for ever. The
caller makes sure that nobody is at work in the recipe folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from components.contracts.errors import OrchestrationError
from components.tracking.mlflow_child import WITHOUT_A_WORD
from pipelines import records
from pipelines.runlock import run_lock
from pipelines.step import with_source
from pipelines.workspace import Workspace

SECONDS = 300.0
"""How long to wait for MLflow to take the rest, at most; a server that does not answer is given up much sooner. What
it did not take stays in the spool for the next time."""


def settle_records(workspace: Workspace) -> list[str]:
    """Mark the recorded runs that are still `running` as failed, their open stages as killed; the runs' ids."""
    settled = []
    for folder, record in records.read_records(workspace):
        if record.status != "running":
            continue
        for entry in record.stages:
            if entry.status == "running":
                entry.status, entry.error = "killed", WITHOUT_A_WORD
        record.status, record.finished = "failed", records.now_text()
        record.save(folder)
        settled.append(record.run_id)
    return settled


def settle_runs(workspace: Workspace) -> None:
    """Both, for a command that only looks: without waiting for anybody, messages to stderr."""

    def say(text: str) -> None:
        print(text, file=sys.stderr)

    if not workspace.runs.is_dir():
        return
    with suppress(OrchestrationError), run_lock(workspace.state / "lock", "cowork status", 0.0, say):
        for run in settle_records(workspace):
            say(f"run {run} {WITHOUT_A_WORD}; `cowork run` continues it")
        settle_mlflow(workspace, say)


def settle_mlflow(workspace: Workspace, say: Callable[[str], None]) -> bool:
    """Send what MLflow has not got of runs that are over; whether all of it arrived. Loads no MLflow for nothing."""
    from components.tracking.ship import unsettled

    folders = unsettled(workspace.runs)
    if not folders:
        return True
    say(f"sending to MLflow what is left of {', '.join(folder.name for folder in folders)}")
    command = [sys.executable, "-m", "components.tracking.ship", "--tries", "1", *map(str, folders)]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS,
            env=with_source(dict(os.environ)), cwd=workspace.root,
        )  # fmt: skip
        said = last_line(done.stderr) if done.returncode else ""
    except subprocess.TimeoutExpired:
        said = f"no answer within {SECONDS:.0f} s"
    if said:
        say(f"MLflow has not everything yet; nothing is lost, the next command tries again: {said}")
    return not said


def last_line(text: str) -> str:
    """The last line that says something."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def last_word(log: Path) -> str:
    """The last line of a log file, empty without one."""
    return last_line(log.read_text(encoding="utf-8", errors="replace")) if log.is_file() else ""
