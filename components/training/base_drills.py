"""What the base learns last: where on a slider a number lies, what a row or a field shows.

A pretrained model knows these; a tiny one does not get them from the questions of `base_data` alone.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from components.contracts.coords import slider_place
from components.contracts.desktop import Element
from components.sandbox.minidesk.draw import HANDLE
from components.sandbox.minidesk.synth import SynthScreen, SynthWords
from components.training.base_data import Link, Question, grid_point, questions, state

REPLAY_DRILLS = 0.15
REPLAY_MIX = (0.25, 0.10, 0.15, 0.50)
"""Of the base questions that stages replay: share of drills, mix of the others (`base_data.MIX`). Half are to copy: how
to copy a word that no training task has is what the base knew, and each stage wears it down."""


def slide(rng: random.Random, track: Element) -> Question:
    """The point of a number on a slider: where the slider begins is seen, the number is copied."""
    number = rng.randint(0, 100) if rng.random() < 0.2 else 5 * rng.randint(0, 20)
    text = rng.choice(("drag the {} to {}", "set {} to {}", "the {} must be {}")).format(track.label, number)
    box = slider_place(track.box, HANDLE, number)
    x, y = grid_point(box)
    restated = rng.random() < 0.7
    lead = rng.choice(("drag it to {} at ", "{} at ", "the {} slider at ")).format(number) if restated else "at "
    answer = f"{lead}{x}, {y}"
    begin = track.box[0], track.center[1]
    comma, source = len(lead) + len(str(x)), text.rindex(str(number))
    links = [
        Link(len(lead), comma, point=begin),
        Link(len(lead), comma, source=source),
        Link(comma + 2, len(answer), point=begin),
    ]
    if restated:
        at = lead.index(str(number))
        links.append(Link(at, at + len(str(number)), source=source))
    return Question("slide", text, answer, tuple(links), box=box)


def drill(rng: random.Random, screen: SynthScreen) -> Question | None:
    """A drill that this screen has something for, or None."""
    if screen.tracks and rng.random() < 0.75:
        return slide(rng, rng.choice(screen.tracks))
    shown = [e for e in screen.elements if e.kind == "row" or (e.kind == "field" and e.state)]
    return state(rng, rng.choice(shown)) if shown else None


def mixed(
    rng: random.Random,
    screen: SynthScreen,
    words: SynthWords,
    glue: Sequence[str],
    count: int,
    share: float,
    mix: tuple[float, float, float, float],
) -> list[Question]:
    """`count` questions on one screen, about `share` of them drills, in random order."""
    wanted = sum(rng.random() < share for _ in range(count))
    out = [question for _ in range(wanted) if (question := drill(rng, screen)) is not None]
    out += questions(rng, screen, words, glue, count - len(out), mix)
    rng.shuffle(out)
    return out
