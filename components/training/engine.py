"""The in-process engine: batched sampling from a `Policy` with exact token ids and log-probabilities.

Left-padded prompts, one static key-value cache, greedy or temperature sampling. A sampled call draws its noise from the
request's own named stream (Gumbel-max), so what is sampled depends on neither batch nor order, only on the logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from components.contracts.folding import ImagePart, Message
from components.contracts.rng import stream_seed
from components.rollout.policy import Completion, Request
from components.training.model import Policy, rope_positions
from components.training.sequences import Encoder

if TYPE_CHECKING:
    import torch

    from components.contracts.desktop import Screen


def render_ids(encoder: Encoder, messages: Sequence[Message]) -> tuple[list[int], list[Screen]]:
    """Prompt ids (generation prompt included) and the screens in order: the token-level twin of the chat template."""
    ids: list[int] = []
    screens: list[Screen] = []
    for message in messages:
        ids += encoder.open(message.role)
        text = ""
        for part in message.parts:
            if isinstance(part, ImagePart):
                ids += encoder.text(text) if text else []
                text = ""
                screens.append(part.image)
                ids += encoder.image(encoder.grid.tokens(*part.image.shape[:2]))
            else:
                text += part.text
        ids += encoder.text(text) if text else []
        ids += encoder.close()
    ids += encoder.open("assistant")
    return ids, screens


class LocalClient:
    """`PolicyClient` over a `Policy` in this process."""

    def __init__(self, policy: Policy, max_new_tokens: int, seed: int = 0, batch: int = 64) -> None:
        self.policy = policy
        self.encoder = Encoder(policy)
        self.max_new_tokens = max_new_tokens
        self.seed = seed
        self.batch = batch
        self.version = 0
        self.special = tuple(policy.tokenizer.all_special_tokens)
        self.banned = banned_ids(policy)

    def complete(self, requests: Sequence[Request], temperature: float) -> list[Completion]:
        out: list[Completion] = []
        for start in range(0, len(requests), self.batch):
            out.extend(self._complete(requests[start : start + self.batch], temperature))
        return out

    def _complete(self, requests: Sequence[Request], temperature: float) -> list[Completion]:
        import torch

        if not requests:
            return []
        rendered = [render_ids(self.encoder, request.messages) for request in requests]
        with torch.inference_mode():
            tokens, logprobs = self._sample(rendered, [r.noise for r in requests], temperature)
        out = []
        for (ids, screens), row, scores in zip(rendered, tokens, logprobs, strict=True):
            ended = self.policy.eos_id in row
            length = row.index(self.policy.eos_id) + 1 if ended else len(row)
            text = str(self.policy.tokenizer.decode(row[: length - 1] if ended else row))
            out.append(
                Completion(text, tuple(ids), tuple(row[:length]), tuple(scores[:length]), not ended, tuple(screens))
            )
        return out

    def _sample(
        self, rendered: Sequence[tuple[list[int], list[Screen]]], names: Sequence[str], temperature: float
    ) -> tuple[list[list[int]], list[list[float]]]:
        import torch
        from transformers import StaticCache

        policy = self.policy
        count, longest = len(rendered), max(len(ids) for ids, _ in rendered)
        total = longest + self.max_new_tokens
        ids = np.full((count, longest), policy.pad_id, np.int64)
        positions = np.zeros((3, count, longest), np.int64)
        valid = np.zeros((count, total), np.bool_)
        patches: list[np.ndarray] = []
        sizes: list[tuple[int, int]] = []
        for b, (prompt, screens) in enumerate(rendered):
            own = [policy.grid.tokens(*screen.shape[:2]) for screen in screens]
            ids[b, longest - len(prompt) :] = prompt
            positions[:, b, longest - len(prompt) :] = rope_positions(np.array(prompt), policy.image_id, own)
            valid[b, longest - len(prompt) : longest] = True
            patches.extend(policy.grid.patches(screen) for screen in screens)
            sizes.extend(own)
        mask = np.zeros((count, longest, total), np.bool_)
        mask[:, :, :longest] = np.tril(np.ones((longest, longest), np.bool_)) & valid[:, None, :longest]
        # A padded query sees itself only: a row without any key would give NaN.
        mask[:, np.arange(longest), np.arange(longest)] = True
        features = policy.image_features(torch.from_numpy(np.concatenate(patches)), sizes) if patches else None
        cache = StaticCache(config=policy.model.config.text_config, max_cache_len=total)
        hidden = policy.hidden(
            torch.from_numpy(ids), torch.from_numpy(positions), torch.from_numpy(mask[:, None]), features, cache
        )
        logits = policy.logits(hidden[:, -1])
        step_mask = torch.from_numpy(valid)
        position = torch.from_numpy(positions[:, :, -1])
        noise = (
            [np.random.default_rng(stream_seed(self.seed, "sample", name)) for name in names] if temperature > 0 else []
        )
        tokens: list[list[int]] = [[] for _ in range(count)]
        logprobs: list[list[float]] = [[] for _ in range(count)]
        finished = np.zeros(count, np.bool_)
        for step in range(self.max_new_tokens):
            logits[:, self.banned] = float("-inf")
            scaled = logits / temperature if temperature > 0 else logits
            scores = torch.log_softmax(scaled, dim=-1)
            if temperature > 0:
                gumbel = np.stack([rng.gumbel(size=logits.shape[1]).astype(np.float32) for rng in noise])
                chosen = (scaled + torch.from_numpy(gumbel)).argmax(-1)
            else:
                chosen = scaled.argmax(-1)
            picked = scores.gather(1, chosen[:, None])[:, 0].tolist()
            for b, token in enumerate(chosen.tolist()):
                if not finished[b]:
                    tokens[b].append(token)
                    logprobs[b].append(min(0.0, picked[b]))
                    finished[b] = token == policy.eos_id
            if finished.all() or step + 1 == self.max_new_tokens:
                break
            position = position + 1
            step_mask[:, longest + step] = True
            hidden = policy.hidden(chosen[:, None], position[:, :, None], step_mask[:, None, None, :], None, cache)
            logits = policy.logits(hidden[:, -1])
        return tokens, logprobs


def banned_ids(policy: Policy) -> list[int]:
    """Ids that may never be sampled: special tokens other than the end. Banned in sampling and in the update alike."""
    return sorted(set(policy.tokenizer.all_special_ids) - {policy.eos_id})


def response_logprobs(policy: Policy, logits: torch.Tensor, targets: torch.Tensor, temperature: float) -> torch.Tensor:
    """(n, V) logits -> (n,) log-probabilities of `targets` as the sampler computes them."""
    import torch

    mask = torch.zeros(logits.shape[1], dtype=torch.bool)
    mask[banned_ids(policy)] = True
    scaled = logits.masked_fill(mask, float("-inf")) / temperature
    return torch.log_softmax(scaled, dim=-1).gather(1, targets[:, None])[:, 0]
