"""The folding renderer: what a policy sees before a step. Pure; data, RL, evaluation and the live agent all use it.

Layout (paper, working memory): the system prompt with its tool schemas; directly after it the `Action:` lines of the
folded older steps; the task; then, for the last `responses` steps, what was seen and the full response; at the end the
newest observation.

Decisions the paper leaves open:

- Folded lines and task open the first *user* message: lines that a model wrote get no system authority, and the system
  message stays the same for a whole run (prefix caches).
- A turn's `output` is what the call before it printed. It belongs to the observation, and goes with it: folded turns
  lose theirs.
- A kept response whose screenshot is out of the window stands after its output alone, or right after the previous
  response if there is none. No placeholder text is put in.
- `action_lines` keeps the newest lines; older ones vanish without a trace.
- Tool output, task, lines and earlier responses cannot become structure: see `neutralize`.

Folding rewrites the middle of the prompt, so each step is its own (prompt, response) sample.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from components.contracts.errors import DataError, ParamsError
from components.contracts.schemas import ACTION_PREFIX, OUTPUT_CLOSE, OUTPUT_OPEN, TAG_NAMES

NO_ACTION = "none"
"""Stands for a folded step whose response had no readable action line."""


@dataclass(frozen=True)
class ContextLimits:
    """Working memory. `action_lines` None = no cap on the folded lines."""

    screenshots: int = 3
    responses: int = 4
    action_lines: int | None = None

    def __post_init__(self) -> None:
        for name, low in (("screenshots", 1), ("responses", 0), ("action_lines", 0)):
            value = getattr(self, name)
            if name == "action_lines" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < low:
                raise ParamsError(f"{name} must be a whole number >= {low}, not {value!r}", where="context")


@dataclass(frozen=True)
class Turn:
    """One step as the policy lived it: what was seen, then what was answered.

    `screenshot` is opaque (a digest, a path, an array) or None where the harness shows none. `output` is the text that
    came with it, i.e. the previous call's output or error; None = there was no such call, "" = it printed nothing.
    `response` is the full response text and `action` its action line; the newest turn has no response yet.
    """

    screenshot: Any | None = None
    output: str | None = None
    response: str | None = None
    action: str = ""


@dataclass(frozen=True)
class TextPart:
    text: str


@dataclass(frozen=True)
class ImagePart:
    image: Any


Part = TextPart | ImagePart
Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True)
class Message:
    """Parts are meant to be joined without separators: texts carry their own line ends."""

    role: Role
    parts: tuple[Part, ...]


_CHAT_TOKEN = re.compile(r"<(?=\|[^<>|\s]{1,64}\|>)")
_TAG = re.compile(rf"<(?=/?(?:{'|'.join((*TAG_NAMES, 'image', 'video'))})\b)")


def neutralize(text: str, *, tags: bool = True, special: Collection[str] = ()) -> str:
    """Turn chat tokens (`<|...|>`), our tags and `special` tokens into plain text: a space after the first character.

    Text without any of them comes back unchanged; applying it twice changes nothing more. `tags=False` leaves our own
    tags alone (a response is made of them). `special`: the tokenizer's own special tokens.
    """
    text = _CHAT_TOKEN.sub("< ", text)
    if tags:
        text = _TAG.sub("< ", text)
    for token in sorted(special, key=lambda t: (-len(t), t)):
        if len(token) > 1 and (tags or not _TAG.match(token)):
            text = text.replace(token, f"{token[0]} {token[1:]}")
    return text


def fold(
    system: str,
    instruction: str,
    turns: Sequence[Turn],
    context: ContextLimits | None = None,
    *,
    special: Collection[str] = (),
) -> list[Message]:
    """The prompt for the newest turn, `turns[-1]`, which has no response. `DataError` if turns break the contract.

    The number of image parts is min(screenshots, screenshots among the kept turns).
    """
    context = context or ContextLimits()
    _check(turns)
    past = len(turns) - 1
    first_kept = max(0, past - context.responses)
    kept = turns[first_kept:]
    shown = [i for i, turn in enumerate(kept) if turn.screenshot is not None][-context.screenshots :]

    lines = [_line(turn.action, special) for turn in turns[:first_kept]]
    if context.action_lines is not None:
        lines = lines[len(lines) - min(context.action_lines, len(lines)) :]
    opening: list[Part] = [TextPart("".join(lines))] if lines else []
    opening.append(TextPart(f"Task: {neutralize(instruction, special=special)}\n"))

    messages = [Message("system", (TextPart(system),))]
    for index, turn in enumerate(kept):
        seen = [*opening, *_observation(turn, index in shown, special)]
        opening = []
        if seen:
            messages.append(Message("user", tuple(seen)))
        if turn.response is not None:
            messages.append(Message("assistant", (TextPart(neutralize(turn.response, tags=False, special=special)),)))
    return messages


def images(messages: Iterable[Message]) -> list[Any]:
    """The screenshots of a prompt, in order."""
    return [part.image for message in messages for part in message.parts if isinstance(part, ImagePart)]


def to_chat(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """The messages as Hugging Face chat templates and processors take them."""
    return [
        {
            "role": message.role,
            "content": [
                {"type": "image", "image": part.image}
                if isinstance(part, ImagePart)
                else {"type": "text", "text": part.text}
                for part in message.parts
            ],
        }
        for message in messages
    ]


def _check(turns: Sequence[Turn]) -> None:
    if not turns:
        raise DataError("there is no turn to render", where="fold")
    for index, turn in enumerate(turns[:-1]):
        if turn.response is None:
            raise DataError(f"turn {index} of {len(turns)} has no response", where="fold")
    newest = turns[-1]
    if newest.response is not None:
        raise DataError("the newest turn already has a response", where="fold", remedy="append the next observation")
    if len(turns) > 1 and newest.screenshot is None and newest.output is None:
        raise DataError("the newest turn shows nothing", where="fold", remedy="give its screenshot or output")


def _line(action: str, special: Collection[str]) -> str:
    words = " ".join(neutralize(action, special=special).split())
    return f"{ACTION_PREFIX} {words or NO_ACTION}\n"


def _observation(turn: Turn, with_image: bool, special: Collection[str]) -> list[Part]:
    parts: list[Part] = []
    if turn.output is not None:
        parts.append(TextPart(f"{OUTPUT_OPEN}\n{neutralize(turn.output, special=special)}\n{OUTPUT_CLOSE}\n"))
    if with_image:
        parts.append(ImagePart(turn.screenshot))
    return parts
