"""From texts and screens to the tensors of one batch: chat pieces, branches behind one screenshot, block masks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from components.curation.packing import PADDING_SEGMENT, block_mask
from components.training.model import Policy, rope_positions
from components.training.screen_features import Encoded

if TYPE_CHECKING:
    import torch

TEXT_CACHE = 65536


class Encoder:
    """Token ids of prompt pieces. Pieces are delimited by special tokens, so their ids concatenate exactly."""

    def __init__(self, policy: Policy) -> None:
        backend = policy.tokenizer.backend_tokenizer  # the wrapper around it takes longer than the work
        self._encode: Callable[[str], tuple[int, ...]] = lru_cache(TEXT_CACHE)(
            lambda text: tuple(backend.encode(text, add_special_tokens=False).ids)
        )
        self.grid = policy.grid
        self.image_id = policy.image_id

    def text(self, text: str) -> list[int]:
        return list(self._encode(text))

    def image(self, size: tuple[int, int]) -> list[int]:
        """Ids of one image of (rows, columns) tokens with its markers."""
        start, end = self._encode("<|vision_start|>")[0], self._encode("<|vision_end|>")[0]
        return [start, *[self.image_id] * (size[0] * size[1]), end]

    def open(self, role: str) -> list[int]:
        return self.text(f"<|im_start|>{role}\n")

    def close(self) -> list[int]:
        """`<|im_end|>` and the line end after it. The first id is what a policy emits to stop."""
        return self.text("<|im_end|>\n")


@dataclass(frozen=True)
class Packed:
    """One sequence: a shared prefix (segment 0) and branches (1, 2, ...) that do not see each other.

    `ids` (L,), `segments` (L,), `weights` (L,): the loss weight of predicting token i from what precedes it; 0 = not
    supervised. `screens`: images in order, or in a stored corpus their digests, or `screen_features.Encoded` ones (a
    batch holds one sort).
    """

    ids: NDArray[np.int64]
    segments: NDArray[np.int64]
    weights: NDArray[np.float32]
    screens: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.ids)


def pack(
    prefix: Sequence[int], branches: Sequence[tuple[Sequence[int], Sequence[float]]], screens: Sequence[Any]
) -> Packed:
    """Put `branches` (ids, weights) behind `prefix`. The loss of a pack is the loss of its parts (C19)."""
    ids = list(prefix)
    segments = [0] * len(prefix)
    weights = [0.0] * len(prefix)
    for number, (branch, branch_weights) in enumerate(branches, start=1):
        ids.extend(branch)
        segments.extend([number] * len(branch))
        weights.extend(branch_weights)
    if weights:
        weights[0] = 0.0
    return Packed(np.array(ids, np.int64), np.array(segments, np.int64), np.array(weights, np.float32), tuple(screens))


@dataclass
class Batch:
    """Tensors of a batch; `rows`/`columns`/`targets`/`weights` list the supervised predictions.

    `patches` of screenshots still to be encoded, or the `features` of those that were (tokens, hidden).
    """

    ids: torch.Tensor
    positions: torch.Tensor
    mask: torch.Tensor
    patches: torch.Tensor | None
    sizes: list[tuple[int, int]]
    rows: torch.Tensor
    columns: torch.Tensor
    targets: torch.Tensor
    weights: torch.Tensor
    features: torch.Tensor | None = None


def packed_positions(packed: Packed, image_id: int, sizes: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """(3, L): every branch starts again where the prefix ends."""
    prefix = int((packed.segments == 0).sum())
    out = np.empty((3, len(packed)), np.int64)
    out[:, :prefix] = rope_positions(packed.ids[:prefix], image_id, sizes)
    start = int(out[:, :prefix].max()) + 1 if prefix else 0
    branch = packed.segments[prefix:]
    if len(branch):
        borders = np.flatnonzero(np.diff(branch, prepend=-1))
        offsets = np.arange(len(branch)) - np.repeat(borders, np.diff(np.append(borders, len(branch))))
        out[:, prefix:] = start + offsets
    return out


def collate(policy: Policy, items: Sequence[Packed]) -> Batch:
    """Pad on the right. Mask (B, 1, L, L): causal, own branch and prefix only, no padding."""
    import torch

    length = max(len(item) for item in items)
    count = len(items)
    ids = np.full((count, length), policy.pad_id, np.int64)
    positions = np.zeros((3, count, length), np.int64)
    segments = np.full((count, length), PADDING_SEGMENT, np.int64)
    weights = np.zeros((count, length), np.float32)
    patches: list[NDArray[np.float32]] = []
    features: list[torch.Tensor] = []
    sizes: list[tuple[int, int]] = []
    for b, item in enumerate(items):
        n = len(item)
        encoded = [screen for screen in item.screens if isinstance(screen, Encoded)]
        raw = [screen for screen in item.screens if not isinstance(screen, Encoded)]
        own = [screen.size for screen in encoded] or [policy.grid.tokens(*screen.shape[:2]) for screen in raw]
        ids[b, :n], segments[b, :n], weights[b, :n] = item.ids, item.segments, item.weights
        positions[:, b, :n] = packed_positions(item, policy.image_id, own)
        patches.extend(policy.grid.patches(screen) for screen in raw)
        features.extend(screen.features for screen in encoded)
        sizes.extend(own)
    allowed = block_mask(segments, shared_prefix=True)
    rows, columns = np.nonzero(weights)
    return Batch(
        ids=torch.from_numpy(ids),
        positions=torch.from_numpy(positions),
        mask=torch.from_numpy(allowed[:, None]),
        patches=torch.from_numpy(np.concatenate(patches)) if patches else None,
        sizes=sizes,
        rows=torch.from_numpy(rows),
        columns=torch.from_numpy(predecessors(segments, rows, columns)),
        targets=torch.from_numpy(ids[rows, columns]),
        weights=torch.from_numpy(weights[rows, columns]),
        features=torch.cat(features) if features else None,
    )


def predecessors(segments: NDArray[np.int64], rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """The column whose state predicts (row, column): the one before, or the prefix's last for a branch's first."""
    before = columns - 1
    border = segments[rows, before] != segments[rows, columns]
    prefix_last = (segments == 0).sum(axis=1) - 1
    return np.where(border, prefix_last[rows], before)


def supervised_logits(policy: Policy, batch: Batch) -> torch.Tensor:
    """(n, vocabulary): what the model says at each supervised prediction of a batch."""
    features = batch.features
    if batch.patches is not None:
        features = policy.image_features(batch.patches, batch.sizes)
    return policy.logits(policy.hidden_at(batch.ids, batch.positions, batch.mask, features, batch.rows, batch.columns))


def token_losses(policy: Policy, batch: Batch) -> torch.Tensor:
    """(n,) negative log-likelihoods of the supervised tokens."""
    import torch.nn.functional as F

    return F.cross_entropy(supervised_logits(policy, batch), batch.targets, reduction="none")
