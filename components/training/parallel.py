"""Data parallel on one machine: N one-thread processes that sum their gradients, bit-equal on every run.

Two one-thread processes beat two OpenMP threads at tiny size (tiny-vlm.md part 1, section 1). The batch of a step is a
function of (seed, step), so ranks need no data exchange, only the gradient sum. Ranks of one machine share memory: they
lay their summands there, and gloo, which notices a rank that is gone, only tells them when all have.
"""

from __future__ import annotations

import math
import mmap
import os
import select
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from components.contracts.errors import BudgetError, CoworkError
from components.contracts.processes import die_with

if TYPE_CHECKING:
    import torch

GRACE_S = 2.0
"""How long a rank whose connection broke may take to end before it is ended."""


SHARED_BYTES = 1 << 26
"""Room for one rank's summand. Memory that is not touched is not taken; what needs more goes through gloo whole."""


class Ranks:
    """This process's place among its peers. `rooms`: memory of all of them, (2, size, bytes a room) uint8."""

    def __init__(self, rank: int, size: int, rooms: torch.Tensor | None = None) -> None:
        self.rank = rank
        self.size = size
        self._rooms = rooms
        self._turn = 0

    def share(self, items: list[Any]) -> list[Any]:
        """This rank's part of a list: every `size`-th item."""
        return items[self.rank :: self.size]

    def sum(self, values: torch.Tensor) -> None:
        """In-place sum over all ranks, in their order."""
        if self.size == 1:
            return
        import torch.distributed as dist

        if self._rooms is None or values.nbytes > self._rooms.shape[-1]:
            dist.all_reduce(values)
            return
        # Two rooms in turn: who writes into one again has heard that all have read it, since they wrote the other.
        self._turn = 1 - self._turn
        rooms = self._rooms[self._turn, :, : values.nbytes].view(values.dtype)
        rooms[self.rank] = values.reshape(-1)
        dist.barrier()
        first, *others = (room.view_as(values) for room in rooms)
        values.copy_(first)
        for other in others:
            values.add_(other)

    def gather(self, value: Any) -> list[Any]:
        """Every rank's value, in rank order, on every rank."""
        if self.size == 1:
            return [value]
        import torch.distributed as dist

        out: list[Any] = [None] * self.size
        dist.all_gather_object(out, value)
        return out


def shared_tensor(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Zeros that all processes forked from now on read and write in one place.

    Anonymous memory: what torch shares lies in `/dev/shm`, of which a container may have very little.
    """
    import torch

    count = math.prod(shape)
    memory = mmap.mmap(-1, max(1, count * dtype.itemsize))
    return torch.frombuffer(memory, dtype=dtype, count=count).view(shape)


def sum_gradients(
    ranks: Ranks,
    parameters: Iterable[torch.nn.Parameter],
    weight: float,
    figures: Sequence[float] = (),
    clip_norm: float = math.inf,
) -> tuple[float, list[float]]:
    """Sum gradients and loss weight over all ranks and divide: the divisor is the whole step's. Then cut the gradients
    to a total norm of at most `clip_norm`, as `torch.nn.utils.clip_grad_norm_` does, but on the one tensor they lie in.

    Returns the weight and the sums of `figures` (float32), which travel along: one message a step.
    """
    import torch

    parameters = [p for p in parameters if p.requires_grad]
    pieces = [p.grad.reshape(-1) if p.grad is not None else torch.zeros(p.numel()) for p in parameters]
    flat = torch.cat([*pieces, torch.tensor([weight, *figures], dtype=torch.float32)])
    ranks.sum(flat)
    own = flat.shape[0] - 1 - len(figures)
    total, *sums = flat[own:].tolist()
    gradients = flat[:own]
    if total > 0:
        gradients /= total
    if clip_norm < math.inf:
        gradients *= (clip_norm / (gradients.norm() + 1e-6)).clamp(max=1.0)
    for p, gradient in zip(parameters, gradients.split([p.numel() for p in parameters]), strict=True):
        p.grad = gradient.view_as(p)
    return total, sums


def run_ranks(function: Callable[[Ranks], Any], size: int) -> Any:
    """Call `function(ranks)` in `size` forked processes at once (rank 0 here); returns rank 0's result.

    A child that fails prints its traceback and makes the whole call fail; no child outlives the call.
    """
    import torch

    torch.set_num_threads(1)
    if size <= 1:
        return function(Ranks(0, 1))
    import torch.distributed as dist

    rooms = shared_tensor((2, size, SHARED_BYTES), torch.uint8)
    with _meeting_place() as store:
        children = [_fork(function, Ranks(rank, size, rooms), store) for rank in range(1, size)]
        codes: dict[int, int] = {}
        try:
            dist.init_process_group("gloo", init_method=store, rank=0, world_size=size)
            result = function(Ranks(0, size, rooms))
        except BaseException as error:
            # A peer that is gone shows here as a broken connection: its own end is the news then.
            codes = _ended(children, GRACE_S if isinstance(error, RuntimeError) else 0.0)
            for pid in children:
                if pid not in codes:
                    _kill(pid)
            if any(codes.values()) and not isinstance(error, BudgetError):  # all ranks stop at the cap together
                raise _rank_error(codes) from error
            raise
        finally:
            if dist.is_initialized():
                dist.destroy_process_group()
            for pid in children:
                if pid not in codes:
                    codes[pid] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if any(codes.values()):
            raise _rank_error(codes)
        return result


@contextmanager
def _meeting_place() -> Iterator[str]:
    """Where ranks find each other: a file without a name, which a kill leaves nothing of."""
    descriptor = os.memfd_create("cowork-ranks")
    try:
        yield f"file:///proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _rank_error(codes: Mapping[int, int]) -> CoworkError:
    return CoworkError(
        f"a training rank ended with {[code for code in codes.values() if code]}",
        where="ranks",
        remedy="see its traceback above (a negative number is the signal that killed it); run the stage again",
    )


def _ended(children: Iterable[int], seconds: float) -> dict[int, int]:
    """Exit codes of children that have ended, or do within `seconds`."""
    codes: dict[int, int] = {}
    deadline = time.monotonic() + seconds
    for pid in children:
        handle = os.pidfd_open(pid)
        try:
            if select.select([handle], [], [], max(0.0, deadline - time.monotonic()))[0]:
                codes[pid] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        finally:
            os.close(handle)
    return codes


def _fork(function: Callable[[Ranks], Any], ranks: Ranks, store: str) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        die_with(parent)
        import torch.distributed as dist

        dist.init_process_group("gloo", init_method=store, rank=ranks.rank, world_size=ranks.size)
        function(ranks)
        dist.destroy_process_group()
        code = 0
    except BudgetError as error:
        code = error.exit_code  # the lead says why
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _kill(pid: int) -> None:
    import signal

    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
