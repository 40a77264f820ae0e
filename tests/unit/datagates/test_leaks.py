"""What counts as nearly the same text."""

from __future__ import annotations

from random import Random

import pytest

from components.curation.datagates.leaks import FLOOR, TextIndex, content_digest, shingles, spec_key
from tests.unit.rollout_store.small import tasks

TRAIN = "open the plan in notes, then set the volume to 45 and save it as tax.txt"


@pytest.mark.parametrize(
    "text",
    [
        TRAIN,
        TRAIN.upper(),
        "  open the plan  in notes then set the volume to 45, and save it as tax.txt!",
        "ｏｐｅｎ the plan in notes, then set the volume to 45 and save it as tax.txt",
    ],
)
def test_letters_and_signs_make_no_difference(text: str) -> None:
    assert TextIndex(["something else", TRAIN]).nearest(text) == (1.0, TRAIN)


def test_a_word_more_is_nearly_the_same_and_other_words_are_not() -> None:
    index = TextIndex([TRAIN])
    assert index.nearest(f"please {TRAIN}")[0] > 0.8
    assert index.nearest(TRAIN.replace("45", "50"))[0] > 0.75
    assert index.nearest("move lemon.csv to the parts folder") == (0.0, "")
    assert TextIndex([]).nearest(TRAIN) == (0.0, "")


def test_the_nearest_text_is_found_among_many_exactly_as_by_looking_at_all() -> None:
    rng = Random(5)
    words = "open close the a plan tax trip in to of notes sheet save".split()
    texts = [" ".join(rng.choices(words, k=rng.randint(1, 9))) for _ in range(400)]
    index = TextIndex(texts[:300])
    found = 0
    for text in texts[300:]:
        own = shingles(text)
        best = max(len(own & shingles(t)) / len(own | shingles(t)) for t in texts[:300])
        likeness, nearest = index.nearest(text)
        assert likeness == (best if best >= FLOOR else 0.0)
        found += bool(nearest)
    assert 10 < found < 100


def test_a_relabelled_task_is_the_same_and_another_one_is_not() -> None:
    first, second = tasks(skills=("rename-file",), each=2)
    relabelled = first.model_copy(update={"split": "heldout", "seed": 99, "task_id": "sha256:1"})
    assert content_digest(relabelled) == content_digest(first) != content_digest(second)
    reworded = first.model_copy(update={"instruction": "please do it", "wording": "w", "setup": ()})
    assert spec_key(reworded) == spec_key(first) != spec_key(second)
