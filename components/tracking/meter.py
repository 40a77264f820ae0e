"""The run's spend cap: kept beside the run's spools, checked against them before anything new is begun.

What was spent is always read from the spools, those of every stage and attempt of the run, so it is the same number in
every process and after any kill. The cap is a file of the run (`caps.json`), read at every check: it can be raised
while the run goes on, and is no parameter, so raising it changes no stage's key.
"""

from __future__ import annotations

import json
import math
import os
import time
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from components.contracts.errors import BudgetError, ParamsError
from components.tracking.events import list_spools, read_events
from components.tracking.ledger import StageCost, total
from components.tracking.prices import PriceTable, day_of

CAPS_FILE = "caps.json"
RAISE = "raise it: cowork run --cap-usd USD, --cap-tokens TOKENS; inf lifts it"

Positive = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]


class Caps(BaseModel):
    """Upper ends of a run's spend, None = none. `tokens` are those of model calls, in and out."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    usd: Positive | None = None
    tokens: Positive | None = None

    @property
    def any(self) -> bool:
        return self.usd is not None or self.tokens is not None

    def changed(self, usd: float | None, tokens: float | None) -> Caps:
        """These caps with the given ones in their place; None leaves one as it is, infinity lifts it.

        Raises ParamsError for anything but a number above 0.
        """
        for option, value in (("--cap-usd", usd), ("--cap-tokens", tokens)):
            if value is not None and not value > 0:
                raise ParamsError(f"a cap is a number above 0, got {value}", where=option, remedy="inf lifts it")
        chosen = {name: self._one(getattr(self, name), new) for name, new in (("usd", usd), ("tokens", tokens))}
        return Caps(**chosen)

    @staticmethod
    def _one(old: float | None, new: float | None) -> float | None:
        if new is None:
            return old
        return None if math.isinf(new) else new


def read_caps(run_dir: Path) -> Caps:
    """The run's caps. Raises ParamsError for a file that is none: a cap that cannot be read must not be none."""
    try:
        text = (run_dir / CAPS_FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return Caps()
    try:
        return Caps.model_validate_json(text)
    except ValidationError as error:
        raise ParamsError(f"not a spend cap: {error.errors()[0]['msg']}", where=CAPS_FILE, remedy=RAISE) from error


def write_caps(run_dir: Path, caps: Caps) -> None:
    draft = run_dir / f".{CAPS_FILE}.{os.getpid()}"
    draft.write_text(json.dumps(caps.model_dump()) + "\n", encoding="utf-8")
    os.replace(draft, run_dir / CAPS_FILE)


class RunMeter:
    """`components.contracts.stage.Meter` over a run's folder."""

    def __init__(self, run_dir: Path, table: PriceTable) -> None:
        self.run_dir, self.table = run_dir, table
        self.run = run_dir.name
        self._costs: dict[str, StageCost] = {}
        self._offsets: dict[Path, int] = {}

    def spent(self) -> StageCost:
        """Everything in the run's ledger so far. Reads what was written since the last look."""
        for spool in list_spools(self.run_dir):
            offset = self._offsets.get(spool.path, 0)
            if spool.path.stat().st_size <= offset:
                continue
            tail = read_events(spool.path, offset)
            self._offsets[spool.path] = tail.offset
            cost = self._costs.setdefault(spool.stage, StageCost(stage=spool.stage))
            for event in tail.events:
                cost.feed(spool.attempt, event, self.table)
        for cost in self._costs.values():
            cost.price_machine(self.table)
        return total(self._costs.values())

    def check(self, model: str = "") -> None:
        """See `Meter.check`. Calls whose price or end is not known count as the dearest one of their model."""
        caps = read_caps(self.run_dir)
        if not caps.any:
            return
        spent = self.spent()
        if caps.usd is not None:
            self._priced(model, caps.usd)
            doubtful = sum((u.unsettled_calls + u.unpriced_calls) * u.dearest_call for u in spent.models.values())
            at_most = spent.usd_known + doubtful
            if at_most >= caps.usd:
                raise BudgetError(f"spent {at_most:.4f} USD, the cap is {caps.usd:g} USD", where="spend", remedy=RAISE)
        if caps.tokens is not None and (tokens := spent.tokens_in + spent.tokens_out) >= caps.tokens:
            raise BudgetError(f"used {tokens:,.0f} tokens, the cap is {caps.tokens:,.0f}", where="spend", remedy=RAISE)

    def _priced(self, model: str, cap: float) -> None:
        if model and self.table.of(model, day_of(time.time() * 1000)) is None:
            raise BudgetError(
                f"the price of {model} is not known, so a cap of {cap:g} USD cannot be kept",
                where="spend",
                remedy="add it to prices.yaml (pipelines/prices.yaml shows how), or lift the cap: --cap-usd inf",
            )
