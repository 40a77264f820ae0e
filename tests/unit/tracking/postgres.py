"""A PostgreSQL of one's own for a test: the distribution's binaries, a fresh cluster, loopback, nothing kept."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from pipelines.waiting import wait_until
from tests.unit.tracking.mlflow_kit import SECONDS, free_port


def binaries() -> Path | None:
    """The folder with `initdb`: Debian keeps it out of PATH."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if found := shutil.which("initdb"):
        folders.append(Path(found).resolve().parent)
    return next((folder for folder in folders if (folder / "initdb").is_file()), None)


def missing() -> str:
    """Why there can be no PostgreSQL here; empty when there can."""
    if not (find_spec("psycopg") or find_spec("psycopg2")):
        return "no driver for PostgreSQL: pip install 'cowork[postgres]'"
    if binaries() is None:
        return "no PostgreSQL: apt-get install postgresql"
    return ""


def _account() -> dict[str, str]:
    """PostgreSQL refuses to run as root: then the distribution's own account."""
    return {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}


@contextmanager
def postgres() -> Iterator[str]:
    """The address of an empty database."""
    folder, port = binaries(), free_port()
    assert folder is not None
    with tempfile.TemporaryDirectory(prefix="cowork-pg-", ignore_cleanup_errors=True) as place:
        account = _account()
        if account:
            shutil.chown(place, "postgres", "postgres")
        data = Path(place) / "data"
        subprocess.run(
            [folder / "initdb", "-D", data, "-A", "trust", "-U", "cowork", "-E", "UTF8", "--no-sync"],
            check=True, capture_output=True, cwd=place, **account,
        )  # fmt: skip
        options = {"listen_addresses": "127.0.0.1", "unix_socket_directories": place, "fsync": "off"}
        log = (Path(place) / "log").open("wb")
        server = subprocess.Popen(
            [folder / "postgres", "-D", data, "-p", str(port), *(f"--{k}={v}" for k, v in options.items())],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=place, start_new_session=True, **account,
        )  # fmt: skip
        try:
            ready = [folder / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
            assert wait_until(lambda: subprocess.run(ready).returncode == 0, SECONDS), (Path(place) / "log").read_text()
            yield f"postgresql://cowork@127.0.0.1:{port}/postgres"
        finally:
            server.send_signal(signal.SIGQUIT)
            server.wait()
            log.close()
