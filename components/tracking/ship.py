"""`python -m components.tracking.ship RUN_DIR`: send a run's spools to MLflow, once or as long as the run goes on."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from components.contracts.secrets import redact
from components.tracking.mlflow_sink import MlflowShipper, Shipped, drain
from components.tracking.output import OutputFilter

INTERVAL = 2.0
SLOWEST = 30.0
"""Seconds between two tries while the server does not answer, at most."""


def follow(
    run_dir: Path, tracking_uri: str | None, stop: threading.Event, over: Callable[[], bool], interval: float = INTERVAL
) -> Shipped:
    """Send until `stop` is set or `over()` is true, then a last time as final."""
    shipper = MlflowShipper(run_dir, tracking_uri)
    pause = interval
    send_leftovers(run_dir, tracking_uri)
    while not stop.wait(pause) and not over():
        # A refusing server is asked less and less often; the spool can wait.
        pause = min(pause * 2, SLOWEST) if shipper.pump().error else interval
    return drain(run_dir, tracking_uri, final=True)


def send_leftovers(run_dir: Path, tracking_uri: str | None) -> None:
    """Finish the other runs beside this one that were being sent to this server and never got to their end.

    Two recipes never run at once, so a run that is not this one is over: a stage without an end was killed.
    """
    for other in sorted(run_dir.parent.iterdir()):
        if other.is_dir() and other.resolve() != run_dir.resolve():
            shipper = MlflowShipper(other, tracking_uri)
            if shipper.unsettled():
                shipper.pump(final=True)


def unsettled(runs: Path) -> list[Path]:
    """Folders of runs below `runs` of which the MLflow in use was told something, but not the end."""
    folders = sorted(path.parent for path in runs.glob("*/ship"))
    return [folder for folder in folders if MlflowShipper(folder).unsettled()]


def spawn(run_dir: Path, tracking_uri: str | None = None) -> subprocess.Popen[bytes]:
    """A low-priority process that follows the run. End it with `terminate()` and `wait()`: it sends the rest first.

    It also ends by itself when the caller dies. Its messages go to `<run_dir>/ship.log`.
    """
    command = [sys.executable, "-m", "components.tracking.ship", str(run_dir), "--follow"]
    if tracking_uri:
        command += ["--uri", tracking_uri]
    run_dir.mkdir(parents=True, exist_ok=True)
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    with (run_dir / "ship.log").open("ab") as log:
        # The child starts with the signal held back until it can answer it: an early `terminate` is not lost.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,
            )  # fmt: skip
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m components.tracking.ship", description=__doc__)
    parser.add_argument("run_dir", type=Path, nargs="+", help="folder of the run, holding run.json and spool/")
    parser.add_argument("--uri", default=None, help="MLflow tracking URI (default: MLFLOW_TRACKING_URI, else SQLite)")
    parser.add_argument("--follow", action="store_true", help="go on until the parent process ends or SIGTERM comes")
    parser.add_argument("--running", action="store_true", help="the run goes on: do not mark open stages as killed")
    parser.add_argument("--tries", type=int, default=3, help="how often to try when the server was slow (default: 3)")
    options = parser.parse_args(arguments)
    for folder in options.run_dir:
        if not folder.is_dir():
            parser.error(f"{folder}: no such folder; name the folder of a run")
    if options.follow and len(options.run_dir) > 1:
        parser.error("--follow takes one run")
    if options.follow:
        OutputFilter().start()
        os.nice(10)
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        parent = os.getppid()
        result = follow(options.run_dir[0], options.uri, stop, lambda: os.getppid() != parent)
    else:
        result = Shipped(0, "")
        for folder in options.run_dir:
            one = drain(folder, options.uri, final=not options.running, tries=options.tries)
            result = Shipped(result.records + one.records, result.error or one.error)
    if result.error:
        print(f"{result.records} records sent, the rest stays in the spool: {redact(result.error)}", file=sys.stderr)
        return 1
    print(f"{result.records} records sent")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
