from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.contracts.errors import DataError
from components.curation import packing


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 30), max_size=25), st.integers(1, 25))
def test_packing_keeps_every_sample_whole_and_once(lengths: list[int], size: int) -> None:
    packs = packing.pack(lengths, size, oversize="alone")
    assert sorted(i for p in packs for i in p.samples) == list(range(len(lengths)))
    for p in packs:
        sizes = [b - a for a, b in zip(p.cu_seqlens, p.cu_seqlens[1:], strict=False)]
        assert sizes == [lengths[i] for i in p.samples]
        assert p.padding >= 0 and len(p.position_ids) + p.padding == p.length
        assert p.length == size or p.samples == (p.samples[0],)
        assert all(p.position_ids[i] == 0 for i in p.labels_ignored_at)


def test_lengths_that_are_none_are_refused() -> None:
    for lengths, size in (([3, 0], 5), ([3], 0)):
        with pytest.raises(DataError, match="cannot pack"):
            packing.pack(lengths, size)


def test_samples_of_a_pack_must_agree_in_names_and_lengths() -> None:
    one = {"input_ids": np.arange(3), "labels": np.arange(3)}
    joined = packing.concat_samples([one, one])
    assert joined["labels"].tolist() == [-100, 1, 2, -100, 1, 2]
    assert joined["segment_ids"].tolist() == [0, 0, 0, 1, 1, 1]
    assert one["labels"].tolist() == [0, 1, 2], "the sample itself is untouched"
    with pytest.raises(DataError, match="length_mismatch"):
        packing.concat_samples([one, {"input_ids": np.arange(3), "labels": np.arange(2)}])
    with pytest.raises(DataError, match="length_mismatch"):
        packing.concat_samples([one, {"input_ids": np.arange(3)}])
    with pytest.raises(DataError, match="empty pack"):
        packing.concat_samples([])


def test_padding_is_the_same_for_all_arrays_and_ignored_by_the_loss() -> None:
    arrays = {"input_ids": np.ones(5, int), "labels": np.ones(5, int), "position_ids": np.ones((3, 5), int)}
    padded = packing.pad_to_multiple(arrays, 4, pad_id=9)
    assert padded["input_ids"].tolist() == [1] * 5 + [9] * 3
    assert padded["labels"].tolist() == [1] * 5 + [-100] * 3
    assert padded["position_ids"].shape == (3, 8)
    assert packing.pad_to_multiple(arrays, 5)["input_ids"].shape == (5,)
    with pytest.raises(DataError, match="length_mismatch"):
        packing.pad_to_multiple({"input_ids": np.ones(5), "position_ids": np.ones(4)}, 4)


def test_each_question_sees_the_picture_and_itself_only() -> None:
    segments = np.array([0, 0, 0, 1, 1, 2, 2, 2, -1, -1])
    seen = [set(np.flatnonzero(row)) for row in packing.block_mask(segments, shared_prefix=True)]
    assert seen[2] == {0, 1, 2}
    assert seen[4] == {0, 1, 2, 3, 4}
    assert seen[6] == {0, 1, 2, 5, 6}
    assert seen[8] == {8} and seen[9] == {9}


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(-1, 3), min_size=6, max_size=6), min_size=1, max_size=4), st.booleans())
def test_a_batch_of_masks_is_the_masks_of_its_rows_and_no_row_is_empty(rows: list[list[int]], prefix: bool) -> None:
    batch = packing.block_mask(np.array(rows), shared_prefix=prefix)
    assert batch.shape == (len(rows), 6, 6) and batch.any(axis=-1).all()
    for mask, segments in zip(batch, rows, strict=True):
        assert (mask == packing.block_mask(np.array(segments), shared_prefix=prefix)).all()
        for i, own in enumerate(segments):
            for j, other in enumerate(segments):
                may = j <= i and own != -1 and (own == other or (prefix and other == 0))
                assert mask[i, j] == (may or i == j)


def test_equal_locations_are_packed_once_in_the_first_place() -> None:
    assert packing.drop_repeated_targets([(1, 2), [1.0, 2.0], (2, 1), (1, 2)]) == ([0, 2], 2)
    assert packing.drop_repeated_targets([]) == ([], 0)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.floats(0, 100), max_size=5), max_size=5))
def test_the_loss_of_a_pack_is_the_loss_of_its_parts(losses: list[list[float]]) -> None:
    tokens = sum(map(len, losses))
    parts = sum(packing.pack_loss([sample]) * len(sample) for sample in losses)
    assert packing.pack_loss(losses) == pytest.approx(parts / tokens if tokens else 0.0)


def test_another_reduction_only_when_asked() -> None:
    assert packing.pack_loss([[1, 2], [1, 1, 1, 1], [4]], "sample_mean") == pytest.approx(6.5 / 3)
    with pytest.raises(DataError, match="reduction"):
        packing.pack_loss([[1.0]], "sum")  # type: ignore[arg-type]
