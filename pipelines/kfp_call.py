"""Calling a stage's function for a Kubeflow task: in this process, or in a child of the fork server.

Under `kfp.local` every task is a new process that would pay for importing torch again; `COWORK_FORKSERVER` names the
socket of a server that has it loaded (see `forkserver`). Either way the function sees the same values.
"""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from components.contracts.errors import ClusterError, OrchestrationError, SandboxError
from components.contracts.secrets import redact
from components.contracts.stage import EventSink, Meter, NullMeter, NullSink, StepContext
from components.tracking.events import SpoolSink, next_attempt, spool_path
from components.tracking.meter import RunMeter
from components.tracking.prices import load_prices
from pipelines.kfp_settings import StepSettings
from pipelines.leaks import refuse_leaks
from pipelines.pricing import OWN, SHIPPED
from pipelines.step import WORKERS, load_function
from pipelines.workspace import registry, stage_named

PASSING: tuple[type[BaseException], ...] = (SandboxError, ClusterError, OSError, MemoryError)
"""Failures that another attempt may not meet. Any other failure would only come again."""


class StageCall(BaseModel):
    """One call. `key` names code, parameters and inputs; unfinished work in `state` survives a kill."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    settings: StepSettings
    key: str
    inputs: dict[str, Path]
    outputs: dict[str, Path]
    state: Path


def call_stage(call: StageCall, folder: Path) -> dict[str, float]:
    """The stage's figures. `folder` is a place for the request to the fork server and its answer.

    Raises what the stage raises; from the fork server, where only words come back, SandboxError or OrchestrationError.
    """
    server = os.environ.get("COWORK_FORKSERVER")
    if server:
        from pipelines.forkserver import ask

        request, answer = folder / "call.json", folder / "answer.json"
        request.write_text(call.model_dump_json(), encoding="utf-8")
        answer.unlink(missing_ok=True)
        libraries = stage_named(call.settings.stage, registry()).libraries
        code = ask(server, str(request), folder, libraries)
        if code is not None:
            return _read_answer(call, answer, code)
    return _call_here(call)


def _call_here(call: StageCall) -> dict[str, float]:
    params = call.settings.typed()
    stage = stage_named(call.settings.stage, registry())
    unconfined = os.environ.get("COWORK_UNCONFINED") == "1"
    with _sink(call) as (events, meter):
        meter.check()
        context = StepContext(stage.name, params.seed, call.state, events, meter, unconfined, WORKERS)
        figures = load_function(stage)(params, call.inputs, call.outputs, context)
        refuse_leaks(call.outputs)
        if isinstance(events, SpoolSink):
            events.end("finished", metrics=figures)
    return figures


@contextmanager
def _sink(call: StageCall) -> Iterator[tuple[EventSink, Meter]]:
    """Events go to `$COWORK_RUN_DIR` where that is set: curves, costs, the spend cap."""
    run_text = os.environ.get("COWORK_RUN_DIR")
    if not run_text:
        yield NullSink(), NullMeter()
        return
    run_dir, stage = Path(run_text), call.settings.stage
    attempt = next_attempt(run_dir, stage)
    meter = RunMeter(run_dir, load_prices([run_dir / OWN, SHIPPED]))
    with SpoolSink(spool_path(run_dir, stage, attempt), pricer=meter.table.usd) as sink:
        sink.start(stage, attempt, call.key, code_key=call.settings.code_key)
        sink.params(call.settings.params)
        yield sink, meter


def run_request(request: Path) -> int:
    """The fork server's side: make the call, leave figures or the error's words beside the request; 0 or 1."""
    call = StageCall.model_validate_json(request.read_text(encoding="utf-8"))
    answer = request.with_name("answer.json")
    try:
        figures = _call_here(call)
        answer.write_text(json.dumps({"figures": figures}), encoding="utf-8")
        return 0
    except Exception as error:
        traceback.print_exc()
        told = {"error": redact(f"{type(error).__name__}: {error}"), "passing": isinstance(error, PASSING)}
        answer.write_text(json.dumps(told), encoding="utf-8")
        return 1


def _read_answer(call: StageCall, answer: Path, code: int) -> dict[str, float]:
    stage = call.settings.stage
    if not answer.exists():
        raise ClusterError(f"the stage's process ended with code {code} and no word", where=stage)
    told = json.loads(answer.read_text(encoding="utf-8"))
    if "figures" in told:
        return {name: float(value) for name, value in told["figures"].items()}
    if told["passing"]:
        raise SandboxError(told["error"], where=stage)
    raise OrchestrationError(told["error"], where=stage)
