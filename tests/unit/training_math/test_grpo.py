from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from components.contracts.errors import DataError, PolicyError
from components.training import grpo
from components.training.policy_lag import LagMeter, admit, serving_gate

CONVENTIONS = list(grpo.Convention.__args__)  # type: ignore[attr-defined]
REWARD = st.one_of(st.none(), st.floats(-1e12, 1e12), st.sampled_from([0.0, 1.0, 0.35]))


@settings(max_examples=150, deadline=None)
@given(st.lists(REWARD, max_size=12), st.sampled_from(CONVENTIONS))
def test_advantages_are_finite_bounded_and_skip_masked_members(rewards: list, convention: str) -> None:
    got = grpo.advantages(rewards, convention)  # type: ignore[arg-type]
    assert [g is None for g in got] == [r is None for r in rewards]
    values = [g for g in got if g is not None]
    n = len(values)
    assert all(math.isfinite(v) for v in values)
    if n > 1 and convention.endswith("std"):
        assert max(map(abs, values)) <= n / math.sqrt(n - 1) * (1 + 1e-9)
    scored = [r for r in rewards if r is not None]
    spread = max(scored) - min(scored) if scored else 0.0
    assert abs(math.fsum(values)) <= 1e-6 * max(1.0, spread)
    # the masked members change nothing: the group without them gives the same numbers
    assert grpo.advantages(scored, convention) == values  # type: ignore[arg-type]


def test_advantages_of_order_preserve_ranking_and_masked_stay_masked() -> None:
    assert grpo.advantages([1.0, None, 0.0]) == [1.0, None, -1.0]
    assert grpo.advantages([None, None]) == [None, None]
    assert grpo.advantages([1.0, None]) == [0.0, None], "one scored member has nothing to be compared with"
    assert grpo.advantages([]) == []


def test_a_reward_that_is_no_number_is_refused() -> None:
    with pytest.raises(DataError, match="not finite"):
        grpo.advantages([1.0, float("nan")])
    with pytest.raises(DataError, match="convention"):
        grpo.advantages([1.0, 0.0], "z_score")  # type: ignore[arg-type]


def test_half_precision_rest_is_no_signal() -> None:
    thirds = [float(np.float32(1) / np.float32(3)), 1 / 3, 1 / 3 + 1e-9]
    for convention in CONVENTIONS:
        assert grpo.advantages(thirds, convention) == [0.0, 0.0, 0.0]


def test_group_signal_counts_flat_masked_and_cancelling_groups() -> None:
    signal = grpo.group_signal([[1, 1, None], [0, 1], [None, 1], [[2, 1], [1, 2]]])
    assert (signal.groups, signal.without_signal, signal.parts_cancel, signal.masked_members) == (4, 3, 1, 2)
    assert signal.metrics()["share_of_groups_without_signal"] == 0.75
    assert grpo.group_signal([]).share_without_signal == 0.0


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.floats(-2000, 0), st.floats(-2000, 0)), min_size=1, max_size=20), st.floats(0.5, 5))
def test_importance_weights_never_overflow_nor_exceed_the_cap(pairs: list, cap: float) -> None:
    trainer, sampler = zip(*pairs, strict=True)
    cut = grpo.importance_weights(trainer, sampler, cap)
    dropped = grpo.importance_weights(trainer, sampler, cap, "drop")
    for report in (cut, dropped):
        assert np.isfinite(report.weights).all() and all(math.isfinite(v) for v in report.metrics().values())
        assert report.weights.min() >= 0 and report.weights.max() <= cap
    assert cut.share_capped == dropped.share_dropped
    assert (dropped.weights == 0).sum() >= round(dropped.share_dropped * len(pairs))


def test_importance_weights_look_only_under_the_mask() -> None:
    report = grpo.importance_weights([[-1.0, 0.0]], [[-1.0, -900.0]], mask=[[1, 0]])
    assert report.tokens == 1 and report.raw_max == 1.0 and report.flags == ()
    assert report.weights.tolist() == [[1.0, 1.0]]
    assert grpo.importance_weights([], []).tokens == 0


def test_importance_weights_refuse_unequal_lengths_and_bad_values() -> None:
    with pytest.raises(DataError, match="length_mismatch"):
        grpo.importance_weights([-1.0, -1.0], [-1.0])
    with pytest.raises(DataError, match="bad_logprob"):
        grpo.importance_weights([-1.0], [float("-inf")])
    with pytest.raises(DataError, match="cap"):
        grpo.importance_weights([-1.0], [-1.0], cap=0.0)


def test_disagreement_is_flagged_although_differences_cancel() -> None:
    report = grpo.importance_weights([-1.0, -1.0], [-1.5, -0.5])
    assert report.flags == ("sampler_and_trainer_disagree",)
    assert grpo.importance_weights([-1.0, -1.0], [-1.01, -0.99]).flags == ()


def test_first_update_check_stops_on_a_wrong_temperature() -> None:
    grpo.check_first_update(1.019)
    for ratio in (1.03, 0.97, float("nan")):
        with pytest.raises(PolicyError, match="first update"):
            grpo.check_first_update(ratio)


def test_step_plan_makes_a_trajectory_count_once_whatever_its_length() -> None:
    plan = grpo.step_plan([4, 2, 2, 8], ["a", "b", "b", "b"])
    share = plan.weights * np.array([4, 2, 2, 8])
    assert share[0] == pytest.approx(0.5) and share[1:] == pytest.approx(1 / 6)
    by_token = grpo.step_plan([4, 2, 2, 8], ["a", "b", "b", "b"], weighting="trajectory_token")
    assert by_token.weights[1] == by_token.weights[3] == pytest.approx(1 / 24)
    assert grpo.step_plan([4, 2], ["a", "a"], weighting="token").weights.tolist() == [1 / 6, 1 / 6]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.booleans()), max_size=10),
    st.sampled_from(["token", "trajectory", "trajectory_token"]),
)
def test_weights_of_a_step_add_up_to_one_or_the_step_is_skipped(samples: list, weighting: str) -> None:
    counts = [c for c, _, _ in samples]
    plan = grpo.step_plan(counts, [o for _, o, _ in samples], [k for _, _, k in samples], weighting)  # type: ignore[arg-type]
    total = float(plan.weights @ np.array(counts, dtype=float)) if counts else 0.0
    assert total == (pytest.approx(0.0) if plan.skipped else pytest.approx(1.0))


def _batch(seed: int = 0, rows: int = 5, width: int = 6) -> dict[str, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    return {
        "logp_new": (-torch.rand(rows, width, generator=g, dtype=torch.float64)).requires_grad_(),
        "logp_old": -torch.rand(rows, width, generator=g, dtype=torch.float64),
        "advantages": torch.randn(rows, generator=g, dtype=torch.float64),
        "mask": torch.rand(rows, width, generator=g) > 0.3,
        "tis_weight": torch.rand(rows, width, generator=g, dtype=torch.float64),
    }


def test_micro_batches_add_up_to_the_whole_step_in_loss_and_gradient() -> None:
    batch, owners = _batch(), ["a", "a", "b", "c", "c"]
    whole = grpo.policy_loss(**batch, trajectory_ids=owners)
    whole.loss.backward()
    want = batch["logp_new"].grad.clone()
    batch["logp_new"].grad = None
    plan = grpo.step_plan(batch["mask"].sum(1).tolist(), owners)
    total = 0.0
    for part in (slice(0, 2), slice(2, 5)):
        piece = {k: v[part] for k, v in batch.items()}
        out = grpo.policy_loss(**piece, sample_weight=torch.as_tensor(plan.weights)[part])
        out.loss.backward()
        total += float(out.loss.detach())
    assert total == pytest.approx(float(whole.loss.detach()), rel=1e-12)
    assert torch.allclose(batch["logp_new"].grad, want, rtol=1e-12, atol=0)


def test_policy_loss_follows_its_formula() -> None:
    new = torch.tensor([[0.0, math.log(2.0)], [math.log(0.5), math.log(2.0)]])
    old = torch.zeros(2, 2)
    out = grpo.policy_loss(new, old, torch.tensor([1.0, -1.0]), torch.ones(2, 2), weighting="token")
    # A=1: r=1 -> 1, r=2 cut at 1.28. A=-1: r=.5 cut at .8 -> -.8, r=2 stays -2
    assert float(out.loss) == pytest.approx(-(1.0 + 1.28 - 0.8 - 2.0) / 4)
    assert out.clip_fraction == 0.5 and out.tokens == 4
    assert out.mean_ratio == pytest.approx(5.5 / 4)


def test_values_behind_the_mask_reach_neither_loss_nor_gradient() -> None:
    batch = _batch()
    clean = grpo.policy_loss(**batch)
    spoiled = {k: v.detach().clone() for k, v in batch.items()}
    for name in ("logp_old", "tis_weight"):
        spoiled[name][~batch["mask"]] = float("nan")
    spoiled["logp_new"][~batch["mask"]] = float("nan")
    spoiled["logp_new"][2:][~batch["mask"][2:]] = float("-inf")
    spoiled["logp_new"].requires_grad_()
    out = grpo.policy_loss(**spoiled)
    out.loss.backward()
    assert out.loss.item() == clean.loss.item()
    assert torch.isfinite(spoiled["logp_new"].grad).all()
    assert (spoiled["logp_new"].grad[~batch["mask"]] == 0).all()


def test_an_empty_step_is_skipped_with_a_zero_gradient() -> None:
    new = torch.full((2, 3), -1.0, requires_grad=True)
    out = grpo.policy_loss(new, new.detach(), torch.ones(2), torch.zeros(2, 3))
    out.loss.backward()
    assert out.skipped and out.loss.item() == 0.0 and (new.grad == 0).all()


def test_importance_weight_scales_the_gradient_and_carries_none() -> None:
    batch = _batch()
    batch["tis_weight"] = torch.full_like(batch["tis_weight"], 0.5).requires_grad_()
    half = grpo.policy_loss(**batch)
    half.loss.backward()
    assert batch["tis_weight"].grad is None
    whole = grpo.policy_loss(**{**batch, "tis_weight": None})  # type: ignore[arg-type]
    assert float(half.loss) == pytest.approx(0.5 * float(whole.loss))


def test_oldest_span_decides_admission() -> None:
    assert admit([10, 8], 10, 2).accept and admit([10, 8], 10, 2).flags == ("mixed_versions",)
    mixed = admit([10, 7], 10, 2)
    assert (mixed.accept, mixed.lag, mixed.reason) == (False, 3, "too_old")
    assert admit([], 10, 2).reason == "version_unknown"
    assert admit([10, None], 10, 2).reason == "version_unknown"
    assert admit([7, 11], 10, 2).reason == "version_from_the_future"
    assert admit([9], 10, 0).reason == "too_old"


def test_lag_meter_names_the_share_that_was_too_old() -> None:
    meter = LagMeter()
    assert meter.warning == "" and meter.share_dropped_too_old == 0.0
    for version in (10, 9, 7, 6):
        meter.add(admit([version], 10, 2))
    assert meter.metrics() == {"share_dropped_too_old": 0.5, "mean_lag": 0.5, "max_lag": 1.0}
    assert "0.50" in meter.warning


def test_serving_waits_for_every_replica_and_equal_weights() -> None:
    assert serving_gate([3, 3], ["w", "w"], expected=3).serve
    assert serving_gate([3, 3], ["w", "w"], expected=4).reason == "replica_behind"
    assert serving_gate([3, 3], ["w", None]).reason == "weights_unknown"
    assert serving_gate([3, None], ["w", "w"]).reason == "replica_version_unknown"
    assert serving_gate([], []).reason == "no_replica"
