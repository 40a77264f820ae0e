"""The optimizers of every loop: AdamW, or Muon for the matrices and AdamW for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from components.contracts.errors import CheckpointError
from components.training.model import Policy
from components.training.parallel import Ranks

if TYPE_CHECKING:
    import torch

BETAS = (0.9, 0.98)
MOMENTUM = 0.9
"""Muon's. Its usual 0.95 averages over more steps than a stage of hundreds can spare: measured, 0.58 against 0.556."""


class Optimizer(Protocol):
    """What a loop needs of an optimizer."""

    @property
    def param_groups(self) -> list[dict[str, Any]]: ...

    def zero_grad(self, set_to_none: bool = True) -> None: ...

    def step(self) -> object: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> object: ...


class Together:
    """Several optimizers as one, each with its own parameters."""

    def __init__(self, parts: Mapping[str, torch.optim.Optimizer]) -> None:
        self.parts = dict(parts)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [group for part in self.parts.values() for group in part.param_groups]

    def zero_grad(self, set_to_none: bool = True) -> None:
        for part in self.parts.values():
            part.zero_grad(set_to_none=set_to_none)

    def step(self) -> None:
        for part in self.parts.values():
            part.step()

    def state_dict(self) -> dict[str, Any]:
        return {name: part.state_dict() for name, part in self.parts.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Raises CheckpointError when the state is of other optimizers."""
        if set(state) != set(self.parts):
            raise CheckpointError(f"the saved optimizer is {sorted(state)}, this one is {sorted(self.parts)}")
        for name, part in self.parts.items():
            part.load_state_dict(state[name])


def make_optimizer(
    policy: Policy, lr: float, weight_decay: float, muon_lr: float = 0.0, ranks: Ranks | None = None
) -> Optimizer:
    """AdamW (0.9, 0.98) over what is trained; weight decay on matrices only, embeddings apart.

    With `muon_lr` the matrices go by Muon (see `muon`) at that rate. Every group keeps its highest rate as `peak`.
    `ranks` share the work of a Muon step.
    """
    import torch

    from components.training.muon import BatchedMuon

    trained = [p for p in policy.model.parameters() if p.requires_grad]
    embeddings = policy.model.model.language_model.embed_tokens.weight
    matrices = [p for p in trained if p.dim() >= 2 and p is not embeddings]
    others = [p for p in trained if p.dim() < 2 or p is embeddings]
    if not muon_lr:
        groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
        return _with_peaks(torch.optim.AdamW(groups, lr=lr, betas=BETAS, fused=True))
    kernels = [p for p in matrices if p.dim() > 2]
    rest = [{"params": kernels, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    flat = [p for p in matrices if p.dim() == 2]
    muon = BatchedMuon(flat, muon_lr, weight_decay, MOMENTUM, ranks or Ranks(0, 1))
    adamw = torch.optim.AdamW([group for group in rest if group["params"]], lr=lr, betas=BETAS, fused=True)
    return Together({"adamw": _with_peaks(adamw), "muon": _with_peaks(muon)})


def set_rates(optimizer: Optimizer, share: float) -> None:
    """Set every group's learning rate to this share of its peak."""
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * share


def _with_peaks(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    for group in optimizer.param_groups:
        group["peak"] = group["lr"]
    return optimizer
