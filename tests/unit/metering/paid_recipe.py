"""A small recipe whose teacher is a paid endpoint, and stages that say what they must not.

`endpoint.txt` in the recipe folder holds the address (no declared input: another port changes no key);
`leaks.json` what the stage `feedback` does with the environment's secrets.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from components.contracts.errors import DataError
from components.contracts.folding import Message, TextPart
from components.contracts.params import Params
from components.contracts.stage import StepContext
from components.rollout.chat import ChatEndpoint
from components.rollout.metering import PaidClient
from components.rollout.policy import Request
from pipelines.registry import StageDef

QUESTIONS = 12
BATCH = 2
HERE = "tests.unit.metering.paid_recipe"
STAGES = {
    "forge": StageDef("forge", f"{HERE}:forge", {}, {"tasks": "outputs/tasks"}, ("forge",)),
    "collect-hybrid": StageDef(
        "collect-hybrid", f"{HERE}:collect", {"tasks": "outputs/tasks"},
        {"trajectories": "outputs/trajectories/hybrid"}, ("collect.hybrid",),
    ),
    "evaluate-base": StageDef(
        "evaluate-base", f"{HERE}:evaluate", {"base": "given"}, {"scores": "outputs/scores/base"}, ("evaluate",)
    ),
    "evaluate-midtrain": StageDef(
        "evaluate-midtrain", f"{HERE}:evaluate", {"trajectories": "outputs/trajectories/hybrid"},
        {"scores": "outputs/scores/midtrain"}, ("evaluate",),
    ),
}  # fmt: skip
LEAKY = {
    "forge": STAGES["forge"],
    "feedback": StageDef(
        "feedback",
        f"{HERE}:leak",
        {"tasks": "outputs/tasks", "base": "given"},
        {"feedback": "outputs/feedback"},
        ("feedback",),
    ),
}


def _write(path: Path, text: str) -> None:
    path.mkdir(parents=True)
    (path / "data.txt").write_text(text)


def forge(params: Params, inputs: dict[str, Path], outputs: dict[str, Path], ctx: StepContext) -> dict[str, float]:
    _write(outputs["tasks"], "tasks\n")
    ctx.events.ledger("sandbox", seconds=8.0)
    return {"tasks_train": 3.0, "tasks_dev": 1.0}


def collect(params: Params, inputs: dict[str, Path], outputs: dict[str, Path], ctx: StepContext) -> dict[str, float]:
    endpoint = ChatEndpoint(Path("endpoint.txt").read_text(), "priced", max_tokens=9, key_variable="TEACHER_API_KEY")
    client = PaidClient(endpoint, ctx.events, ctx.meter, ctx.work, batch=BATCH, parallel=1)
    requests = [Request([Message("user", (TextPart(f"question{k}"),))]) for k in range(QUESTIONS)]
    answers = [completion.text for completion in client.complete(requests, 0.0)]
    _write(outputs["trajectories"], "\n".join(answers) + "\n")
    return {"kept": float(len(answers))}


def evaluate(params: Params, inputs: dict[str, Path], outputs: dict[str, Path], ctx: StepContext) -> dict[str, float]:
    _write(outputs["scores"], f"{params.evaluate.gallery}\n")
    return {"success": 0.1 if ctx.stage == "evaluate-base" else 0.6}


def leak(params: Params, inputs: dict[str, Path], outputs: dict[str, Path], ctx: StepContext) -> dict[str, float]:
    """Says every secret of the environment wherever a stage can say something."""
    said = {name: value for name, value in os.environ.items() if "canary" in value.lower()}
    for name, value in said.items():
        print(name, value)
        print(f"connecting to {value}", file=sys.stderr)
        os.system(f'echo "child: ${name}"')
        ctx.events.note(f"{name} is {value}")
    whole = json.dumps(said)
    todo = json.loads(Path("leaks.json").read_text())["do"]
    if todo == "fail":
        raise DataError(f"refused by {whole}", where=next(iter(said.values())), remedy=whole)
    if todo == "crash":
        raise RuntimeError(whole)
    _write(outputs["feedback"], whole if todo == "write" else "feedback\n")
    return {"items": float(len(said))}
