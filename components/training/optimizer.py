"""The one optimizer of every loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.training.model import Policy

if TYPE_CHECKING:
    import torch


def make_optimizer(policy: Policy, lr: float, weight_decay: float) -> torch.optim.AdamW:
    """AdamW (0.9, 0.98) over what is trained; weight decay on matrices only, embeddings apart."""
    import torch

    trained = [p for p in policy.model.parameters() if p.requires_grad]
    embeddings = policy.model.model.language_model.embed_tokens.weight
    matrices = [p for p in trained if p.dim() >= 2 and p is not embeddings]
    others = [p for p in trained if p.dim() < 2 or p is embeddings]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.98), fused=True)
