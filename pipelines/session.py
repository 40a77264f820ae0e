"""The processes of one run: the fork server, DVC, the shipper to MLflow. None of them outlives this object."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from pipelines.dvc_repro import RESTORED
from pipelines.forkserver import open_listener
from pipelines.processes import end_group
from pipelines.step import stage_environment, with_source
from pipelines.workspace import Workspace

TICK = 0.2


def command_folder(workspace: Workspace) -> Path:
    """A folder with a `cowork` that is this very code, for the commands in dvc.yaml, whatever PATH says."""
    folder = workspace.state / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "cowork"
    text = f'#!/bin/sh\nexec "{sys.executable}" -m pipelines.cli "$@"\n'
    if not script.is_file() or script.read_text(encoding="utf-8") != text:
        script.write_text(text, encoding="utf-8")
        script.chmod(0o755)
    return folder


class Session:
    """Runs DVC phases for one run directory, calling `tick` several times a second. Use as a context manager."""

    def __init__(
        self, workspace: Workspace, run_dir: Path, unconfined: bool, ship: bool, tick: Callable[[], None],
        tracking_uri: str | None = None,
    ) -> None:  # fmt: skip
        self.tracking_uri = tracking_uri
        self.workspace, self.run_dir, self.ship, self.tick = workspace, run_dir, ship, tick
        self.log = run_dir / "logs" / "dvc.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        self._environment = with_source({**os.environ, **workspace.dvc_environment()})
        self._environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self._environment["COWORK_RUN_DIR"] = str(run_dir)
        self._environment["PATH"] = f"{command_folder(workspace)}{os.pathsep}{self._environment.get('PATH', '')}"
        if unconfined:
            self._environment["COWORK_UNCONFINED"] = "1"
        self._server: subprocess.Popen[bytes] | None = None
        self._shipper: subprocess.Popen[bytes] | None = None
        self._dvc: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Session:
        signal.signal(signal.SIGTERM, _stop)
        path = self.workspace.state / "fork.sock"
        listener = open_listener(path)
        try:
            self._server = self._start_server(listener)
        finally:
            listener.close()
        self._environment["COWORK_FORKSERVER"] = str(path)
        if self.ship:
            from components.tracking.ship import spawn

            self._shipper = spawn(self.run_dir, self.tracking_uri)
        return self

    def _start_server(self, listener: socket.socket) -> subprocess.Popen[bytes]:
        with (self.run_dir / "logs" / "forkserver.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "pipelines.forkserver", str(listener.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[listener.fileno()],
                env=stage_environment(self._environment), cwd=self.workspace.root, start_new_session=True,
            )  # fmt: skip

    def phase(self, arguments: Sequence[str]) -> int:
        """One `dvc repro` with these arguments (see `pipelines.dvc_repro`); its exit code."""
        with self.log.open("ab") as log:
            self._dvc = subprocess.Popen(
                [sys.executable, "-m", "pipelines.dvc_repro", str(self.workspace.root), str(os.getpid()), *arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment, cwd=self.workspace.root,
                start_new_session=True,
            )  # fmt: skip
        while True:
            try:
                code = self._dvc.wait(TICK)
                break
            except subprocess.TimeoutExpired:
                self.tick()
        self.tick()
        return code

    def said(self) -> str:
        """What DVC said in this session."""
        with self.log.open("rb") as handle:
            handle.seek(self._log_start)
            return handle.read().decode(errors="replace")

    def restored(self) -> list[str]:
        """Stages whose outputs DVC took from an earlier run, in order."""
        return [match["stage"] for match in RESTORED.finditer(self.said())]

    def __exit__(self, *_: object) -> None:
        # The server first: its stage dies with it, so that DVC has nothing to wait for.
        for process in (self._server, self._dvc):
            if process and (process is self._server or process.poll() is None):
                end_group(process.pid)
                process.wait()
        if self._shipper:
            self._shipper.terminate()  # sends what is left, then ends

    def finish_shipping(self, seconds: float) -> bool:
        """Wait for the shipper's last records; whether it was done in time (else it goes on by itself)."""
        if not self._shipper:
            return True
        self._shipper.terminate()
        try:
            return self._shipper.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            return False


def _stop(number: int, _frame: object) -> None:
    raise KeyboardInterrupt(f"signal {number}")
