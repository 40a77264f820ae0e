from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from components.contracts.digests import digest_tree
from components.contracts.errors import CheckpointError
from components.training import checkpoint

FILES = {"weights.bin": b"\x00\x01" * 50, "sub/note.txt": "text"}


def test_what_was_saved_is_found_and_verified(tmp_path: Path) -> None:
    assert checkpoint.latest(tmp_path / "none") == (None, [])
    saved = checkpoint.save(tmp_path, 3, FILES, {"data_digest": "d"})
    found, warnings = checkpoint.latest(tmp_path)
    assert found == saved and warnings == [] and found is not None
    assert checkpoint.load(found.path).meta == {"data_digest": "d", "step": 3}
    assert (found.path / "sub/note.txt").read_text() == "text"


def test_only_the_newest_are_kept_and_never_fewer_than_one(tmp_path: Path) -> None:
    for step in (2, 10, 9, 100):
        checkpoint.save(tmp_path, step, FILES, {}, keep=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-00000010", "step-00000100"]
    checkpoint.save(tmp_path, 101, FILES, {}, keep=0)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-00000101"]


def test_half_written_checkpoints_are_named_and_passed_over(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, 1, FILES, {})
    second = checkpoint.save(tmp_path, 2, FILES, {})
    (second.path / checkpoint.STABLE).unlink()
    (tmp_path / ".partial-step-00000003").mkdir()
    found, warnings = checkpoint.latest(tmp_path)
    assert found is not None and found.step == 1
    assert len(warnings) == 2 and "step-00000002" in warnings[1] and "step-00000003" in warnings[0]
    assert checkpoint.save(tmp_path, 2, FILES, {}).step == 2, "a half-written step may be written again"


@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_a_damaged_file_is_named_and_nothing_is_overwritten(tmp_path: Path, damage: str) -> None:
    checkpoint.save(tmp_path, 1, FILES, {})
    last = checkpoint.save(tmp_path, 2, FILES, {})
    victim = last.path / "weights.bin"
    if damage == "cut":
        victim.write_bytes(victim.read_bytes()[:-1])
    elif damage == "flip":
        victim.write_bytes(b"\x02" + victim.read_bytes()[1:])
    else:
        victim.unlink()
    before = digest_tree(tmp_path)
    with pytest.raises(CheckpointError, match="weights.bin"):
        checkpoint.load(last.path)
    with pytest.raises(CheckpointError, match="already complete"):
        checkpoint.save(tmp_path, 2, FILES, {})
    found, _ = checkpoint.latest(tmp_path)
    assert found is not None and found.step == 2, "no silent fall-back to an older step"
    assert digest_tree(tmp_path) == before


def test_a_changed_manifest_is_not_believed(tmp_path: Path) -> None:
    saved = checkpoint.save(tmp_path, 1, FILES, {})
    manifest = saved.path / "manifest.json"
    manifest.write_text(manifest.read_text().replace("weights", "weighty"))
    assert checkpoint.latest(tmp_path)[0] is None
    with pytest.raises(CheckpointError, match="manifest"):
        checkpoint.load(saved.path)
    with pytest.raises(CheckpointError, match="not found"):
        checkpoint.load(tmp_path / "step-00000009")


def test_resume_under_other_conditions_is_refused_with_both_values() -> None:
    meta = {"data_digest": "old", "params_digest": "p", "step": 4}
    checkpoint.require_same(meta, {"params_digest": "p"}, required=["step"])
    with pytest.raises(CheckpointError) as caught:
        checkpoint.require_same(meta, {"data_digest": "new", "world_size": 4}, required=["data_position"])
    text = str(caught.value)
    for part in ("data_digest was old, now new", "world_size was not saved, now 4", "data_position is missing"):
        assert part in text


def test_a_failed_save_leaves_what_was_there(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, 1, FILES, {})
    before = digest_tree(tmp_path)

    def broken(folder: Path) -> None:
        (folder / "weights.bin").write_bytes(b"half")
        raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space"):
        checkpoint.save(tmp_path, 2, broken, {})
    with pytest.raises(CheckpointError, match="STABLE"):
        checkpoint.save(tmp_path, 2, {"STABLE": "fake"}, {})
    assert digest_tree(tmp_path) == before


def test_equal_state_gives_equal_bytes(tmp_path: Path) -> None:
    digests = {checkpoint.save(tmp_path / str(i), 1, FILES, {"b": 1, "a": 2}).digest for i in range(2)}
    assert len(digests) == 1


KILLED = """
import os, signal, sys
from pathlib import Path
from components.training import checkpoint
root, stop = Path(sys.argv[1]), int(sys.argv[2])
calls = 0
def deadly(real):
    def call(*args, **kwargs):
        global calls
        calls += 1
        if calls == stop:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)
    return call
for name in ("fsync", "rename", "replace", "rmdir", "unlink"):
    setattr(os, name, deadly(getattr(os, name)))
checkpoint.save(root, 2, {"a": b"2" * 9, "b": b"3" * 9}, {}, keep=1)
print("finished")
"""


def test_a_kill_at_any_moment_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    """SIGKILL before each flush, rename and removal of a save in turn: the newest complete checkpoint always loads."""
    outcomes = []
    for stop in range(1, 60):
        root = tmp_path / str(stop)
        checkpoint.save(root, 1, FILES, {})
        (root / "step-00000002").mkdir()  # an earlier half-written attempt at the same step
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(root), str(stop)],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
            capture_output=True,
            text=True,
        )
        found, _ = checkpoint.latest(root)
        assert found is not None
        for folder in root.glob("step-*"):
            if (folder / checkpoint.STABLE).exists():
                checkpoint.load(folder)  # whatever carries the marker is whole, also one that was being removed
        outcomes.append(found.step)
        if "finished" in done.stdout:
            break
        assert done.returncode == -9
        assert checkpoint.save(root, 3, FILES, {}, keep=1).step == 3, "the next run goes on, whatever was left"
    assert done.stdout == "finished\n"
    assert outcomes[0] == 1 and outcomes[-1] == 2 and outcomes == sorted(outcomes)


def test_atomic_dir_replaces_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    final = tmp_path / "out"
    with checkpoint.atomic_dir(final) as folder:
        (folder / "a").write_text("1")
        assert not final.exists()
    with pytest.raises(KeyboardInterrupt), checkpoint.atomic_dir(final) as folder:
        (folder / "a").write_text("2")
        raise KeyboardInterrupt
    assert (final / "a").read_text() == "1"
    with checkpoint.atomic_dir(final) as folder:
        (folder / "b").write_text("3")
    assert [p.name for p in final.iterdir()] == ["b"] and [p.name for p in tmp_path.iterdir()] == ["out"]


def test_atomic_dir_recovers_from_a_kill_between_its_renames(tmp_path: Path) -> None:
    (tmp_path / ".removed-out").mkdir()
    (tmp_path / ".removed-out" / "a").write_text("old")
    (tmp_path / ".partial-out").mkdir()
    with pytest.raises(ValueError, match="again"), checkpoint.atomic_dir(tmp_path / "out"):
        raise ValueError("fails again")
    assert (tmp_path / "out" / "a").read_text() == "old"


def test_too_little_space_is_said_with_both_numbers(tmp_path: Path) -> None:
    checkpoint.free_space_check(tmp_path / "not" / "there" / "yet", 1)
    with pytest.raises(CheckpointError, match=str(1 << 62)):
        checkpoint.free_space_check(tmp_path, 1 << 62)


# ------------------------------------------------------------------------------------------------- tensor state


class Tied(torch.nn.Module):
    def __init__(self, tied: bool = True) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(10, 4)
        self.mid = torch.nn.Linear(4, 4)
        self.head = torch.nn.Linear(4, 10, bias=False)
        if tied:
            self.head.weight = self.embed.weight
        self.register_buffer("count", torch.tensor(7))


def _train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    for _ in range(steps):
        tokens = torch.randint(0, 10, (6,))
        logits = model.head(torch.tanh(model.mid(model.embed(tokens))))  # type: ignore[operator]
        torch.nn.functional.cross_entropy(logits, tokens.roll(1)).backward()
        optimizer.step()
        optimizer.zero_grad()


def _make(seed: int) -> tuple[Tied, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    model = Tied()
    groups = [{"params": [model.embed.weight], "lr": 3e-3}, {"params": model.mid.parameters(), "weight_decay": 0.1}]
    return model, torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.98))


def test_a_resumed_training_equals_an_undisturbed_one_bit_for_bit(tmp_path: Path) -> None:
    model, optimizer = _make(0)
    _train(model, optimizer, 3)
    extra = {"data_position": 6, "betas": (0.9, 0.98), "scheduler": {"last": [1, 2]}, "ema": torch.ones(2)}
    saved = checkpoint.save(
        tmp_path, 3, lambda f: checkpoint.save_state(f, model=model, optimizer=optimizer, extra=extra), {}
    )
    _train(model, optimizer, 4)

    other, fresh = _make(99)
    back = checkpoint.load_state(checkpoint.load(saved.path).path, model=other, optimizer=fresh)
    assert torch.equal(back.pop("ema"), torch.ones(2))
    assert back == {k: v for k, v in extra.items() if k != "ema"}
    assert fresh.param_groups[0]["lr"] == 3e-3 and fresh.param_groups[1]["betas"] == (0.9, 0.98)
    _train(other, fresh, 4)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]), name
    assert other.head.weight.data_ptr() == other.embed.weight.data_ptr(), "the tie survives"
    mine, its = optimizer.state_dict()["state"], fresh.state_dict()["state"]
    assert all(torch.equal(mine[i][k], its[i][k]) for i in mine for k in mine[i])


def test_equal_state_is_written_as_equal_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        model, optimizer = _make(0)
        _train(model, optimizer, 2)
        checkpoint.save_state(tmp_path / name, model=model, optimizer=optimizer, extra={"x": 1})
    assert digest_tree(tmp_path / "a") == digest_tree(tmp_path / "b")


def test_tied_weights_are_stored_once_and_untied_ones_twice(tmp_path: Path) -> None:
    for tied in (True, False):
        folder = tmp_path / str(tied)
        checkpoint.save_state(folder, model=Tied(tied))
        stored = checkpoint.safetensors_check(folder / "model.safetensors")
        assert ("head.weight" in stored) is not tied and "embed.weight" in stored


def test_a_model_that_does_not_fit_is_refused_by_tensor_name(tmp_path: Path) -> None:
    checkpoint.save_state(tmp_path, model=torch.nn.Linear(3, 2))
    with pytest.raises(CheckpointError, match=r"weight has shape \(2, 3\)"):
        checkpoint.load_state(tmp_path, model=torch.nn.Linear(4, 2))
    with pytest.raises(CheckpointError, match="bias is not in the model"):
        checkpoint.load_state(tmp_path, model=torch.nn.Linear(3, 2, bias=False))
    with pytest.raises(CheckpointError, match="no optimizer state"):
        checkpoint.load_state(tmp_path, optimizer=_make(0)[1])


def test_a_cut_weight_file_is_named_before_anything_is_loaded(tmp_path: Path) -> None:
    model, optimizer = _make(0)
    _train(model, optimizer, 1)
    checkpoint.save_state(tmp_path, model=model, optimizer=optimizer)
    file = tmp_path / "optimizer.safetensors"
    file.write_bytes(file.read_bytes()[:-3])
    other, fresh = _make(5)
    before = other.mid.weight.clone()
    with pytest.raises(CheckpointError, match=r"optimizer.safetensors: file_cut"):
        checkpoint.load_state(tmp_path, model=other, optimizer=fresh)
    assert torch.equal(other.mid.weight, before)


def test_state_that_would_need_pickle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="extra.thing"):
        checkpoint.save_state(tmp_path, extra={"thing": object()})


def _file(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "x.safetensors"
    path.write_bytes(data)
    return path


def _weights(header: dict, data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


GOOD = {"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", "empty_file"),
        (b"\x10", "header_cut"),
        (_weights(GOOD, b"\0" * 8)[:20], "header_cut"),
        (_weights(GOOD, b"\0" * 7), "file_cut"),
        (_weights(GOOD, b"\0" * 9), "trailing_bytes"),
        ((1 << 40).to_bytes(8, "little") + b"{}", "header_too_large"),
        (b"<!DOCTYPE html><html></html>", "not_a_weight_file"),
        (b"version https://pointer\n", "not_a_weight_file"),
        (b"PK\x03\x04\x00\x00\x08\x08\x00\x00archive", "not_a_weight_file"),
        (_weights({"w": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}, b"\0" * 8), "header_broken"),
        (_weights({"w": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}}, b"\0" * 12), "header_broken"),
        (_weights({"w": {"dtype": "F32"}}, b""), "header_broken"),
        (b"\x05\0\0\0\0\0\0\0{oops", "header_broken"),
    ],
)
def test_a_damaged_weight_file_is_told_by_header_and_length(tmp_path: Path, data: bytes, error: str) -> None:
    path = _file(tmp_path, data)
    assert checkpoint.safetensors_report(path).error == error
    with pytest.raises(CheckpointError, match=rf"x.safetensors: {error}"):
        checkpoint.safetensors_check(path)


def test_a_whole_weight_file_lists_its_tensors(tmp_path: Path) -> None:
    header = {"__metadata__": {"format": "pt"}, **GOOD}
    assert checkpoint.safetensors_check(_file(tmp_path, _weights(header, b"\0" * 8))) == {"w": (2,)}
    assert checkpoint.safetensors_check(_file(tmp_path, _weights({}, b""))) == {}
