"""What a workflow is: authored once per skill, it makes many tasks, each from one sampled specification.

    sample(rng, bank) -> args                     plain JSON: the values of this task
    branches(args)    -> Branches                 setup, checks, plan and shortcut, coordinated by construction
    wrong(rng, bank, args) -> args                the same scene with another target (for the gate)
    wordings                                      the instruction's phrasings, partitioned by split

A plan is a tuple of stages done in order. A stage is `{channel: goal}`: the channels that can do this part and how.
A goal is plain JSON, `{"goal": name, ...}`, carried out from the state of the desktop by `components.rollout.plans`,
so a task file alone is enough for a teacher.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any

from components.contracts.errors import TaskError
from components.contracts.task import Channel, Check, SetupStep, Split
from components.forge import words
from components.forge.skills import BY_ID, Skill

Args = dict[str, Any]
Goal = dict[str, Any]
Stage = dict[str, Goal]
Plan = tuple[Stage, ...]

PREFIXES = ("", "please ", "can you ", "now ", "i want you to ", "your task is to ")
_SHARES = {"train": 0.64, "dev": 0.12}
"""Share of the wordings of a skill by split; the rest is held out."""


class Bank:
    """Draws words and numbers of one split, each word at most once per task."""

    def __init__(self, split: Split, rng: Random) -> None:
        self.split = split
        self._rng = rng
        self._words = list(words.words_of(split))
        rng.shuffle(self._words)
        self._numbers = list(words.numbers_of(split))
        rng.shuffle(self._numbers)

    def word(self, longest: int = 6) -> str:
        """A word not drawn before, of at most `longest` letters."""
        for index, candidate in enumerate(self._words):
            if len(candidate) <= longest:
                return self._words.pop(index)
        raise TaskError(f"the word bank of {self.split} ran dry", where="forge", remedy="ask a task for fewer words")

    def some(self, count: int, longest: int = 6) -> list[str]:
        return [self.word(longest) for _ in range(count)]

    @property
    def left(self) -> int:
        """Words that can still be drawn."""
        return len(self._words)

    def filler(self, longest: int = 6) -> str:
        """Any word of the split, for contents nobody asks about; it stays in the bank."""
        return self._rng.choice([w for w in words.words_of(self.split) if len(w) <= longest])

    def number(self) -> int:
        """A two-digit number not drawn before."""
        return self._numbers.pop()

    def fives(self) -> tuple[int, ...]:
        """Multiples of 5 of this split: slider positions."""
        return tuple(n for n in words.numbers_of(self.split) if n % 5 == 0)


@dataclass(frozen=True)
class Branches:
    """What one specification gives. `shortcut` is a plan that looks like the work and is not; it must fail."""

    setup: tuple[SetupStep, ...]
    checks: tuple[Check, ...]
    plan: Plan
    shortcut: Plan
    needs_nothing: bool = False
    """The wanted state is there from the start: doing nothing is right (see `gate.py`)."""


@dataclass(frozen=True)
class Wordings:
    """All phrasings of a skill: prefix x the product of `parts`. Each part's texts are templates over the args."""

    skill: str
    parts: tuple[tuple[str, ...], ...]
    prefixes: tuple[str, ...] = PREFIXES

    @cached_property
    def templates(self) -> tuple[str, ...]:
        return tuple(
            p + " ".join(t for t in chosen if t) for p in self.prefixes for chosen in itertools.product(*self.parts)
        )

    @cached_property
    def by_split(self) -> dict[str, tuple[str, ...]]:
        """Partition by the rank of the template's hash: stable when templates are added elsewhere, never empty."""
        ranked = sorted(self.templates, key=lambda t: hashlib.sha256(f"{self.skill}|{t}".encode()).digest())
        train = round(len(ranked) * _SHARES["train"])
        dev = train + max(1, round(len(ranked) * _SHARES["dev"]))
        return {"train": tuple(ranked[:train]), "dev": tuple(ranked[train:dev]), "heldout": tuple(ranked[dev:])}

    def draw(self, rng: Random, split: Split) -> str:
        return rng.choice(self.by_split[words.bank_split(split)])


@dataclass(frozen=True)
class Workflow:
    """The reusable maker of one skill's tasks."""

    skill: Skill
    wordings: Wordings
    sample: Callable[[Random, Bank], Args]
    branches: Callable[[Args], Branches]
    wrong: Callable[[Random, Bank, Args], Args]
    max_steps: int = 12
    version: int = 1
    derived: tuple[str, ...] = field(default=())
    """Args that follow from others (a count, a sum): the split guard does not look at them."""


def workflow(
    skill_id: str,
    parts: tuple[tuple[str, ...], ...],
    sample: Callable[[Random, Bank], Args],
    branches: Callable[[Args], Branches],
    wrong: Callable[[Random, Bank, Args], Args],
    *,
    max_steps: int = 12,
    derived: tuple[str, ...] = (),
) -> Workflow:
    return Workflow(BY_ID[skill_id], Wordings(skill_id, parts), sample, branches, wrong, max_steps, 1, derived)


# -- small builders that the workflow modules share ------------------------------------------------------------


def step(preparer: str, /, **args: Any) -> SetupStep:
    return SetupStep(preparer=preparer, args=args)


def check(name: str, /, **args: Any) -> Check:
    return Check(check=name, args=args)


def others(*files: str, prefs: tuple[str, ...] = (), forms: bool = False) -> Check:
    """Nothing but the named files, preference keys or the form changed."""
    args: dict[str, Any] = {}
    if files:
        args["files"] = list(files)
    if prefs:
        args["prefs"] = list(prefs)
    if forms:
        args["forms"] = True
    return Check(check="others_unchanged", args=args)


def goal(name: str, /, **args: Any) -> Goal:
    return {"goal": name, **args}


def by_hand(name: str, /, **args: Any) -> Stage:
    """A stage that only the screen can do."""
    return {"gui": goal(name, **args)}


def bash(command: str) -> Stage:
    """A stage that only the terminal can do."""
    return {"terminal": goal("bash", command=command)}


def either(gui: Goal, command: str) -> Stage:
    return {"gui": gui, "terminal": goal("bash", command=command)}


def routes(plan: Plan) -> tuple[tuple[Channel, ...], ...]:
    """The routes a plan offers: all by hand, all by terminal, or the two together where neither does it all."""
    gui = all("gui" in stage for stage in plan)
    terminal = all("terminal" in stage for stage in plan)
    found: list[tuple[Channel, ...]] = []
    if gui:
        found.append(("gui",))
    if terminal:
        found.append(("terminal",))
    elif any("terminal" in stage for stage in plan):
        found.append(("gui", "terminal"))
    return tuple(found)
