"""What the aligned base knows, as data: locate, read, state and copy questions in many phrasings.

Used by the base script, and replayed in the recipe's stages with the plain language-model loss (the original recipe's
"replay general data"). No agent syntax appears here: stage 1 has that to learn. `Question.links` tells which answer
characters come from which place (a screen point or a span of the question); only the base script uses them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from components.contracts.coords import point_in_box
from components.contracts.desktop import Box, Element
from components.sandbox.minidesk.draw import HEIGHT, PAD, WIDTH
from components.sandbox.minidesk.font import CELL_W
from components.sandbox.minidesk.synth import SynthScreen, SynthWords

BASE_WORDS = tuple(
    "find where locate what repeat swap state value copy after empty plain selected with list it".split()
)
"""Words of the questions beside the ones of the forge."""

COORD_STEP = 25
MIX = (0.40, 0.15, 0.15, 0.30)
"""Shares of locate, read, state and copy questions."""
FILE_EXTENSIONS = (".txt", ".log", ".csv", ".md", ".xlsx")


def grid_point(box: Box, step: int = COORD_STEP, size: tuple[int, int] = (WIDTH, HEIGHT)) -> tuple[int, int]:
    """`point_in_box` on this screen."""
    return point_in_box(box, step, size)


@dataclass(frozen=True)
class Link:
    """Answer characters [start, end) point at a screen position (px) or come from question characters [source, ...)."""

    start: int
    end: int
    point: tuple[int, int] | None = None
    source: int | None = None


@dataclass(frozen=True)
class Question:
    kind: str
    text: str
    answer: str
    links: tuple[Link, ...] = field(default=())
    free: int = 0
    """Leading characters of the answer that nothing determines: never supervised, only there to be read over."""
    box: Box | None = None
    """Where a located point has to fall."""
    judged: tuple[int, int] | None = None
    """The characters of the answer that a test looks at; None = all of it. A menu's name and a button's look alike, so
    reading is judged by the label."""


def name_of(element: Element) -> str:
    return f"{element.kind} {element.label}" if element.kind == "cell" else f"{element.label} {element.kind}"


def anchor(element: Element) -> tuple[int, int]:
    """The pixel whose visual token stands for the element."""
    return element.center


def label_anchors(element: Element, unit: int) -> list[tuple[int, int]]:
    """Pixels in every visual token (of `unit` px) that the element's visible name runs through."""
    x0, y0, x1, y1 = element.box
    width = CELL_W * len(element.label)
    y = y0 + 8
    if element.kind == "field":
        start = x0 + PAD - CELL_W - width
    elif element.kind == "handle":
        return []
    elif element.kind == "icon":
        start, y = x0 + 8, y0 + 24
    else:
        start = x0 + {"button": PAD, "menu": PAD, "row": 16, "checkbox": 24}.get(element.kind, 8)
    end = min(start + width, x1) if element.kind not in ("field",) else start + width
    first, last = max(0, start) // unit, max(0, end - 1) // unit
    return [(column * unit, y) for column in range(first, last + 1)]


def state_anchor(element: Element) -> tuple[int, int]:
    """Where an element shows its state: the tick, the beginning of a value, the fill of a row."""
    x0, y0, x1, y1 = element.box
    if element.kind == "checkbox":
        return x0 + 8, y0 + 8
    if element.kind == "field":
        return min(x1 - 1, x0 + 16), y0 + 8
    return element.center


def _pointer(element: Element, screen: SynthScreen) -> tuple[tuple[int, int], tuple[int, int]]:
    """Places that tell x and y. A cell's column is read off its column head, its row off its row head."""
    if element.kind != "cell":
        return anchor(element), anchor(element)
    column = next(e for e in screen.elements if e.kind == "head" and e.label == element.label[0])
    row = next(e for e in screen.elements if e.kind == "head" and e.label == element.label[1:])
    return column.center, row.center


def locate(
    rng: random.Random, screen: SynthScreen, element: Element, fillers: Sequence[str], variety: float = 1.0
) -> Question:
    """Where something is. `variety` is the share of answers with words in front that nothing determines.

    Plain answers teach the search; varied ones make it independent of what stands before the point, as in an agent's
    response. The words in front are read over, not learned.
    """
    name = name_of(element)
    text = rng.choice(
        ("find the {}", "where is the {}", "locate {}", "{}", "point at the {}", "find {}", "what is the point of {}")
    ).format(name)
    x, y = grid_point(element.box)
    filler = " ".join(rng.choice(fillers) for _ in range(rng.randint(1, 5))) if rng.random() < variety * 0.7 else ""
    restated = name if rng.random() < 0.6 else ""
    lead = " ".join(part for part in (filler, restated) if part)
    lead = lead + rng.choice((" at ", ": ", " ", " at ")) if lead else rng.choice(("", "at "))
    answer = f"{lead}{x}, {y}"
    px, py = _pointer(element, screen)
    comma = len(lead) + len(str(x))
    links = [Link(len(lead), comma, px), Link(comma + 2, len(answer), py)]
    if restated:
        start = len(filler) + 1 if filler else 0
        links.append(Link(start, start + len(name), source=text.index(name)))
    return Question("locate", text, answer, tuple(links), free=len(filler), box=element.box)


def read(rng: random.Random, element: Element) -> Question:
    x, y = grid_point(element.box)
    text = rng.choice(("what is at {}, {}", "read {}, {}", "which is at {}, {}")).format(x, y)
    answer = name_of(element)
    start = answer.index(element.label)
    links = (Link(0, len(answer), anchor(element)),)
    return Question("read", text, answer, links, judged=(start, start + len(element.label)))


def state(rng: random.Random, element: Element) -> Question | None:
    """On or off, selected or plain, or the value shown."""
    shown = {
        "checkbox": element.state,
        "row": element.state or "plain",
        "field": element.state or "empty",
        "cell": element.state or "empty",
    }
    answer = shown.get(element.kind)
    if answer is None or len(answer) > 12:
        return None
    text = rng.choice(("state of {}", "value of {}", "what is the state of the {}")).format(name_of(element))
    return Question("state", text, answer, (Link(0, len(answer), state_anchor(element)),))


def _content(rng: random.Random, words: SynthWords) -> str:
    kind = rng.random()
    stem = rng.choice(words.stems)
    if kind < 0.35:
        return stem
    if kind < 0.65:
        return stem + rng.choice(FILE_EXTENSIONS)
    if kind < 0.8:
        return str(rng.choice(words.numbers))
    if kind < 0.9:
        return rng.choice("abcd") + str(rng.randint(1, 5))
    if kind < 0.95:
        return rng.choice(words.labels)
    return f"{stem}/{rng.choice(words.stems)}{rng.choice(FILE_EXTENSIONS)}"


def _distinct(rng: random.Random, words: SynthWords, count: int) -> list[str]:
    out: list[str] = []
    while len(out) < count:
        item = _content(rng, words)
        if item not in out:
            out.append(item)
    return out


def copy(rng: random.Random, words: SynthWords, glue: Sequence[str]) -> Question:
    """Unseen combinations to copy: in order, out of other words, inside other given words (kind `copy`), or by key and
    by slot (kind `recall`)."""
    form = rng.randrange(6)
    if form == 0:
        return _copied("repeat ", _distinct(rng, words, rng.randint(1, 4)), None)
    if form == 1:
        keys = rng.sample(glue, 3)
        items = _distinct(rng, words, 3)
        wanted = rng.randrange(3)
        return _copied(
            "",
            [w for pair in zip(keys, items, strict=True) for w in pair],
            [2 * wanted + 1],
            tail=f" after {keys[wanted]}",
            kind="recall",
        )
    if form == 2:
        items = _distinct(rng, words, 2)
        glues = rng.sample(glue, 3)
        order = rng.choice(([1, 3], [3, 1], [1], [3]))
        tail = {(1, 3): " both", (3, 1): " swap", (1,): " first", (3,): " last"}[tuple(order)]
        return _copied("", [glues[0], items[0], glues[1], items[1]], order, tail=tail, kind="recall")
    if form == 3:
        items = _distinct(rng, words, rng.randint(1, 3))
        parts: list[str] = [rng.choice(glue) for _ in range(rng.randint(0, 2))]
        places = []
        for item in items:
            places.append(len(parts))
            parts.append(item)
            parts.extend(rng.choice(glue) for _ in range(rng.randint(1, 3)))
        return _copied("list ", parts, places)
    if form == 4:
        given = rng.sample(glue, rng.randint(2, 4))
        items = _distinct(rng, words, rng.randint(1, 2))
        parts = [*given, "with", *items]
        order = [0, len(given) + 1, 1] if len(items) == 1 else [0, len(given) + 1, 1, len(given) + 2]
        order += list(range(2, len(given)))
        return _copied("write ", parts, order)
    phrase = [rng.choice(words.stems) for _ in range(rng.randint(1, 3))]
    parts = [rng.choice(glue) for _ in range(rng.randint(1, 4))]
    at = len(parts)
    parts = [*parts, *phrase, *(rng.choice(glue) for _ in range(rng.randint(0, 3)))]
    return _copied("list ", parts, list(range(at, at + len(phrase))))


def _copied(
    head: str, parts: Sequence[str], order: Sequence[int] | None, tail: str = "", kind: str = "copy"
) -> Question:
    """Question = head + parts + tail; answer = the parts at `order`, each linked to its source."""
    starts, text = [], head
    for i, part in enumerate(parts):
        if i:
            text += " "
        starts.append(len(text))
        text += part
    text += tail
    order = range(len(parts)) if order is None else order
    answer, links = "", []
    for k, index in enumerate(order):
        if k:
            answer += " "
        links.append(Link(len(answer), len(answer) + len(parts[index]), source=starts[index]))
        answer += parts[index]
    return Question(kind, text, answer, tuple(links))


def questions(
    rng: random.Random,
    screen: SynthScreen,
    words: SynthWords,
    glue: Sequence[str],
    count: int,
    mix: tuple[float, float, float, float] = MIX,
    variety: float = 1.0,
) -> list[Question]:
    """`count` questions on one screen; `mix` = shares of locate, read, state, copy. Targets are not repeated."""
    targets = [e for e in screen.elements if e.kind != "head"]
    rng.shuffle(targets)
    out: list[Question] = []
    asked = iter(targets * 2)
    while len(out) < count:
        kind = rng.random()
        if kind >= mix[0] + mix[1] + mix[2] or not targets:
            out.append(copy(rng, words, glue))
            continue
        element = next(asked, None)
        if element is None:
            out.append(copy(rng, words, glue))
        elif kind < mix[0]:
            out.append(locate(rng, screen, element, glue, variety))
        elif kind < mix[0] + mix[1]:
            out.append(read(rng, element))
        else:
            question = state(rng, element) or locate(rng, screen, element, glue, variety)
            out.append(question)
    return out
