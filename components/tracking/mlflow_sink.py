"""Sends the spools of a run to MLflow: what stages wrote to files, a parent process tells the server.

- The recipe run is the parent run, every stage a child run; attempts with one stage key share a child run.
- A record is sent once: a position file per spool says how far it came, and what a killed shipper had sent without
  noting it is recognised by the store (same metric, same time; same tag; runs and models by an identity tag).
- A metric said again at the same step after a resume is sent only when its value differs; the last one is current.
- A server that is down, slow or locked costs nothing but time: the records stay in the spool.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, Field

from components.contracts.digests import digest_value, short
from components.contracts.errors import DataError
from components.contracts.secrets import redact
from components.tracking.events import SpoolFile, end_of, list_spools, read_events, start_of
from components.tracking.lineage import RUN_FILE, RunRecord
from components.tracking.mlflow_child import FINAL, ChildRun, find_or_create_run, same_work
from components.tracking.mlflow_names import PARAM_LIMIT
from components.tracking.mlflow_parent import (
    PICTURE,
    RUN_FILES,
    STAGE_PICTURE,
    run_parts,
    send_part,
    stage_pictures,
)
from components.tracking.mlflow_store import (
    EXPERIMENT,
    Store,
    connect,
    default_uri,
    is_server,
    state_root,
    without_secrets,
)

_SETTLED = "settled"

STEP = 500
"""Records sent between two writes of the position."""


class Shipped(NamedTuple):
    """What one `pump` did. `error` is empty when everything there was has arrived."""

    records: int
    error: str


class Position(BaseModel):
    """How far one spool was sent. `status` is what the server was last told about this attempt."""

    offset: int = 0
    mlflow_run: str = ""
    status: str = ""


class ParentPosition(BaseModel):
    """The parent run. `sent`: name of a part -> digest of the version the server has."""

    mlflow_run: str = ""
    status: str = ""
    sent: dict[str, str] = Field(default_factory=dict)


class MlflowShipper:
    """Sends one run directory. `pump` may be called as often as one likes; the server cannot make it raise."""

    def __init__(
        self, run_dir: Path, tracking_uri: str | None = None, *, experiment: str = EXPERIMENT,
        param_limit: int = PARAM_LIMIT,
    ) -> None:  # fmt: skip
        self.run_dir = run_dir
        self.uri = tracking_uri or default_uri(run_dir)
        self._experiment = experiment
        self._param_limit = param_limit
        self._store: Store | None = None
        # Positions belong to one server: the same run can be sent to a second one from its start.
        self._positions = run_dir / "ship" / short(digest_value([without_secrets(self.uri, self.uri), experiment]), 16)

    def pending(self, final: bool = False) -> bool:
        """Whether a `pump` has anything to tell the server. Costs a look at the files, no MLflow."""
        spools = list_spools(self.run_dir)
        if not spools and not (self.run_dir / RUN_FILE).exists():
            return False
        if self._read_text(_SETTLED) == self._look():
            return False
        return any(self._spool_pending(spool, spools, final) for spool in spools) or self._parent_pending(final)

    def began(self) -> bool:
        """Whether this run was ever sent to this server."""
        return self._positions.is_dir()

    def unsettled(self) -> bool:
        """Whether this server was told of the run and has not heard its end yet, or not all of it."""
        return self.began() and self.pending(final=True)

    def pump(self, final: bool = False) -> Shipped:
        """Send what is new. `final`: nobody writes any more, so a stage without an end was stopped or crashed."""
        self._positions.mkdir(parents=True, exist_ok=True)
        sent = 0
        with self._alone() as alone:
            if not alone:
                return Shipped(0, "another process is sending this run")
            if not self.pending(final):
                return Shipped(0, "")
            try:
                self._store = store = self._store or self._connect()
                parent = self._open_parent(store)
                spools = list_spools(self.run_dir)
                for spool in _in_order_of_start(spools):
                    if self._spool_pending(spool, spools, final):
                        sent += self._send_spool(store, parent, spool, spools, final)
                seen = self._look()
                self._close_parent(store, final)
                if final and not self.pending(final):
                    self._write_text(_SETTLED, seen)
            except Exception as error:  # whatever the server did, the records are safe in the spool
                return Shipped(sent, redact(without_secrets(f"{type(error).__name__}: {error}", self.uri)))
        return Shipped(sent, "")

    def _connect(self) -> Store:
        root = None if is_server(self.uri) or self.uri.startswith("sqlite:") else state_root(self.run_dir)
        return connect(self.uri, self._experiment, root)

    def _look(self) -> str:
        """Sizes and times of everything that is sent: while they stay, there is nothing new. Costs no reading."""
        paths = [self.run_dir / name for name in (RUN_FILE, *RUN_FILES)]
        paths += [spool.path for spool in list_spools(self.run_dir)]
        stats = [(path.name, path.stat()) for path in paths if path.is_file()]
        return digest_value([[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats])

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        with (self._positions / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True

    # Positions.

    def _position(self, spool: SpoolFile) -> Position:
        return Position.model_validate(self._read(f"{spool.stage}.{spool.attempt}.json"))

    def _save(self, spool: SpoolFile, position: Position) -> None:
        self._write(f"{spool.stage}.{spool.attempt}.json", position)

    def _parent_position(self) -> ParentPosition:
        return ParentPosition.model_validate(self._read("parent.json"))

    def _read(self, name: str) -> dict[str, Any]:
        return json.loads(self._read_text(name) or "{}")

    def _read_text(self, name: str) -> str:
        path = self._positions / name
        return path.read_text() if path.exists() else ""

    def _write(self, name: str, value: BaseModel) -> None:
        self._write_text(name, value.model_dump_json())

    def _write_text(self, name: str, text: str) -> None:
        draft = self._positions / f".{name}.{os.getpid()}"
        draft.write_text(text)
        os.replace(draft, self._positions / name)

    # The parent run.

    def _record(self) -> RunRecord | None:
        try:
            return RunRecord.load(self.run_dir)
        except DataError:
            return None

    @staticmethod
    def _parent_status(record: RunRecord | None, final: bool) -> str:
        status = record.status if record else "running"
        return FINAL.get(status, "FAILED" if final else "RUNNING")

    def _parent_pending(self, final: bool) -> bool:
        position, record = self._parent_position(), self._record()
        if position.status != self._parent_status(record, final):
            return True
        parts = run_parts(self.run_dir, record) | stage_pictures(self.run_dir, record)
        return any(position.sent.get(name) != digest_value(part) for name, part in parts.items())

    def _open_parent(self, store: Store) -> str:
        position = self._parent_position()
        if not position.mlflow_run:
            tags = {"cowork.kind": "recipe", "cowork.run": self.run_dir.name}
            identity = digest_value(["recipe", self.run_dir.name])
            position.mlflow_run = find_or_create_run(store, identity, self.run_dir.name, tags)
            self._write("parent.json", position)
        return position.mlflow_run

    def _close_parent(self, store: Store, final: bool) -> None:
        position, record = self._parent_position(), self._record()
        for name, part in (run_parts(self.run_dir, record) | stage_pictures(self.run_dir, record)).items():
            if position.sent.get(name) == digest_value(part):
                continue
            if name.startswith(STAGE_PICTURE):
                spools = [s for s in list_spools(self.run_dir) if s.stage == name.removeprefix(STAGE_PICTURE)]
                store.client.log_text(self._position(spools[-1]).mlflow_run, part, PICTURE)
            elif record is not None:
                send_part(store, position.mlflow_run, name, part, record, self._param_limit)
            position.sent[name] = digest_value(part)
            self._write("parent.json", position)
        status = self._parent_status(record, final)
        if status == position.status:
            return
        if status == "RUNNING":
            store.client.update_run(position.mlflow_run, status=status)
        else:
            store.client.set_terminated(position.mlflow_run, status)
        position.status = status
        self._write("parent.json", position)

    # Stages.

    def _spool_pending(self, spool: SpoolFile, spools: list[SpoolFile], final: bool) -> bool:
        position = self._position(spool)
        if not position.mlflow_run or read_events(spool.path, position.offset, limit=1).events:
            return True
        return position.status == "RUNNING" and (final or bool(_later(spool, spools)))

    def _send_spool(self, store: Store, parent: str, spool: SpoolFile, spools: list[SpoolFile], final: bool) -> int:
        position = self._position(spool)
        whole = read_events(spool.path).events
        before = [other for other in spools if other.stage == spool.stage and other.attempt < spool.attempt]
        previous = self._position(before[-1]) if before else Position()
        record = self._record()
        child = ChildRun(
            store, run=self.run_dir.name, parent=parent, stage=spool.stage, attempt=spool.attempt,
            start=start_of(whole), param_limit=self._param_limit, previous=previous.mlflow_run,
            previous_status=previous.status, commit=record.commit if record else "", mlflow_run=position.mlflow_run,
        )  # fmt: skip
        if position.status != "RUNNING":
            child.reopen()
            position.status = "RUNNING"
        position.mlflow_run = child.mlflow_run
        self._save(spool, position)
        earlier: dict[tuple[str, int], float] = {}
        for other in before:
            if self._position(other).mlflow_run == child.mlflow_run:
                for event in read_events(other.path).events:
                    if event["k"] == "metric":
                        earlier[event["name"], int(event["step"])] = float(event["value"])
        sent = 0
        while (tail := read_events(spool.path, position.offset, limit=STEP)).events:
            child.send(tail.events, earlier)
            position.mlflow_run, position.offset = child.mlflow_run, tail.offset
            self._save(spool, position)
            sent += len(tail.events)
            whole = read_events(spool.path).events
        end = end_of(whole)
        if end:
            attempts = [read_events(other.path).events for other in before]
            child.finish(end, same_work([*attempts, whole]))
            position.status = FINAL[end["status"]]
        elif final or _later(spool, spools):
            by_user = record is not None and record.status == "killed"
            position.status = child.cut_off(by_user, whole[-1]["t"] if whole else None)
        self._save(spool, position)
        return sent


def _later(spool: SpoolFile, spools: list[SpoolFile]) -> list[SpoolFile]:
    """Later attempts of the same stage: where there is one, this attempt can have no end any more."""
    return [other for other in spools if other.stage == spool.stage and other.attempt > spool.attempt]


def _in_order_of_start(spools: list[SpoolFile]) -> list[SpoolFile]:
    """Makers before users, so that a checkpoint is known when the stage that reads it is sent."""
    began = {spool: start_of(read_events(spool.path, limit=1).events).get("t", 0) for spool in spools}
    return sorted(spools, key=lambda spool: (began[spool], spool.stage, spool.attempt))


def drain(run_dir: Path, tracking_uri: str | None = None, *, final: bool = True, tries: int = 3) -> Shipped:
    """Send everything a run has to say, trying again when the server was slow.

    Loads MLflow only if there is something to send. With an error in the result the spool keeps the rest; call again.
    """
    shipper = MlflowShipper(run_dir, tracking_uri)
    result = Shipped(0, "")
    records = 0
    for _ in range(tries):
        result = shipper.pump(final)
        records += result.records
        if not result.error:
            break
    return Shipped(records, result.error)
