"""Packing: several samples in one sequence, each trained exactly as if it stood alone.

Two forms. `pack` puts independent samples end to end. Same-image packing (stage 1) puts several questions behind ONE
image prefix that all of them see: `training.sequences` builds it, under the `block_mask` of this module. Arrays are
numpy; -100 is the ignored label of every trainer in use.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from components.contracts.errors import DataError

IGNORED = -100
PREFIX_SEGMENT = 0
PADDING_SEGMENT = -1


@dataclass(frozen=True)
class Pack:
    """Samples (by index) that share a sequence of `length` tokens, the last `padding` of them empty."""

    samples: tuple[int, ...]
    cu_seqlens: tuple[int, ...]
    length: int

    @property
    def padding(self) -> int:
        return self.length - self.cu_seqlens[-1]

    @property
    def position_ids(self) -> tuple[int, ...]:
        """One run from 0 per sample; padding has none."""
        sizes = [end - begin for begin, end in zip(self.cu_seqlens, self.cu_seqlens[1:], strict=False)]
        return tuple(i for size in sizes for i in range(size))

    @property
    def labels_ignored_at(self) -> tuple[int, ...]:
        """First token of each sample: its only predecessor belongs to another sample, or to nobody."""
        return self.cu_seqlens[:-1]


def pack(lengths: Sequence[int], pack_length: int, oversize: Literal["reject", "alone"] = "reject") -> list[Pack]:
    """First-fit packing in the given order; no sample is ever split.

    A sample longer than `pack_length` raises DataError (`reject`) or gets a pack of its own length (`alone`).
    """
    if pack_length < 1 or any(n < 1 for n in lengths):
        raise DataError(f"cannot pack lengths {list(lengths)[:8]} into {pack_length}", remedy="lengths are at least 1")
    too_long = [i for i, n in enumerate(lengths) if n > pack_length]
    if too_long and oversize == "reject":
        raise DataError(
            f"sample_too_long: sample {too_long[0]} has {lengths[too_long[0]]} tokens, a pack holds {pack_length}",
            remedy="raise the pack length, drop the sample, or pack it alone",
        )
    bins: list[list[int]] = []
    free: list[int] = []
    for index, size in enumerate(lengths):
        slot = next((b for b, room in enumerate(free) if room >= size), None)
        if slot is None:
            bins.append([])
            free.append(max(pack_length, size))
            slot = len(bins) - 1
        bins[slot].append(index)
        free[slot] -= size
    packs = []
    for members, room in zip(bins, free, strict=True):
        borders = np.concatenate([[0], np.cumsum([lengths[i] for i in members])])
        packs.append(Pack(tuple(members), tuple(int(b) for b in borders), int(borders[-1]) + room))
    return packs


def concat_samples(samples: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """Concatenate samples along their last axis: `input_ids`, `labels`, `position_ids` and whatever else they hold.

    Positions are those computed for each sample alone (1-D, or (3, L) for multimodal rotary positions with images),
    so they restart by construction. The first label of each sample is ignored. Adds `segment_ids` from 0.
    """
    if not samples:
        raise DataError("an empty pack", remedy="pack at least one sample")
    names = samples[0].keys()
    lengths = [int(s["input_ids"].shape[-1]) for s in samples]
    for i, sample in enumerate(samples):
        if sample.keys() != names or any(sample[n].shape[-1] != lengths[i] for n in names):
            raise DataError(f"length_mismatch: sample {i} of the pack has arrays of different names or lengths")
    joined = {name: np.concatenate([np.asarray(s[name]) for s in samples], axis=-1) for name in names}
    if "labels" in joined:
        joined["labels"][np.cumsum([0, *lengths[:-1]])] = IGNORED
    joined["segment_ids"] = np.repeat(np.arange(len(samples)), lengths)
    return joined


_FILLS = {"labels": IGNORED, "segment_ids": PADDING_SEGMENT}


def pad_to_multiple(arrays: Mapping[str, NDArray[Any]], multiple: int, *, pad_id: int = 0) -> dict[str, NDArray[Any]]:
    """Pad every array on the right of its last axis to one common multiple of `multiple`.

    Labels get -100, segments -1, `input_ids` `pad_id`, everything else 0. Arrays of unequal length are refused
    (DataError): a shorter one was already out of step.
    """
    lengths = {name: int(a.shape[-1]) for name, a in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"length_mismatch: {lengths}", remedy="pad before any array is dropped or cut")
    length = next(iter(lengths.values()), 0)
    extra = -length % multiple
    fills = {**_FILLS, "input_ids": pad_id}
    return {
        name: np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, extra)], constant_values=fills.get(name, 0))
        for name, a in arrays.items()
    }


def block_mask(segment_ids: NDArray[Any], *, shared_prefix: bool = False) -> NDArray[np.bool_]:
    """(..., T) segments -> (..., T, T) boolean causal mask, True = may attend (row attends to column), block-diagonal.

    With `shared_prefix`, segment 0 is a prefix that every other segment sees. Padding sees itself only, so that no row
    is empty (a softmax over nothing is NaN) and nobody sees padding.
    """
    segments = np.asarray(segment_ids)
    rows, columns = segments[..., :, None], segments[..., None, :]
    mask = rows == columns
    if shared_prefix:
        mask |= columns == PREFIX_SEGMENT
    length = segments.shape[-1]
    mask &= np.tri(length, dtype=np.bool_)
    mask &= rows != PADDING_SEGMENT
    places = np.arange(length)
    mask[..., places, places] = True
    return mask


def drop_repeated_targets(targets: Sequence[Sequence[float]]) -> tuple[list[int], int]:
    """Indices of the first question at each target location of one screenshot, in order, and how many were dropped.

    A repeated location inside a pack would let a question's answer be trained twice from one look at the screen.
    """
    seen: set[tuple[float, ...]] = set()
    kept: list[int] = []
    for index, target in enumerate(targets):
        key = tuple(float(v) for v in target)
        if key not in seen:
            seen.add(key)
            kept.append(index)
    return kept, len(targets) - len(kept)


def pack_loss(
    token_losses: Sequence[Sequence[float]], reduction: Literal["token_mean", "sample_mean"] = "token_mean"
) -> float:
    """Loss of a pack from its samples' trained tokens: the mean over tokens, or (only when asked) of sample means."""
    if reduction == "token_mean":
        flat = [loss for sample in token_losses for loss in sample]
    elif reduction == "sample_mean":
        flat = [math.fsum(sample) / len(sample) for sample in token_losses if sample]
    else:
        raise DataError(f"unknown reduction {reduction!r}", remedy="use token_mean or sample_mean")
    return math.fsum(flat) / len(flat) if flat else 0.0
