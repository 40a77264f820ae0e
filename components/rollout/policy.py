"""The model side of an episode: one small client, whatever engine stands behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from components.contracts.folding import Message


@dataclass(frozen=True)
class Request:
    """One model call. Images in `messages` are screens (arrays). `noise` names the random stream of a sampled call."""

    messages: Sequence[Message]
    noise: str = ""


@dataclass(frozen=True)
class Completion:
    """What the engine returned: text, and the exact ids and log-probabilities it sampled (never re-tokenised).

    `logprobs` are at the sampling temperature. `cut_off` = the token limit came before the end of the response.
    """

    text: str
    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    cut_off: bool = False
    screens: tuple[Any, ...] = ()
    """The prompt's screens, in order, in the form in which the engine's trainer takes them."""


class PolicyClient(Protocol):
    """`complete` answers requests together; `special` are the tokenizer's special tokens, for the renderer."""

    special: tuple[str, ...]
    version: int

    def complete(self, requests: Sequence[Request], temperature: float) -> list[Completion]: ...
