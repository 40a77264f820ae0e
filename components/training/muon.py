"""torch's Muon with all matrices of one shape orthogonalised together: twice as fast where they are small."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import torch


class BatchedMuon(torch.optim.Muon):
    """The arithmetic, the settings and the state of `torch.optim.Muon` (Jordan et al. 2024), without a closure.

    Updates are scaled to the size of AdamW's, as `adjust_lr_fn="match_rms_adamw"` does (Moonlight, arXiv 2502.16982).
    """

    def __init__(self, params: list[torch.nn.Parameter], lr: float, weight_decay: float, momentum: float) -> None:
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
            for shape, params in shapes.items():
                self._step_together(params, shape, group)

    def _step_together(self, params: list[torch.nn.Parameter], shape: tuple[int, int], group: dict[str, Any]) -> None:
        updates = []
        for p in params:
            assert p.grad is not None
            state = self.state[p]
            if not state:
                state["momentum_buffer"] = torch.zeros_like(p.grad)
            state["momentum_buffer"].lerp_(p.grad, 1 - group["momentum"])
            update = p.grad.lerp(state["momentum_buffer"], group["momentum"])
            updates.append(update.mT if p.shape[0] > p.shape[1] else update)
        whole = orthogonalised(torch.stack(updates), group["ns_coefficients"], group["ns_steps"], group["eps"])
        rate = 0.2 * math.sqrt(shape[1]) * group["lr"]
        for p, update in zip(params, whole, strict=True):
            p.mul_(1 - group["lr"] * group["weight_decay"])
            p.add_(update.mT if p.shape[0] > p.shape[1] else update, alpha=-rate)


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
