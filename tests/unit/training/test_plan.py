"""Which samples the steps of a supervised stage take."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from components.contracts.params import Sft
from components.training.plan import BASE_DENSITY, WINDOW, PlannedStep, plan_steps


def sft(**changes: object) -> Sft:
    fields = {
        "steps": 9, "batch": 4, "lr": 1e-3, "weight_decay": 0.02, "warmup": 2, "clip_norm": 1.0,
        "replay_base": 0.0, "replay_grounding": 0.0, "replay_gui": 0.0, "checkpoint_every": 2, "log_every": 3,
    }  # fmt: skip
    return Sft.model_validate(fields | changes)


class Texts:
    """A corpus of texts of random length."""

    def __init__(self, size: int, seed: int = 0) -> None:
        rng = Random(seed)
        self.lengths = [rng.randint(40, 320) for _ in range(size)]
        self.asked: set[int] = set()

    def __len__(self) -> int:
        return len(self.lengths)

    def length(self, index: int) -> int:
        self.asked.add(index)
        return self.lengths[index]


def items_of(plan: list[PlannedStep], source: str) -> list[int]:
    return [item for step in plan if step.source == source for item in step.items]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 300), st.integers(1, 8), st.integers(1, 40), st.integers(0, 3),
    st.tuples(*[st.sampled_from([0.0, 0.08, 0.15, 0.3, 1 / 3])] * 3),
)  # fmt: skip
def test_shares_are_exact_and_every_sample_has_as_many_turns(
    steps: int, batch: int, size: int, seed: int, shares: tuple[float, float, float]
) -> None:
    own = sft(steps=steps, batch=batch, replay_base=shares[0], replay_grounding=shares[1], replay_gui=shares[2])
    corpora = {name: Texts(size, seed) for name in ("corpus", "grounding", "gui")}
    plan = plan_steps(own, seed, "gui-sft", corpora)
    assert len(plan) == steps
    sizes = {"base": max(1, batch // BASE_DENSITY)}
    assert all(len(step.items) == sizes.get(step.source, batch) for step in plan)
    for name, share in zip(("base", "grounding", "gui"), shares, strict=True):
        found = [step for step in plan if step.source == name]
        assert abs(len(found) - share * steps) <= 2, "at most what the other shares pushed back"
    assert items_of(plan, "base") == list(range(len(items_of(plan, "base")))), "base questions are new ones always"
    for name in ("corpus", "grounding", "gui"):
        turns = Counter({item: 0 for item in range(size)}) + Counter(items_of(plan, name))
        taken = len(items_of(plan, name))
        assert all(taken // size <= turns[item] <= -(-taken // size) for item in range(size)), "whole walks"
    assert plan == plan_steps(own, seed, "gui-sft", corpora)


def test_shares_of_the_recipe_are_exact_to_the_batch() -> None:
    for share, steps, wanted in ((0.3, 260, 78), (0.08, 600, 48), (0.15, 350, 52), (0.08, 700, 56)):
        plan = plan_steps(sft(steps=steps, replay_base=share), 0, "x", {"corpus": Texts(50)})
        assert abs(sum(step.source == "base" for step in plan) - wanted) <= 1


def test_samples_of_a_batch_are_of_like_length_and_batches_of_any() -> None:
    texts = Texts(4000)
    plan = plan_steps(sft(steps=400, batch=8), 0, "x", {"corpus": texts})
    sizes = [[texts.lengths[i] for i in step.items] for step in plan]
    padded = sum(8 * max(batch) for batch in sizes)
    assert sum(map(sum, sizes)) / padded > 0.85, "in random batches it is 0.62"
    assert all(batch == sorted(batch) for batch in sizes), "so that ranks that deal them out have equal work"
    means = [sum(batch) / 8 for batch in sizes]
    for start in range(0, 400, 10 * WINDOW):
        few = means[start : start + 10 * WINDOW]
        assert max(few) - min(few) > 100, "no stretch of short ones alone"


def test_of_a_replayed_corpus_only_what_is_taken_is_looked_at() -> None:
    replayed = Texts(5000)
    plan = plan_steps(sft(steps=100, replay_gui=0.1), 0, "x", {"corpus": Texts(300), "gui": replayed})
    assert replayed.asked == set(items_of(plan, "gui")) and 30 <= len(replayed.asked) <= 40
