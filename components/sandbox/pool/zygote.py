"""Makes slot processes quickly: one process that has imported everything, and forks.

The kernel binds them all: a slot dies with the zygote, the zygote with the host (parent-death signals, also after
`kill -9`), and a sandbox with its slot.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress

from components.contracts.errors import SandboxError
from components.contracts.processes import die_with
from components.sandbox.pool.processes import Process, start_of
from components.sandbox.shell.spawn import lasting

WHERE = "zygote"
_START_SECONDS = 60.0
_MAIN = "from components.sandbox.pool.zygote import main; main()"


class Child:
    """A slot's process: `pidfd` is readable when it has ended."""

    def __init__(self, process: Process, pidfd: int) -> None:
        self.process, self.pidfd = process, pidfd

    def close(self) -> None:
        os.close(self.pidfd)


class Zygote:
    """Started at the first fork, and again when it has died (its slots died with it). Safe from several threads."""

    def __init__(self, preload: tuple[str, ...] = ()) -> None:
        self._preload = preload
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def fork(self, sock: socket.socket) -> Child:
        """A new slot process at the other end of `sock`. Raises `SandboxError`."""
        with self._lock:
            for attempt in (1, 2):
                try:
                    return self._fork(sock)
                except (OSError, EOFError) as error:
                    self._drop()
                    if attempt == 2:
                        raise SandboxError(
                            f"no process for a slot: {error or type(error).__name__}", where=WHERE,
                            remedy="is the machine out of processes or memory?",
                        ) from error  # fmt: skip
        raise AssertionError("not reached")

    def close(self) -> None:
        """Ends it, and with it every slot that it made."""
        with self._lock:
            self._drop()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def _fork(self, sock: socket.socket) -> Child:
        if self._control is None:
            self._start()
        assert self._control is not None
        socket.send_fds(self._control, [b"fork"], [sock.fileno()])
        data, fds, _, _ = socket.recv_fds(self._control, 4096, 1)
        if not data or not fds:
            raise EOFError(data.decode(errors="replace") or "the zygote is gone")
        answer = json.loads(data)
        return Child(Process(int(answer["pid"]), str(answer["start"])), fds[0])

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            # One thread in the zygote: a process with more cannot be forked safely.
            env = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
                   "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # fmt: skip
            env = {name: value for name, value in env.items() if not name.startswith("COWORK_POOL")}
            argv = [sys.executable, "-c", _MAIN, str(theirs.fileno()), str(os.getpid()), *self._preload]
            try:
                process = lasting(
                    lambda: subprocess.Popen(
                        argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                        pass_fds=(theirs.fileno(),), start_new_session=True,
                    )
                )  # fmt: skip
            except OSError:
                ours.close()
                raise
        self._control, self._process = ours, process
        ours.settimeout(_START_SECONDS)
        if ours.recv(4096) != b"ready":
            raise EOFError("the zygote did not start")

    def _drop(self) -> None:
        control, self._control = self._control, None
        process, self._process = self._process, None
        if control is not None:
            control.close()
        if process is not None:
            process.kill()
            process.wait()


def main() -> None:
    """The zygote's own program: descriptor of the control line, the host's pid, modules to import."""
    fd, host, *preload = sys.argv[1:]
    die_with(int(host))
    control = socket.socket(fileno=int(fd))
    import importlib

    import components.sandbox.pool.worker as worker

    for module in preload:
        with suppress(ImportError):  # the slot that needs it says so, to its host
            importlib.import_module(module)
    gc.collect()
    gc.freeze()
    # Ended slots need nobody to wait for them. No other signal is ignored: what a slot starts would inherit that, and a
    # shell in it could not be interrupted. (Ctrl-C at the service's terminal does not come here: own session.)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    here = os.getpid()
    control.send(b"ready")
    while True:
        data, fds, _, _ = socket.recv_fds(control, 64, 1)
        if not data:
            return
        ready, go = os.pipe()
        pid = os.fork()
        if pid == 0:
            die_with(here)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(go)
            control.close()
            os.read(ready, 1)  # until the zygote holds a descriptor of this process
            os.close(ready)
            code = 1
            try:
                code = worker.run(socket.socket(fileno=fds[0]))
            finally:
                os._exit(code)
        os.close(ready)
        os.close(fds[0])
        pidfd = os.pidfd_open(pid)
        answer = json.dumps({"pid": pid, "start": start_of(pid)}).encode()
        os.close(go)
        socket.send_fds(control, [answer], [pidfd])
        os.close(pidfd)
