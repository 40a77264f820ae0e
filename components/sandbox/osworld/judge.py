"""Metrics in a process of their own: what they read was left by an agent, and a file can be made to eat a machine.

The process lives for many gradings, since its libraries take a second to load; one that runs out of time or memory is
killed, that grading is a broken check (`VerifierError`), and the next gets a new process.
"""

from __future__ import annotations

import multiprocessing
import resource
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

from components.contracts.errors import CoworkError, VerifierError
from components.sandbox.osworld.scoring import Finding, Scored, score
from components.sandbox.osworld.task import Evaluator

MEMORY = 4 << 30
"""Bytes of address space: libraries reserve much more than they use."""
SECONDS = 60.0
_FILE = 1 << 30


class Judge:
    """One at a time, from any thread. `seconds` and `memory` (bytes) hold for each grading."""

    def __init__(self, *, seconds: float = SECONDS, memory: int = MEMORY) -> None:
        self._seconds, self._memory = seconds, memory
        self._lock = threading.Lock()
        self._process: SpawnProcess | None = None
        self._pipe: Connection | None = None

    def score(self, evaluator: Evaluator, findings: list[Finding]) -> Scored:
        """As `scoring.score`. Raises `VerifierError`."""
        with self._lock:
            pipe = self._ready()
            try:
                pipe.send((evaluator, findings))
                if not pipe.poll(self._seconds):
                    raise VerifierError(f"the check took more than {self._seconds:g} s", where="judge",
                                        remedy="look at what the agent left")  # fmt: skip
                answer = pipe.recv()
            except (EOFError, OSError) as error:
                self._stop()
                raise VerifierError("the check's process died", where="judge",
                                    remedy="it had too little memory, or a library crashed") from error  # fmt: skip
            except VerifierError:
                self._stop()
                raise
        if isinstance(answer, Scored):
            return answer
        message, where, remedy = answer
        raise VerifierError(message, where=where, remedy=remedy)

    def close(self) -> None:
        with self._lock:
            self._stop()

    def _ready(self) -> Connection:
        if self._process is None or not self._process.is_alive() or self._pipe is None:
            self._stop()
            context = multiprocessing.get_context("spawn")
            self._pipe, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(theirs, self._memory), daemon=True)
            self._process.start()
            theirs.close()
        assert self._pipe is not None
        return self._pipe

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.join()
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None


def _serve(pipe: Connection, memory: int) -> None:
    """The process: limits first, then gradings until the other end closes."""
    for kind, value in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_FSIZE, _FILE), (resource.RLIMIT_CORE, 0)):
        with suppress(ValueError, OSError):
            resource.setrlimit(kind, (value, value))
    while True:
        try:
            evaluator, findings = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(score(evaluator, findings))
        except MemoryError:
            pipe.send(("the check had too little memory", "judge", "look at what the agent left"))
        except CoworkError as error:
            pipe.send((error.message, error.where, error.remedy))
