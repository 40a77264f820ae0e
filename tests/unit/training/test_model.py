from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from components.contracts.errors import CheckpointError
from components.training.engine import render_ids
from components.training.model import Policy, rope_positions
from components.training.sequences import Encoder
from tests.unit.training.kit import prompt, screen, small_policy, write_policy


def test_positions_are_those_of_the_stock_class() -> None:
    policy = small_policy()
    encoder = Encoder(policy)
    for past, seed in ((0, 1), (1, 2), (4, 3), (6, 4)):
        ids, screens = render_ids(encoder, prompt(past, seed))
        row = np.array(ids, np.int64)
        sizes = [policy.grid.tokens(*s.shape[:2]) for s in screens]
        merge = policy.grid.merge
        grid = torch.tensor([[1, r * merge, c * merge] for r, c in sizes])
        kinds = torch.from_numpy((row == policy.image_id).astype(np.int32))[None]
        theirs, _ = policy.model.model.get_rope_index(torch.from_numpy(row)[None], kinds, image_grid_thw=grid)
        assert np.array_equal(rope_positions(row, policy.image_id, sizes), theirs[:, 0].numpy())


def test_wrapper_computes_the_logits_of_the_stock_forward() -> None:
    policy = small_policy(layers=2)
    encoder = Encoder(policy)
    ids, screens = render_ids(encoder, prompt(2, 7))
    row = torch.tensor([ids])
    sizes = [policy.grid.tokens(*s.shape[:2]) for s in screens]
    patches = torch.from_numpy(np.concatenate([policy.grid.patches(s) for s in screens]))
    merge = policy.grid.merge
    with torch.no_grad():
        grid = torch.tensor([[1, r * merge, c * merge] for r, c in sizes])
        kinds = (row == policy.image_id).int()
        stock = policy.model(
            input_ids=row, attention_mask=torch.ones_like(row), pixel_values=patches, image_grid_thw=grid,
            mm_token_type_ids=kinds,
        ).logits  # fmt: skip
        positions = torch.from_numpy(rope_positions(np.array(ids), policy.image_id, sizes))[:, None]
        causal = torch.ones(len(ids), len(ids), dtype=torch.bool).tril()[None, None]
        ours = policy.logits(policy.hidden(row, positions, causal, policy.image_features(patches, sizes)))
    assert torch.allclose(ours, stock, atol=1e-4)
    assert stock.std() > 0.1, "logits that are all alike would agree with anything"


def test_patches_are_in_the_order_of_the_stock_image_processor() -> None:
    from transformers import Qwen2VLImageProcessor

    policy = small_policy()
    picture = screen(5, 128, 96)
    processor = Qwen2VLImageProcessor(
        do_resize=False, patch_size=16, merge_size=2, temporal_patch_size=1,
        image_mean=[0.48145466, 0.4578275, 0.40821073], image_std=[0.26862954, 0.26130258, 0.27577711],
    )  # fmt: skip
    theirs = processor(images=[picture], return_tensors="np")
    assert np.allclose(policy.grid.patches(picture), theirs["pixel_values"], atol=1e-5)


def test_a_screen_that_is_no_whole_number_of_tokens_is_refused() -> None:
    with pytest.raises(CheckpointError, match="32 px"):
        small_policy().grid.patches(screen(1, 100, 64))


def test_save_and_load_keep_every_bit(tmp_path: Path) -> None:
    policy = small_policy(seed=3)
    policy.save(tmp_path / "a")
    loaded = Policy.load(tmp_path / "a")
    before, after = policy.model.state_dict(), loaded.model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    loaded.save(tmp_path / "b")
    Policy.load(tmp_path / "b").save(tmp_path / "c")
    weights = "model.safetensors"
    assert (tmp_path / "a" / weights).read_bytes() == (tmp_path / "b" / weights).read_bytes()
    names = sorted(p.name for p in (tmp_path / "b").iterdir())
    assert len(names) >= 5
    for name in names:
        assert (tmp_path / "b" / name).read_bytes() == (tmp_path / "c" / name).read_bytes(), name


def test_the_stock_auto_class_loads_a_checkpoint(tmp_path: Path) -> None:
    from transformers import AutoModelForImageTextToText, Qwen3VLForConditionalGeneration

    model = AutoModelForImageTextToText.from_pretrained(
        write_policy(tmp_path / "policy"), local_files_only=True, trust_remote_code=False
    )
    assert type(model) is Qwen3VLForConditionalGeneration


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    folder = write_policy(tmp_path / "policy")
    (folder / name).unlink()
    with pytest.raises(CheckpointError, match=f"{name} is missing") as caught:
        Policy.load(folder)
    assert str(folder) in str(caught.value)


def test_a_truncated_weight_file_is_named_before_anything_is_loaded(tmp_path: Path) -> None:
    folder = write_policy(tmp_path / "policy")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="file_cut") as caught:
        Policy.load(folder)
    assert "model.safetensors" in str(caught.value)
