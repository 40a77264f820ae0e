"""What a run cost, stage by stage, read from its spools: append-only files in which a torn last line does no harm.

Names that are understood in `events.ledger(kind, **amounts)`; anything else is summed and listed under `other`:

- `train`: tokens (all that went through the trainer), parameters (of the model) -> 6 N D floating point operations
- `generate`, `inference`, `teacher`: work of `model`. calls, failed, tokens_in, cached_in (of those in), tokens_out (or
  `tokens`, meaning output), parameters -> 2 N (in + out), usd (None = not known; written by the sink from the price
  table). `opened` announces a paid call, `hits` an answer that was read again instead of being paid again,
  `unknown` a call that may have been billed or not
- `sandbox`: seconds (of one desktop slot), steps, episodes
- `machine`: what this attempt has taken so far (`machine.Usage`); the last one counts, an attempt's `end` replaces it
- `flops` of any kind is added to the nominal operations as it is (then without `parameters`)

`parameters` is the size N in this record, not an amount to add up. The nominal counts are those of Kaplan et al. 2020
(arXiv 2001.08361, table 1): 2N a token forward, twice that backward. N is all of the model.

Every attempt of a stage counts, for its work was done; a call with an id counts once, however often it is written. A
call that was announced and never settled (its process was killed) is listed as such and priced by nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from components.tracking.events import Event, list_spools, read_events
from components.tracking.prices import PriceTable, Unit

MODEL_WORK = ("generate", "inference", "teacher")
UNNAMED = "(no name)"


def train_flops(parameters: float, tokens: float) -> float:
    """Nominal operations of training: 6 N D."""
    return 6.0 * parameters * tokens


def generate_flops(parameters: float, tokens: float) -> float:
    """Nominal operations of inference: 2 N D."""
    return 2.0 * parameters * tokens


class ModelUse(BaseModel):
    """Calls of one model. `usd` is the part whose price is known; `unpriced_calls` are the others."""

    model_config = ConfigDict(extra="forbid")
    calls: float = 0.0
    """Real calls, failed ones and retries included."""
    failed_calls: float = 0.0
    cache_hits: float = 0.0
    """Answers used again. They cost nothing and are no calls."""
    unsettled_calls: float = 0.0
    """Announced, without a known end: under way, or lost with their process. Not among `calls`."""
    unpriced_calls: float = 0.0
    tokens_in: float = 0.0
    cached_in: float = 0.0
    """Of `tokens_in`, read from the provider's cache."""
    tokens_out: float = 0.0
    usd: float = 0.0
    dearest_call: float = 0.0
    """USD of the dearest call so far: what one without a known end may have cost."""

    @property
    def usd_or_none(self) -> float | None:
        """The whole price, None when a call's is not known."""
        return None if self.unpriced_calls else self.usd


class _Attempt(BaseModel):
    first: float = 0.0
    seconds: float = 0.0
    machine: dict[str, float | None] = Field(default_factory=dict)
    ended: bool = False


class StageCost(BaseModel):
    """Costs of one stage over all its attempts. Seconds are wall seconds where not said otherwise."""

    model_config = ConfigDict(extra="forbid")
    stage: str
    attempts: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    gpu_seconds: float = 0.0
    sandbox_seconds: float = 0.0
    """Seconds that a desktop slot was held, summed over the slots."""
    energy_joules: float | None = None
    """None unless every attempt could read a counter."""
    peak_mb: float = 0.0
    calls: float = 0.0
    tokens_in: float = 0.0
    tokens_out: float = 0.0
    train_tokens: float = 0.0
    flops: float = 0.0
    usd_models: float = 0.0
    """USD of model calls whose price is known."""
    unpriced_calls: float = 0.0
    usd_machine: float | None = None
    """USD of machine time, of the units that have a price. None when none has one."""
    unpriced_units: list[str] = Field(default_factory=list)
    """Units that were used and have no price."""
    models: dict[str, ModelUse] = Field(default_factory=dict)
    other: dict[str, float] = Field(default_factory=dict)
    run: str = ""
    """The run that did this work, where it is not the one that is looked at."""
    began: float = 0.0
    """Milliseconds since the epoch of the first record."""
    _attempts: dict[int, _Attempt] = PrivateAttr(default_factory=dict)
    _open: dict[str, str] = PrivateAttr(default_factory=dict)
    _settled: set[str] = PrivateAttr(default_factory=set)

    @property
    def usd_known(self) -> float:
        return self.usd_models + (self.usd_machine or 0.0)

    def figures(self) -> dict[str, float]:
        """All known numbers by flat name; what is not known is left out, so that nobody reads it as 0."""
        plain = self.model_dump(exclude={"stage", "models", "other", "run", "began", "unpriced_units", "usd_models"})
        if not self.unpriced_calls:
            plain["usd_models"] = self.usd_models
        for name, use in self.models.items():
            plain |= {f"model.{name}.{key}": value for key, value in use.model_dump(exclude={"dearest_call"}).items()}
            if use.unpriced_calls:
                del plain[f"model.{name}.usd"]
        return {name: float(value) for name, value in {**plain, **self.other}.items() if value is not None}

    # Reading.

    def feed(self, attempt: int, event: Event, table: PriceTable | None = None) -> None:
        """Take in one record of an attempt. Records may come piece by piece, those of an attempt in order."""
        at = float(event["t"])
        state = self._attempts.get(attempt)
        if state is None:
            state = self._attempts[attempt] = _Attempt(first=at)
            self.attempts += 1
            self.began = min(self.began or at, at)
        if event["k"] == "end":
            self.peak_mb = max(self.peak_mb, event.get("peak_mb", 0.0))
            state.ended = True
            self._machine(state, {name: event.get(name) for name in ("cpu_seconds", "gpu_seconds", "energy_joules")})
            self._seconds(state, float(event.get("seconds", (at - state.first) / 1000)))
            return
        if not state.ended:
            self._seconds(state, (at - state.first) / 1000)
        if event["k"] == "ledger":
            amounts = dict(event["amounts"])
            if event["kind"] == "machine":
                self._machine(state, amounts)
            else:
                self._entry(event, amounts, at, table)

    def _seconds(self, state: _Attempt, seconds: float) -> None:
        self.seconds += seconds - state.seconds
        state.seconds = seconds

    def _machine(self, state: _Attempt, amounts: dict[str, float | None]) -> None:
        for name in ("cpu_seconds", "gpu_seconds"):
            setattr(self, name, getattr(self, name) + (amounts.get(name) or 0.0) - (state.machine.get(name) or 0.0))
        state.machine = amounts
        known = [other.machine.get("energy_joules") for other in self._attempts.values()]
        self.energy_joules = None if None in known else sum(value for value in known if value is not None)

    def _entry(self, event: Event, amounts: dict[str, float | None], at: float, table: PriceTable | None) -> None:
        kind = str(event["kind"])
        usd = amounts.pop("usd", None)
        left = {name: value or 0.0 for name, value in amounts.items()}
        if kind in MODEL_WORK:
            self._model_work(event, left, usd, at, table)
        else:
            parameters = left.pop("parameters", 0.0)
            self.flops += left.pop("flops", 0.0)
            if kind == "train":
                tokens = left.pop("tokens", 0.0)
                self.train_tokens += tokens
                self.flops += train_flops(parameters, tokens)
            elif kind == "sandbox":
                self.sandbox_seconds += left.pop("seconds", 0.0)
        for name, value in left.items():
            label = f"{kind}.{name}"
            self.other[label] = self.other.get(label, 0.0) + value

    def _model_work(
        self, event: Event, left: dict[str, float], usd: float | None, at: float, table: PriceTable | None
    ) -> None:
        name, call = str(event.get("model", UNNAMED)), str(event.get("call", ""))
        use = self.models.setdefault(name, ModelUse())
        if left.pop("opened", 0.0):
            if call not in self._settled and call not in self._open:
                self._open[call] = name
                use.unsettled_calls += 1
            return
        hits = left.pop("hits", 0.0)
        use.cache_hits += hits
        if hits and (not call or call in self._settled):
            left.clear()
            return
        if call:
            if call in self._settled:
                left.clear()
                return
            self._settled.add(call)
            if call in self._open:
                self.models[self._open.pop(call)].unsettled_calls -= 1
            if hits:
                # Paid, and its process was killed before it could write so: this is the entry that was missing.
                use.cache_hits -= hits
        calls, unknown = left.pop("calls", 0.0), left.pop("unknown", 0.0)
        tokens_in, cached_in = left.pop("tokens_in", 0.0), left.pop("cached_in", 0.0)
        tokens_out = left.pop("tokens_out", 0.0) + left.pop("tokens", 0.0)
        if usd is None and not unknown and table is not None:
            usd = table.usd(name, at, tokens_in, tokens_out, cached_in)
        self.flops += left.pop("flops", 0.0) + generate_flops(left.pop("parameters", 0.0), tokens_in + tokens_out)
        self.calls += calls
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out
        use.calls += calls
        use.failed_calls += left.pop("failed", 0.0)
        use.tokens_in += tokens_in
        use.cached_in += cached_in
        use.tokens_out += tokens_out
        if usd is None:
            use.unpriced_calls += calls or 1.0
            self.unpriced_calls += calls or 1.0
        else:
            use.usd += usd
            self.usd_models += usd
            use.dearest_call = max(use.dearest_call, usd / max(1.0, calls))

    def price_machine(self, table: PriceTable) -> None:
        """Fill in what the machine time cost by the table, as of the day on which the stage began."""
        seconds: dict[Unit, float] = {
            "cpu": self.cpu_seconds, "gpu": self.gpu_seconds, "sandbox": self.sandbox_seconds
        }  # fmt: skip
        found = {unit: table.machine_usd(unit, self.began, seconds[unit]) for unit in get_args(Unit) if seconds[unit]}
        known = [value for value in found.values() if value is not None]
        self.usd_machine = sum(known) if known else None
        self.unpriced_units = [unit for unit, value in found.items() if value is None]


def add_events(cost: StageCost, events: Iterable[Event], table: PriceTable | None = None) -> None:
    """Add one attempt. An attempt without an end counts from its first to its last record."""
    attempt = max(cost._attempts, default=0) + 1
    for event in events:
        cost.feed(attempt, event, table)


def run_costs(run_dir: Path, table: PriceTable | None = None) -> list[StageCost]:
    """One entry a stage, in the order the stages first spoke.

    `table` prices the machine time, and calls whose price was not known when they were made.
    """
    costs: dict[str, StageCost] = {}
    for spool in list_spools(run_dir):
        for event in read_events(spool.path).events:
            costs.setdefault(spool.stage, StageCost(stage=spool.stage)).feed(spool.attempt, event, table)
    if table is not None:
        for cost in costs.values():
            cost.price_machine(table)
    return sorted(costs.values(), key=lambda cost: cost.began)


_SUMMED = (
    "attempts", "seconds", "cpu_seconds", "gpu_seconds", "sandbox_seconds", "calls", "tokens_in", "tokens_out",
    "train_tokens", "flops", "usd_models", "unpriced_calls",
)  # fmt: skip


def total(costs: Iterable[StageCost], name: str = "total") -> StageCost:
    """The sum of all stages; memory is the largest peak, attempts are all attempts.

    Energy is None unless all stages know theirs; machine USD holds what has a price, `unpriced_units` the rest.
    """
    whole = StageCost(stage=name)
    every = list(costs)
    for cost in every:
        whole.peak_mb = max(whole.peak_mb, cost.peak_mb)
        for field in _SUMMED:
            setattr(whole, field, getattr(whole, field) + getattr(cost, field))
        for label, value in cost.other.items():
            whole.other[label] = whole.other.get(label, 0.0) + value
        for model, use in cost.models.items():
            mine = whole.models.setdefault(model, ModelUse())
            for field, value in use.model_dump(exclude={"dearest_call"}).items():
                setattr(mine, field, getattr(mine, field) + value)
            mine.dearest_call = max(mine.dearest_call, use.dearest_call)
    energies: list[Any] = [cost.energy_joules for cost in every]
    whole.energy_joules = sum(energies) if energies and None not in energies else None
    priced = [cost.usd_machine for cost in every if cost.usd_machine is not None]
    whole.usd_machine = sum(priced) if priced else None
    whole.unpriced_units = sorted({unit for cost in every for unit in cost.unpriced_units})
    whole.began = min((cost.began for cost in every if cost.began), default=0.0)
    return whole
