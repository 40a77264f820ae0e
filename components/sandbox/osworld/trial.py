"""Trying a check on files alone, without a desktop: for the admission of tasks whose checks look at files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, cast

from components.contracts.admission import Trials
from components.sandbox.osworld.evaluation import Evaluation
from components.sandbox.osworld.guest import HOME, Guest, GuestRefusal
from components.sandbox.osworld.sources import Sources
from components.sandbox.osworld.task import OsworldTask

REPEATS = 3


class FilesGuest:
    """A home that is a mapping of relative paths to contents. Whatever is no file is refused."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = dict(files)

    def read_file(self, path: str) -> bytes:
        relative = path.removeprefix("~/").removeprefix(f"{HOME}/")
        if relative not in self._files:
            raise FileNotFoundError(path)
        return self._files[relative]

    def __getattr__(self, name: str) -> Any:
        def refuse(*args: Any, **kwargs: Any) -> NoReturn:
            raise GuestRefusal(f"`{name}` needs a desktop", where="osworld trial", remedy="try the task on a slot")

        return refuse


def trials(
    task: OsworldTask, initial: Mapping[str, bytes], reference: Mapping[str, bytes], sources: Sources | None = None
) -> Trials:
    """The scores of the task's check on the files as they are at first, as the reference leaves them, and empty.

    Files by path relative to the home. Raises `VerifierError` when the check breaks.
    """
    looked_at = {path: b"" for probe in task.evaluator.probes for path in _paths(probe.result)}

    def score(files: Mapping[str, bytes]) -> float:
        with Evaluation(task, cast(Guest, FilesGuest(files)), sources or Sources()) as evaluation:
            return evaluation.grade("done").score

    return Trials(
        nothing=tuple(score(initial) for _ in range(REPEATS)),
        reference=tuple(score({**initial, **reference}) for _ in range(REPEATS)),
        empty=(score({**initial, **looked_at}),) if looked_at else (),
    )


def _paths(config: Mapping[str, Any]) -> list[str]:
    if config.get("type") != "vm_file":
        return []
    paths = config["path"] if isinstance(config["path"], list) else [config["path"]]
    return [str(path).removeprefix("~/").removeprefix(f"{HOME}/") for path in paths]
