"""How fast the parts are on this machine: `python -m components.evaluation.speed`, one process, one thread.

Each figure is the median of several repeats, with the lowest and the highest. What one process computes is told per
second of one core, so that a neighbour's load does not count; what waits for others (shell, RL with its shells) in
seconds of the clock. Prints one JSON object a line.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from components.contracts.arguments import arguments_of
from components.contracts.calls import ComputerUse
from components.contracts.coords import ScreenSpace
from components.contracts.errors import SandboxError
from components.contracts.load_params import load_params
from components.contracts.params import Params
from components.contracts.response import render_response
from components.contracts.stage import StepContext
from components.contracts.task import Task, Verdict
from components.evaluation.single_step import StepItem, collect_items
from components.harness.spec import default_spec
from components.rollout.policy import Request
from components.rollout.slots import scratch_root, slots

if TYPE_CHECKING:
    from components.training.model import Policy


@dataclass(frozen=True)
class Figure:
    """One measured figure: median, extremes and number of repeats."""

    name: str
    unit: str
    median: float
    low: float
    high: float
    repeats: int


def figure(name: str, unit: str, values: Sequence[float]) -> Figure:
    return Figure(name, unit, statistics.median(values), min(values), max(values), len(values))


def seconds(work: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """Seconds of a call: of one core (this process), or of another clock."""
    began = clock()
    work()
    return clock() - began


def waited(work: Callable[[], object]) -> float:
    """Seconds of the wall clock."""
    return seconds(work, time.perf_counter)


def desktop(scratch: Path, repeats: int, steps: int = 240) -> Iterator[Figure]:
    """Actions and screens of a MiniDesk without a shell: windows are opened and closed, the pointer moves."""
    from components.sandbox.minidesk.desktop import MiniDesk

    task = Task.build(
        skill="speed", workflow="speed", apps=("files",), channels=(("gui",),), instruction="", wording="speed",
        spec={}, setup=(), verifier=(), split="train",
    )  # fmt: skip
    desk = MiniDesk(scratch / "desk", prepare=lambda *_: None, grade=lambda *_: Verdict(success=False))
    icons = [e.center for e in desk.reset(task).elements if e.kind == "icon"]
    actions = ("double_click", "mouse_move", "left_click")
    rates, renders = [], []
    for _ in range(repeats):
        began, drawn = time.process_time(), 0.0
        for k in range(steps):
            desk.act(ComputerUse(action=actions[k % 3], coordinate=icons[k // 3 % len(icons)]))  # type: ignore[arg-type]
            drawn += seconds(desk.observe)
        rates.append(steps / (time.process_time() - began))
        renders.append(1000 * drawn / steps)
    desk.close()
    yield figure("minidesk, no shell", "steps/s of one core", rates)
    yield figure("screen and element list", "ms of one core", renders)


def shell(scratch: Path, repeats: int, unconfined: bool) -> Iterator[Figure]:
    """The confined shell: the first command (it starts bash), and one command after that."""
    from components.sandbox.shell import ShellSession

    starts, calls = [], []
    for k in range(repeats):
        home = scratch / f"home{k}"
        home.mkdir()
        session = ShellSession(home, unconfined=unconfined)
        try:
            command = partial(session.run, "true", 10.0)
            starts.append(1000 * waited(command))
            calls += [1000 * waited(command) for _ in range(10)]
        finally:
            session.close()
    yield figure("shell, start and first command", "ms", starts)
    yield figure("shell, one command", "ms", calls)


def sample_steps(params: Params, work: Path, count: int) -> list[StepItem]:
    """Steps of the scripted teacher on generated tasks: prompts as they are in training and evaluation."""
    from components.forge.generate import generate

    tasks = generate(0, {"train": 2 * count}, lambda batch: [""] * len(batch)).tasks
    harness = default_spec("gui")
    return collect_items(tasks, harness, params.context, params.model, slots(work, harness), 0, count)


def engine(policy: Policy, params: Params, items: Sequence[StepItem], repeats: int) -> Iterator[Figure]:
    """Sampling, all prompts in one batch and up to the token limit, prefill and pictures included."""
    from components.training.engine import LocalClient

    client = LocalClient(policy, params.model.max_new_tokens, batch=len(items))
    client.banned.append(policy.eos_id)  # else the figure tells how soon a policy ends
    requests = [Request(item.messages, f"speed/{k}") for k, item in enumerate(items)]
    rates = []
    for _ in range(repeats):
        began = time.process_time()
        done = client.complete(requests, params.rl.temperature)
        rates.append(sum(len(c.response_ids) for c in done) / (time.process_time() - began))
    yield figure(f"engine, {len(items)} requests at once", "tokens/s of one core", rates)


def supervised(policy: Policy, params: Params, items: Sequence[StepItem], repeats: int) -> Iterator[Figure]:
    """Optimiser steps at the recipe's batch on agent steps, without loading and checkpoints."""
    import torch

    from components.training.corpus import step_sequence
    from components.training.engine import render_ids
    from components.training.optimizer import make_optimizer
    from components.training.sequences import Encoder, collate, token_losses

    settings = params.hybrid_sft
    encoder = Encoder(policy)
    sequences = []
    for item in items:
        ids, screens = render_ids(encoder, item.messages)
        space = ScreenSpace(params.model.coord_space, item.size, step=params.model.coord_step)
        text = render_response("it is there", "do it", "computer_use", arguments_of(item.call, space))
        answer = [*encoder.text(text), encoder.close()[0]]
        sequences.append(step_sequence(ids, screens, answer, [1.0] * len(answer)))
    optimizer = make_optimizer(policy, 1e-6, settings.weight_decay)

    def step(start: int) -> None:
        batch = [sequences[(start + k) % len(sequences)] for k in range(settings.batch)]
        optimizer.zero_grad(set_to_none=True)
        losses = token_losses(policy, collate(policy, batch))
        losses.mean().backward()
        torch.nn.utils.clip_grad_norm_(policy.model.parameters(), settings.clip_norm)
        optimizer.step()

    def steps(first: int, count: int) -> None:
        for k in range(first, first + count):
            step(k * settings.batch)

    steps(0, 1)  # the optimiser makes its state
    rates = [8 / seconds(partial(steps, 8 * r, 8)) for r in range(repeats)]
    yield figure(f"SFT, batch {settings.batch}", "steps/s of one core", rates)


def reinforced(
    checkpoint: Path, tasks: Path, params: Params, work: Path, repeats: int, unconfined: bool
) -> Iterator[Figure]:
    """Iterations of stage 5 with the recipe's numbers, from `checkpoint`; every repeat is the first iteration anew."""
    from components.forge.store import load_tasks
    from components.training.parallel import Ranks
    from components.training.rl import RlLoop

    harness = default_spec("hybrid")
    train = load_tasks(tasks, "train")
    factory = slots(work, harness, unconfined=unconfined)
    walls = []
    for k in range(repeats):
        ctx = StepContext("rl", 0, work / f"rl{k}", unconfined=unconfined, workers=1)
        loop = RlLoop(params, checkpoint, train, harness, factory, work / "out", ctx, Ranks(0, 1), {})
        walls.append(waited(partial(loop.iterate, 0)))
    episodes = params.rl.tasks_per_iteration * params.rl.group
    yield figure(f"RL, {episodes} episodes and their update", "s/iteration", walls)


def measure(
    params: Params, base: Path, trained: Path | None, tasks: Path | None, repeats: int, unconfined: bool
) -> Iterator[Figure]:
    """All figures, one by one. `trained` and `tasks` are a run's, None before there is one: then RL is left out."""
    import torch

    from components.training.model import Policy

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="cowork-speed-", dir=scratch_root(Path(tempfile.gettempdir()))) as folder:
        scratch = Path(folder)
        yield from desktop(scratch, repeats)
        try:
            yield from shell(scratch, repeats, unconfined)
        except SandboxError as error:
            print(f"no shell: {error}", flush=True)
        policy = Policy.load(trained or base)
        items = sample_steps(params, scratch / "work", 64)
        yield from engine(policy, params, items, repeats)
        yield from supervised(policy, params, items, repeats)
        if trained is not None and tasks is not None:
            yield from reinforced(trained, tasks, params, scratch / "work", min(3, repeats), unconfined)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("params", type=Path)
    parser.add_argument("base", type=Path)
    parser.add_argument("--trained", type=Path)
    parser.add_argument("--tasks", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--unconfined", action="store_true")
    args = parser.parse_args()
    params = load_params(args.params)
    for found in measure(params, args.base, args.trained, args.tasks, args.repeats, args.unconfined):
        print(json.dumps(asdict(found)), flush=True)


if __name__ == "__main__":
    main()
