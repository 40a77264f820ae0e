"""The last layer worked out for a few places alone."""

from __future__ import annotations

import torch
from transformers import StaticCache

from components.training.corpus import click_prefix
from components.training.model import Policy
from components.training.sequences import Batch, Encoder, Packed, collate, pack
from tests.unit.training.kit import screen, small_policy


def packs(policy: Policy) -> list[Packed]:
    """Branches behind a picture, of several lengths and counts; and one that supervises a single token."""
    encoder, made = Encoder(policy), []
    for count, words in ((3, "press the big red button"), (1, "open"), (2, "go on")):
        prefix = click_prefix("You point.", screen(count), encoder)
        branches = []
        for k in range(count):
            ids = encoder.text(f"{words} now " * (k + 1))
            branches.append((ids, [0.0] * (len(ids) - 1 - k) + [1.0] * (1 + k)))
        made.append(pack(prefix, branches, [screen(count)]))
    return made


def both(policy: Policy, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """States of the supervised places: from a pass over all places, and from one over these alone."""
    assert batch.patches is not None
    features = policy.image_features(batch.patches, batch.sizes)
    given = batch.ids, batch.positions, batch.mask, features
    return policy.hidden(*given)[batch.rows, batch.columns], policy.hidden_at(*given, batch.rows, batch.columns)


def test_states_and_gradients_are_those_of_the_whole_pass() -> None:
    policy = small_policy(layers=3)
    batch = collate(policy, packs(policy))
    gradients = []
    for way in range(2):
        policy.model.zero_grad()
        policy.logits(both(policy, batch)[way]).logsumexp(-1).sum().backward()
        gradients.append({n: p.grad.clone() for n, p in policy.model.named_parameters() if p.grad is not None})
    whole, few = both(policy, batch)
    torch.testing.assert_close(few, whole, atol=1e-6, rtol=1e-5)
    assert gradients[0].keys() == gradients[1].keys() and len(gradients[0]) > 20
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, atol=1e-4, rtol=1e-4, msg=name)


def test_a_pass_over_all_places_is_untouched_after_one_over_a_few() -> None:
    policy = small_policy(layers=2)
    batch = collate(policy, packs(policy))
    before, _ = both(policy, batch)
    after, _ = both(policy, batch)
    assert torch.equal(before, after)


def test_keys_and_values_of_all_places_reach_the_cache() -> None:
    policy = small_policy(layers=2)
    ids = torch.randint(10, 200, (2, 7), generator=torch.Generator().manual_seed(1))
    positions = torch.arange(7).expand(3, 2, 7)
    mask = torch.zeros((2, 1, 7, 9), dtype=torch.bool)
    mask[..., :7] = torch.ones(7, 7).tril().bool()
    caches = [StaticCache(config=policy.model.config.text_config, max_cache_len=9) for _ in range(2)]
    rows, columns = torch.arange(2), torch.tensor([6, 6])
    with torch.inference_mode():
        whole = policy.hidden(ids, positions, mask, None, caches[0])[rows, columns]
        few = policy.hidden_at(ids, positions, mask, None, rows, columns, caches[1])
    torch.testing.assert_close(few, whole, atol=1e-6, rtol=1e-5)
    for one, other in zip(caches[0].layers, caches[1].layers, strict=True):
        torch.testing.assert_close(other.keys, one.keys)
        torch.testing.assert_close(other.values, one.values)
