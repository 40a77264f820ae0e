"""What the base learns last: where on a slider a number lies, what a row or a field shows, which files are there.

A pretrained model knows these; a tiny one does not get them from the questions of `base_data` alone.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from components.contracts.coords import slider_place
from components.contracts.desktop import Element
from components.sandbox.minidesk.draw import HANDLE
from components.sandbox.minidesk.synth import SynthScreen, SynthWords
from components.training.base_data import FILE_EXTENSIONS, Link, Question, anchor, grid_point, locate, questions, state

REPLAY_DRILLS = 0.30
REPLAY_MIX = (0.25, 0.08, 0.10, 0.57)
"""Of the base questions that stages replay: share of drills, mix of the others (`base_data.MIX`). Two fifths of all are
to copy: how to copy a word that no training task has is what the base knew, and each stage wears it down."""


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


def presence(rng: random.Random, screen: SynthScreen, words: SynthWords) -> Question | None:
    """Whether a file is on the screen. What is asked in vain has the name or the ending of one that is."""
    rows = [e for e in screen.elements if e.kind == "row"]
    if not rows:
        return None
    row = rng.choice(rows)
    name, there = row.label, rng.random() < 0.5
    if not there:
        stem, dot, ending = name.partition(".")
        name = f"{rng.choice(words.stems)}{dot}{ending}" if rng.random() < 0.7 else stem + rng.choice(FILE_EXTENSIONS)
        if name in {e.label for e in screen.elements}:
            return None
    text = rng.choice(("is {} shown", "find {}", "the {} row", "what is {}")).format(name)
    answer = f"{name} is shown" if there else f"{name} is not shown"
    links = [Link(0, len(name), source=text.index(name))]
    if there:
        links.append(Link(len(name) + 4, len(answer), point=anchor(row)))
    return Question("presence", text, answer, tuple(links), judged=(len(name) + 4, len(answer) + 1))


def by_ending(rng: random.Random, screen: SynthScreen) -> Question | None:
    """The first file from the top with an ending, whose name is read; or that there is none."""
    rows = sorted((e for e in screen.elements if e.kind == "row" and "." in e.label), key=lambda e: e.box[1])
    if not rows:
        return None
    ending = "." + rng.choice(rows).label.partition(".")[2] if rng.random() < 0.75 else rng.choice(FILE_EXTENSIONS)
    row = next((e for e in rows if e.label.endswith(ending)), None)
    text = rng.choice(("find the {} row", "which row is {}", "all {} files", "find every {} file")).format(ending)
    lead = rng.choice(("", "", "now "))
    if row is None:
        return Question("ending", text, f"{lead}no {ending} is shown", judged=(len(lead), len(lead) + 2))
    stem = len(row.label.partition(".")[0])
    answer = f"{lead}{row.label} is shown"
    at = len(lead)
    links = (
        Link(at, at + stem, point=anchor(row)),
        Link(at + stem, at + len(row.label), source=text.index(ending)),
    )
    return Question("ending", text, answer, links, judged=(at, at + stem))


def drill(
    rng: random.Random, screen: SynthScreen, words: SynthWords, glue: Sequence[str], more: bool
) -> Question | None:
    """A drill that this screen has something for, or None.

    `more`: also where the handle of a full slider is, whether a file is there, and which one has an ending.
    """
    kind = rng.random() if more else 1.0
    if kind < 0.15 and screen.handles:
        return replace(locate(rng, screen, rng.choice(screen.handles), glue), kind="handle")
    if kind < 0.40:
        return presence(rng, screen, words)
    if kind < 0.62:
        return by_ending(rng, screen)
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
    more: bool,
) -> list[Question]:
    """`count` questions on one screen, about `share` of them drills, in random order."""
    wanted = sum(rng.random() < share for _ in range(count))
    out = [question for _ in range(wanted) if (question := drill(rng, screen, words, glue, more)) is not None]
    out += questions(rng, screen, words, glue, count - len(out), mix)
    rng.shuffle(out)
    return out
