"""Step samples of reinforcement learning: one model call = one (prompt, response) sample with what the engine returned.

Context folding rewrites the middle of the prompt, so a trajectory is never one token stream: its steps are separate
samples under one trajectory id, and the trajectory counts once in the loss (`grpo.step_plan`). Token ids and
log-probabilities come from the engine that sampled them. A sample that lacks any of them is rejected, never repaired:
re-tokenising text or padding a missing log-probability falsifies the importance ratio.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from components.contracts.errors import DataError

LOGPROB_TOLERANCE = 1e-3
"""A log-probability may exceed 0 by this much: rounding of a half-precision log-softmax."""

SampleCode = Literal["no_token_ids", "length_mismatch", "bad_logprob", "bad_token_id", "bad_mask", "nothing_to_train"]


class SampleError(DataError):
    """A rejected sample. `code` is the stable short name the stage counts by."""

    def __init__(self, code: SampleCode, message: str, *, where: str = "") -> None:
        super().__init__(f"{code}: {message}", where=where, remedy="the sample is dropped and counted, not repaired")
        self.code = code


@dataclass(frozen=True)
class StepSample:
    """One model call. `logprobs` and `mask` run over `response_ids`; the prompt is never trained.

    `mask` is 1 where the policy wrote the token, 0 for text put in by the environment. `spans` holds
    (token count, policy version) in order when the weights changed within the response; otherwise the whole response
    is of `policy_version` (None = unknown, which `policy_lag.admit` refuses). `images` are content digests, in order.
    """

    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    mask: tuple[int, ...]
    policy_version: int | None
    trajectory_id: str
    group_id: str
    step: int = 0
    images: tuple[str, ...] = ()
    spans: tuple[tuple[int, int | None], ...] = ()
    reward: float | None = None
    """The trajectory's reward; None = infrastructure failure, masked out."""

    @property
    def versions(self) -> tuple[int | None, ...]:
        """Policy versions of the token spans, for `policy_lag.admit`."""
        return tuple(version for _, version in self.spans) or (self.policy_version,)

    @property
    def trained_tokens(self) -> int:
        return sum(self.mask)


def check_sample(sample: StepSample) -> StepSample:
    """The sample itself if it may train; SampleError otherwise."""
    where = f"trajectory {sample.trajectory_id} step {sample.step}"
    check_tokens(sample.response_ids, sample.logprobs, sample.mask, where=where)
    if not sample.prompt_ids:
        raise SampleError("no_token_ids", "the prompt has no token ids", where=where)
    _check_ids(sample.prompt_ids, "prompt", where)
    if sample.spans and sum(count for count, _ in sample.spans) != len(sample.response_ids):
        raise SampleError("length_mismatch", "version spans do not cover the response", where=where)
    if not any(sample.mask):
        raise SampleError("nothing_to_train", "no token of the response was written by the policy", where=where)
    return sample


def check_tokens(
    token_ids: Sequence[int] | None,
    logprobs: Sequence[float | None] | None,
    mask: Sequence[int],
    *,
    where: str = "",
) -> None:
    """Token-level contract of a response: same lengths, real ids, possible log-probabilities. Raises SampleError."""
    if not token_ids:
        raise SampleError("no_token_ids", "the engine returned no token ids", where=where)
    if logprobs is None or len(logprobs) != len(token_ids) or len(mask) != len(token_ids):
        have = "no" if logprobs is None else len(logprobs)
        raise SampleError(
            "length_mismatch",
            f"{len(token_ids)} tokens, {have} log-probabilities, {len(mask)} mask values",
            where=where,
        )
    _check_ids(token_ids, "response", where)
    for i, value in enumerate(logprobs):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or value > LOGPROB_TOLERANCE:  # type: ignore[arg-type, operator]
            raise SampleError("bad_logprob", f"token {i} has log-probability {value}", where=where)
    if any(m not in (0, 1) for m in mask):
        raise SampleError("bad_mask", "mask values are 0 or 1", where=where)


def _check_ids(ids: Sequence[Any], part: str, where: str) -> None:
    for i, token in enumerate(ids):
        if not isinstance(token, int) or isinstance(token, bool) or token < 0:
            raise SampleError("bad_token_id", f"{part} token {i} is {token!r}", where=where)


def mask_from_parts(parts: Iterable[tuple[str, int]]) -> tuple[int, ...]:
    """Loss mask of a stream written by turns: (author, token count) in order; only the policy's tokens are trained."""
    mask: list[int] = []
    for author, count in parts:
        mask += [int(author == "policy")] * count
    return tuple(mask)


@dataclass(frozen=True)
class Turn:
    """What the engine returned for one call of an episode."""

    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    policy_version: int | None
    images: tuple[str, ...] = ()
    spans: tuple[tuple[int, int | None], ...] = ()


def step_samples(
    turns: Sequence[Turn], trajectory_id: str, group_id: str, reward: float | None = None
) -> list[StepSample]:
    """Checked samples of one trajectory, one a turn, whatever the prompts have in common."""
    return [
        check_sample(
            StepSample(
                prompt_ids=turn.prompt_ids,
                response_ids=turn.response_ids,
                logprobs=turn.logprobs,
                mask=(1,) * len(turn.response_ids),
                policy_version=turn.policy_version,
                trajectory_id=trajectory_id,
                group_id=group_id,
                step=index,
                images=turn.images,
                spans=turn.spans,
                reward=reward,
            )
        )
        for index, turn in enumerate(turns)
    ]
