"""Event spools: what a stage says about itself, as JSON lines in a file of the run.

A stage never talks to a tracking server. It appends to `<run_dir>/spool/<stage>.<attempt>.jsonl`; whoever follows
the run (the console, the MLflow shipper, the report) reads that file. This is what survives a dead server, a slow
database and a killed stage.

Records are objects with `k` (kind) and `t` (milliseconds since the epoch):

| k        | fields                                                                                    |
| -------- | ----------------------------------------------------------------------------------------- |
| start    | stage, attempt, key, pid, tags                                                            |
| params   | values (flat: dotted name -> text)                                                        |
| artifact | role (input, output), kind (data, checkpoint), name, path, digest, size, parent           |
| metric   | name, value (a number, or the text "nan", "inf", "-inf"), step                            |
| progress | done, total, unit                                                                         |
| ledger   | kind, amounts (see `ledger.py`); model, call (an id) where it was a model's work          |
| evaluation | stage, success, episodes, expected, infra_errors, bench (see `promotion.Evaluation`)    |
| note     | text                                                                                      |
| end      | status (finished, failed, killed), peak_mb, error, border, metrics, and the amounts of    |
|          | `machine.Usage`: seconds, cpu_seconds, gpu_seconds, energy_joules                         |

What looks like a secret is hidden in every text but the name of a metric.
"""

from __future__ import annotations

import json
import math
import os
import re
import resource
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple

from components.contracts.errors import CoworkError, DataError
from components.contracts.secrets import scrub
from components.tracking.machine import Usage

Event = dict[str, Any]
Role = Literal["input", "output"]
Status = Literal["finished", "failed", "killed"]

VALIDATION = "validation"
"""Folder of a run with the pages of its data gates, one a gate."""

BATCH = 32
"""Records held back at most before a write. A kill -9 loses no more than these, and none before the last `progress`."""
FLUSH_SECONDS = 1.0
PROGRESS_SECONDS = 0.2
MACHINE_SECONDS = 5.0
"""Between two records of what a running stage has taken of the machine: what is known of it after a kill -9."""

Pricer = Callable[[str, float, float, float, float], float | None]
"""(model, milliseconds since the epoch, tokens in, tokens out, of those in from a cache) -> USD, None = not known."""

_WITH_TEXT = ("start", "params", "artifact", "note", "end")
_NAME = re.compile(r"(?P<stage>.+)\.(?P<attempt>\d+)\.jsonl")


class SpoolFile(NamedTuple):
    """One attempt of one stage."""

    path: Path
    stage: str
    attempt: int


class Tail(NamedTuple):
    """What `read_events` found: whole records, where to go on reading, and lines that could not be read."""

    events: list[Event]
    offset: int
    damaged: int


def spool_path(run_dir: Path, stage: str, attempt: int) -> Path:
    return run_dir / "spool" / f"{stage}.{attempt}.jsonl"


def list_spools(run_dir: Path) -> list[SpoolFile]:
    """The spools of a run, by stage name and attempt."""
    found = []
    for path in (run_dir / "spool").glob("*.jsonl"):
        if match := _NAME.fullmatch(path.name):
            found.append(SpoolFile(path, match["stage"], int(match["attempt"])))
    return sorted(found, key=lambda spool: (spool.stage, spool.attempt))


def next_attempt(run_dir: Path, stage: str) -> int:
    """1 for a stage that has not run in this run yet."""
    return max((spool.attempt for spool in list_spools(run_dir) if spool.stage == stage), default=0) + 1


def leaves(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by dotted name: {"a": {"b": 1}} -> {"a.b": 1}."""
    flat: dict[str, Any] = {}
    for name in sorted(values):
        value = values[name]
        flat.update(leaves(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {prefix + name: value})
    return flat


def flatten(values: Mapping[str, Any]) -> dict[str, str]:
    """`leaves` as text: {"a": {"b": 1}} -> {"a.b": "1"}. Text stays, the rest is JSON."""
    return {
        name: value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
        for name, value in leaves(values).items()
    }


def _plain(value: float) -> float | str:
    """A number as JSON can hold it: NaN and the infinities as text that `float` reads back."""
    number = float(value)
    return number if math.isfinite(number) else str(number)


class SpoolSink:
    """`components.contracts.stage.EventSink` over a spool file, plus the records of the stage's frame.

    Appends whole lines with one `os.write` on an O_APPEND descriptor, so several writers of one file never mix
    inside a line. Safe to use from threads; in a forked child the parent's held-back records are dropped, not doubled.
    """

    def __init__(self, path: Path, *, batch: int = BATCH, pricer: Pricer | None = None) -> None:
        self.path = path
        self._batch, self._pricer = batch, pricer
        self._lock = threading.Lock()
        self._held: list[str] = []
        self._pid = os.getpid()
        self._flushed = self._measured = time.monotonic()
        self._progressed = 0.0
        self._usage = Usage()
        self._ended = False
        path.parent.mkdir(parents=True, exist_ok=True)
        torn = _ends_torn(path)
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        if torn:
            os.write(self._fd, b"\n")

    # The small interface every stage uses.

    def metric(self, name: str, value: float, step: int = 0) -> None:
        self._put({"k": "metric", "name": name, "value": _plain(value), "step": step})

    def progress(self, done: int, total: int, unit: str = "") -> None:
        """At most one record every `PROGRESS_SECONDS` and the last one; whatever was held back is written."""
        now = time.monotonic()
        if done >= total or now - self._progressed >= PROGRESS_SECONDS:
            self._progressed = now
            self._put({"k": "progress", "done": done, "total": total, "unit": unit})
        self.flush()

    def ledger(self, kind: str, *, model: str = "", call: str = "", **amounts: float | None) -> None:
        """An entry of the cost ledger (kinds and amounts: `ledger.py`), on disk when this returns.

        The work of a `model` is priced here, as of now, unless `usd` is given; None stands for a price that is not
        known. `call` is the id of one paid call: entries with the same id are one call, however often they are read.
        Paid entries survive a power cut too.
        """
        told: dict[str, float | None] = {n: None if value is None else float(value) for n, value in amounts.items()}
        if model and "usd" not in told and "tokens_in" in told and self._pricer is not None:
            tokens = [told.get(name) or 0.0 for name in ("tokens_in", "tokens_out", "cached_in")]
            told["usd"] = self._pricer(model, time.time() * 1000, tokens[0], tokens[1], tokens[2])
        marks = {name: value for name, value in (("model", model), ("call", call)) if value}
        self._put({"k": "ledger", "kind": kind, **marks, "amounts": told})
        self.flush(durable=bool(told.get("usd")))

    def note(self, text: str) -> None:
        self._put({"k": "note", "text": text})
        self.flush()

    # The frame around a stage, written by whoever runs it.

    def start(self, stage: str, attempt: int, key: str = "", **tags: str) -> None:
        """`key` is the stage key (code, params, inputs, seed): attempts with one key continue each other."""
        record = {"k": "start", "stage": stage, "attempt": attempt, "key": key, "pid": os.getpid(), "tags": tags}
        self._put(record)
        self.flush()

    def params(self, values: Mapping[str, Any]) -> None:
        self._put({"k": "params", "values": flatten(values)})

    def artifact(
        self,
        role: Role,
        name: str,
        digest: str,
        *,
        kind: Literal["data", "checkpoint"] = "data",
        path: str = "",
        size: int = 0,
        parent: str = "",
    ) -> None:
        """An input or output by its full DVC digest. `parent`: digest of the checkpoint this one started from."""
        record = {"k": "artifact", "role": role, "kind": kind, "name": name, "path": path, "digest": digest}
        self._put({**record, "size": size, "parent": parent})

    def evaluation(self, stage: str, success: float | None, **facts: int | str) -> None:
        """What an evaluation found out about the checkpoint it read: the fields of `promotion.Evaluation`."""
        value = None if success is None else _plain(success)
        self._put({"k": "evaluation", "stage": stage, "success": value, **facts})

    def end(
        self, status: Status, *, metrics: Mapping[str, float] | None = None, error: str = "", border: str = ""
    ) -> None:
        """The last record. Seconds are those since this sink was opened; memory is the peak of this process.

        `border` is that of a typed error (`CoworkError.border`).
        """
        self._put(
            {
                "k": "end",
                "status": status,
                **self._usage.amounts(),
                "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
                "error": error,
                "border": border,
                "metrics": {name: _plain(value) for name, value in sorted((metrics or {}).items())},
            }
        )
        self._ended = True
        self.flush()

    # Writing.

    def _put(self, record: Event) -> None:
        if record["k"] in _WITH_TEXT:
            record = scrub(record)
        line = json.dumps({**record, "t": int(time.time() * 1000)}, allow_nan=False)
        with self._lock:
            self._drop_inherited()
            self._held.append(line)
            if time.monotonic() - self._measured >= MACHINE_SECONDS and os.getpid() == self._usage.pid:
                self._measured = time.monotonic()
                amounts = self._usage.amounts()
                self._held.append(
                    json.dumps({"k": "ledger", "kind": "machine", "amounts": amounts, "t": int(time.time() * 1000)})
                )
            if len(self._held) >= self._batch or time.monotonic() - self._flushed >= FLUSH_SECONDS:
                self._write()

    def flush(self, durable: bool = False) -> None:
        """Write what is held back. Call before a checkpoint is published, so that no step before it can be lost.

        `durable`: it also survives a power cut.
        """
        with self._lock:
            self._drop_inherited()
            self._write()
        if durable:
            os.fdatasync(self._fd)

    def _drop_inherited(self) -> None:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._held.clear()

    def _write(self) -> None:
        self._flushed = time.monotonic()
        if not self._held:
            return
        data = ("\n".join(self._held) + "\n").encode()
        self._held.clear()
        while data:
            data = data[os.write(self._fd, data) :]

    def close(self) -> None:
        if self._fd >= 0:
            self.flush()
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> SpoolSink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """An exception that leaves the block is recorded as the stage's end, unless an end was written already."""
        if error is not None and not self._ended:
            status: Status = "failed" if isinstance(error, Exception) else "killed"
            border = error.border if isinstance(error, CoworkError) else ""
            self.end(status, error=f"{type(error).__name__}: {error}", border=border)
        self.close()


def _ends_torn(path: Path) -> bool:
    """Whether an earlier writer of this file died inside a line."""
    if not path.exists() or not path.stat().st_size:
        return False
    with path.open("rb") as handle:
        handle.seek(-1, os.SEEK_END)
        return handle.read(1) != b"\n"


def read_events(path: Path, offset: int = 0, limit: int = 0) -> Tail:
    """Whole records from byte `offset` on, `limit` at most (0 = all of them).

    A torn last line is left for later; a broken line is skipped and counted. A missing file has no records.
    """
    events: list[Event] = []
    damaged = 0
    try:
        handle = path.open("rb")
    except FileNotFoundError:
        return Tail([], offset, 0)
    with handle:
        handle.seek(offset)
        while (not limit or len(events) < limit) and (line := handle.readline()).endswith(b"\n"):
            offset += len(line)
            try:
                event = json.loads(line) if line.strip() else None
            except ValueError:
                damaged += 1
                continue
            if isinstance(event, dict) and "k" in event:
                events.append(event)
            elif event is not None:
                damaged += 1
    return Tail(events, offset, damaged)


def start_of(events: Iterable[Event]) -> Event:
    """The start record, or an empty one when the stage died before writing it."""
    return next((event for event in events if event["k"] == "start"), {})


def end_of(events: Iterable[Event]) -> Event:
    """The last end record, or an empty one: the stage is running or was killed."""
    return next((event for event in reversed(list(events)) if event["k"] == "end"), {})


class Curve(NamedTuple):
    """One metric over steps: finite points in step order, and the steps whose value was not a number."""

    points: list[tuple[int, float]]
    nonfinite: list[int]


def resolve_metrics(attempts: Iterable[Iterable[Event]]) -> dict[str, Curve]:
    """Metrics of one stage over its attempts (in order): for each (name, step) the last one said wins.

    Attempts with another stage key than the last one belong to other work and are left out.
    """
    runs = [list(events) for events in attempts]
    if not runs:
        return {}
    key = start_of(runs[-1]).get("key", "")
    said: dict[str, dict[int, float]] = {}
    for events in runs:
        if start_of(events).get("key", "") != key:
            continue
        for event in events:
            if event["k"] == "metric":
                said.setdefault(event["name"], {})[int(event["step"])] = float(event["value"])
    return {
        name: Curve(
            [(step, value) for step, value in sorted(steps.items()) if math.isfinite(value)],
            sorted(step for step, value in steps.items() if not math.isfinite(value)),
        )
        for name, steps in sorted(said.items())
    }


def stage_curves(run_dir: Path, stage: str) -> dict[str, Curve]:
    """All metrics of a stage of a run, resumes resolved.

    Raises DataError when the run has no spool of that stage.
    """
    spools = [spool for spool in list_spools(run_dir) if spool.stage == stage]
    if not spools:
        raise DataError(
            f"no events of stage {stage!r}", where=str(run_dir / "spool"), remedy="run the stage, or name another run"
        )
    return resolve_metrics(read_events(spool.path).events for spool in spools)
