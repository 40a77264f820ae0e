"""Which skills an RL iteration practises: those that sometimes succeed, more often than those that always or never do.

A group that always or never succeeds has little or no advantage to learn from (DAPO, arXiv 2503.14476, samples such
groups away); p (1 - p) of a skill's success rate p says beforehand where the spread is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from components.contracts.rng import stream

MEMORY = 0.5
"""Weight of the newest group in a skill's success rate."""


class SkillTurns:
    """Turns of skills by weight (1 - focus) + focus * 4 p (1 - p); unseen skills weigh 1. `focus` 0: strict turns.

    Every choice adds its weight's share to a skill's credit and takes one credit from the chosen: over time a skill
    gets turns in proportion to its weight, and none is forgotten unless `focus` is 1.
    """

    def __init__(self, skills: Iterable[str], focus: float, seed: int) -> None:
        self.focus, self.seed = focus, seed
        names = sorted(set(skills))
        if not names:
            raise ValueError("no skills to choose from")
        self.credits = dict.fromkeys(names, 0.0)
        self.rates: dict[str, float] = {}

    def weight(self, skill: str) -> float:
        rate = self.rates.get(skill)
        return 1.0 if rate is None else (1.0 - self.focus) + self.focus * 4.0 * rate * (1.0 - rate)

    def choose(self, count: int, iteration: int) -> list[str]:
        """The skills of an iteration's `count` groups; ties fall by a seeded order."""
        names = list(self.credits)
        stream(self.seed, "rl", f"skills-{iteration}").shuffle(names)
        weights = {name: self.weight(name) for name in names}
        total = sum(weights.values())
        if total <= 0.0:
            weights, total = dict.fromkeys(names, 1.0), float(len(names))
        chosen = []
        for _ in range(count):
            for name in names:
                self.credits[name] += weights[name] / total
            best = max(names, key=lambda name: self.credits[name])
            self.credits[best] -= 1.0
            chosen.append(best)
        return chosen

    def saw(self, skill: str, success: float) -> None:
        """Take a group's share of successes, 0..1, into the skill's rate."""
        old = self.rates.get(skill)
        self.rates[skill] = success if old is None else old + MEMORY * (success - old)

    def state(self) -> dict[str, Any]:
        return {"credits": dict(self.credits), "rates": dict(self.rates)}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.credits = {name: float(value) for name, value in state["credits"].items()}
        self.rates = {name: float(value) for name, value in state["rates"].items()}
