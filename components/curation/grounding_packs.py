"""Grounding packs of stage 1: several questions about one screenshot, asked under the click-only prompt.

The published design (paper.md 6.1): a prompt of its own, apart from the agent's; many questions behind one encoded
screenshot; no two with the same target point. A pack's `messages` column is the JSON object

    {"system": CLICK_PROMPT, "screen": digest, "items": [{"instruction": ..., "response": ...}, ...]}

Screens are of two kinds: layout-free ones (`sandbox.minidesk.synth`), where nothing can be guessed from habit, and
screens of collected trajectories. Most questions ask for a click; double and right clicks, moves, drags and scrolls
are asked where the widget takes them, so that the other pointer actions are grounded too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
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

Action = str

_ACTIONS: dict[str, tuple[tuple[Action, float], ...]] = {
    "icon": (("left_click", 0.6), ("double_click", 0.4)),
    "row": (("left_click", 0.55), ("double_click", 0.2), ("right_click", 0.17), ("mouse_move", 0.05), ("scroll", 0.03)),
    "cell": (("left_click", 0.92), ("scroll", 0.04), ("mouse_move", 0.04)),
    "field": (("left_click", 0.9), ("middle_click", 0.1)),
    "handle": (("left_click", 0.6), ("mouse_move", 0.4)),
    "button": (("left_click", 0.97), ("mouse_move", 0.03)),
    "checkbox": (("left_click", 1.0),),
    "menu": (("left_click", 1.0),),
    "item": (("left_click", 1.0),),
    "title": (("left_click", 1.0),),
}
"""What a widget may be asked for, and how often. Clicks dominate: they are what the bench measures."""

MOST_OF_A_KIND = 3
"""Questions about one kind of widget in a pack: a sheet has twenty cells and five icons are on every screen."""
DRAG_SHARE = 0.15
"""Share of packs that ask for one drag, where the screen has two rows."""

_ASKS: dict[Action, tuple[str, ...]] = {
    "left_click": (
        "click the {}",
        "click the {}",
        "click the {}",
        "click on the {}",
        "please click the {}",
        "click {}",
    ),
    "double_click": ("double click the {}", "double click on the {}"),
    "right_click": ("right click the {}", "right click on the {}"),
    "middle_click": ("middle click the {}",),
    "mouse_move": ("move to the {}", "move the pointer to the {}"),
    "scroll": ("scroll {way} on the {}",),
}
_LINES: dict[Action, str] = {
    "left_click": "click the {}", "double_click": "double click the {}", "right_click": "right click the {}",
    "middle_click": "middle click the {}", "mouse_move": "move to the {}", "scroll": "scroll {way}",
}  # fmt: skip
"""Action lines, in the teacher's words."""


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
        if element.kind in _ACTIONS and element.label and known_words(element.label):
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
    if rng.random() < DRAG_SHARE and (drag := _drag(rng, found, space, shot, writer)) is not None:
        items.append(drag)
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
    actions, shares = zip(*_ACTIONS[element.kind], strict=True)
    action: Action = rng.choices(actions, shares)[0]
    way = rng.choice(("down", "up"))
    name = name_of(element)
    asked = rng.choice(_ASKS[action])
    if element.kind == "cell" and asked == "click {}":
        text = f"click cell {element.label}"
    else:
        text = asked.format(name, way=way)
    arguments: dict[str, Any] = {"action": action}
    if action == "scroll":
        arguments["pixels"] = 100 if way == "up" else -100
    arguments["coordinate"] = list(point)
    return _answer(text, _LINES[action].format(name, way=way), arguments, element, shot, writer)


def _drag(
    rng: Random, found: Sequence[Element], space: ScreenSpace, shot: Shot, writer: RationaleWriter
) -> dict[str, str] | None:
    """A row onto another; None where the screen has no two."""
    rows = [e for e in found if e.kind == "row"]
    if len(rows) < 2:
        return None
    source, target = rng.sample(rows, 2)
    start, end = _point(source, space), _point(target, space)
    text = f"drag the {name_of(source)} to the {name_of(target)}"
    arguments = {"action": "left_click_drag", "start_coordinate": list(start), "coordinate": list(end)}
    return _answer(text, text, arguments, target, shot, writer) if start != end else None


def _answer(
    text: str, line: str, arguments: dict[str, Any], element: Element, shot: Shot, writer: RationaleWriter
) -> dict[str, str]:
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
