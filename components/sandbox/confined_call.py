"""One function call in a process that can do nothing but compute: for parsers and verifiers of a policy's files.

`run_confined("package.module:function", payload, files)` starts the running Python in a sandbox of its own
(`confine.py`: no network, no file of the host but packages and `components`, nothing writable) under limits of time,
memory and output, and behind the system-call filter. There it calls `function(payload, files)`; what that returns comes
back as JSON. Whatever goes wrong is a `ConfinedError` that says what: never a hang, never a crash of the caller.

A file that takes over its parser can still make the parser lie about that file: the answer is worth as much as the
parser, but nothing else is in reach.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from select import POLLIN, POLLOUT, poll
from typing import Any, Literal

from components.contracts.errors import SandboxError, VerifierError
from components.sandbox import confine
from components.sandbox.shell import spawn

Kind = Literal["time", "memory", "output", "ended", "function"]
RESULT_LIMIT = 4 << 20
"""Bytes of JSON that a result may have."""
_CODE = f"{confine.INSIDE_GUEST}/components"
_CHUNK = 1 << 16
_START_GRACE = 10.0
"""Seconds beyond the function's own time in which its process has to start and import."""

_RUNNER = """
import os, sys
answer = os.dup(1)
os.dup2(os.open("/dev/null", os.O_WRONLY), 1)  # what the function prints is for nobody
os.dup2(1, 2)
import base64, importlib, json, resource, signal
def say(**message):
    data = json.dumps(message).encode()
    while data:
        data = data[os.write(answer, data):]
    os._exit(0)
try:
    asked = json.loads(sys.stdin.buffer.read(int(sys.stdin.buffer.readline())))
    sys.path[:0] = asked["path"]
    for name, value in asked["limits"].items():
        resource.setrlimit(getattr(resource, "RLIMIT_" + name), (value, value))
    from components.sandbox.seccomp import confine_self, problem
    if not problem():
        confine_self()
    module, _, name = asked["function"].partition(":")
    function = getattr(importlib.import_module(module), name)
    files = {name: base64.b64decode(data) for name, data in asked["files"].items()}
    signal.setitimer(signal.ITIMER_REAL, asked["timeout"])  # its default action ends us, whatever Python is doing
    result = json.dumps({"result": function(asked["payload"], files)}).encode()
    signal.setitimer(signal.ITIMER_REAL, 0)
    while result:
        result = result[os.write(answer, result):]
    os._exit(0)
except MemoryError:
    say(error="memory", message="out of memory")
except BaseException as error:
    say(error="function", message=f"{type(error).__name__}: {error}"[:2000])
"""


class ConfinedError(VerifierError):
    """The call gave no result. `kind`: `time`, `memory`, `output` (too much), `ended` (its process did), `function`
    (it raised). The files that it was given are the likely cause, so this is not the sandbox's failure."""

    def __init__(self, kind: Kind, message: str, where: str) -> None:
        super().__init__(message, where=where, remedy="the files are not what they should be, or the limits too small")
        self.kind = kind


def run_confined(
    function: str,
    payload: Mapping[str, Any],
    files: Mapping[str, bytes],
    *,
    timeout: float = 30.0,
    memory: int = 1 << 30,
    kind: confine.Confinement | None = None,
) -> Any:
    """What `module:function` returns for (payload, files); both and the result are plain JSON, `files` name -> bytes.

    `timeout` in seconds from the function's first line; `memory` in bytes of address space, its interpreter's included
    (an empty one takes about 30 MiB, with openpyxl 100 MiB). `kind`: the confinement, default the strongest here.
    Raises `ConfinedError`, and `SandboxError` where this machine offers no confinement at all.
    """
    kind = kind or confine.detect().confinement
    if kind == "none":
        raise SandboxError(
            "no confinement works here", where=function, remedy=confine.detect().remedy or confine.REMEDY
        )
    code = Path(__file__).resolve().parents[1]
    site = confine.host_site()
    prefix = Path(sys.base_prefix).resolve()
    extra: list[tuple[Path, str]] = [(code, _CODE)]
    interpreter = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    if prefix != Path("/usr"):
        extra.append((prefix, confine.INSIDE_PYTHON))
        interpreter = f"{confine.INSIDE_PYTHON}/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    asked = {
        "function": function,
        "payload": dict(payload),
        "files": {name: base64.b64encode(data).decode() for name, data in files.items()},
        "path": [confine.INSIDE_SITE, confine.INSIDE_GUEST],
        "timeout": timeout,
        # FSIZE 0: no file can get any contents. Processor time ends what does not wait, should the timer be lost.
        "limits": {"AS": memory, "FSIZE": 0, "CORE": 0, "NOFILE": 256, "NPROC": 64, "CPU": int(timeout) + 2},
    }
    message = json.dumps(asked).encode()
    with tempfile.TemporaryDirectory(prefix="cowork-call-") as home:
        launch = confine.wrap(
            [interpreter, "-I", "-c", _RUNNER], Path(home), limits=confine.ShellLimits(tmp_bytes=1 << 20),
            confinement=kind, site=site, extra=extra,
        )  # fmt: skip
        os.chmod(home, 0o555)
        guest = spawn.start(launch)
        try:
            data, late = _exchange(guest, b"%d\n%s" % (len(message), message), timeout + _START_GRACE)
        except BaseException:
            spawn.stop(guest, confined=True)
            raise
        complaint = _rest(guest.report)
        code_of_end = spawn.stop(guest, confined=True)
        os.chmod(home, 0o755)
    return _judge(function, data, late, code_of_end, complaint, timeout)


def _judge(function: str, data: bytes, late: bool, code: int, complaint: str, timeout: float) -> Any:
    """The result, or the error that fits."""
    if len(data) > RESULT_LIMIT:
        raise ConfinedError("output", f"the result has more than {RESULT_LIMIT} bytes", function)
    if late:
        raise ConfinedError("time", f"no result after {timeout:g} s", function)
    with suppress(ValueError):
        answer = json.loads(data)
        if "result" in answer:
            return answer["result"]
        what: Kind = "memory" if answer["error"] == "memory" else "function"
        raise ConfinedError(what, str(answer["message"]), function)
    if code == 128 + 14:  # SIGALRM
        raise ConfinedError("time", f"no result after {timeout:g} s", function)
    raise ConfinedError("ended", f"its process ended without a result, exit code {code} {complaint}".strip(), function)


def _exchange(guest: spawn.Guest, data: bytes, seconds: float) -> tuple[bytes, bool]:
    """(what it answered, whether it had to be given up)."""
    deadline = time.monotonic() + seconds
    answer = bytearray()
    waiter = poll()
    waiter.register(guest.control, POLLOUT)
    waiter.register(guest.output, POLLIN)
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return bytes(answer), True
        for fd, _ in waiter.poll(left * 1000):
            if fd == guest.output:
                chunk = os.read(fd, _CHUNK)
                answer += chunk
                if not chunk or len(answer) > RESULT_LIMIT:
                    return bytes(answer), False
                continue
            with suppress(BlockingIOError):
                try:
                    data = data[os.write(fd, data[:_CHUNK]) :]
                except BrokenPipeError:  # it ended before it had read all; its output says how
                    data = b""
            if not data:
                waiter.unregister(fd)


def _rest(fd: int) -> str:
    """What is there to read, the end of it."""
    with suppress(OSError):
        return os.read(fd, _CHUNK).decode(errors="replace").strip()[-300:]
    return ""
