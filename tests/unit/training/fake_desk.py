"""A desktop that is only a picture, and a policy that has learned to end episodes: for the tests of loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from components.contracts.calls import BashCall, DesktopCall
from components.contracts.desktop import ActResult, Observation
from components.contracts.errors import SandboxError
from components.contracts.folding import ContextLimits, Turn, fold
from components.contracts.task import CheckResult, Task, Verdict
from components.rollout.episodes import DesktopFactory
from components.training.corpus import step_sequence
from components.training.engine import render_ids
from components.training.schedule import cosine
from components.training.sequences import Encoder, collate, token_losses
from components.training.sft import make_optimizer
from tests.unit.training.kit import hybrid, screen, small_policy

CALL = '<tool_call>\n{{"name": "computer_use", "arguments": {{"action": "terminate", "status": "{}"}}}}\n</tool_call>'
DONE = "<think>done</think>\nAction: finish\n" + CALL.format("success")
GIVE_UP = "<think>done</think>\nAction: finish\n" + CALL.format("failure")


def make_task(number: int, skill: str = "look", **changes: Any) -> Task:
    fields: dict[str, Any] = {
        "skill": skill, "workflow": f"{skill}@1", "apps": ("notes",), "channels": (("gui",), ("terminal",)),
        "instruction": f"look at total {10 + number % 90}", "wording": skill, "spec": {}, "setup": (), "verifier": (),
        "split": "train", "seed": number,
    }  # fmt: skip
    return Task.build(**(fields | changes))


class FakeDesk:
    """Shows one picture a task. `breaks`: where it raises a SandboxError; `passes`: what `grade` finds."""

    size = (96, 64)

    def __init__(self, breaks: str = "", passes: bool = True) -> None:
        self.breaks, self.passes = breaks, passes
        self.calls: list[DesktopCall] = []
        self.closed = 0

    def _check(self, place: str) -> None:
        if self.breaks == place:
            raise SandboxError(f"{place} is broken", where="fake")

    def reset(self, task: Task) -> Observation:
        self._check("reset")
        self.picture = screen(task.seed)
        return self.observe()

    def observe(self) -> Observation:
        if self.calls:
            self._check("observe")
        return Observation(self.picture, None)

    def act(self, call: DesktopCall) -> ActResult:
        self._check("act")
        self.calls.append(call)
        if isinstance(call, BashCall):
            return ActResult(True, "a line\n" * 3, 1 if "false" in call.command else 0, "sleep" in call.command)
        return ActResult(True)

    def grade(self) -> Verdict:
        self._check("grade")
        return Verdict(success=self.passes, results=(CheckResult(check="fake", passed=self.passes),))

    def state(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        self.closed += 1


def desks(make: Callable[[], FakeDesk] = FakeDesk, made: list[FakeDesk] | None = None) -> DesktopFactory:
    @contextmanager
    def one() -> Iterator[FakeDesk]:
        desk = make()
        if made is not None:
            made.append(desk)
        try:
            yield desk
        finally:
            desk.close()

    return one


@lru_cache(maxsize=1)
def _weights() -> dict[str, bytes]:
    """Teaches the small policy to end every episode at once, with success about as often as with failure."""
    import tempfile

    policy = small_policy()
    encoder = Encoder(policy)
    optimizer = make_optimizer(policy, 2e-2, 0.0)
    system = hybrid().system_prompt("normalized_1000")
    for step in range(80):
        for group in optimizer.param_groups:
            group["lr"] = cosine(step, 80, 2e-2, 3, floor=0.01)
        items = []
        for k in range(4):
            task = make_task(4 * step + k)
            messages = fold(system, task.instruction, [Turn(screen(task.seed))], ContextLimits(3, 4, 12))
            prompt, shown = render_ids(encoder, messages)
            answer = [*encoder.text(DONE if k % 2 else GIVE_UP), encoder.close()[0]]
            items.append(step_sequence(prompt, shown, answer, [1.0] * len(answer)))
        batch = collate(policy, items)
        losses = token_losses(policy, batch)
        optimizer.zero_grad()
        losses.mean().backward()
        torch.nn.utils.clip_grad_norm_(policy.model.parameters(), 1.0)
        optimizer.step()
    assert float(losses.detach().sum()) / 4 < 1.0, "it knows its two answers; ln 2 is what cannot be known"
    with tempfile.TemporaryDirectory() as folder:
        policy.save(Path(folder))
        return {p.name: p.read_bytes() for p in Path(folder).iterdir()}


def ending_policy(folder: Path) -> Path:
    """That policy as a checkpoint directory."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in _weights().items():
        (folder / name).write_bytes(data)
    return folder
