"""The in-process engine: batched sampling from a `Policy` with exact token ids and log-probabilities.

Left-padded prompts, one static key-value cache, greedy or temperature sampling. A sampled call draws its noise from the
request's own named stream (Gumbel-max), so what is sampled depends on neither batch nor order, only on the logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from components.contracts.folding import ImagePart, Message
from components.contracts.rng import stream_seed
from components.rollout.policy import Completion, Request
from components.training.model import Policy, rope_positions
from components.training.screen_features import Encoded
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
            prompts = Prompts.of(self.policy, rendered)
            decoder = _Decoder(self.policy, prompts, self.max_new_tokens)
            noise = [stream_seed(self.seed, "sample", request.noise) for request in requests] if temperature > 0 else []
            tokens, logprobs = decoder.sample(noise, temperature, self.banned)
        out = []
        for (ids, _), screens, row, scores in zip(rendered, prompts.screens, tokens, logprobs, strict=True):
            ended = self.policy.eos_id in row
            text = str(self.policy.tokenizer.decode(row[:-1] if ended else row))
            out.append(Completion(text, tuple(ids), tuple(row), tuple(scores), not ended, screens))
        return out


@dataclass(frozen=True)
class Prompts:
    """Left-padded prompts of a batch. `ids`, `valid` (B, L); `positions` (3, B, L); `features` (tokens, hidden).

    `screens`: each prompt's, for a sample to be trained on. With the encoder frozen these are what it made of them:
    nobody need encode them again.
    """

    ids: NDArray[np.int64]
    valid: NDArray[np.bool_]
    positions: NDArray[np.int64]
    features: torch.Tensor | None
    screens: list[tuple[Any, ...]]

    @staticmethod
    def of(policy: Policy, rendered: Sequence[tuple[list[int], list[Screen]]]) -> Prompts:
        import torch

        count, longest = len(rendered), max(len(ids) for ids, _ in rendered)
        ids = np.full((count, longest), policy.pad_id, np.int64)
        positions = np.zeros((3, count, longest), np.int64)
        valid = np.zeros((count, longest), np.bool_)
        for b, (prompt, screens) in enumerate(rendered):
            own = [policy.grid.tokens(*screen.shape[:2]) for screen in screens]
            ids[b, longest - len(prompt) :] = prompt
            positions[:, b, longest - len(prompt) :] = rope_positions(np.array(prompt), policy.image_id, own)
            valid[b, longest - len(prompt) :] = True
        encoded = _encoded(policy, [screen for _, screens in rendered for screen in screens])
        features = torch.cat([screen.features for screen in encoded]) if encoded else None
        shown: list[tuple[Any, ...]] = [tuple(screens) for _, screens in rendered]
        if policy.vision_frozen:
            each = iter(encoded)
            shown = [tuple(next(each) for _ in screens) for screens in shown]
        return Prompts(ids, valid, positions, features, shown)


def _encoded(policy: Policy, screens: Sequence[Screen]) -> list[Encoded]:
    """What the encoder makes of each screen. Equal ones go through it once: attempts at one task begin with the same
    screen, and often go on alike."""
    import torch

    keys = [(screen.shape, screen.tobytes()) for screen in screens]
    distinct = dict(zip(keys, screens, strict=True))
    if not distinct:
        return []
    sizes = [policy.grid.tokens(*screen.shape[:2]) for screen in distinct.values()]
    patches = np.concatenate([policy.grid.patches(screen) for screen in distinct.values()])
    pieces = policy.image_features(torch.from_numpy(patches), sizes).split([rows * columns for rows, columns in sizes])
    # Copies: a sample that is kept would else hold the whole batch.
    made = {key: Encoded(piece.clone(), size) for key, piece, size in zip(distinct, pieces, sizes, strict=True)}
    return [made[key] for key in keys]


class _Decoder:
    """Reads a batch of prompts and writes their answers, a token each at a time."""

    def __init__(self, policy: Policy, prompts: Prompts, max_new_tokens: int) -> None:
        import torch
        from transformers import StaticCache

        self.policy, self.max_new_tokens = policy, max_new_tokens
        count, self.longest = prompts.ids.shape
        total = self.longest + max_new_tokens
        mask = np.zeros((count, self.longest, total), np.bool_)
        mask[:, :, : self.longest] = np.tri(self.longest, dtype=np.bool_) & prompts.valid[:, None]
        # A padded query sees itself only: a row without any key would give NaN.
        mask[:, np.arange(self.longest), np.arange(self.longest)] = True
        self.cache = StaticCache(config=policy.model.config.text_config, max_cache_len=total)
        states = policy.hidden_at(
            torch.from_numpy(prompts.ids), torch.from_numpy(prompts.positions), torch.from_numpy(mask[:, None]),
            prompts.features, torch.arange(count), torch.full((count,), self.longest - 1), self.cache,
        )  # fmt: skip
        self.logits = policy.logits(states)
        self.mask = torch.zeros((count, total), dtype=torch.bool)
        self.mask[:, : self.longest] = torch.from_numpy(prompts.valid)
        self.position = torch.from_numpy(prompts.positions[:, :, -1])
        self.rows = np.arange(count)
        """Which prompt each row of the tensors belongs to: rows that have ended are put away in the end."""

    def sample(
        self, seeds: Sequence[int], temperature: float, banned: Sequence[int]
    ) -> tuple[list[list[int]], list[list[float]]]:
        """Tokens and their log-probabilities, up to the end token and with it. Greedy when `temperature` is 0."""
        import torch

        noise = [np.random.default_rng(seed) for seed in seeds]
        tokens: list[list[int]] = [[] for _ in self.rows]
        logprobs: list[list[float]] = [[] for _ in self.rows]
        going = np.ones(len(self.rows), np.bool_)
        for step in range(self.max_new_tokens):
            self.logits[:, banned] = float("-inf")
            scaled = self.logits / temperature if temperature > 0 else self.logits
            scores = torch.log_softmax(scaled, dim=-1)
            if temperature > 0:
                width = scaled.shape[1]
                gumbel = np.stack([noise[row].gumbel(size=width).astype(np.float32) for row in self.rows])
                chosen = (scaled + torch.from_numpy(gumbel)).argmax(-1)
            else:
                chosen = scaled.argmax(-1)
            picked = scores.gather(1, chosen[:, None])[:, 0].tolist()
            for place, (row, token) in enumerate(zip(self.rows.tolist(), chosen.tolist(), strict=True)):
                if going[place]:
                    tokens[row].append(token)
                    logprobs[row].append(min(0.0, picked[place]))
                    going[place] = token != self.policy.eos_id
            if not going.any() or step + 1 == self.max_new_tokens:
                break
            if going.sum() * 2 <= len(going):
                keep = torch.from_numpy(np.flatnonzero(going))
                self._keep(keep)
                chosen, going = chosen[keep], going[going]
            self._read(chosen, step)
        return tokens, logprobs

    def _keep(self, places: torch.Tensor) -> None:
        """Put away all other rows: few answers are long, and every row costs as long as it is there."""
        self.rows = self.rows[places.numpy()]
        self.mask, self.position = self.mask[places], self.position[:, places]
        layer: Any
        for layer in self.cache.layers:
            layer.keys, layer.values = layer.keys[places], layer.values[places]

    def _read(self, chosen: torch.Tensor, step: int) -> None:
        self.position = self.position + 1
        self.mask[:, self.longest + step] = True
        states = self.policy.hidden(
            chosen[:, None], self.position[:, :, None], self.mask[:, None, None, :], None, self.cache
        )
        self.logits = self.policy.logits(states[:, -1])


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
