"""Where sandboxes come from: one protocol for processes of this machine, claims and pods of a cluster."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from components.contracts.errors import CoworkError, SandboxError
from components.sandbox.minidesk.desktop import remove_tree
from components.sandbox.pool.backends import PRELOAD
from components.sandbox.pool.errors import DeadlineError, SlotGoneError
from components.sandbox.pool.link import SlotLink
from components.sandbox.pool.models import SlotSpec
from components.sandbox.pool.processes import Process, alive, ended, kill
from components.sandbox.pool.starts import StartLimiter
from components.sandbox.pool.zygote import Child, Zygote

WHERE = "pool"
FIT_SECONDS = 5.0
_CLOSE_SECONDS = 3.0
_KILL_SECONDS = 10.0

Handle = dict[str, Any]
"""What names a sandbox to its provider after a restart: plain data, kept in the lease table."""
Record = Callable[[Handle], None]


@dataclass
class Slot:
    """One sandbox with its line. `watch`: a descriptor that is readable when it has ended, -1 when there is none."""

    slot_id: str
    spec: SlotSpec
    link: SlotLink
    handle: Handle
    size: tuple[int, int]
    watch: int = -1
    born: float = field(default_factory=time.monotonic)

    def ended(self) -> bool:
        return self.link.broken is not None or (self.watch >= 0 and ended(self.watch, 0))


class SlotProvider(Protocol):
    """Makes and ends sandboxes. Safe from several threads.

    `create` calls `record` as soon as there is something that would have to be removed, and again when more is known:
    what is recorded can be destroyed by another process, later. After an error of `create` nothing is left.
    """

    name: str

    def create(self, slot_id: str, spec: SlotSpec, seconds: float, record: Record) -> Slot:
        """A sandbox that is ready and fit. Raises `DeadlineError("create")`, `SandboxError`, `ParamsError`."""
        ...

    def unfit(self, slot: Slot) -> str:
        """Why it should not be handed out; "" when it may be."""
        ...

    def mark(self, slot: Slot, labels: dict[str, str]) -> None:
        """Say whose it is now, where that can be said: `run`, `lease`."""
        ...

    def destroy(self, slot_id: str, handle: Handle, slot: Slot | None = None) -> bool:
        """Ends it with everything in it; True when nothing of it is left. May be called again, and after a restart."""
        ...

    def leftovers(self, known: Iterable[str]) -> dict[str, Handle]:
        """Slots of this host that exist but are not among `known`."""
        ...

    def close(self) -> None: ...


def open_slot(
    link: SlotLink, slot_id: str, spec: SlotSpec, args: dict[str, Any], seconds: float
) -> tuple[tuple[int, int], list[Process]]:
    """The first call on a line: (size of the screen, processes). The sandbox is ready afterwards."""
    if seconds <= 0:
        raise DeadlineError("create", seconds, where=slot_id)
    screen = (spec.screen.width, spec.screen.height) if spec.screen else None
    limits = {name: value for name, value in spec.limits.model_dump().items() if value is not None}
    answer, _ = link.call(
        "open", {**args, "screen": screen, "limits": limits}, seconds=seconds,
        late=lambda: DeadlineError("create", seconds, where=slot_id),
    )  # fmt: skip
    width, height = answer["size"]
    return (int(width), int(height)), [Process(int(pid), str(start)) for pid, start in answer["processes"]]


def look_fit(slot: Slot) -> str:
    """One short question to a slot that waits."""
    if slot.ended():
        return "it has ended"
    try:
        answer, _ = slot.link.call("fit", seconds=FIT_SECONDS, late=lambda: SlotGoneError("it does not answer"))
        return str(answer)
    except CoworkError as error:
        return error.message


class LocalProvider:
    """Sandboxes of this machine, each in a process forked by the zygote.

    `backend` and `options`: see `backends.py`. `runs`: folder for the slots' own folders. `sweep`: called after a slot
    has ended, for what the kernel keeps longer than its processes (control groups).
    """

    def __init__(
        self,
        name: str,
        backend: str,
        runs: Path,
        *,
        options: dict[str, Any] | None = None,
        starts: StartLimiter | None = None,
        sweep: Callable[[], object] | None = None,
    ) -> None:
        self.name = name
        self._backend, self._options = backend, options or {}
        self._runs, self._starts, self._sweep = runs, starts, sweep
        modules = [backend, *(str(v) for v in self._options.values() if isinstance(v, str) and ":" in v)]
        imports = [*(name.partition(":")[0] for name in modules), *PRELOAD.get(backend, ())]
        self._zygote = Zygote(tuple(dict.fromkeys(imports)))
        self._children: dict[str, Child] = {}
        self._lock = threading.Lock()

    def create(self, slot_id: str, spec: SlotSpec, seconds: float, record: Record) -> Slot:
        deadline = time.monotonic() + seconds
        folder = self._runs / slot_id
        handle: Handle = {"folder": slot_id, "process": None, "processes": []}
        record(handle)
        ours, theirs = socket.socketpair()
        link = SlotLink(ours, self._starts)
        try:
            with theirs:
                folder.mkdir(parents=True, mode=0o700)
                child = self._zygote.fork(theirs)
            with self._lock:
                self._children[slot_id] = child
            handle = {**handle, "process": list(child.process)}
            record(handle)
            args = {"backend": self._backend, "options": self._options, "folder": str(folder)}
            size, processes = open_slot(link, slot_id, spec, args, deadline - time.monotonic())
            handle = {**handle, "processes": [list(process) for process in processes]}
            record(handle)
        except BaseException as error:
            self.destroy(slot_id, handle)
            link.close()
            if isinstance(error, OSError):
                raise SandboxError(
                    f"no slot could be made: {error}", where=self.name, remedy="free some space"
                ) from error
            raise
        return Slot(slot_id, spec, link, handle, size, child.pidfd)

    def unfit(self, slot: Slot) -> str:
        return look_fit(slot)

    def mark(self, slot: Slot, labels: dict[str, str]) -> None: ...

    def destroy(self, slot_id: str, handle: Handle, slot: Slot | None = None) -> bool:
        with self._lock:
            child = self._children.pop(slot_id, None)
        try:
            if slot is not None and slot.link.try_close(_CLOSE_SECONDS) and child is not None:
                ended(child.pidfd, _CLOSE_SECONDS)
            gone = True
            if handle.get("process"):
                gone = kill(Process(*handle["process"]), _KILL_SECONDS)
            for pid, start in handle.get("processes", ()):
                # The kernel ends these with the slot's process; here we wait for that, and help if it did not happen.
                gone = kill(Process(pid, start), _KILL_SECONDS) and gone
        finally:
            if slot is not None:
                slot.watch = -1
                slot.link.close()
            if child is not None:
                child.close()
        if gone and handle.get("folder"):
            gone = self._remove(str(handle["folder"]))
        if self._sweep is not None:
            self._sweep()
        return gone

    def leftovers(self, known: Iterable[str]) -> dict[str, Handle]:
        """Folders without a slot. Their processes are in nobody's table, so they cannot be ours."""
        names = set(known)
        with self._lock:
            names |= set(self._children)
        try:
            found = [entry.name for entry in os.scandir(self._runs) if entry.name not in names]
        except FileNotFoundError:
            return {}
        return {name: {"folder": name, "process": None, "processes": []} for name in found}

    def close(self) -> None:
        self._zygote.close()

    def _remove(self, name: str) -> bool:
        folder = self._runs / name
        if folder.parent != self._runs or name in ("", ".", ".."):
            return True  # not a folder of ours, whatever the table says
        with suppress(OSError):
            remove_tree(folder)
        return not os.path.lexists(folder)


__all__ = ["Handle", "LocalProvider", "Record", "Slot", "SlotProvider", "alive", "look_fit", "open_slot"]
