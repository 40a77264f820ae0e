"""The model behind a live episode: a checkpoint folder in this process, or a chat endpoint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from components.contracts.digests import digest_tree
from components.contracts.errors import PolicyError
from components.contracts.stage import NullMeter, NullSink
from components.rollout.policy import PolicyClient

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class LivePolicy:
    """`source` names it in trajectories: the checkpoint's digest, or `endpoint:MODEL@HOST`."""

    client: PolicyClient
    source: str
    close: Callable[[], None]


def from_checkpoint(folder: Path, max_new_tokens: int) -> LivePolicy:
    """A checkpoint folder as training writes it. Raises CheckpointError for one that is not whole."""
    import torch
    from transformers.utils import logging

    from components.training.engine import LocalClient
    from components.training.model import Policy

    torch.set_num_threads(1)
    logging.disable_progress_bar()
    client = LocalClient(Policy.load(folder), max_new_tokens, batch=1)
    return LivePolicy(client, digest_tree(folder), lambda: None)


def from_endpoint(
    base: str, model: str, *, max_tokens: int, key_variable: str, work: Path, timeout: float = 120.0
) -> LivePolicy:
    """An OpenAI-compatible endpoint; `base` ends in /v1. Passing faults are tried again.

    `work` keeps the answers of this episode. Raises ParamsError for an address or a key that cannot be used.
    """
    from urllib.parse import urlsplit

    from components.rollout.chat import ChatEndpoint
    from components.rollout.metering import PaidClient

    if not model:
        raise PolicyError("an endpoint serves many models", where="--model", remedy="name one with --model")
    endpoint = ChatEndpoint(base, model, max_tokens=max_tokens, key_variable=key_variable, timeout=timeout)
    work.mkdir(parents=True, exist_ok=True)
    client = PaidClient(
        endpoint, NullSink(), NullMeter(), work, kind="policy", batch=1, parallel=1, tries=3, first_pause=0.5
    )
    return LivePolicy(client, f"endpoint:{model}@{urlsplit(base).hostname}", client.close)
