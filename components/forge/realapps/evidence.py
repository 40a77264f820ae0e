"""What a verifier looks at: copies of the files a slot ended with, their facts, the shop's record, the start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from components.contracts.errors import VerifierError
from components.contracts.task import Task
from components.forge.realapps.preparers import Made, made_by
from components.forge.realapps.readers import KINDS, Facts
from components.forge.realapps.reading import FILE_LIMIT, facts_of
from components.sandbox.web.records import Tables, differences
from components.sandbox.web.site import SiteRecord
from components.sandbox.x11.channel import GuestError
from components.sandbox.x11.guest_calls import GuestCalls

TOTAL_LIMIT = 64 << 20
"""Bytes of all files of an episode together."""
MOST_FILES = 500


@dataclass
class Evidence:
    """`files`: path in home -> bytes, hidden ones left out; None for what is too large to be looked at."""

    start: Made
    files: Mapping[str, bytes | None]
    record: SiteRecord | None = None
    _facts: dict[str, Facts] = field(default_factory=dict)
    _changes: Tables | None = None

    def read(self, wanted: list[str]) -> None:
        """Reads the facts of several files at once: a process for each would cost more than all."""
        there = [(path, self.files.get(path)) for path in wanted if path not in self._facts]
        given = [(path, data) for path, data in there if data is not None and _kind(path) in KINDS]
        for path, data in there:
            if data is None:
                self._facts[path] = {"error": "too large" if path in self.files else "no such file"}
        for (path, _), facts in zip(given, facts_of([(_kind(path), data) for path, data in given]), strict=True):
            self._facts[path] = facts

    def facts(self, path: str) -> Facts:
        """Facts of a file; `{"error": why}` when it is not there or no file of its kind."""
        if path not in self._facts:
            self.read([path])
        if path not in self._facts:
            raise VerifierError(f"nothing here reads {path}", where="verifier", remedy=f"one of {list(KINDS)}")
        return self._facts[path]

    @property
    def site(self) -> SiteRecord:
        if self.record is None:
            raise VerifierError("there is no record of the shop", where="verifier", remedy="prepare the task's shop")
        return self.record

    @property
    def changes(self) -> Tables:
        """Rows of the shop that are not as they were."""
        if self._changes is None:
            self._changes = differences(self.site)
        return self._changes


def _kind(path: str) -> str:
    return path.rsplit(".", 1)[-1].lower() if "." in path else ""


def collect(task: Task, guest: GuestCalls, record: SiteRecord | None) -> Evidence:
    """Copies of all files of the home that are not hidden. Raises `VerifierError` when there are too many."""
    start = made_by(task.setup)
    listed = [f for f in guest.files(".") if not any(part.startswith(".") for part in f.path.split("/"))]
    if len(listed) > MOST_FILES:
        raise VerifierError(f"more than {MOST_FILES} files in the home", where="verifier")
    files: dict[str, bytes | None] = {}
    left = TOTAL_LIMIT
    for info in listed:
        if info.size > min(FILE_LIMIT, left):
            files[info.path] = None
            continue
        try:
            data = guest.get(info.path, FILE_LIMIT)
        except GuestError:  # it is gone, grew, or was replaced by a link since the look
            files[info.path] = None
            continue
        left -= len(data)
        files[info.path] = data
    return Evidence(start, files, record)
