"""A process with the heavy libraries already imported, which forks a child for every stage.

Importing torch and transformers costs many CPU-seconds and would be paid by two dozen stages. The server takes requests
on a Unix socket: one JSON line with the stage's descriptors attached (stdout, stderr). It answers `{"pid": n}` at once
and `{"code": n}` when the child has ended. A client that goes away takes its stage with it; so does the server itself.

The first stages do not need torch, so the server serves at once and imports between requests.
"""

from __future__ import annotations

import array
import atexit
import gc
import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from components.contracts.processes import die_with
from components.tracking.output import OutputFilter
from pipelines.processes import die_with_every_parent, end_group

PRELOAD = ("numpy", "pydantic", "yaml", "PIL.Image", "torch", "transformers", "components.training.model")
VARIABLES = ("COWORK_RUN_DIR", "COWORK_UNCONFINED", "COWORK_REGISTRY")
"""What a request may set in the child's environment; everything else is the server's."""


@dataclass
class Child:
    pid: int
    pidfd: int
    connection: socket.socket


class ForkServer:
    """Serves until its listener is closed or its parent ends. Single-threaded: a fork must not copy a held lock."""

    def __init__(self, listener: socket.socket, preload: Sequence[str] = PRELOAD) -> None:
        self.listener = listener
        self.preload = list(preload)
        self.selector = selectors.DefaultSelector()
        self.selector.register(listener, selectors.EVENT_READ)
        self.children: dict[int, Child] = {}

    def serve(self) -> None:
        while True:
            # With imports left to do only look for work; after the first stage has begun they fill the idle time.
            waiting = 0.0 if self.preload and self.children else None
            ready = self.selector.select(waiting)
            for key, _ in ready:
                if key.fileobj is self.listener:
                    self._accept()
                elif key.data is not None:
                    self._ended(key.data) if key.fd == key.data.pidfd else self._abandoned(key.data)
            if not ready and self.preload:
                self._import(self.preload.pop(0))

    def _import(self, name: str) -> None:
        with suppress(ImportError):  # a stage that needs it says so better
            import_module(name)
        gc.collect()
        gc.freeze()

    def _accept(self) -> None:
        connection, _ = self.listener.accept()
        try:
            request, descriptors = receive(connection)
        except (OSError, ValueError):
            connection.close()
            return
        for name in request.get("libraries", "").split():
            if name not in sys.modules:
                self._import(name)
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become_stage(server, request, descriptors, connection)
        for descriptor in descriptors:
            os.close(descriptor)
        child = Child(pid, os.pidfd_open(pid), connection)
        self.children[pid] = child
        self.selector.register(child.pidfd, selectors.EVENT_READ, child)
        self.selector.register(connection, selectors.EVENT_READ, child)
        self._tell(child, {"pid": pid})

    def _ended(self, child: Child) -> None:
        if child.pid not in self.children:
            return
        del self.children[child.pid]
        end_group(child.pid, 0.0)  # workers of a stage that was killed
        _, status = os.waitpid(child.pid, 0)
        self._tell(child, {"code": os.waitstatus_to_exitcode(status)})
        self.selector.unregister(child.pidfd)
        self.selector.unregister(child.connection)
        os.close(child.pidfd)
        child.connection.close()

    def _abandoned(self, child: Child) -> None:
        """The client is gone: its stage ends, and `_ended` clears up."""
        if child.pid in self.children:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            self._ended(child)

    @staticmethod
    def _tell(child: Child, message: dict[str, int]) -> None:
        with suppress(OSError):
            child.connection.sendall(json.dumps(message).encode() + b"\n")

    def _become_stage(
        self, server: int, request: dict[str, str], descriptors: list[int], connection: socket.socket
    ) -> None:
        code = 1
        try:
            os.setsid()
            die_with(server)
            die_with_every_parent()
            for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
                signal.signal(number, handler)
            self.selector.close()
            self.listener.close()
            connection.close()
            for other in self.children.values():
                other.connection.close()
                os.close(other.pidfd)
            for target, descriptor in enumerate(descriptors, start=1):
                os.dup2(descriptor, target)
                os.close(descriptor)
            os.chdir(request["cwd"])
            for name in VARIABLES:
                os.environ.pop(name, None)
                if name in request:
                    os.environ[name] = request[name]
            code = perform(request["stage"])
        except BaseException as error:
            print(f"error (internal): {type(error).__name__}: {error}", file=sys.stderr)
        finally:
            with suppress(BaseException):
                atexit._run_exitfuncs()  # as a process that ends by itself would
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()
            os._exit(code)


def perform(work: str) -> int:
    """Do what a request names in this process: a stage, or a call file of `pipelines.kfp_call`. The exit code."""
    if work.endswith(".json"):
        from pipelines.kfp_call import run_request

        return run_request(Path(work))
    from pipelines.step import main_here

    return main_here(work)


# The wire.


def receive(connection: socket.socket) -> tuple[dict[str, str], list[int]]:
    """One request and its descriptors. Raises ValueError or OSError for anything else."""
    connection.settimeout(5.0)
    data, ancillary, _, _ = connection.recvmsg(1 << 16, socket.CMSG_SPACE(2 * array.array("i").itemsize))
    descriptors = array.array("i")
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(payload[: len(payload) - len(payload) % descriptors.itemsize])
    while not data.endswith(b"\n"):
        more = connection.recv(1 << 16)
        if not more:
            raise ValueError("the request ended early")
        data += more
    connection.settimeout(None)
    request = json.loads(data)
    if not isinstance(request, dict) or "stage" not in request:
        raise ValueError("not a request")
    return request, list(descriptors)


def ask(path: str, stage: str, cwd: Path, libraries: Sequence[str] = ()) -> int | None:
    """Run a stage (or a call file) through the server at `path`, with this process's output.

    `libraries` are imported by the server first, once for all stages that name them. Its exit code; None when there is
    no server.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            with socket_address(Path(path)) as address:
                connection.connect(address)
        except OSError:
            return None
        request = {"stage": stage, "cwd": str(cwd), "libraries": " ".join(libraries)}
        request |= {n: os.environ[n] for n in VARIABLES if n in os.environ}
        descriptors = array.array("i", [1, 2])
        connection.sendmsg(
            [json.dumps(request).encode() + b"\n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)]
        )
        answers = connection.makefile("rb")
        for line in answers:
            answer = json.loads(line)
            if "code" in answer:
                code = int(answer["code"])
                return code if code >= 0 else 128 - code
    print(f"error (orchestration): the fork server ended during stage {stage}", file=sys.stderr)
    return 128 + signal.SIGKILL


@contextmanager
def socket_address(path: Path) -> Iterator[str]:
    """`path` as a socket takes it. The kernel allows 107 bytes; a longer one goes by a descriptor of its folder."""
    if len(os.fsencode(path)) < 108:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def open_listener(path: Path) -> socket.socket:
    """A listening socket that only this user can reach."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    previous = os.umask(0o177)
    try:
        with socket_address(path) as address:
            listener.bind(address)
    finally:
        os.umask(previous)
    listener.listen(8)
    return listener


def main() -> int:
    """`python -m pipelines.forkserver FD PARENT`: serve on an inherited listening socket."""
    descriptor, parent = int(sys.argv[1]), int(sys.argv[2])
    die_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    OutputFilter().start()  # for as long as the server lives
    listener = socket.socket(fileno=descriptor)
    ForkServer(listener, os.environ.get("COWORK_PRELOAD", " ".join(PRELOAD)).split()).serve()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
