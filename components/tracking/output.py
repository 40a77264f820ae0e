"""Output of a process, and of every process it starts, goes through a filter that hides secrets.

The filter is a process of its own between two descriptors, so it sees what any library or child writes, and still
writes down the last words of a process that was killed. It ends when nobody is left who could write.
"""

from __future__ import annotations

import os
import re
import secrets
import select
import signal
import sys
from contextlib import suppress

from components.contracts.secrets import HIDDEN, redact, secrets_of

LINE_LIMIT = 1 << 16
"""Bytes of a line that are held back until its end comes; what is longer goes on in parts."""
DRAIN_SECONDS = 5.0
"""How long the end of a process waits for its last words to be on disk."""
LEAVE_SECONDS = 0.2

_KEY_BEGINS = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_KEY_ENDS = re.compile(rb"-----END [A-Z ]*PRIVATE KEY-----")
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class OutputFilter:
    """stdout and stderr of this process, filtered from `start` to `finish`, into what stdout was before.

    Use where no other thread runs yet: `start` forks.
    """

    def __init__(self) -> None:
        self._pid, self._answer, self._end = 0, -1, b""

    def start(self) -> OutputFilter:
        _flush()
        read, write = os.pipe()
        self._answer, told = os.pipe()
        self._end = b"\0" + secrets.token_hex(16).encode() + b"\n"
        self._pid = os.fork()
        if self._pid == 0:
            _become_filter(read, told, self._end)
        os.close(read)
        os.close(told)
        for standard in (1, 2):
            os.dup2(write, standard)
        os.close(write)
        return self

    def finish(self) -> None:
        """Let go of the output and wait until all of it is written. Nothing that this process prints later is seen.

        Children that still hold the output are not waited for; the filter stays for as long as they do.
        """
        if self._answer < 0:
            return
        _flush()
        with suppress(OSError):
            os.write(1, self._end)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for standard in (1, 2):
            os.dup2(nowhere, standard)
        os.close(nowhere)
        if select.select([self._answer], [], [], DRAIN_SECONDS)[0]:
            # Alone, the filter ends now and can be taken leave of: a pid 1 that reaps nobody would keep it as a zombie.
            with suppress(OSError), os.fdopen(os.pidfd_open(self._pid)) as handle:
                if select.select([handle], [], [], LEAVE_SECONDS)[0]:
                    os.waitpid(self._pid, 0)
        os.close(self._answer)
        self._answer = -1


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()


def _become_filter(read: int, told: int, end: bytes) -> None:
    """The filter's process: it ends when all that was written is copied, and by nothing else."""
    try:
        _unbind()
        with suppress(OSError):
            os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        _close_others({read, told, 1})
        pump(read, 1, told, end)
    finally:
        os._exit(0)


def _unbind() -> None:
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, 0, 0, 0, 0)


def _close_others(kept: set[int]) -> None:
    """Sockets and pipes of the process we were forked from must not live on in us."""
    for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []:
        if int(name) not in kept:
            with suppress(OSError):
                os.close(int(name))


def pump(source: int, target: int, told: int = -1, end: bytes = b"") -> None:
    """Copy whole lines, secrets hidden, until every writer of `source` is gone. After `end` a byte goes to `told`."""
    known = list(secrets_of())
    held = b""
    inside_key = False
    while data := os.read(source, 1 << 16):
        *lines, held = (held + data).split(b"\n")
        if len(held) > LINE_LIMIT:
            lines, held = [*lines, held], b""
        for line in lines:
            ended = bool(end) and (line + b"\n").endswith(end)
            text, inside_key = _line(line.removesuffix(end[:-1]) if ended else line, inside_key, known)
            _write(target, text.removesuffix(b"\n") if ended else text)
            if ended:
                with suppress(OSError):
                    os.write(told, b".")
    if held:
        text, _ = _line(held, inside_key, known)
        _write(target, text.removesuffix(b"\n"))


def _line(line: bytes, inside_key: bool, known: list[str]) -> tuple[bytes, bool]:
    """A line for the log, "" inside a private key, and whether the next one is inside one."""
    if inside_key:
        return b"", not _KEY_ENDS.search(line)
    if _KEY_BEGINS.search(line) and not _KEY_ENDS.search(line):
        return _KEY_BEGINS.split(line)[0] + HIDDEN.encode() + b"\n", True
    return redact(line.decode(errors="surrogateescape"), known).encode(errors="surrogateescape") + b"\n", False


def _write(target: int, data: bytes) -> None:
    while data:
        data = data[os.write(target, data) :]
