"""Grounding packs of stage 1: several questions about one screenshot, asked under the click-only prompt.

The published design (paper.md 6.1): a prompt of its own, apart from the agent's; many questions behind one encoded
screenshot; no two with the same target point. A pack's `messages` column is the JSON object

    {"system": CLICK_PROMPT, "screen": digest, "items": [{"instruction": ..., "response": ...}, ...]}

Screens are of two kinds: layout-free ones (`sandbox.minidesk.synth`), where nothing can be guessed from habit, and
screens of collected trajectories. Every question asks for one left click, as the prompt says; the other pointer actions
come with the agent steps of the same corpus.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from components.contracts.coords import ScreenSpace, point_in_box
from components.contracts.desktop import Element
from components.contracts.response import render_response
from components.curation.corpora import Sample
from components.curation.rationale import RationaleRequest, RationaleWriter, ScreenState, known_words
from components.forge.words import UI_WORDS, numbers_of, words_of
from components.harness.spec import CLICK_PROMPT
from components.rollout.screens import encode_png, screen_digest
from components.rollout.store import StoredScreen
from components.sandbox.minidesk.synth import SynthWords, synth_screen

KINDS = ("icon", "row", "cell", "field", "handle", "button", "checkbox", "menu", "item", "title")
"""Widgets that are asked for."""

MOST_OF_A_KIND = 3
"""Questions about one kind of widget in a pack: a sheet has twenty cells and five icons are on every screen."""
BARE_SHARE = 0.5
"""Share of questions answered without a rationale. Where the interior of `<think>` is masked nothing else would teach
when to close it, and a policy that was never told would ramble."""

_ASKS = (
    "click the {}", "click the {}", "click the {}", "click on the {}", "please click the {}", "click {}",
)  # fmt: skip
_LINE = "click the {}"
"""The action line, in the teacher's words."""


@dataclass(frozen=True)
class Shot:
    """A screenshot with its elements, and where it came from ("synth" or a trajectory)."""

    digest: str
    elements: tuple[Element, ...]
    source: str


def train_words() -> SynthWords:
    """The vocabulary of layout-free screens for training."""
    return SynthWords(words_of("train"), tuple(dict.fromkeys(UI_WORDS)), numbers_of("train"))


def synth_shot(rng: Random, words: SynthWords) -> tuple[Shot, StoredScreen]:
    made = synth_screen(rng, words)
    digest = screen_digest(made.screen)
    return Shot(digest, made.elements, "synth"), StoredScreen(encode_png(made.screen))


def targets(elements: Iterable[Element]) -> list[Element]:
    """Elements one can ask for: of a kind that takes pointer actions, named by known words, each name once."""
    named: dict[tuple[str, str], list[Element]] = {}
    for element in elements:
        if element.kind in KINDS and element.label and known_words(element.label):
            named.setdefault((element.kind, element.label), []).append(element)
    return [found[0] for found in named.values() if len(found) == 1]


def name_of(element: Element) -> str:
    """The element in the words of action lines."""
    return f"{element.label} {element.kind}"


def pack_items(
    rng: Random, shot: Shot, count: int, space: ScreenSpace, writer: RationaleWriter
) -> list[dict[str, str]]:
    """At most `count` questions with their answers; no target point twice."""
    found = targets(shot.elements)
    rng.shuffle(found)
    used: set[tuple[int, int]] = set()
    kinds: dict[str, int] = {}
    items: list[dict[str, str]] = []
    for element in found:
        if len(items) >= count:
            break
        point = _point(element, space)
        if point in used or kinds.get(element.kind, 0) >= MOST_OF_A_KIND:
            continue
        used.add(point)
        kinds[element.kind] = kinds.get(element.kind, 0) + 1
        items.append(_item(rng, element, point, shot, writer))
    rng.shuffle(items)
    return items


def _point(element: Element, space: ScreenSpace) -> tuple[int, int]:
    return point_in_box(element.box, int(space.step), space.screen, int(space.extent[0]))


def _item(rng: Random, element: Element, point: tuple[int, int], shot: Shot, writer: RationaleWriter) -> dict[str, str]:
    name, line = name_of(element), _LINE.format(name_of(element))
    asked = rng.choice(_ASKS)
    text = f"click cell {element.label}" if element.kind == "cell" and asked == "click {}" else asked.format(name)
    arguments: dict[str, Any] = {"action": "left_click", "coordinate": list(point)}
    think = ""
    if rng.random() >= BARE_SHARE:
        state = ScreenState(shot.digest, shot.elements)
        think = writer.write(
            RationaleRequest(
                task=text, before=state, after=state, call={"tool": "computer_use", **arguments}, action_line=line,
                intent={"target": [element.kind, element.label]},
            )
        )  # fmt: skip
    return {"instruction": text, "response": render_response(think, line, "computer_use", arguments)}


def click_pack(
    rng: Random, shot: Shot, count: int, space: ScreenSpace, writer: RationaleWriter, *, name: str, mask_think: bool
) -> Sample | None:
    """One row of the corpus, or None when there is nothing to ask about on the screen."""
    items = pack_items(rng, shot, count, space, writer)
    if not items:
        return None
    body = {"system": CLICK_PROMPT, "screen": shot.digest, "items": items}
    return Sample(
        sample_id=name, kind="click_pack", skill=f"grounding-{shot.source}", trajectory_id="", step=0,
        messages=json.dumps(body, ensure_ascii=False), response="", mask_think=mask_think, images=(shot.digest,),
        channel="gui",
    )  # fmt: skip


def count_questions(packs: Iterable[Sample]) -> dict[str, int]:
    """Questions by action."""
    counts: dict[str, int] = {}
    for pack in packs:
        for item in json.loads(pack.messages)["items"]:
            action = item["response"].partition('"action": "')[2].partition('"')[0]
            counts[action] = counts.get(action, 0) + 1
    return dict(sorted(counts.items()))
