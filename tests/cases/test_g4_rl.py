"""Open cases of group 4 (GRPO, asynchronous RL). The adapters translate names; the product decides."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.contracts.errors import PolicyError
from components.training import grpo
from components.training.policy_lag import LagMeter, admit, serving_gate
from components.training.samples import SampleError, Turn, check_tokens, mask_from_parts, step_samples

ROWS = [json.loads(line) for line in (Path(__file__).parent / "data" / "g4_rl.jsonl").read_text().splitlines()]
CONVENTION = "leave_one_out_mean_only"


def _number(value: Any) -> Any:
    """Texts like "-Infinity" stand for the number of that name."""
    return float(value) if isinstance(value, str) else value


def c35(given: dict[str, Any]) -> dict[str, Any]:
    if "rewards" in given:
        rewards = [float(r) for r in given["rewards"]]
        if given.get("dtype") == "float32":
            rewards = [float(np.float32(r)) for r in rewards]
        got: dict[str, Any] = {"advantages": grpo.advantages(rewards, CONVENTION)}
        # the bound must hold for every convention, not only for the product's
        got["all"] = {c: grpo.advantages(rewards, c) for c in grpo.Convention.__args__}  # type: ignore[attr-defined]
        return got
    groups = given["step"]["groups"] if "step" in given else [given["reward_parts"]]
    signal = grpo.group_signal(groups)
    name = "share_of_groups_without_signal"
    return {name: signal.share_without_signal, "logged": name in signal.metrics(), "note": signal.parts_cancel}


def c37(given: dict[str, Any]) -> dict[str, Any]:
    if "parts" in given:
        return {"mask": list(mask_from_parts((p["from"], p["n"]) for p in given["parts"]))}
    try:
        if "step_1_all_tokens" in given:
            first, second = given["step_1_all_tokens"], given["step_2_prompt"]
            turns = [Turn(tuple(first[:-1]), tuple(first[-1:]), (-1.0,), 0), Turn(tuple(second), (7,), (-1.0,), 0)]
            samples = step_samples(turns, "t", "g")
            return {"accept": True, "samples": len(samples), "trajectory_ids": len({s.trajectory_id for s in samples})}
        logprobs = [_number(v) for v in given.get("logprobs", [])]
        check_tokens(given.get("token_ids"), logprobs, given.get("mask", []))
    except SampleError as error:
        return {"accept": False, "error": error.code}
    return {"accept": True}


def c39(given: dict[str, Any]) -> dict[str, Any]:
    if "tokens" in given:
        trainer, sampler = [given["difference_each"]] * given["tokens"], [0.0] * given["tokens"]
        mean, total = grpo.sequence_weight(trainer, sampler, "mean"), grpo.sequence_weight(trainer, sampler, "sum")
        assert not mean.warning
        return {
            "sequence_weight_mean_form": mean.value,
            "sequence_weight_sum_form": total.value,
            "warning": total.warning,
        }
    if "differences" in given:
        report = grpo.importance_weights(given["differences"], [0.0] * len(given["differences"]))
        return {"mean_of_exp_abs": report.mean_of_exp_abs, "flag": report.flags[0] if report.flags else ""}
    first = given.get("first_update_after_sync", False)
    report = grpo.importance_weights(
        given["trainer_logprobs"],
        given["sampler_logprobs"],
        given.get("cap", 2.0),
        given.get("mode", "truncate"),
        first_update_after_sync=first,
    )
    got: dict[str, Any] = {
        "weights": report.weights.tolist(),
        "raw_max": report.raw_max,
        "raw_mean": report.raw_mean,
        "share_capped": report.share_capped,
        "share_dropped": report.share_dropped,
        "finite": all(math.isfinite(v) for v in report.metrics().values()),
    }
    if first:
        with pytest.raises(PolicyError):
            grpo.importance_weights([-1.0, -2.0], [-1.1, -2.1], first_update_after_sync=True)
        got["check"] = "mean ratio within 0.02 of 1 on the first update, else stop"
    return got


def c41(given: dict[str, Any]) -> dict[str, Any]:
    if "replica_versions" in given:
        hashes = ["w"] * len(given["replica_versions"])
        if given.get("one_replica_weights_hash_differs"):
            hashes[-1] = "other"
        gate = serving_gate(given["replica_versions"], hashes)
        return {"serve": gate.serve, "reason": gate.reason}
    if "samples_dropped_too_old_share" in given:
        meter = LagMeter()
        old = round(given["samples_dropped_too_old_share"] * 100)
        for i in range(100):
            meter.add(admit([0 if i < old else 10], 10, 2))
        name = "share_dropped_too_old"
        assert meter.metrics()[name] == pytest.approx(given["samples_dropped_too_old_share"])
        return {"warning": bool(meter.warning), "metric": name if name in meter.warning else ""}
    admission = admit(given["sample_versions"], given["trainer_version"], given["max_lag"])
    return {
        "accept": admission.accept,
        "lag": admission.lag,
        "reason": admission.reason,
        "flag": admission.flags[0] if admission.flags else "",
    }


def _loss(token_losses: list[list[float]], plan: grpo.StepPlan) -> float:
    width = max(map(len, token_losses))
    losses, mask = np.zeros((len(token_losses), width)), np.zeros((len(token_losses), width), dtype=bool)
    for i, row in enumerate(token_losses):
        losses[i, : len(row)], mask[i, : len(row)] = row, True
    return float(grpo.reduce_losses(losses, mask, plan.weights))


def c43(given: dict[str, Any]) -> dict[str, Any]:
    if "token_losses" in given:
        rows, masked = given["token_losses"], given["mask_cut_off"]
        keep = [not (cut and masked) for cut in given["cut_off"]]
        plan = grpo.step_plan([len(r) for r in rows], keep=keep, weighting="token")
        return {"loss": _loss(rows, plan), "step": "skipped_and_logged" if plan.skipped else ""}
    if "lengths" in given:
        figures = grpo.length_figures(given["lengths"], given["cut_off"])
        return {"mean_length": figures.mean_length, "share_cut_off": figures.share_cut_off}
    if "trajectories" in given:
        steps = [(i, loss) for i, t in enumerate(given["trajectories"]) for loss in t["step_losses"]]
        plan = grpo.step_plan([1] * len(steps), [owner for owner, _ in steps], weighting="trajectory")
        return {"loss": _loss([[loss] for _, loss in steps], plan)}
    parts = given.get("micro_batches") or given["ranks"]
    return {"loss": grpo.combine_sums([(p["sum"], p["tokens"]) for p in parts]).loss}


ADAPTERS = {"C35": c35, "C37": c37, "C39": c39, "C41": c41, "C43": c43}


def _close(got: Any, want: Any) -> bool:
    if isinstance(want, list):
        return len(got) == len(want) and all(_close(g, w) for g, w in zip(got, want, strict=True))
    if isinstance(want, float | int) and not isinstance(want, bool):
        return got == pytest.approx(want, abs=1e-6, rel=1e-6)
    return bool(got == want)


def _meets(got: dict[str, Any], want: dict[str, Any]) -> bool:
    return all(name in got and _close(got[name], value) for name, value in want.items())


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r["case"] + r["row"])
def test_case(row: dict[str, Any]) -> None:
    expect = dict(row["expect"])
    got = ADAPTERS[row["case"]](row["given"])
    if row["case"] == "C35" and "advantages" in got:
        _check_advantages(row, got)
        return
    if row["case"] == "C35" and "note" in expect:
        assert got.pop("note") == 1, "the group whose parts cancel is reported"
        expect.pop("note")
    outcomes = [expect, *row.get("also_ok", [])]
    assert any(_meets(got, want) for want in outcomes), (got, outcomes)


def _check_advantages(row: dict[str, Any], got: dict[str, Any]) -> None:
    expect = row["expect"]
    for convention, values in got["all"].items():
        assert all(math.isfinite(v) for v in values)
        if "max_abs_at_most" in expect:
            assert max(map(abs, values)) <= expect["max_abs_at_most"] + 1e-6, convention  # stated to six places
        wanted = expect.get("advantages_one_of", {})
        target = wanted.get(convention, wanted.get("any"))
        if target is not None:
            assert values == pytest.approx(target, abs=expect.get("tolerance", 0.0)), convention
    assert got["advantages"] == got["all"][CONVENTION]
