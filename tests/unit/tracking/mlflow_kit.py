"""Looking into MLflow from a test: the store's address, a client, runs by name, and a server to kill."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from components.tracking.mlflow_store import SWITCHES
from pipelines.waiting import wait_until

SECONDS = 240.0
"""Far above what any of this takes; only what hangs meets it."""


def uri_of(folder: Path) -> str:
    return f"sqlite:///{folder}/mlflow.db"


def client_of(uri: str) -> Any:
    import mlflow

    return mlflow.MlflowClient(tracking_uri=uri)


def runs_of(uri: str) -> dict[str, Any]:
    """Runs by name, whole. Two of one name are a failure of the test that asks."""
    client = client_of(uri)
    found = client.search_runs(["1"], max_results=200)
    names = [run.info.run_name for run in found]
    assert len(names) == len(set(names)), names
    return {run.info.run_name: client.get_run(run.info.run_id) for run in found}


def aliases_of(uri: str) -> dict[str, int]:
    from components.tracking.mlflow_registry import MODEL

    return {name: int(version) for name, version in client_of(uri).get_registered_model(MODEL).aliases.items()}


def shift(spool: Path, milliseconds: int) -> None:
    """Make a spool's records later: stages of a real run do not begin in the same millisecond."""
    events = [json.loads(line) for line in spool.read_text().splitlines()]
    spool.write_text("".join(json.dumps({**event, "t": event["t"] + milliseconds}) + "\n" for event in events))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Interrupting:
    """A client between whose reading and moving somebody else promotes another version."""

    def __init__(self, real: Any, meanwhile: Any) -> None:
        self._real, self._meanwhile = real, meanwhile

    def __getattr__(self, name: str) -> Any:
        if name == "set_registered_model_alias" and self._meanwhile:
            meanwhile, self._meanwhile = self._meanwhile, None
            meanwhile()
        return getattr(self._real, name)


class Server:
    """A real MLflow server over a SQLite file, on loopback, in a process group of its own."""

    def __init__(self, folder: Path, port: int) -> None:
        self.uri = f"http://127.0.0.1:{port}"
        command = [
            sys.executable, "-m", "mlflow", "server", "--backend-store-uri", uri_of(folder), "--host", "127.0.0.1",
            "--artifacts-destination", str(folder / "served"), "--port", str(port), "--workers", "1",
        ]  # fmt: skip
        with (folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, start_new_session=True,
                env={**os.environ, **SWITCHES},
            )  # fmt: skip
        assert wait_until(self._up, SECONDS, 0.2), (folder / "server.log").read_text()

    def _up(self) -> bool:
        with suppress(OSError), urllib.request.urlopen(f"{self.uri}/health", timeout=5) as answer:
            return bool(answer.status == 200)
        assert self._process.poll() is None, "the server ended by itself"
        return False

    def kill(self) -> None:
        """`kill -9` of the server and its workers."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@contextmanager
def serving(folder: Path, port: int) -> Iterator[Server]:
    server = Server(folder, port)
    try:
        yield server
    finally:
        server.kill()
