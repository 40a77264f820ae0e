"""A task on a guest: setup, and after the episode its grade. The guest may be a slot of ours or a remote host."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from types import TracebackType

from components.contracts.errors import CoworkError, VerifierError
from components.sandbox.osworld.cache import Cache
from components.sandbox.osworld.getters import LIVE, Scene, get
from components.sandbox.osworld.guest import Guest
from components.sandbox.osworld.judge import Judge
from components.sandbox.osworld.scoring import Ending, Finding, Scored, score, settled_by_ending
from components.sandbox.osworld.setup_steps import Setup
from components.sandbox.osworld.sources import Sources
from components.sandbox.osworld.task import OsworldTask, Step


class Evaluation:
    """One episode's: keeps a folder of its own on the host until `close`. Use it with `with`.

    `judge` runs the metrics in a process of its own; None: in this one (files of an agent may be made to harm).
    """

    def __init__(self, task: OsworldTask, guest: Guest, sources: Sources, judge: Judge | None = None) -> None:
        self.task = task
        self._folder = Path(tempfile.mkdtemp(prefix="osworld-"))
        self._scene = Scene(guest, sources, Cache(self._folder))
        self._judge = judge
        self._live: dict[int, Finding] = {}

    def __enter__(self) -> Evaluation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def setup(self) -> None:
        """The task's own steps. Raises `TaskError`, `SandboxError`: there is no episode then."""
        self._run(self.task.config)

    def finish(self) -> None:
        """The steps before grading, then what only running applications can tell."""
        self._run(self.task.evaluator.postconfig, lenient=True)
        for number, probe in enumerate(self.task.evaluator.probes):
            if probe.result["type"] in LIVE:
                self._live[number] = self._find(number)

    def grade(self, ending: Ending) -> Scored:
        """The score, after `finish`. Raises `VerifierError` when a check breaks: nobody's success."""
        decided = settled_by_ending(self.task.feasible, ending)
        if decided is not None:
            return Scored(decided)
        numbers = range(len(self.task.evaluator.probes))
        findings = [self._live.get(number) or self._find(number) for number in numbers]
        if self._judge is None:
            return score(self.task.evaluator, findings)
        return self._judge.score(self.task.evaluator, findings)

    def _find(self, number: int) -> Finding:
        probe = self.task.evaluator.probes[number]
        try:
            expected = None if probe.expected is None else get(self._scene, probe.expected)
            return Finding(get(self._scene, probe.result), expected)
        except CoworkError as error:
            if error.border in ("task", "verifier"):
                raise VerifierError(error.message, where=error.where or "getter", remedy=error.remedy) from error
            raise

    def _run(self, steps: tuple[Step, ...], *, lenient: bool = False) -> None:
        Setup(self._scene.guest, self._scene.sources, self._scene.cache).run(steps, lenient=lenient)
