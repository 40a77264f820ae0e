"""Toy stages under the real names: an output says what its stage was given, so a wrong wire shows in every digest."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from components.contracts.digests import digest_tree
from components.contracts.errors import DataError, SandboxError, VerifierError
from components.contracts.stage import StepContext


def run(params: Any, inputs: dict[str, Path], outputs: dict[str, Path], ctx: StepContext) -> dict[str, float]:
    """Write what came in. Seed 13 is a failure that stays, 14 one that passes, 15 a killed process, 16 a gate."""
    if ctx.seed == 13:
        raise VerifierError("this will not change", where=ctx.stage)
    if ctx.seed == 14:
        raise SandboxError("the sandbox is gone", where=ctx.stage)
    if ctx.seed == 15:
        os.kill(os.getpid(), signal.SIGKILL)
    given = {name: digest_tree(path) for name, path in sorted(inputs.items())}
    for name, path in outputs.items():
        path.mkdir(parents=True)
        rows = [{"stage": ctx.stage, "output": name, "seed": ctx.seed}, given, params.model_dump(mode="json")]
        (path / "rows-0000.jsonl").write_text("".join(json.dumps(row, sort_keys=True) + "\n" for row in rows))
        (path / "page.html").write_text(f"<h1>{ctx.stage}</h1>")
    if ctx.seed == 16:
        raise DataError("the data breaks its rules", where=ctx.stage)
    ctx.events.progress(1, 1, "toy")
    return {"inputs": float(len(inputs)), "broken": float("nan")}
