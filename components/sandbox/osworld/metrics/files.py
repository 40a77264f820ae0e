"""Reading what is compared: a result that cannot be read gives None, a reference that cannot raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from components.contracts.errors import VerifierError

T = TypeVar("T")


def result(path: Any, read: Callable[[str], T]) -> T | None:
    """What the agent left; None when it left nothing that can be read."""
    if not isinstance(path, str):
        return None
    try:
        return read(path)
    except Exception:  # whatever a reader does with a hostile file: it is not what was asked for
        return None


def reference(path: Any, read: Callable[[str], T]) -> T:
    """The task's own file. Raises `VerifierError`."""
    try:
        return read(str(path))
    except Exception as error:
        raise VerifierError(f"the reference cannot be read: {type(error).__name__}: {error}", where="metric",
                            remedy="look at the task's own files") from error  # fmt: skip


def text(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def data(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
