"""Step-level rationales: what a step's `<think>` says, written after the fact from the state before and after it.

`RationaleWriter` is the interface; a language model behind an API implements the same one. `ScriptedWriter` is the
offline one: it says what the teacher saw (`intent["why"]`), in the words of the tiny tokenizer. Two styles: `short`
(3 to 8 words) and `verbose` (14 to 22), so that reinforcement learning has something to shorten.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from components.contracts.desktop import Element
from components.forge.words import ALL_WORDS, EXTENSIONS, LETTERS

Style = Literal["short", "verbose"]
SHORT = (3, 8)
VERBOSE = (14, 22)
"""Words of a rationale, both ends included."""


@dataclass(frozen=True)
class ScreenState:
    """A screen for a writer: the digest of its pixels (for one with eyes) and its elements (for one without)."""

    digest: str
    elements: tuple[Element, ...] = ()


@dataclass(frozen=True)
class RationaleRequest:
    """One step. `call` is the typed call as stored, `intent` what the teacher noted (may be empty), `output` what a
    terminal call printed."""

    task: str
    before: ScreenState
    after: ScreenState
    call: Mapping[str, Any]
    action_line: str
    intent: Mapping[str, Any] = field(default_factory=dict)
    style: Style = "short"
    output: str = ""


class RationaleWriter(Protocol):
    """Writes the text between the reasoning tags: one line, no tags. The same request gives the same text."""

    def write(self, request: RationaleRequest) -> str: ...


class ScriptedWriter:
    """Fills sentences with what is on the screen. Everything it says was true before or after the step."""

    def write(self, request: RationaleRequest) -> str:
        return self._verbose(request) if request.style == "verbose" else self._short(request)

    def _short(self, request: RationaleRequest) -> str:
        why = _why(request)
        for lead in ("", "now ", "i see that "):
            if len(words := (lead + why).split()) >= SHORT[0]:
                break
        return " ".join(words[: SHORT[1]])

    def _verbose(self, request: RationaleRequest) -> str:
        aim = str(request.intent.get("aim") or "")
        heads = [f"the task is to {aim}"] if known_words(aim) and aim else []
        heads.append("the goal of the task is done" if request.intent.get("last") else "the task is not done yet")
        tails = ["so this is the next step"]
        if known_words(request.action_line):
            tails.insert(0, f"so i will {request.action_line}")
        drafts = [f"{head} and {_why(request)} {tail}".split() for head in heads for tail in tails]
        fitting = next((words for words in drafts if len(words) <= VERBOSE[1]), drafts[-1][: VERBOSE[1]])
        return _fill(fitting, _effect(request))


def _fill(words: list[str], effect: str) -> str:
    """Add the effect of the step where there is room; then bring the sentence up to the length of its style."""
    for more in (effect, "then i look at the screen again", "because there is nothing more to do before it"):
        extra = more.split()
        if len(words) + len(extra) <= VERBOSE[1] and (more == effect or len(words) < VERBOSE[0]):
            words = words + extra
    return " ".join(words)


def _why(request: RationaleRequest) -> str:
    """The fact behind the step: the teacher's, or that its target is on the screen, or nothing but the step itself."""
    why = str(request.intent.get("why") or "")
    if why and known_words(why):
        return why
    kind, label = request.intent.get("target") or ("", "")
    if known_words(label) and any((e.kind, e.label) == (kind, label) for e in request.before.elements):
        return f"the {label} {kind} is shown"
    return "this is the next step"


def _effect(request: RationaleRequest) -> str:
    """What the step brought to the screen: a window or dialog by its title, a menu by its items; "" for neither."""
    old = {(e.kind, e.label) for e in request.before.elements}
    fresh = [e for e in request.after.elements if (e.kind, e.label) not in old]
    title = next((e for e in reversed(fresh) if e.kind == "title"), None)
    if title is not None and known_words(title.label):
        return f"then {title.label} is shown"
    if any(e.kind == "item" for e in fresh):
        return "then the menu is shown"
    return ""


_TOKEN = re.compile(r"[A-Za-z]+|\d+")
_KNOWN = frozenset(ALL_WORDS) | frozenset(LETTERS) | {e[1:] for e in EXTENSIONS}


def unknown_words(text: str) -> Sequence[str]:
    """Words of a text that the tiny tokenizer does not have whole. Cell names (`b2`) count as a letter and a number."""
    return [w for w in _TOKEN.findall(text) if not w.isdigit() and w.lower() not in _KNOWN]


def known_words(text: str) -> bool:
    return not unknown_words(text)
