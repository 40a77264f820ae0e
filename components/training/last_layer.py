"""Runs a model's last layer for the places whose states are wanted, and not for all others.

Labels are a small part of a sequence (one token in six in the tiny recipe), and nothing reads the last layer anywhere
else: its queries, its feed-forward part and the final norm are worked out for the wanted places alone; its keys and
values, which those places look at, for all. A hook before the layer does it, so that the stock class runs as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


class _Known:
    """Answers as a cache does: the keys and values of every place, whatever the layer has at hand."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        self.known = keys, values

    def update(self, *_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return self.known


class LastLayer:
    """The hook on a language model's last layer; at rest but within `only`."""

    def __init__(self, language_model: Any) -> None:
        self._layer = language_model.layers[-1]
        self._places: torch.Tensor | None = None
        self._layer.register_forward_pre_hook(self._narrow, with_kwargs=True)

    @staticmethod
    def fits(language_model: Any) -> bool:
        """Whether the hook knows this class: attention as in Qwen3, and nothing added behind the layers."""
        return bool(language_model.config.model_type == "qwen3_vl_text")

    @contextmanager
    def only(self, places: torch.Tensor) -> Iterator[None]:
        """Within, the layer gives (B, S, hidden) for the (B, S) places of each sequence."""
        self._places = places
        try:
            yield
        finally:
            self._places = None

    def _narrow(self, layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        places = self._places
        if places is None:
            return None
        from transformers.models.qwen3_vl.modeling_qwen3_vl import rotate_half

        (states,) = args
        cos, sin = kwargs["position_embeddings"]
        attention, normed = layer.self_attn, layer.input_layernorm(states)
        by_head = (*states.shape[:-1], -1, attention.head_dim)
        keys = attention.k_norm(attention.k_proj(normed).view(by_head)).transpose(1, 2)
        keys = keys * cos.unsqueeze(1) + rotate_half(keys) * sin.unsqueeze(1)
        values = attention.v_proj(normed).view(by_head).transpose(1, 2)
        cache = kwargs.get("cache")
        if cache is not None:
            keys, values = cache.update(keys, values, attention.layer_idx)
        mask = kwargs["attention_mask"]
        kwargs = {
            **kwargs,
            "cache": _Known(keys, values),
            "position_embeddings": (_take(cos, places), _take(sin, places)),
            "attention_mask": mask.gather(2, places[:, None, :, None].expand(-1, mask.shape[1], -1, mask.shape[3])),
        }
        return (_take(states, places),), kwargs


def _take(values: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """(B, L, n), (B, S) -> (B, S, n)."""
    return values.gather(1, places[..., None].expand(-1, -1, values.shape[-1]))


def by_sequence(rows: torch.Tensor, columns: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Places listed sequence by sequence, (n,) and (n,), as a (count, S) table and each one's column in it.

    `rows` ascend. What is left over at the end of a row of the table is place 0: worked out and not read.
    """
    import torch

    sizes = torch.bincount(rows, minlength=count)
    inside = torch.arange(len(rows)) - (sizes.cumsum(0) - sizes)[rows]
    table = torch.zeros((count, int(sizes.max())), dtype=torch.long)
    table[rows, inside] = columns
    return table, inside
