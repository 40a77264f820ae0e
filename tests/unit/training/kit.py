"""A policy of one small layer, screens and prompts for the tests of training, rollout and evaluation."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from components.contracts.folding import ContextLimits, ImagePart, Message, TextPart, Turn, fold
from components.contracts.params import Params
from components.harness.spec import default_spec
from components.training.make_base import make_tokenizer
from components.training.model import Policy, init_tiny
from components.training.tokenizer import IMAGE_PAD, VIDEO_PAD, VISION_END, VISION_START

torch.set_num_threads(1)


@lru_cache(maxsize=1)
def tokenizer() -> Any:
    return make_tokenizer()


def small_policy(seed: int = 0, layers: int = 1) -> Policy:
    """The tiny architecture with a hidden size of 32: real tokenizer, real class, milliseconds."""
    from transformers import Qwen3VLConfig

    words = tokenizer()
    of = words.convert_tokens_to_ids
    config = Qwen3VLConfig(
        text_config={
            "vocab_size": len(words), "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": layers,
            "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 2048,
            "rope_parameters": {
                "rope_type": "default", "rope_theta": 1e6, "mrope_section": [4, 2, 2], "mrope_interleaved": True
            },
            "tie_word_embeddings": True, "pad_token_id": words.pad_token_id, "eos_token_id": words.eos_token_id,
            "bos_token_id": None,
        },
        vision_config={
            "depth": 1, "hidden_size": 32, "intermediate_size": 32, "num_heads": 2, "patch_size": 16,
            "spatial_merge_size": 2, "temporal_patch_size": 1, "out_hidden_size": 32, "num_position_embeddings": 64,
            "deepstack_visual_indexes": [],
        },
        image_token_id=of(IMAGE_PAD), video_token_id=of(VIDEO_PAD), vision_start_token_id=of(VISION_START),
        vision_end_token_id=of(VISION_END), tie_word_embeddings=True,
    )  # fmt: skip
    policy = Policy(init_tiny(config, seed), words)
    policy.model.eval()
    return policy


@lru_cache(maxsize=1)
def saved_policy_bytes() -> dict[str, bytes]:
    """The files of a saved small policy."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        small_policy().save(Path(folder))
        return {p.name: p.read_bytes() for p in Path(folder).iterdir()}


def write_policy(folder: Path) -> Path:
    """The same small policy as a checkpoint directory."""
    folder.mkdir(parents=True)
    for name, data in saved_policy_bytes().items():
        (folder / name).write_bytes(data)
    return folder


def screen(seed: int, width: int = 96, height: int = 64) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


RESPONSE = (
    "<think>the {} is not open</think>\nAction: click the {} button\n<tool_call>\n"
    '{{"name": "computer_use", "arguments": {{"action": "left_click", "coordinate": [{}, {}]}}}}\n</tool_call>'
)


def response(i: int = 0) -> str:
    return RESPONSE.format("notes", "save", 25 * (3 + i), 50 * (1 + i))


def turns(past: int, seed: int = 0) -> list[Turn]:
    """`past` answered turns, one of them a terminal call, and a newest one."""
    out = []
    for i in range(past):
        seen = screen(seed * 100 + i)
        out.append(Turn(seen, "total.txt\nreport.csv" if i == 1 else None, response(i), f"click {i}"))
    return [*out, Turn(screen(seed * 100 + 99), "exit 1" if past == 2 else None)]


def prompt(past: int = 1, seed: int = 0) -> list[Message]:
    limits = ContextLimits(3, 4, 12)
    return fold("You work.\nYou have no terminal.", f"delete total{seed}.txt", turns(past, seed), limits)


def click_prompt(seed: int) -> list[Message]:
    return [
        Message("system", (TextPart("You point."),)),
        Message("user", (ImagePart(screen(seed)), TextPart(f"click the save button {seed}"))),
    ]


def params(**changes: Any) -> Params:
    """The tiny profile with changed values; keys are dotted with `__` for the dot."""
    import yaml

    data = yaml.safe_load((Path(__file__).parents[3] / "params.yaml").read_text())
    for key, value in changes.items():
        *path, last = key.split("__")
        at = data
        for name in path:
            at = at[name]
        at[last] = value
    return Params.model_validate(data)


def hybrid() -> Any:
    return default_spec("hybrid")
