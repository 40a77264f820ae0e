"""Forked helpers for work that has no order: part k of n in process k, results back in order, nothing left behind."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from components.contracts.errors import BudgetError, SandboxError
from components.contracts.processes import die_with

T = TypeVar("T")
R = TypeVar("R")


def fork_map(function: Callable[[list[T]], list[R]], items: Sequence[T], workers: int) -> list[R]:
    """`function(part)` on `workers` parts (item i goes to part i mod workers); results in the order of `items`.

    Part 0 runs in this process. The partition depends on `workers` alone, not on the machine. A worker that dies makes
    the call fail with its traceback on stderr. A worker that stops at the spend cap makes it fail with BudgetError,
    once all have come to their own stop: what they have under way is paid for, and they keep it.
    """
    parts = [list(items[k::workers]) for k in range(workers)] if workers > 1 else [list(items)]
    children = [_start(function, part) for part in parts[1:]]
    try:
        results = [function(parts[0])]
    except BudgetError:
        raise
    except BaseException:
        for pid, _ in children:
            os.kill(pid, signal.SIGKILL)
        raise
    finally:
        returned: list[list[R] | None | BudgetError] = [_collect(pid, pipe) for pid, pipe in children]
    for part in returned:
        if isinstance(part, BudgetError):
            raise part
    if any(part is None for part in returned):
        raise SandboxError(
            "a worker process died", where="workers", remedy="see its traceback above; run the stage again"
        )
    results.extend(part for part in returned if isinstance(part, list))
    out: list[R] = []
    for i in range(len(items)):
        out.append(results[i % len(parts)][i // len(parts)])
    return out


def _start(function: Callable[[list[T]], list[R]], part: list[T]) -> tuple[int, int]:
    read, write = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.close(write)
        return pid, read
    code = 1
    try:
        die_with(parent)
        os.close(read)
        with os.fdopen(write, "wb") as pipe:
            result: list[R] | BudgetError
            try:
                result = function(part)
            except BudgetError as error:
                result = error
            pickle.dump(result, pipe, protocol=pickle.HIGHEST_PROTOCOL)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _collect(pid: int, pipe: int) -> list[Any] | BudgetError | None:
    with os.fdopen(pipe, "rb") as handle:
        data = handle.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return pickle.loads(data) if code == 0 and data else None
