from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from components.rollout.policy import Completion, Request
from components.training.corpus import step_sequence
from components.training.engine import LocalClient, banned_ids, response_logprobs
from components.training.sequences import collate, token_losses
from tests.unit.training.kit import click_prompt, prompt, small_policy


def _requests() -> list[Request]:
    """Prompts of different length and number of pictures."""
    made = [prompt(0, 1), click_prompt(2), prompt(4, 3), prompt(1, 4), click_prompt(5)]
    return [Request(messages, f"noise/{i}") for i, messages in enumerate(made)]


def _said(done: list[Completion]) -> list[tuple[tuple[int, ...], str, bool]]:
    return [(c.response_ids, c.text, c.cut_off) for c in done]


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_a_response_depends_on_neither_batch_nor_order(temperature: float) -> None:
    client = LocalClient(small_policy(), max_new_tokens=20)
    requests = _requests()
    together = client.complete(requests, temperature)
    alone = [client.complete([request], temperature)[0] for request in requests]
    backwards = client.complete(requests[::-1], temperature)[::-1]
    small = LocalClient(small_policy(), max_new_tokens=20, batch=2).complete(requests, temperature)
    assert _said(together) == _said(alone) == _said(backwards) == _said(small)
    assert len({c.response_ids for c in together}) == len(requests), "each prompt has its own answer"


def test_noise_is_named_by_seed_and_request() -> None:
    policy, (request, *_) = small_policy(), _requests()
    client = LocalClient(policy, 16, seed=1)
    first = client.complete([request], 1.0)[0]
    assert client.complete([request], 1.0)[0] == first
    assert client.complete([Request(request.messages, "other")], 1.0)[0].response_ids != first.response_ids
    assert LocalClient(policy, 16, seed=2).complete([request], 1.0)[0].response_ids != first.response_ids


def test_log_probabilities_are_those_of_a_teacher_forced_pass_at_the_same_temperature() -> None:
    policy = small_policy(layers=2)
    temperature = 0.7
    done = LocalClient(policy, max_new_tokens=16).complete(_requests(), temperature)
    items = [
        step_sequence(list(c.prompt_ids), list(c.screens), list(c.response_ids), [1.0] * len(c.response_ids))
        for c in done
    ]
    batch = collate(policy, items)
    with torch.no_grad():
        features = policy.image_features(batch.patches, batch.sizes)  # type: ignore[arg-type]
        hidden = policy.hidden(batch.ids, batch.positions, batch.mask, features)
        logits = policy.logits(hidden[batch.rows, batch.columns])
        forced = response_logprobs(policy, logits, batch.targets, temperature).numpy()
    sampled = np.concatenate([c.logprobs for c in done])
    assert len(sampled) > 20 and np.abs(forced - sampled).max() < 1e-4
    assert sampled.min() < -0.5, "certain tokens would agree with anything"


def test_special_tokens_are_never_sampled_and_have_no_probability() -> None:
    policy = small_policy()
    forbidden = banned_ids(policy)
    words = policy.tokenizer
    assert {words.pad_token_id, policy.image_id, words.convert_tokens_to_ids("<|im_start|>")} <= set(forbidden)
    assert policy.eos_id not in forbidden
    with torch.no_grad():  # a policy that wants nothing but special tokens
        policy.model.model.language_model.norm.weight.mul_(3.0)
        policy.model.model.language_model.embed_tokens.weight[forbidden] *= 8.0
    done = LocalClient(policy, max_new_tokens=24).complete(_requests(), 1.5)
    assert not {i for c in done for i in c.response_ids} & set(forbidden)
    logits = torch.randn(4, len(words), generator=torch.Generator().manual_seed(0))
    everything = torch.stack(
        [response_logprobs(policy, logits, torch.full((4,), i), 1.0) for i in range(len(words))], dim=1
    )
    assert torch.isinf(everything[:, forbidden]).all()
    assert torch.allclose(everything.exp().sum(1), torch.ones(4), atol=1e-5)


def test_greedy_is_the_same_every_time_and_the_most_likely() -> None:
    policy = small_policy()
    request = Request(prompt(1), "a")
    first = LocalClient(policy, 8, seed=1).complete([request], 0.0)[0]
    second = LocalClient(policy, 8, seed=2).complete([Request(request.messages, "b")], 0.0)[0]
    assert first == second
    sampled = [LocalClient(policy, 8, seed=s).complete([request], 1.0)[0] for s in range(3, 8)]
    assert all(first.logprobs[0] >= s.logprobs[0] for s in sampled)


def test_a_response_is_flagged_when_the_token_limit_came_before_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = small_policy()
    cut = LocalClient(policy, 5).complete(_requests()[:1], 0.0)[0]
    assert cut.cut_off and len(cut.response_ids) == 5 and policy.eos_id not in cut.response_ids
    plain, bonus = policy.logits, torch.zeros(len(policy.tokenizer))
    bonus[policy.eos_id] = 8.0
    monkeypatch.setattr(policy, "logits", lambda hidden: plain(hidden) + bonus)  # a policy that likes to end
    ended = LocalClient(policy, 30, seed=1).complete(_requests(), 1.0)
    assert not any(c.cut_off for c in ended) and len({len(c.response_ids) for c in ended}) > 1
    for done in ended:
        assert done.response_ids[-1] == policy.eos_id and policy.eos_id not in done.response_ids[:-1]
        assert len(done.logprobs) == len(done.response_ids)
        assert done.text == policy.tokenizer.decode(done.response_ids[:-1])


def test_screens_of_a_frozen_encoder_come_back_as_what_it_made_of_them() -> None:
    policy, requests = small_policy(layers=2), _requests()
    raw = LocalClient(policy, 12).complete(requests, 0.8)
    policy.freeze(["vision"], 25)
    made = LocalClient(policy, 12).complete(requests, 0.8)
    assert _said(raw) == _said(made)
    losses = []
    for done in (raw, made):
        items = [step_sequence(list(c.prompt_ids), c.screens, list(c.response_ids), [1.0] * len(c.response_ids))
                 for c in done]  # fmt: skip
        batch = collate(policy, items)
        assert (batch.patches is None) == (done is made)
        loss = token_losses(policy, batch).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        losses.append(loss.detach())
    torch.testing.assert_close(*losses, atol=1e-4, rtol=1e-5)


def test_a_screen_that_several_prompts_show_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = small_policy()
    policy.freeze(["vision"], 1.0)
    one, two, three, other = (prompt(0, seed) for seed in (1, 1, 1, 2))
    requests = [Request(messages, f"noise/{i}") for i, messages in enumerate((one, other, two, three))]
    alone = [LocalClient(policy, 12).complete([request], 0.9)[0] for request in requests]
    asked: list[int] = []
    encode = policy.image_features

    def watched(patches: torch.Tensor, sizes: Sequence[tuple[int, int]]) -> torch.Tensor:
        asked.append(len(sizes))
        return encode(patches, sizes)

    monkeypatch.setattr(policy, "image_features", watched)
    done = LocalClient(policy, 12).complete(requests, 0.9)
    assert asked == [2] and _said(done) == _said(alone)
    shown = [completion.screens[0].features for completion in done]
    assert torch.equal(shown[0], shown[2]) and not torch.allclose(shown[0], shown[1])


def test_nothing_asked_nothing_answered() -> None:
    assert LocalClient(small_policy(), 4).complete([], 0.0) == []
