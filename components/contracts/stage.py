"""What a stage gets from whoever runs it (DVC, Kubeflow, a test): seed, place for resumable state, an event sink."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


class EventSink(Protocol):
    """The small tracking interface. Implementations append to a spool file; nobody blocks on a server."""

    def metric(self, name: str, value: float, step: int = 0) -> None: ...

    def progress(self, done: int, total: int, unit: str = "") -> None: ...

    def ledger(self, kind: str, **amounts: float) -> None: ...

    def note(self, text: str) -> None: ...


class NullSink:
    """Drops everything. For library use and unit tests."""

    def metric(self, name: str, value: float, step: int = 0) -> None:
        return None

    def progress(self, done: int, total: int, unit: str = "") -> None:
        return None

    def ledger(self, kind: str, **amounts: float) -> None:
        return None

    def note(self, text: str) -> None:
        return None


@dataclass(frozen=True)
class StepContext:
    """Everything a stage may know beside its params, inputs and outputs.

    `work` survives a kill (checkpoints of an unfinished stage live there) and is removed when the stage is done.
    """

    stage: str
    seed: int
    work: Path
    events: EventSink = field(default_factory=NullSink)
    unconfined: bool = False
    workers: int = 2


StageFunction = Callable[[Any, dict[str, Path], dict[str, Path], StepContext], dict[str, float]]
"""`run(params, inputs, outputs, ctx) -> flat metrics`. `params` is the stage's typed section."""
