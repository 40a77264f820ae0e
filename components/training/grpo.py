"""The arithmetic of group-relative policy optimisation, kept apart from models, rollouts and devices.

Everything here is a pure function of numbers. Sources: the recipe names GRPO, bounded policy lag and truncated
importance sampling without constants; the constants' defaults are those of the two frameworks it builds on (Polar:
leave-one-out baseline, a trajectory counts once; Slime: clip 0.2 / 0.28, importance cap 2.0). Advantages come from
`group_advantage`; the lag bound and the serving gate are in `policy_lag`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from components.contracts.errors import DataError, PolicyError
from components.training.group_advantage import Convention, GroupSignal, advantages, group_signal

if TYPE_CHECKING:
    import torch

__all__ = [
    "Convention", "GroupSignal", "ImportanceReport", "PolicyLoss", "StepPlan", "advantages", "check_first_update",
    "combine_sums", "group_signal", "importance_weights", "length_figures", "policy_loss", "reduce_losses",
    "sequence_weight", "step_plan",
]  # fmt: skip

Weighting = Literal["token", "trajectory", "trajectory_token"]

MAX_LOG_RATIO = 88.0
"""exp(88) still fits float32; a larger log-ratio is clamped before the exponential (see `max_abs_difference`)."""
FIRST_UPDATE_TOLERANCE = 0.02
DISAGREEMENT_LIMIT = 1.1
"""Mean exp|difference| above which sampler and trainer are flagged: 10 % average misfit of a token's probability."""


# ---------------------------------------------------------------------------------------- importance sampling


@dataclass(frozen=True)
class ImportanceReport:
    """Truncated importance weights with what they were before truncation: both are logged, never the capped alone."""

    weights: NDArray[np.float64]
    """Same shape as the inputs; 1.0 where the mask is off."""
    raw_max: float
    raw_mean: float
    share_capped: float
    share_dropped: float
    mean_abs_difference: float
    max_abs_difference: float
    mean_of_exp_abs: float
    tokens: int
    flags: tuple[str, ...] = ()

    def metrics(self) -> dict[str, float]:
        return {
            "tis_raw_max": self.raw_max,
            "tis_raw_mean": self.raw_mean,
            "tis_share_capped": self.share_capped,
            "tis_share_dropped": self.share_dropped,
            "logprob_mean_abs_difference": self.mean_abs_difference,
            "logprob_max_abs_difference": self.max_abs_difference,
            "logprob_mean_of_exp_abs": self.mean_of_exp_abs,
        }


def _differences(trainer: ArrayLike, sampler: ArrayLike) -> NDArray[np.float64]:
    a, b = np.asarray(trainer, dtype=np.float64), np.asarray(sampler, dtype=np.float64)
    if a.shape != b.shape:
        raise DataError(
            f"length_mismatch: {a.shape} trainer log-probabilities against {b.shape} from the sampler",
            remedy="drop the sample: a missing log-probability is never padded",
        )
    return a - b


def importance_weights(
    trainer_logprobs: ArrayLike,
    sampler_logprobs: ArrayLike,
    cap: float = 2.0,
    mode: Literal["truncate", "drop"] = "truncate",
    *,
    mask: ArrayLike | None = None,
    first_update_after_sync: bool = False,
) -> ImportanceReport:
    """Token-level weights exp(log p_trainer - log p_sampler) of the sampled tokens, cut at `cap`.

    `truncate` sets larger weights to `cap` (truncated importance sampling, Ionides 2008; Slime's `--use-tis`);
    `drop` sets them to 0. Both log-probabilities are of the policy that sampled: the trainer's are recomputed with the
    weights before the update. The sign of differences cancels in a mean, so disagreement is judged by mean exp|d|.
    Raises DataError for unequal shapes or values that are no log-probabilities, PolicyError when
    `first_update_after_sync` and the mean ratio is not 1 within 0.02.
    """
    if not (cap > 0 and math.isfinite(cap)):
        raise DataError(f"importance cap {cap} is not a positive number", remedy="set rl.tis_cap, e.g. 2.0")
    if mode not in ("truncate", "drop"):
        raise DataError(f"unknown importance mode {mode!r}", remedy="use truncate or drop")
    difference = _differences(trainer_logprobs, sampler_logprobs)
    on = np.ones(difference.shape, dtype=bool) if mask is None else np.asarray(mask, dtype=bool)
    d = difference[on]
    weights = np.ones(difference.shape)
    if d.size == 0:
        return ImportanceReport(weights, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0)
    if not np.isfinite(d).all():
        raise DataError("bad_logprob: a log-probability is not finite", remedy="drop the sample")
    raw = np.exp(np.clip(d, -MAX_LOG_RATIO, MAX_LOG_RATIO))
    over = raw > cap
    weights[on] = np.where(over, cap if mode == "truncate" else 0.0, raw)
    share = float(over.mean())
    spread = float(np.exp(np.minimum(np.abs(d), MAX_LOG_RATIO)).mean())
    report = ImportanceReport(
        weights=weights,
        raw_max=float(raw.max()),
        raw_mean=float(raw.mean()),
        share_capped=share if mode == "truncate" else 0.0,
        share_dropped=share if mode == "drop" else 0.0,
        mean_abs_difference=float(np.abs(d).mean()),
        max_abs_difference=float(np.abs(d).max()),
        mean_of_exp_abs=spread,
        tokens=int(d.size),
        flags=("sampler_and_trainer_disagree",) if spread > DISAGREEMENT_LIMIT else (),
    )
    if first_update_after_sync:
        check_first_update(report.raw_mean)
    return report


def check_first_update(mean_ratio: float, tolerance: float = FIRST_UPDATE_TOLERANCE) -> None:
    """Stop when trainer and sampler hold the same weights and still disagree (PolicyError)."""
    if not abs(mean_ratio - 1.0) <= tolerance:
        raise PolicyError(
            f"mean ratio {mean_ratio:.4f} on the first update after a weight sync, expected 1 +- {tolerance}",
            where="rl",
            remedy="trainer and sampler differ in weights, temperature, precision or prompt rendering",
        )


@dataclass(frozen=True)
class SequenceWeight:
    value: float
    form: Literal["mean", "sum"]
    warning: str = ""


def sequence_weight(
    trainer_logprobs: ArrayLike, sampler_logprobs: ArrayLike, form: Literal["mean", "sum"] = "mean"
) -> SequenceWeight:
    """One weight for a whole response: exp(mean d) (GSPO, Zheng et al. 2025, eq. 7) or exp(sum d), which warns."""
    d = _differences(trainer_logprobs, sampler_logprobs)
    if d.size == 0:
        return SequenceWeight(1.0, form)
    total = float(d.mean() if form == "mean" else d.sum())
    value = math.exp(min(max(total, -MAX_LOG_RATIO), MAX_LOG_RATIO))
    return SequenceWeight(value, form, "" if form == "mean" else "sum form shrinks long episodes")


# ------------------------------------------------------------------------------------------ normalising a step


@dataclass(frozen=True)
class StepPlan:
    """Weights of the step samples of ONE optimiser step, fixed before any micro-batch runs.

    loss = sum_i weights[i] * sum_t token_loss[i, t]; so micro-batches and ranks just add up, and none divides by its
    own count. `skipped` is true when nothing is left: the loss is 0 and the optimiser must not step.
    """

    weights: NDArray[np.float64]
    weighting: Weighting
    tokens: int
    trajectories: int
    skipped: bool


def step_plan(
    token_counts: Sequence[int],
    trajectory_ids: Sequence[Any] | None = None,
    keep: Sequence[bool] | None = None,
    weighting: Weighting = "trajectory",
) -> StepPlan:
    """Per-token weight of each step sample, over the whole optimiser step.

    `token_counts` are trained tokens a sample; `keep` is off for masked samples (cut off, infrastructure failure, too
    old), which leave the numerator AND the divisor. `token`: every token of the step counts the same.
    `trajectory`: every trajectory counts once, its steps equally, a step's tokens equally. `trajectory_token`: every
    trajectory counts once, its tokens equally.
    """
    n = len(token_counts)
    owners: list[Any] = list(range(n)) if trajectory_ids is None else list(trajectory_ids)
    kept = [True] * n if keep is None else [bool(k) for k in keep]
    if len(owners) != n or len(kept) != n:
        raise DataError(f"length_mismatch: {n} samples, {len(owners)} trajectory ids, {len(kept)} keep flags")
    counts = [int(c) if k else 0 for c, k in zip(token_counts, kept, strict=True)]
    total = sum(counts)
    steps: dict[Any, int] = {}
    tokens: dict[Any, int] = {}
    for owner, count in zip(owners, counts, strict=True):
        if count:
            steps[owner] = steps.get(owner, 0) + 1
            tokens[owner] = tokens.get(owner, 0) + count
    weights = np.zeros(n)
    for i, (owner, count) in enumerate(zip(owners, counts, strict=True)):
        if not count:
            continue
        if weighting == "token":
            weights[i] = 1.0 / total
        elif weighting == "trajectory":
            weights[i] = 1.0 / (len(steps) * steps[owner] * count)
        elif weighting == "trajectory_token":
            weights[i] = 1.0 / (len(steps) * tokens[owner])
        else:
            raise DataError(f"unknown weighting {weighting!r}", remedy="use token, trajectory or trajectory_token")
    return StepPlan(weights, weighting, total, len(steps), total == 0)


def reduce_losses(token_losses: Any, mask: Any, weights: Any) -> Any:
    """Weighted sum of (B, T) token losses under a (B, T) boolean mask and (B,) weights; numpy or torch, 0 if empty."""
    return (token_losses * weights[:, None])[mask].sum()


@dataclass(frozen=True)
class StepLoss:
    loss: float
    tokens: int
    skipped: bool


def combine_sums(parts: Sequence[tuple[float, int]]) -> StepLoss:
    """Token mean of a step from (sum, tokens) of its micro-batches or ranks. Empty parts take part and add nothing."""
    tokens = sum(int(count) for _, count in parts)
    return StepLoss(math.fsum(total for total, _ in parts) / tokens if tokens else 0.0, tokens, tokens == 0)


@dataclass(frozen=True)
class LengthFigures:
    mean_length: float
    min_length: int
    max_length: int
    share_cut_off: float


def length_figures(lengths: Sequence[int], cut_off: Sequence[bool]) -> LengthFigures:
    """Length statistics BEFORE masking: masked episodes were still generated and paid for."""
    if len(lengths) != len(cut_off):
        raise DataError(f"length_mismatch: {len(lengths)} lengths, {len(cut_off)} cut-off flags")
    if not lengths:
        return LengthFigures(0.0, 0, 0, 0.0)
    n = len(lengths)
    return LengthFigures(sum(lengths) / n, min(lengths), max(lengths), sum(map(bool, cut_off)) / n)


# ------------------------------------------------------------------------------------------------- policy loss


@dataclass(frozen=True)
class PolicyLoss:
    """`loss` is differentiable; the rest are detached figures over the trained tokens."""

    loss: torch.Tensor
    tokens: int
    skipped: bool
    clip_fraction: float
    mean_ratio: float
    k3: float
    """Estimate of KL(old || new): mean of r - 1 - log r (Schulman 2020, k3)."""
    mean_abs_difference: float

    def metrics(self) -> dict[str, float]:
        return {
            "clip_fraction": self.clip_fraction,
            "mean_ratio": self.mean_ratio,
            "k3": self.k3,
            "update_mean_abs_difference": self.mean_abs_difference,
        }


def policy_loss(
    logp_new: torch.Tensor,
    logp_old: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    tis_weight: torch.Tensor | None = None,
    weighting: Weighting = "trajectory",
    *,
    trajectory_ids: Sequence[Any] | None = None,
    sample_weight: torch.Tensor | None = None,
) -> PolicyLoss:
    """Clipped policy-gradient loss with truncated importance sampling.

    Shapes: `logp_new`, `logp_old`, `mask`, `tis_weight` (B, T); `advantages` (B,) or (B, T). Per trained token
    -w * min(r A, clip(r, 1 - clip_low, 1 + clip_high) A), r = exp(logp_new - logp_old), with w from
    `importance_weights` (a constant). `logp_old` is the trainer's own log-probability before the step.

    A micro-batch passes `sample_weight` (B,), its slice of `step_plan(...).weights` over the WHOLE optimiser step, and
    the micro-batches' losses are added. Without it the batch is taken as the whole step, weighted by `weighting`
    over `trajectory_ids` (each row its own trajectory if absent). Nothing to train: loss 0 with a zero gradient,
    `skipped` set. Values under mask 0 may be anything, also infinite.
    """
    import torch

    mask = mask.bool()
    zeros = torch.zeros_like(logp_new)
    # `where` before the arithmetic: an infinite value at a masked place must not reach the gradient as 0 * inf
    log_ratio = torch.where(mask, logp_new, zeros) - torch.where(mask, logp_old.detach(), zeros)
    log_ratio = log_ratio.clamp(-20.0, 20.0)
    ratio = log_ratio.exp()
    a = (advantages if advantages.dim() == 2 else advantages[:, None]).to(logp_new.dtype).expand_as(logp_new).detach()
    plain, clipped = ratio * a, ratio.clamp(1.0 - clip_low, 1.0 + clip_high) * a
    token_loss = -torch.minimum(plain, clipped)
    if tis_weight is not None:
        token_loss = token_loss * torch.where(mask, tis_weight.detach().to(token_loss.dtype), zeros)
    if sample_weight is None:
        plan = step_plan(mask.sum(dim=1).tolist(), trajectory_ids, weighting=weighting)
        sample_weight = torch.as_tensor(plan.weights, dtype=token_loss.dtype, device=token_loss.device)
    loss = reduce_losses(token_loss, mask, sample_weight.to(token_loss.dtype))
    tokens = int(mask.sum())
    if tokens == 0:
        return PolicyLoss(loss, 0, True, 0.0, 1.0, 0.0, 0.0)
    with torch.no_grad():
        lr, r = log_ratio[mask], ratio[mask]
        return PolicyLoss(
            loss=loss,
            tokens=tokens,
            skipped=False,
            clip_fraction=float((clipped < plain)[mask].float().mean()),
            mean_ratio=float(r.mean()),
            k3=float((r - 1.0 - lr).mean()),
            mean_abs_difference=float(lr.abs().mean()),
        )
