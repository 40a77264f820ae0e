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

    def ledger(self, kind: str, *, model: str = "", call: str = "", **amounts: float | None) -> None: ...

    def note(self, text: str) -> None: ...


class NullSink:
    """Drops everything. For library use and unit tests."""

    def metric(self, name: str, value: float, step: int = 0) -> None:
        return None

    def progress(self, done: int, total: int, unit: str = "") -> None:
        return None

    def ledger(self, kind: str, *, model: str = "", call: str = "", **amounts: float | None) -> None:
        return None

    def note(self, text: str) -> None:
        return None


class Meter(Protocol):
    """The run's spend cap as a stage sees it. `run` names the run whose ledger takes the stage's entries."""

    run: str

    def check(self, model: str = "") -> None:
        """Call before every batch of work that costs something; `model` is the one about to be called.

        Raises BudgetError when the run's spend has reached its cap, or when there is a cap in USD and the price of
        `model` is not known.
        """
        ...


class NullMeter:
    """No cap."""

    run = ""

    def check(self, model: str = "") -> None:
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
    meter: Meter = field(default_factory=NullMeter)
    unconfined: bool = False
    workers: int = 2


StageFunction = Callable[[Any, dict[str, Path], dict[str, Path], StepContext], dict[str, float]]
"""`run(params, inputs, outputs, ctx) -> flat metrics`. `params` is the stage's typed section."""
