"""torch's Muon with all matrices of one shape orthogonalised together, twice as fast where they are small, and the
matrices shared out among the ranks: every rank holds the same gradients and needs all of the updates."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import torch

from components.training.parallel import Ranks


class BatchedMuon(torch.optim.Muon):
    """The arithmetic, the settings and the state of `torch.optim.Muon` (Jordan et al. 2024), without a closure.

    Updates are scaled to the size of AdamW's, as `adjust_lr_fn="match_rms_adamw"` does (Moonlight, arXiv 2502.16982).
    """

    def __init__(
        self, params: list[torch.nn.Parameter], lr: float, weight_decay: float, momentum: float, ranks: Ranks
    ) -> None:
        self._ranks = ranks
        super().__init__(params, lr=lr, weight_decay=weight_decay, momentum=momentum, adjust_lr_fn="match_rms_adamw")

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        if closure is not None:
            raise ValueError("no closure: the loop has the loss already")
        for group in self.param_groups:
            shapes: dict[tuple[int, int], list[torch.nn.Parameter]] = defaultdict(list)
            for p in group["params"]:
                if p.grad is not None:
                    shapes[min(p.shape), max(p.shape)].append(p)
            stacks = [self._wishes(params, group) for params in shapes.values()]
            for (shape, params), whole in zip(shapes.items(), self._orthogonalised(stacks, group), strict=True):
                rate = 0.2 * math.sqrt(shape[1]) * group["lr"]
                for p, update in zip(params, whole, strict=True):
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    p.add_(update.mT if p.shape[0] > p.shape[1] else update, alpha=-rate)

    def _wishes(self, params: list[torch.nn.Parameter], group: dict[str, Any]) -> torch.Tensor:
        """(n, rows, columns >= rows): gradients with Nesterov momentum."""
        updates = []
        for p in params:
            assert p.grad is not None
            state = self.state[p]
            if not state:
                state["momentum_buffer"] = torch.zeros_like(p.grad)
            state["momentum_buffer"].lerp_(p.grad, 1 - group["momentum"])
            update = p.grad.lerp(state["momentum_buffer"], group["momentum"])
            updates.append(update.mT if p.shape[0] > p.shape[1] else update)
        return torch.stack(updates)

    def _orthogonalised(self, stacks: list[torch.Tensor], group: dict[str, Any]) -> list[torch.Tensor]:
        """Each rank does every `size`-th matrix; the sum puts them together, since the others add zeros."""
        flat = torch.zeros(sum(stack.numel() for stack in stacks), dtype=torch.bfloat16)
        parts = flat.split([stack.numel() for stack in stacks])
        whole = [part.view_as(stack) for part, stack in zip(parts, stacks, strict=True)]
        rank, size = self._ranks.rank, self._ranks.size
        for target, stack in zip(whole, stacks, strict=True):
            if (mine := stack[rank::size]).numel():
                target[rank::size] = orthogonalised(mine, group["ns_coefficients"], group["ns_steps"], group["eps"])
        self._ranks.sum(flat)
        return whole


def orthogonalised(
    matrices: torch.Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> torch.Tensor:
    """(n, rows, columns >= rows) -> the same shape in bfloat16, every singular value near 1: `steps` Newton-Schulz
    iterations x <- a x + (b g + c g g) x with g = x x^T, as in torch."""
    a, b, c = coefficients
    x = matrices.bfloat16()
    x = x / torch.linalg.matrix_norm(x, keepdim=True).clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x
