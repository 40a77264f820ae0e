"""A live episode as it is stored: a trajectory with its screens, and beside each step what was decided and how long.

It is written anew after every step, whole: a kill loses the step under way and no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.contracts.desktop import Screen
from components.contracts.digests import digest_value
from components.contracts.errors import DataError
from components.contracts.secrets import scrub
from components.contracts.trajectory import Step, Trajectory
from components.rollout.episodes import Episode
from components.rollout.screens import encode_png, screen_digest
from components.rollout.store import StoredScreen, write_store


@dataclass
class Keeper:
    """Where an episode goes. `source`: the checkpoint's digest, or the endpoint's model and host."""

    folder: Path
    source: str
    harness: str
    about: Mapping[str, Any] = field(default_factory=dict)
    """More of `Trajectory.meta`: backend, profile, when it began."""
    _screens: dict[str, StoredScreen] = field(default_factory=dict)
    _names: dict[int, str] = field(default_factory=dict)

    @property
    def trajectory_id(self) -> str:
        return digest_value([self.folder.name, self.source, self.harness, dict(self.about)])

    def write(self, episode: Episode, infos: Sequence[Mapping[str, Any]]) -> Trajectory:
        """Stores the episode as it is now. Raises DataError when the disk does not take it."""
        trajectory = self._trajectory(episode, infos)
        try:
            write_store(self.folder, [trajectory], self._screens)
        except OSError as error:
            raise DataError(
                f"the episode cannot be stored: {error.strerror or error}", where=str(self.folder),
                remedy="free disk space, or give another folder with --out",
            ) from error  # fmt: skip
        return trajectory

    def _trajectory(self, episode: Episode, infos: Sequence[Mapping[str, Any]]) -> Trajectory:
        names = [self._name(step.screen) for step in episode.steps]
        last = self._name(episode.last_screen) if episode.last_screen is not None else ""
        after = [*names[1:], last]
        task = episode.task
        steps = tuple(
            Step(
                index=index, screen=names[index], screen_after=after[index], think=step.think, action=step.action,
                call=step.call.model_dump(mode="json") if step.call is not None else None, output=step.output,
                error=step.error, channel=step.channel,  # type: ignore[arg-type]
            )
            for index, step in enumerate(episode.steps)
        )  # fmt: skip
        meta = {**self.about, "checked": bool(task.verifier), "steps": [dict(info) for info in infos]}
        if episode.infra_error:
            meta["infra_error"] = episode.infra_error
        trajectory = Trajectory(
            trajectory_id=self.trajectory_id, task_id=task.task_id, skill=task.skill, split=task.split,
            instruction=task.instruction, harness=self.harness, source=self.source, steps=steps,
            verdict=episode.verdict, ending=episode.ending, meta=meta,
        )  # fmt: skip
        # A model may have read a secret from the screen or a file: it does not go into what is stored as text.
        return Trajectory.model_validate(scrub(trajectory.model_dump(mode="json")))

    def _name(self, screen: Screen) -> str:
        """The digest of a screen; its picture is kept. An array is looked at once."""
        known = self._names.get(id(screen))
        if known is None:
            known = self._names[id(screen)] = screen_digest(screen)
            if known not in self._screens:
                self._screens[known] = StoredScreen(encode_png(screen))
        return known
