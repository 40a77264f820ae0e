"""The policy: a Hugging Face vision-language model behind one small wrapper.

Tiny and 4B differ by configuration only. The wrapper computes the logits where they are needed (labels are a small
part of a sequence), takes block masks for packed questions, and leaves everything else to the stock class, loaded and
saved with `from_pretrained` / `save_pretrained` as safetensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from components.contracts.errors import CheckpointError
from components.contracts.params import Frozen
from components.training.last_layer import LastLayer, by_sequence

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerFast

MEAN = np.array([0.48145466, 0.4578275, 0.40821073], dtype=np.float32)
STD = np.array([0.26862954, 0.26130258, 0.27577711], dtype=np.float32)
"""CLIP's normalisation, as in the base model's processor (paper.md 1.1)."""
_NORMALISED = ((np.arange(256, dtype=np.float32) / 255.0 - MEAN[:, None]) / STD[:, None]).astype(np.float32)
"""(3, 256): what each byte of each channel becomes."""


@dataclass(frozen=True)
class VisionGrid:
    """How a screenshot becomes visual tokens. `patch` in px, `merge` patches a side of one token."""

    patch: int
    merge: int
    temporal: int

    def tokens(self, height: int, width: int) -> tuple[int, int]:
        """Visual tokens (rows, columns) of a height x width screen. Sizes must be whole tokens: nothing is resized."""
        unit = self.patch * self.merge
        if height % unit or width % unit:
            raise CheckpointError(
                f"a {width}x{height} screen is not a whole number of {unit} px tokens",
                where="vision",
                remedy="resize it with the model's processor first",
            )
        return height // unit, width // unit

    def patches(self, screen: NDArray[np.uint8]) -> NDArray[np.float32]:
        """(H, W, 3) uint8 -> (patches, 3 * temporal * patch * patch) float32, rows in merge-block order."""
        height, width, _ = screen.shape
        rows, columns = self.tokens(height, width)
        p, m = self.patch, self.merge
        count = rows * columns * m * m
        # Bytes are put in order first and looked up last: three times as fast as arithmetic on the whole screen.
        blocks = screen.reshape(rows, m, p, columns, m, p, 3).transpose(6, 0, 3, 1, 4, 2, 5).reshape(3, count, p * p)
        out = np.empty((count, 3, self.temporal, p * p), np.float32)
        for channel in range(3):
            out[:, channel] = _NORMALISED[channel].take(blocks[channel])[:, None]
        return out.reshape(count, -1)


def tiny_config(vocab_size: int, ids: dict[str, int]) -> Any:
    """Configuration of the tiny Qwen3-VL (tiny-vlm.md: two heads of 64, one to search and one to copy)."""
    from transformers import Qwen3VLConfig

    return Qwen3VLConfig(
        text_config={
            "vocab_size": vocab_size, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 3,
            "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 64, "max_position_embeddings": 2048,
            "rope_parameters": {
                "rope_type": "default", "rope_theta": 1e6, "mrope_section": [12, 10, 10], "mrope_interleaved": True
            },
            "tie_word_embeddings": True, "pad_token_id": ids["pad"], "eos_token_id": ids["eos"], "bos_token_id": None,
        },
        vision_config={
            "depth": 2, "hidden_size": 96, "intermediate_size": 192, "num_heads": 3, "patch_size": 16,
            "spatial_merge_size": 2, "temporal_patch_size": 1, "out_hidden_size": 128, "num_position_embeddings": 256,
            "deepstack_visual_indexes": [],
        },
        image_token_id=ids["image"], video_token_id=ids["video"], vision_start_token_id=ids["vision_start"],
        vision_end_token_id=ids["vision_end"], tie_word_embeddings=True,
    )  # fmt: skip


def init_tiny(config: Any, seed: int) -> Any:
    """A fresh model. Fan-in init and QK-norm weights of 1.5 instead of the stock 0.02 and 1 (tiny-vlm.md part 1, 3)."""
    import torch
    from transformers import Qwen3VLForConditionalGeneration

    torch.manual_seed(seed)
    model = Qwen3VLForConditionalGeneration(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            if "pos_embed" in name:
                weight.normal_(0.0, 0.5, generator=generator)
            elif "embed_tokens" in name:
                weight.normal_(0.0, weight.shape[1] ** -0.5, generator=generator)
            elif name.endswith(("q_norm.weight", "k_norm.weight")):
                weight.fill_(1.5)
            elif weight.dim() >= 2:
                weight.normal_(0.0, weight[0].numel() ** -0.5, generator=generator)
    return model


class Policy:
    """Model + tokenizer + vision grid. All tensors float32 on CPU in the tiny profile."""

    def __init__(self, model: Any, tokenizer: PreTrainedTokenizerFast) -> None:
        linear_patches(model)
        self.model = model
        self.tokenizer = tokenizer
        config = model.config
        self.grid = VisionGrid(
            config.vision_config.patch_size,
            config.vision_config.spatial_merge_size,
            config.vision_config.temporal_patch_size,
        )
        self.image_id: int = config.image_token_id
        self.pad_id: int = int(tokenizer.pad_token_id)
        self.eos_id: int = int(tokenizer.eos_token_id)
        self.vision_frozen = False
        language_model = model.model.language_model
        self._last = LastLayer(language_model) if LastLayer.fits(language_model) else None

    @staticmethod
    def load(path: Path) -> Policy:
        """Load a checkpoint directory. Errors name the file that is missing or damaged."""
        from transformers import AutoModelForImageTextToText, AutoTokenizer

        from components.training.tensor_state import safetensors_check

        for name in ("config.json", "model.safetensors", "tokenizer.json"):
            if not (path / name).is_file():
                raise CheckpointError(
                    f"{name} is missing", where=str(path), remedy="run the stage that makes this checkpoint"
                )
        safetensors_check(path / "model.safetensors")
        import torch

        model = AutoModelForImageTextToText.from_pretrained(path, dtype=torch.float32, local_files_only=True)
        tokenizer: Any = AutoTokenizer.from_pretrained(path, local_files_only=True)
        return Policy(model, tokenizer)

    def save(self, path: Path) -> None:
        """Write weights (safetensors), configuration and tokenizer. Same weights give the same bytes."""
        path.mkdir(parents=True, exist_ok=True)
        self.model.save_pretrained(path, safe_serialization=True)
        self.tokenizer.save_pretrained(path)

    def freeze(self, parts: Iterable[Frozen], coord_step: float) -> None:
        """Keep parts as they are: no gradients for them, and for the vision encoder none computed through it.

        Numbers that are multiples of `coord_step` may be a half of a point, so `names` leaves them free.
        """
        for part in parts:
            if part == "vision":
                self.vision_frozen = True
                for weight in self.model.model.visual.parameters():
                    weight.requires_grad_(False)
            else:
                self._freeze_rows(name_ids(self.tokenizer, coord_step))

    def _freeze_rows(self, ids: Sequence[int]) -> None:
        """No gradient for these tokens' embeddings. The optimizer must not decay embeddings: a row would shrink."""
        import torch

        rows = torch.tensor(ids)
        self.model.model.language_model.embed_tokens.weight.register_hook(lambda grad: grad.index_fill(0, rows, 0.0))

    def parameters(self) -> int:
        return sum(p.numel() for p in self.model.parameters())

    # -- forward -------------------------------------------------------------------------------------------

    def image_features(self, patches: torch.Tensor, sizes: Sequence[tuple[int, int]]) -> torch.Tensor:
        """(sum of patches, 768) and token grids (rows, columns) per image -> (sum of tokens, hidden)."""
        import torch

        m = self.grid.merge
        grid = torch.tensor([[1, rows * m, columns * m] for rows, columns in sizes], dtype=torch.long)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.vision_frozen):
            return self.model.model.visual(patches, grid_thw=grid).pooler_output

    def hidden(
        self,
        ids: torch.Tensor,
        position_ids: torch.Tensor,
        attention: torch.Tensor | None,
        features: torch.Tensor | None,
        cache: Any = None,
    ) -> torch.Tensor:
        """(B, L) ids, (3, B, L) positions, (B, 1, L, K) bool mask -> (B, L, hidden).

        Image features (rows) take the places of `<|image_pad|>` in order.
        """
        embeds = self.model.model.language_model.embed_tokens(ids)
        if features is not None:
            embeds = embeds.masked_scatter((ids == self.image_id)[..., None], features.to(embeds.dtype))
        out = self.model.model.language_model(
            inputs_embeds=embeds,
            position_ids=position_ids,
            attention_mask=attention,
            cache=cache,
            use_cache=cache is not None,
        )
        return out.last_hidden_state

    def hidden_at(
        self,
        ids: torch.Tensor,
        position_ids: torch.Tensor,
        attention: torch.Tensor,
        features: torch.Tensor | None,
        rows: torch.Tensor,
        columns: torch.Tensor,
        cache: Any = None,
    ) -> torch.Tensor:
        """The states of `hidden` at the n places (rows, columns), rows ascending: (n, hidden)."""
        if self._last is None:
            return self.hidden(ids, position_ids, attention, features, cache)[rows, columns]
        table, inside = by_sequence(rows, columns, len(ids))
        with self._last.only(table):
            return self.hidden(ids, position_ids, attention, features, cache)[rows, inside]

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.model.lm_head(hidden)


def name_ids(tokenizer: PreTrainedTokenizerFast, coord_step: float) -> list[int]:
    """Ids of the words and numbers that tasks are about, those that a tokenizer has as one token.

    Words of `forge.words.BANK` and two-digit numbers that no point is written with. Tasks of another split are about
    other ones: whatever a stage did to the embeddings of those it saw, the others would not follow.
    """
    from components.forge.words import BANK

    words = [word for group in BANK.values() for word in group]
    numbers = [str(number) for number in range(10, 100) if number % coord_step]
    encoded = [tokenizer(word, add_special_tokens=False).input_ids for word in [*words, *numbers]]
    return sorted(ids[0] for ids in encoded if len(ids) == 1)


def linear_patches(model: Any) -> None:
    """Let the patch embedding multiply instead of convolve. Its input is already cut into patches, so a convolution
    whose kernel is its stride is one matrix product, on a CPU several times faster, backward above all."""
    import torch.nn.functional as F

    embed = model.model.visual.patch_embed
    projection = embed.proj

    def forward(patches: torch.Tensor) -> torch.Tensor:
        weight = projection.weight.reshape(projection.weight.shape[0], -1)
        return F.linear(patches.reshape(-1, weight.shape[1]).to(weight.dtype), weight, projection.bias)

    embed.forward = forward


def rope_positions(ids: NDArray[np.int64], image_id: int, sizes: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """(3, L) multimodal positions of one sequence, as Qwen3-VL counts them.

    Text counts on along all three axes. An image of rows x columns tokens takes (start, start + row, start + column),
    and the text after it goes on at start + max(rows, columns).
    """
    out = np.zeros((3, len(ids)), dtype=np.int64)
    images = iter(sizes)
    position, i = 0, 0
    is_image = ids == image_id
    while i < len(ids):
        if is_image[i]:
            rows, columns = next(images)
            n = rows * columns
            out[0, i : i + n] = position
            out[1, i : i + n] = position + np.repeat(np.arange(rows), columns)
            out[2, i : i + n] = position + np.tile(np.arange(columns), rows)
            position += max(rows, columns)
            i += n
        else:
            j = i
            while j < len(ids) and not is_image[j]:
                j += 1
            out[:, i:j] = np.arange(position, position + j - i)
            position += j - i
            i = j
    return out
