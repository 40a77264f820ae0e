"""What may look into an episode under way: for people in front of a live one. Data, RL and evaluation watch nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from components.contracts.desktop import Desktop, Observation
from components.contracts.response import ParsedResponse

if TYPE_CHECKING:
    from components.rollout.episodes import Episode, EpisodeStep


class StopEpisode(Exception):
    """Raised by a watcher: the person ends the episode. It is graded as what it is then: not finished."""


class Watcher(Protocol):
    """Called from the loop of `run_episodes`, in its thread, in this order."""

    def began(self, episode: Episode, seen: Observation) -> None:
        """The desktop is ready and `seen` is its first screen."""
        ...

    def asked(self, episode: Episode) -> None:
        """The model is about to be asked for the next step."""
        ...

    def approve(self, episode: Episode, desktop: Desktop, seen: Observation, parsed: ParsedResponse) -> None:
        """Before a call is carried out. Raises RefusedCall (told to the model, nothing is done) or StopEpisode."""
        ...

    def stepped(self, episode: Episode, step: EpisodeStep) -> None:
        """A step is over and recorded in `episode`; the next screen is not looked at yet."""
        ...

    def ended(self, episode: Episode) -> None:
        """The episode has its ending and verdict."""
        ...


class NoWatcher:
    """Looks at nothing and lets everything through."""

    def began(self, episode: Episode, seen: Observation) -> None:
        return None

    def asked(self, episode: Episode) -> None:
        return None

    def approve(self, episode: Episode, desktop: Desktop, seen: Observation, parsed: ParsedResponse) -> None:
        return None

    def stepped(self, episode: Episode, step: EpisodeStep) -> None:
        return None

    def ended(self, episode: Episode) -> None:
        return None
