from __future__ import annotations

import itertools
import re

from components.forge import words
from components.forge.workflows import WORKFLOWS

TOKEN = re.compile(r"\.[a-z]+|[a-z]+|\d+|\S")


def known(text: str) -> list[str]:
    """Tokens of a text that the tiny vocabulary does not have."""
    allowed = {*words.ALL_WORDS, *words.LETTERS, *words.EXTENSIONS, *words.PUNCTUATION}
    return [t for t in TOKEN.findall(text) if not t.isdigit() and t not in allowed]


def test_bank_words_are_short_lower_case_and_of_one_split_only():
    everything = [w for group in words.BANK.values() for w in group]
    assert len(everything) == len(set(everything)) == 64
    assert all(re.fullmatch("[a-z]{3,6}", w) for w in everything)
    assert {k: len(v) for k, v in words.BANK.items()} == {"train": 40, "dev": 8, "heldout": 16}


def test_bank_words_mean_nothing_else():
    grammar = (words.UI_WORDS, words.COMMAND_WORDS, words.ACTION_WORDS, words.INSTRUCTION_WORDS, words.RATIONALE_WORDS)
    assert not {w for group in words.BANK.values() for w in group} & {w for group in grammar for w in group}


def test_numbers_fall_in_one_split_each_and_every_split_has_slider_positions():
    parts = [set(words.numbers_of(split)) for split in ("train", "dev", "heldout")]
    assert set().union(*parts) == set(range(10, 100))
    assert all(not a & b for a, b in itertools.combinations(parts, 2))
    assert all(any(n % 5 == 0 for n in part) for part in parts)
    assert words.numbers_of("heldout_skills") == words.numbers_of("heldout")


def test_the_vocabulary_stays_small():
    assert len(words.ALL_WORDS) == len(set(words.ALL_WORDS)) <= 345


def test_every_instruction_template_uses_known_words_only():
    for made in WORKFLOWS.values():
        for template in made.wordings.templates:
            assert known(re.sub(r"\{\w+\}", "", template)) == [], template
