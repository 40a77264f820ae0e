from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from components.contracts.errors import CoworkError
from components.training.parallel import Ranks, run_ranks, sum_gradients
from pipelines.processes import alive
from pipelines.waiting import wait_until


def _pid_file(folder: Path, ranks: Ranks) -> None:
    (folder / f"rank{ranks.rank}").write_text(str(os.getpid()))


def _gone(folder: Path) -> bool:
    """Whether the child that wrote its id is no more."""
    pid = int((folder / "rank1").read_text())
    return wait_until(lambda: not alive(pid), 10.0)


def _train(ranks: Ranks) -> bytes:
    """Three steps on six numbers that are shared out; the weights' bytes."""
    weight = torch.nn.Parameter(torch.ones(5))
    optimizer = torch.optim.AdamW([weight], lr=0.1)
    data = torch.rand(6, 5, generator=torch.Generator().manual_seed(1))
    for step in range(3):
        optimizer.zero_grad()
        mine = data[torch.tensor(ranks.share(list(range(6))))]
        ((mine * weight).sum(1) - step).square().sum().backward()
        assert sum_gradients(ranks, [weight], float(len(mine)), [1.5]) == (6.0, [1.5 * ranks.size])
        optimizer.step()
    assert len({bytes(w) for w in ranks.gather(weight.detach().numpy().tobytes())}) == 1, "ranks hold equal weights"
    return weight.detach().numpy().tobytes()


def test_two_ranks_give_the_same_weights_every_time_and_nearly_those_of_one() -> None:
    first, second, alone = (run_ranks(_train, size) for size in (2, 2, 1))
    assert first == second
    one, two = (torch.frombuffer(bytearray(b), dtype=torch.float32) for b in (alone, first))
    assert torch.allclose(one, two, atol=1e-5) and not torch.equal(two, torch.ones(5))


def test_a_rank_without_samples_takes_part_and_adds_nothing() -> None:
    def work(ranks: Ranks) -> float:
        weight = torch.nn.Parameter(torch.ones(2))
        if ranks.rank == 0:
            (weight * torch.tensor([3.0, 5.0])).sum().backward()
        total, _ = sum_gradients(ranks, [weight], 2.0 if ranks.rank == 0 else 0.0)
        assert weight.grad is not None
        assert total == 2.0 and weight.grad.tolist() == [1.5, 2.5]
        return total

    assert run_ranks(work, 2) == 2.0


def test_gradients_are_cut_to_the_norm_that_torch_cuts_them_to() -> None:
    for limit in (0.5, 100.0):
        ours, theirs = ([torch.nn.Parameter(torch.ones(2, 3)), torch.nn.Parameter(torch.ones(4))] for _ in range(2))
        for weights in (ours, theirs):
            (weights[0].square().sum() * 2 + weights[1].sum()).backward()
        sum_gradients(Ranks(0, 1), ours, 1.0, clip_norm=limit)
        torch.nn.utils.clip_grad_norm_(theirs, limit)
        for a, b in zip(ours, theirs, strict=True):
            assert a.grad is not None and b.grad is not None and torch.allclose(a.grad, b.grad)


def test_sums_follow_each_other_in_shared_memory_or_out_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks of different speed; a value that a slow one has still to read is not written over."""

    def work(ranks: Ranks) -> list[list[float]]:
        found = []
        for turn in range(12):
            values = torch.full((3, 2 + turn % 4), float(10**ranks.rank * (turn + 1)))
            values = values.bfloat16() if turn % 3 == 2 else values
            if turn % 3 == ranks.rank:
                time.sleep(0.01)
            ranks.sum(values)
            assert (values == values[0, 0]).all()
            found.append([float(values[0, 0]), float(values.numel())])
        return found

    wanted = [[11.0 * (turn + 1), 3.0 * (2 + turn % 4)] for turn in range(12)]
    assert run_ranks(work, 2) == wanted
    monkeypatch.setattr("components.training.parallel.SHARED_BYTES", 32)
    assert run_ranks(work, 2) == wanted, "what is too large for the room goes another way"
    three = run_ranks(work, 3)
    assert [value for value, _ in three[:2]] == [111.0, 222.0]


def test_shares_are_every_nth_item_and_gather_keeps_the_order_of_ranks() -> None:
    assert [Ranks(r, 3).share(list("abcdefg")) for r in range(3)] == [list("adg"), list("be"), list("cf")]
    assert run_ranks(lambda ranks: ranks.gather(ranks.rank * 10), 2) == [0, 10]
    assert Ranks(0, 1).gather("x") == ["x"]


def _raise(ranks: Ranks) -> None:
    raise ValueError("broken on purpose")


def _killed(ranks: Ranks) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("ending", [_raise, _killed])
def test_a_child_that_dies_fails_the_call_and_leaves_no_process(
    tmp_path: Path, ending: Callable[[Ranks], None], capfd: pytest.CaptureFixture[str]
) -> None:
    def work(ranks: Ranks) -> None:
        _pid_file(tmp_path, ranks)
        if ranks.rank == 1:
            ending(ranks)
        ranks.sum(torch.zeros(1))

    with pytest.raises(CoworkError, match="rank ended with"):
        run_ranks(work, 2)
    assert _gone(tmp_path)
    assert not torch.distributed.is_initialized()
    if ending is _raise:
        assert "broken on purpose" in capfd.readouterr().err


def test_a_child_that_dies_after_its_work_is_not_overlooked() -> None:
    def work(ranks: Ranks) -> str:
        ranks.gather(0)
        if ranks.rank == 1:
            os._exit(3)
        return "done"

    with pytest.raises(CoworkError, match=r"\[3\]"):
        run_ranks(work, 2)


def test_a_failure_of_the_lead_ends_its_children(tmp_path: Path) -> None:
    def work(ranks: Ranks) -> None:
        _pid_file(tmp_path, ranks)
        ranks.gather(0)
        if ranks.rank == 0:
            raise KeyError("lead")
        signal.pause()

    with pytest.raises(KeyError):
        run_ranks(work, 2)
    assert _gone(tmp_path)


def test_children_do_not_outlive_a_lead_that_is_killed(tmp_path: Path) -> None:
    def work(ranks: Ranks) -> None:
        _pid_file(tmp_path, ranks)
        ranks.gather(0)
        if ranks.rank == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()

    pid = os.fork()
    if pid == 0:
        run_ranks(work, 2)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert _gone(tmp_path)
