"""What a run cost, stage by stage, read from its spools.

Names that are understood in `events.ledger(kind, **amounts)`; anything else is summed and listed under `other`:

- `train`: tokens (seen by the trainer), parameters (of the language model) -> 6 N D floating point operations
- `generate`, `inference`: calls, tokens_in, tokens_out (or `tokens`, meaning output), parameters -> 2 N (in + out)
- `teacher`: calls, tokens_in, tokens_out (0 tokens for a scripted teacher)
- `sandbox`: seconds, steps, episodes
- `flops` of any kind is added to the nominal operations as it is (then without `parameters`)

`parameters` is the size N in this record, not an amount to add up. The nominal counts are those of Kaplan et al. 2020
(arXiv 2001.08361, table 1): 2N a token forward, twice that backward. Every attempt of a stage counts: its
work was done.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from components.tracking.events import Event, end_of, list_spools, read_events


def train_flops(parameters: float, tokens: float) -> float:
    """Nominal operations of training: 6 N D."""
    return 6.0 * parameters * tokens


def generate_flops(parameters: float, tokens: float) -> float:
    """Nominal operations of inference: 2 N D."""
    return 2.0 * parameters * tokens


class StageCost(BaseModel):
    """Costs of one stage over all its attempts. Seconds are wall seconds where not said otherwise."""

    model_config = ConfigDict(extra="forbid")
    stage: str
    attempts: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    sandbox_seconds: float = 0.0
    peak_mb: float = 0.0
    calls: float = 0.0
    tokens_in: float = 0.0
    tokens_out: float = 0.0
    train_tokens: float = 0.0
    flops: float = 0.0
    other: dict[str, float] = Field(default_factory=dict)


def add_events(cost: StageCost, events: Iterable[Event]) -> None:
    """Add one attempt. An attempt without an end counts from its first to its last record."""
    seen = list(events)
    if not seen:
        return
    cost.attempts += 1
    end = end_of(seen)
    cost.seconds += end.get("seconds", (seen[-1]["t"] - seen[0]["t"]) / 1000)
    cost.cpu_seconds += end.get("cpu_seconds", 0.0)
    cost.peak_mb = max(cost.peak_mb, end.get("peak_mb", 0.0))
    for event in seen:
        if event["k"] == "ledger":
            _add_entry(cost, event["kind"], dict(event["amounts"]))


def _add_entry(cost: StageCost, kind: str, amounts: dict[str, float]) -> None:
    parameters = amounts.pop("parameters", 0.0)
    cost.flops += amounts.pop("flops", 0.0)
    if kind == "train":
        tokens = amounts.pop("tokens", 0.0)
        cost.train_tokens += tokens
        cost.flops += train_flops(parameters, tokens)
    elif kind in ("generate", "inference", "teacher"):
        tokens_in, tokens_out = (
            amounts.pop("tokens_in", 0.0),
            amounts.pop("tokens_out", 0.0) + amounts.pop("tokens", 0.0),
        )
        cost.calls += amounts.pop("calls", 0.0)
        cost.tokens_in += tokens_in
        cost.tokens_out += tokens_out
        cost.flops += generate_flops(parameters, tokens_in + tokens_out)
    elif kind == "sandbox":
        cost.sandbox_seconds += amounts.pop("seconds", 0.0)
    for name, value in amounts.items():
        label = f"{kind}.{name}"
        cost.other[label] = cost.other.get(label, 0.0) + value


def run_costs(run_dir: Path) -> list[StageCost]:
    """One entry a stage, in the order the stages first spoke."""
    costs: dict[str, StageCost] = {}
    first: dict[str, float] = {}
    for spool in list_spools(run_dir):
        events = read_events(spool.path).events
        if not events:
            continue
        first.setdefault(spool.stage, events[0]["t"])
        add_events(costs.setdefault(spool.stage, StageCost(stage=spool.stage)), events)
    return [costs[stage] for stage in sorted(costs, key=lambda name: first[name])]


def total(costs: Iterable[StageCost]) -> StageCost:
    """The sum of all stages; memory is the largest peak, attempts are all attempts."""
    whole = StageCost(stage="total")
    for cost in costs:
        whole.peak_mb = max(whole.peak_mb, cost.peak_mb)
        for name in (
            "attempts", "seconds", "cpu_seconds", "sandbox_seconds", "calls", "tokens_in", "tokens_out", "train_tokens",
            "flops",
        ):  # fmt: skip
            setattr(whole, name, getattr(whole, name) + getattr(cost, name))
        for label, value in cost.other.items():
            whole.other[label] = whole.other.get(label, 0.0) + value
    return whole
