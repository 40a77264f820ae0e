"""The grounding bench: clicks on layout-free screens, by free generation in the agent's format.

Words are those of the held-out split; nothing on these screens stands where it usually stands, so the rate measures
reading. An answer that cannot be parsed is a counted miss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from components.contracts.calls import ComputerUse
from components.contracts.coords import ScreenSpace
from components.contracts.desktop import Element, Screen
from components.contracts.errors import CallError
from components.contracts.folding import ImagePart, Message, TextPart
from components.contracts.params import Model
from components.contracts.response import parse_response
from components.contracts.rng import stream
from components.evaluation.grounding import GroundingScore, PixelBox, judge, score
from components.forge.words import UI_WORDS, numbers_of, words_of
from components.harness.spec import CLICK_PROMPT
from components.rollout.policy import PolicyClient, Request
from components.sandbox.minidesk.synth import SynthWords, synth_screen

KINDS = ("button", "checkbox", "field", "row", "cell", "menu", "item", "icon", "handle", "title")
_PER_SCREEN = 4


@dataclass(frozen=True)
class ClickItem:
    """One question: the screen, the sentence, the target."""

    screen: Screen
    instruction: str
    element: Element


def click_items(seed: int, screens: int) -> list[ClickItem]:
    """A fixed set: up to four targets a screen, kinds taken in turn so that each gets about as many items."""
    words = SynthWords(words_of("heldout"), tuple(dict.fromkeys(UI_WORDS)), numbers_of("heldout"))
    counts = dict.fromkeys(KINDS, 0)
    out = []
    for index in range(screens):
        rng = stream(seed, "click-bench", index)
        shot = synth_screen(rng, words)
        targets = [e for e in shot.elements if e.kind in counts]
        rng.shuffle(targets)
        targets.sort(key=lambda e: counts[e.kind])
        for element in targets[:_PER_SCREEN]:
            counts[element.kind] += 1
            out.append(ClickItem(shot.screen, f"click the {element.label} {element.kind}", element))
    return out


def run_clicks(client: PolicyClient, items: Sequence[ClickItem], model: Model) -> list[tuple[float, float] | None]:
    """The clicked pixel of each item, or None where the answer could not be read."""
    system = Message("system", (TextPart(CLICK_PROMPT),))
    requests = [
        Request([system, Message("user", (ImagePart(item.screen), TextPart(item.instruction)))]) for item in items
    ]
    points: list[tuple[float, float] | None] = []
    for item, done in zip(items, client.complete(requests, 0.0), strict=True):
        height, width = item.screen.shape[:2]
        space = ScreenSpace(model.coord_space, (width, height), step=model.coord_step)
        try:
            call = parse_response(done.text, space, pointer=None, tools=("computer_use",)).call
        except CallError:
            points.append(None)
            continue
        points.append(call.coordinate if isinstance(call, ComputerUse) else None)
    return points


def score_clicks(items: Sequence[ClickItem], points: Sequence[tuple[float, float] | None]) -> GroundingScore:
    """Hit rate over all items and by kind of widget."""
    judgements = [
        judge(box_of(item.element), {"point_pixel": list(point)} if point is not None else {"text": ""})
        for item, point in zip(items, points, strict=True)
    ]
    return score(judgements, [item.element.kind for item in items], KINDS)


def box_of(element: Element) -> PixelBox:
    """The element's box with inclusive edges, as the judge wants it."""
    x0, y0, x1, y1 = element.box
    return PixelBox(x0, y0, x1 - 1, y1 - 1)
