from __future__ import annotations

from dataclasses import replace

import pytest

from components.training.policy_lag import admit
from components.training.samples import SampleError, StepSample, Turn, check_sample, mask_from_parts, step_samples

GOOD = StepSample((1, 2), (3, 4), (-0.5, -1.0), (1, 1), 5, "t", "g")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"logprobs": (-0.5,)}, "length_mismatch"),
        ({"mask": (1, 1, 1)}, "length_mismatch"),
        ({"logprobs": (0.01, -1.0)}, "bad_logprob"),
        ({"logprobs": (float("nan"), -1.0)}, "bad_logprob"),
        ({"logprobs": (None, -1.0)}, "bad_logprob"),
        ({"response_ids": (), "logprobs": (), "mask": ()}, "no_token_ids"),
        ({"prompt_ids": ()}, "no_token_ids"),
        ({"response_ids": (3, -4)}, "bad_token_id"),
        ({"mask": (1, 2)}, "bad_mask"),
        ({"mask": (0, 0)}, "nothing_to_train"),
        ({"spans": ((1, 5),)}, "length_mismatch"),
    ],
)
def test_a_sample_out_of_contract_is_rejected_by_name(change: dict, code: str) -> None:
    with pytest.raises(SampleError) as caught:
        check_sample(replace(GOOD, **change))
    assert caught.value.code == code
    assert "trajectory t step 0" in str(caught.value)


def test_a_sample_within_contract_is_returned_unchanged() -> None:
    rounded = replace(GOOD, logprobs=(1e-7, -1.0))
    assert check_sample(rounded) is rounded


def test_mixed_versions_reach_the_admission() -> None:
    mixed = replace(GOOD, spans=((1, 2), (1, 5)))
    assert mixed.versions == (2, 5) and GOOD.versions == (5,)
    assert admit(mixed.versions, 5, 2).reason == "too_old"


def test_every_call_is_its_own_sample_of_one_trajectory() -> None:
    # the second prompt continues the first exactly, and still makes a sample of its own
    turns = [Turn((1, 2), (3,), (-1.0,), 0), Turn((1, 2, 3, 4), (5, 6), (-1.0, -2.0), 0)]
    samples = step_samples(turns, "t", "g", reward=1.0)
    assert [s.step for s in samples] == [0, 1] and {s.trajectory_id for s in samples} == {"t"}
    assert [s.trained_tokens for s in samples] == [1, 2]


def test_only_tokens_of_the_policy_are_trained() -> None:
    assert mask_from_parts([("observation", 2), ("policy", 1), ("tool", 1)]) == (0, 0, 1, 0)
