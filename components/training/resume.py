"""Saving and resuming a training loop over ranks: one protocol for the supervised and the RL loop.

What differs between loops is the nested `extra` state; the order of checks and who writes does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contracts.errors import BudgetError
from components.contracts.stage import StepContext
from components.training import checkpoint
from components.training.model import Policy
from components.training.parallel import Ranks

if TYPE_CHECKING:
    from components.training.optimizer import Optimizer


def save_progress(
    ctx: StepContext, ranks: Ranks, policy: Policy, optimizer: Optimizer, step: int,
    extra: Mapping[str, Any], identity: Mapping[str, Any],
) -> None:  # fmt: skip
    """Rank 0 writes, every rank waits: nobody runs ahead of a checkpoint that is not on disk."""
    if ranks.rank == 0:

        def state(folder: Path) -> None:
            checkpoint.save_state(folder, model=policy.model, optimizer=optimizer, extra=extra, rng=False)

        checkpoint.save(ctx.work, step, state, identity)
    ranks.gather(step)


def resume_progress(
    ctx: StepContext,
    ranks: Ranks,
    policy: Policy,
    optimizer: Optimizer,
    identity: Mapping[str, Any],
    unit: str,
) -> tuple[int, dict[str, Any]]:
    """Restore the newest complete checkpoint: (its step, its `extra`), or (0, {}) when there is none.

    Raises CheckpointError when it is damaged or was made under another `identity`. `unit` names a step for people.
    """
    newest, warnings = checkpoint.latest(ctx.work)
    if ranks.rank == 0:
        for warning in warnings:
            ctx.events.note(warning)
    if newest is None:
        return 0, {}
    checkpoint.load(newest.path)
    checkpoint.require_same(newest.meta, identity, where=str(newest.path))
    extra = checkpoint.load_state(newest.path, model=policy.model, optimizer=optimizer)
    if ranks.rank == 0:
        ctx.events.note(f"resumed at {unit} {newest.step}")
    return newest.step, extra


def stop_at_cap(ctx: StepContext, ranks: Ranks) -> None:
    """Raise BudgetError on every rank when the run's spend cap is reached. All ranks call it, after a checkpoint."""
    said: BudgetError | None = None
    if ranks.rank == 0:
        try:
            ctx.meter.check()
        except BudgetError as error:
            said = error
    lead: BudgetError | None = ranks.gather(said)[0]
    if lead is not None:
        raise lead
