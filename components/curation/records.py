"""The contract of a chat record that is about to be trained on.

A record is `{"messages": [{"role", "content"}, ...], "images": [...]}`. Content is text, in which the marker `<image>`
stands for the next picture, or a list of parts (`{"type": "text", "text": ...}`, `{"type": "image"}`) in which text is
always text. Pictures and placeholders must agree one to one, or every later picture would shift by one; so the
validated record carries parts and no marker is ever searched for again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from components.contracts.errors import DataError

IMAGE_MARKER = "<image>"
ROLES = ("system", "user", "assistant", "tool")
_SPECIAL = re.compile(r"<\|[^|<>\s]{1,64}\|>")
"""Shape of a control token in the tokenizers of the model families in use, e.g. `<|im_end|>`."""


class RecordError(DataError):
    """A rejected record. `code` is a stable short name; `number` counts from 1 in the file or corpus."""

    def __init__(self, code: str, number: int, message: str) -> None:
        super().__init__(
            f"{code}: {message}", where=f"record {number}", remedy="correct or drop the record; nothing was trained on"
        )
        self.code = code
        self.number = number


@dataclass(frozen=True)
class TextPart:
    text: str


@dataclass(frozen=True)
class ImagePart:
    image: str
    """File name or content digest."""


Part = TextPart | ImagePart


@dataclass(frozen=True)
class Message:
    role: str
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """The message's text without its pictures."""
        return "".join(p.text for p in self.parts if isinstance(p, TextPart))


@dataclass(frozen=True)
class ChatRecord:
    messages: tuple[Message, ...]
    images: tuple[str, ...]


def check_record(
    record: Mapping[str, Any],
    number: int,
    *,
    special_tokens: Collection[str] = (),
    exists: Callable[[str], bool] | None = None,
) -> ChatRecord:
    """The record in parts, or RecordError with its number.

    `special_tokens` are the tokenizer's own, refused in text beside anything shaped like `<|...|>`; `exists` tells
    whether a picture is there. Codes: messages_missing, bad_role, bad_content, no_response, images_not_a_list,
    image_missing, image_count_mismatch, image_in_response, special_token_in_text.
    """
    messages = record.get("messages")
    if not isinstance(messages, list) or not messages:
        raise RecordError("messages_missing", number, "messages must be a list with at least one message")
    images = _images(record.get("images"), number, exists)
    drafts = [_draft(m, i, number) for i, m in enumerate(messages)]
    if not any(role == "assistant" for role, _ in drafts):
        raise RecordError("no_response", number, "no assistant message to learn from")
    for role, parts in drafts:
        for part in parts:
            if isinstance(part, str):
                _refuse_special(part, role, special_tokens, number)
    if (
        record.get("images") is not None
        and not images
        and not any(_opens_with_marker(p) for _, parts in drafts for p in parts)
    ):
        # the record says it has no picture, and no message opens with one: `<image>` is a word of the text here
        return ChatRecord(tuple(Message(role, _literal(parts)) for role, parts in drafts), images)
    return _place(drafts, images, number)


def check_records(
    records: Iterable[Mapping[str, Any]],
    *,
    special_tokens: Collection[str] = (),
    exists: Callable[[str], bool] | None = None,
) -> tuple[list[ChatRecord], list[RecordError]]:
    """Accepted records in order, and one error per rejected record. Together they are all records."""
    accepted: list[ChatRecord] = []
    rejected: list[RecordError] = []
    for number, record in enumerate(records, start=1):
        try:
            accepted.append(check_record(record, number, special_tokens=special_tokens, exists=exists))
        except RecordError as error:
            rejected.append(error)
    return accepted, rejected


def _images(value: Any, number: int, exists: Callable[[str], bool] | None) -> tuple[str, ...]:
    if value is None:
        return ()
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list | tuple):
        raise RecordError("images_not_a_list", number, f"images is a {type(value).__name__}")
    for i, image in enumerate(listed, start=1):
        if not isinstance(image, str) or not image or (exists is not None and not exists(image)):
            raise RecordError("image_missing", number, f"picture {i} of {len(listed)} is {image!r}")
    return tuple(listed)


_IMAGE = object()
"""An image part of structured content, before a picture is assigned."""


class _Literal(str):
    """Text of structured content: a marker in it is text."""


def _draft(message: Any, index: int, number: int) -> tuple[str, list[Any]]:
    """Role and parts: `str` may hold markers, `_Literal` may not, `_IMAGE` takes a picture."""
    if not isinstance(message, Mapping) or message.get("role") not in ROLES:
        raise RecordError("bad_role", number, f"message {index} needs a role of {', '.join(ROLES)}")
    content = message.get("content")
    if isinstance(content, str):
        return message["role"], [content]
    if not isinstance(content, list):
        raise RecordError("bad_content", number, f"content of message {index} is a {type(content).__name__}")
    parts: list[Any] = []
    for part in content:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind == "image":
            parts.append(_IMAGE)
        elif kind == "text" and isinstance(part.get("text"), str):
            parts.append(_Literal(part["text"]))
        else:
            raise RecordError("bad_content", number, f"message {index} has a part that is neither text nor image")
    return message["role"], parts


def _refuse_special(text: str, role: str, special_tokens: Collection[str], number: int) -> None:
    found = _SPECIAL.search(text)
    token = found.group() if found else next((s for s in special_tokens if s and s != IMAGE_MARKER and s in text), None)
    if token is not None:
        raise RecordError("special_token_in_text", number, f"the {role} text contains {token!r}")


def _opens_with_marker(part: Any) -> bool:
    return part is _IMAGE or (
        isinstance(part, str) and not isinstance(part, _Literal) and part.lstrip().startswith(IMAGE_MARKER)
    )


def _literal(parts: list[Any]) -> tuple[Part, ...]:
    return tuple(TextPart(str(part)) for part in parts)


def _place(drafts: list[tuple[str, list[Any]]], images: tuple[str, ...], number: int) -> ChatRecord:
    """Assign pictures to placeholders in order; counts must be equal."""
    wanted = sum(
        1 if part is _IMAGE else 0 if isinstance(part, _Literal) else part.count(IMAGE_MARKER)
        for _, parts in drafts
        for part in parts
    )
    if wanted != len(images):
        raise RecordError("image_count_mismatch", number, f"{wanted} placeholders for {len(images)} pictures")
    queue = iter(images)
    messages: list[Message] = []
    for role, parts in drafts:
        placed: list[Part] = []
        for part in parts:
            if part is _IMAGE:
                placed.append(ImagePart(next(queue)))
                continue
            pieces = [str(part)] if isinstance(part, _Literal) else part.split(IMAGE_MARKER)
            for i, piece in enumerate(pieces):
                if i:
                    placed.append(ImagePart(next(queue)))
                if piece:
                    placed.append(TextPart(piece))
        if role == "assistant" and any(isinstance(p, ImagePart) for p in placed):
            raise RecordError("image_in_response", number, "a response cannot contain a picture")
        messages.append(Message(role, tuple(placed)))
    return ChatRecord(tuple(messages), images)
