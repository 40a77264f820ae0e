"""Which weights go by which optimizer, at which rate."""

from __future__ import annotations

import copy

import pytest
import torch

from components.contracts.errors import CheckpointError
from components.training.muon import BatchedMuon
from components.training.optimizer import Together, make_optimizer, set_rates
from components.training.parallel import Ranks, run_ranks
from tests.unit.training.kit import small_policy


def names_in(policy: object, group: dict[str, object]) -> set[str]:
    chosen = {id(p) for p in group["params"]}  # type: ignore[attr-defined]
    return {name for name, p in policy.model.named_parameters() if id(p) in chosen}  # type: ignore[attr-defined]


def test_muon_takes_the_matrices_and_adamw_the_embeddings_the_kernel_and_the_vectors() -> None:
    policy = small_policy()
    optimizer = make_optimizer(policy, 1e-3, 0.02, muon_lr=6e-3)
    assert isinstance(optimizer, Together)
    (muon,) = optimizer.parts["muon"].param_groups
    taken = names_in(policy, muon)
    shapes = {name: p.dim() for name, p in policy.model.named_parameters()}
    assert taken == {name for name, dims in shapes.items() if dims == 2 and "embed_tokens" not in name}
    everything = set().union(*(names_in(policy, group) for group in optimizer.param_groups))
    assert everything == set(shapes), "nothing is left untrained"
    decayed = [names_in(policy, g) for g in optimizer.parts["adamw"].param_groups if g["weight_decay"]]
    assert decayed == [{name for name, dims in shapes.items() if dims > 2}]


def test_every_group_keeps_its_own_peak() -> None:
    optimizer = make_optimizer(small_policy(), 1e-3, 0.02, muon_lr=6e-3)
    set_rates(optimizer, 0.5)
    assert {group["lr"] for group in optimizer.param_groups} == {5e-4, 3e-3}


def test_a_frozen_weight_is_in_no_group() -> None:
    policy = small_policy()
    policy.freeze(["vision"], 25)
    optimizer = make_optimizer(policy, 1e-3, 0.02, muon_lr=6e-3)
    taken = set().union(*(names_in(policy, group) for group in optimizer.param_groups))
    assert taken and not any(".visual." in name for name in taken)


def test_a_saved_state_brings_the_next_step_back_bit_for_bit() -> None:
    def loss_of(policy: object) -> torch.Tensor:
        return sum((p * p).sum() for p in policy.model.parameters())  # type: ignore[attr-defined, no-any-return]

    first = small_policy()
    optimizer = make_optimizer(first, 1e-3, 0.02, muon_lr=6e-3)
    loss_of(first).backward()
    optimizer.step()
    again = small_policy()
    again.model.load_state_dict(first.model.state_dict())
    other = make_optimizer(again, 1e-3, 0.02, muon_lr=6e-3)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for policy, stepper in ((first, optimizer), (again, other)):
        stepper.zero_grad()
        loss_of(policy).backward()
        stepper.step()
    pairs = zip(first.model.parameters(), again.model.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_the_state_of_another_optimizer_is_refused() -> None:
    policy = small_policy()
    adamw = make_optimizer(policy, 1e-3, 0.02)
    with pytest.raises(CheckpointError, match="the saved optimizer"):
        make_optimizer(policy, 1e-3, 0.02, muon_lr=6e-3).load_state_dict(adamw.state_dict())


def test_batched_muon_is_torchs_muon() -> None:
    shapes = [(16, 16), (32, 16), (16, 32), (16, 16), (24, 40)]
    torch.manual_seed(0)
    ours = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
    theirs = [torch.nn.Parameter(p.detach().clone()) for p in ours]
    batched = BatchedMuon(ours, lr=0.02, weight_decay=0.1, momentum=0.9, ranks=Ranks(0, 1))
    plain = torch.optim.Muon(theirs, lr=0.02, weight_decay=0.1, momentum=0.9, adjust_lr_fn="match_rms_adamw")
    for _ in range(3):
        for a, b in zip(ours, theirs, strict=True):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        before = [p.detach().clone() for p in theirs]
        batched.step()
        plain.step()
        for a, b, old in zip(ours, theirs, before, strict=True):
            assert (a - b).abs().max().item() < 0.02 * (b - old).abs().max().item(), "apart by bfloat16 rounding only"
            b.data.copy_(a.data)
    assert batched.state_dict()["param_groups"][0].keys() == plain.state_dict()["param_groups"][0].keys()


@pytest.mark.parametrize("count", [1, 4, 5])
def test_ranks_that_share_a_step_all_end_with_the_weights_of_one_alone(count: int) -> None:
    """More ranks than matrices of a shape, as many, an uneven rest."""

    def stepped(ranks: Ranks) -> list[list[torch.Tensor]]:
        torch.manual_seed(5)
        weights = [torch.nn.Parameter(torch.randn(shape)) for shape in [(8, 16)] * count + [(12, 4)]]
        optimizer = BatchedMuon(weights, lr=0.02, weight_decay=0.1, momentum=0.9, ranks=ranks)
        for _ in range(3):
            for weight in weights:
                weight.grad = torch.randn(weight.shape)
            optimizer.step()
        return ranks.gather([weight.detach() for weight in weights])

    alone = stepped(Ranks(0, 1))[0]
    for shared in run_ranks(stepped, 2):
        assert all(torch.equal(a, b) for a, b in zip(alone, shared, strict=True))
