"""One stage, run: the frame that DVC, the fork server and a person at a console all use.

`run_stage` resolves parameters and inputs, gives the stage its key, its work directory and its event sink, calls its
function and records what came out. The result depends on nothing else: a stage gives the same bytes alone and in a run.
"""

from __future__ import annotations

import os
import shutil
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from components.contracts.digests import digest_value
from components.contracts.errors import CoworkError, DataError, OrchestrationError
from components.contracts.load_params import load_params
from components.contracts.params import Params
from components.contracts.stage import StageFunction, StepContext
from components.tracking.events import VALIDATION, SpoolSink, next_attempt, spool_path
from components.tracking.meter import RunMeter
from components.tracking.output import OutputFilter
from components.tracking.promotion import read_evaluation
from pipelines import guards
from pipelines.codekeys import code_keys
from pipelines.dvcfiles import Content, content
from pipelines.leaks import refuse_leaks
from pipelines.pricing import prices_of
from pipelines.registry import StageDef, makers
from pipelines.stage_params import sections, stage_params
from pipelines.workspace import SOURCE, Workspace, find_workspace, registry, stage_named

MANUAL = "manual"
"""The run that takes the events of stages started outside of `cowork run`."""
WORKERS = 2
"""Processes a stage may use. Fixed, not the machine's number: results must not depend on it. Two was measured best."""

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NUMEXPR_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
    # Keep freed tensor memory: returning it to the system after every step costs a tenth of the time at this size.
    "MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "17179869184", "MALLOC_TOP_PAD_": "268435456",
    "PYTHONHASHSEED": "0", "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true", "GX_ANALYTICS_ENABLED": "false",
    "LC_ALL": "C.UTF-8", "TZ": "UTC",
}  # fmt: skip
"""What every stage process gets: one thread each, no hub, no telemetry, one hash seed, one locale."""


def stage_environment(base: Mapping[str, str]) -> dict[str, str]:
    """`base` with the settings of a stage process. PYTHONDONTWRITEBYTECODE would triple every import."""
    env = {**base, **ENVIRONMENT}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return with_source(env)


def with_source(env: dict[str, str]) -> dict[str, str]:
    """`env` in which `python -m pipelines...` finds this code, also where it is not installed."""
    paths = [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path]
    if str(SOURCE) not in paths:
        env["PYTHONPATH"] = os.pathsep.join([str(SOURCE), *paths])
    return env


def load_function(stage: StageDef) -> StageFunction:
    """The stage's function. Raises OrchestrationError when a library or the function itself is missing."""
    module, _, name = stage.function.partition(":")
    try:
        function: StageFunction = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        ours = (error.name or "").split(".")[0] in ("components", "pipelines")
        raise OrchestrationError(
            f"module {error.name} is missing",
            where=f"stage {stage.name}",
            remedy="it is part of this repository" if ours else "make env installs what a stage needs",
        ) from error
    except AttributeError as error:
        raise OrchestrationError(f"{stage.function} does not exist", where=f"stage {stage.name}") from error
    return function


def read_inputs(workspace: Workspace, stage: StageDef, stages: Mapping[str, StageDef]) -> dict[str, Content]:
    """Identity of every input. Raises DataError that names the missing one and the stage that makes it."""
    found = {}
    for name, path in stage.inputs.items():
        what = content(workspace.root / path)
        if what is None:
            maker = makers(stages).get(path, "")
            remedy = f"cowork run --stage {maker}" if maker else "it comes with the repository; restore it from git"
            raise DataError(f"input {name} is missing: {path}", where=f"stage {stage.name}", remedy=remedy)
        found[name] = what
    return found


def work_directory(workspace: Workspace, stage: str, key: str) -> Path:
    """Where a stage's unfinished state lies under this key. State of other keys cannot be resumed and is removed."""
    target = workspace.work / stage / key.partition(":")[2]
    for other in target.parent.glob("*"):
        if other != target:
            shutil.rmtree(other, ignore_errors=True)
    target.mkdir(parents=True, exist_ok=True)
    return target


def run_stage(
    name: str, workspace: Workspace, run_dir: Path | None = None, unconfined: bool = False
) -> dict[str, float]:
    """Run one stage here and now; its flat metrics. Raises the stage's own error, recorded as the attempt's end."""
    stages = registry()
    stage = stage_named(name, stages)
    params = load_params(workspace.params_file)
    with guards.only_writer(workspace, stage, _tell):
        return _run_stage(stage, workspace, stages, params, run_dir, unconfined)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _run_stage(
    stage: StageDef,
    workspace: Workspace,
    stages: Mapping[str, StageDef],
    params: Params,
    run_dir: Path | None,
    unconfined: bool,
) -> dict[str, float]:
    name = stage.name
    inputs = read_inputs(workspace, stage, stages)
    before = {role: guards.stats_of(workspace.root / path) for role, path in stage.inputs.items()}
    code_key = code_keys({name: stage}, SOURCE, cache_file=workspace.state / "codekeys.json")[name]
    own = sections(params, stage)
    key = digest_value([name, own, {role: what.digest for role, what in inputs.items()}, code_key])
    run = run_dir or workspace.runs / MANUAL
    attempt = next_attempt(run, name)
    meter = RunMeter(run, prices_of(workspace))
    with SpoolSink(spool_path(run, name, attempt), pricer=meter.table.usd) as sink:
        sink.start(name, attempt, key, code_key=code_key)
        sink.params(own)
        meter.check()
        parent = ""
        for role, what in inputs.items():
            kind = "checkpoint" if role == "checkpoint" else "data"
            parent = what.digest if kind == "checkpoint" else parent
            sink.artifact("input", role, what.digest, kind=kind, path=stage.inputs[role], size=what.size)  # type: ignore[arg-type]
        if run_dir:
            guards.require_locked(workspace, stage, inputs)
        context = StepContext(name, params.seed, work_directory(workspace, name, key), sink, meter, unconfined, WORKERS)
        outputs = {role: workspace.root / path for role, path in stage.outputs.items()}
        for path in outputs.values():
            path.parent.mkdir(parents=True, exist_ok=True)
        paths = {role: workspace.root / path for role, path in stage.inputs.items()}
        try:
            metrics = load_function(stage)(stage_params(params, stage), paths, outputs, context)
        finally:
            keep_page(outputs, run, name)
        guards.require_untouched(stage, before, workspace.root)
        guards.require_own_bytes(stage, workspace.root)
        refuse_leaks(outputs)
        for role, path in outputs.items():
            made = content(path)
            if made is None:
                raise DataError(f"the stage ended without its output {role}", where=stage.outputs[role])
            kind = "checkpoint" if role == "checkpoint" else "data"
            sink.artifact(
                "output", role, made.digest, kind=kind, path=stage.outputs[role], size=made.size, parent=parent  # type: ignore[arg-type]
            )  # fmt: skip
        if "scores" in outputs:
            _tell_evaluation(sink, outputs["scores"], name, own)
        sink.end("finished", metrics=metrics)
    shutil.rmtree(context.work, ignore_errors=True)
    with suppress(OSError):
        context.work.parent.rmdir()
    return metrics


def _tell_evaluation(sink: SpoolSink, scores: Path, stage: str, own: Mapping[str, Any]) -> None:
    """What decides on aliases, as a record. A stage does not fail for it: without a record nothing is promoted."""
    try:
        if found := read_evaluation(scores, stage.removeprefix("evaluate-"), own.get("evaluate", {})):
            sink.evaluation(**found.model_dump())
    except DataError as error:
        sink.note(str(error))


def keep_page(outputs: Mapping[str, Path], run: Path, stage: str) -> None:
    """A data gate's page goes to the run's folder too, also where the gate failed and its outputs are no run's."""
    for page in outputs.get("validation", run / "none").glob("*.html"):
        target = run / VALIDATION / f"{stage}.html"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(page, target)


def main(name: str, workspace: Workspace, run_dir: Path | None, unconfined: bool) -> int:
    """`run_stage` with the error on stderr and its exit code as the result."""
    try:
        run_stage(name, workspace, run_dir, unconfined)
        return 0
    except CoworkError as error:
        traceback.print_exc()
        print(f"error ({error.border}): {error}", file=sys.stderr)
        return error.exit_code
    except MemoryError:
        traceback.print_exc()
        print("error (memory): out of memory; see the figures of `cowork doctor`", file=sys.stderr)
        return 1
    except OSError as error:
        traceback.print_exc()
        hint = "; free some space, then `cowork run` continues here" if error.errno == 28 else ""
        print(f"error (system): {error}{hint}", file=sys.stderr)
        return 1
    except Exception as error:  # the frame of a process: everything else is told with its traceback
        traceback.print_exc()
        print(f"error (internal): {type(error).__name__}: {error}", file=sys.stderr)
        return 1


def main_here(stage: str) -> int:
    """`main` as the environment says: COWORK_RUN_DIR (who asked; output then goes to its log), COWORK_UNCONFINED."""
    run_text = os.environ.get("COWORK_RUN_DIR")
    run_dir = Path(run_text) if run_text else None
    output = OutputFilter()
    if run_dir:
        log = run_dir / "logs" / f"{stage}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        for standard in (1, 2):
            os.dup2(descriptor, standard)
        os.close(descriptor)
        output.start()
    try:
        return main(stage, find_workspace(), run_dir, os.environ.get("COWORK_UNCONFINED") == "1")
    finally:
        output.finish()


if __name__ == "__main__":
    raise SystemExit(main_here(sys.argv[1]))
