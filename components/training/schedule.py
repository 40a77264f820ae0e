"""Learning-rate schedules, by step."""

from __future__ import annotations

import math


def cosine(step: int, steps: int, peak: float, warmup: int, floor: float = 0.05) -> float:
    """Linear warm-up over `warmup` steps, then cosine to `floor` of the peak at `steps`."""
    if step < warmup:
        return peak * (step + 1) / warmup
    share = (step - warmup) / max(1, steps - warmup)
    return peak * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * min(1.0, share))))
