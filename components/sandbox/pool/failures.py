"""Errors as they go over the wire. The way back is `flows.error_of`."""

from __future__ import annotations

from components.contracts.errors import CoworkError
from components.sandbox.pool.errors import DeadlineError, PoolFullError
from components.sandbox.pool.metrics import kind_of
from components.sandbox.pool.models import Failure


def failure_of(error: BaseException) -> Failure:
    """An error for the wire; what is no error of ours says only its name, for it may quote anything."""
    if not isinstance(error, CoworkError):
        return Failure(kind="internal", message=type(error).__name__, where="pool", remedy="see the host's log")
    kind, code, seconds = kind_of(error), str(getattr(error, "code", "")), 0.0
    if isinstance(error, DeadlineError):
        kind, code, seconds = "deadline", error.which, error.seconds
    elif isinstance(error, PoolFullError):
        seconds = error.retry_after
    return Failure(kind=kind, message=error.message, where=error.where, remedy=error.remedy, code=code, seconds=seconds)
