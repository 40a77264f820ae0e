"""Tables of the score gate: `scores` (one row a score file), `episodes`, `shown` (one row a picture of the gallery)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from components.contracts.digests import digest_value
from components.contracts.errors import DataError
from components.contracts.params import Params
from components.contracts.task import Frozen
from components.curation.datagates.border import check_texts, read_lines
from components.curation.datagates.loaded import Loaded, Table
from components.curation.datagates.pictures import stored_sizes
from components.forge.store import load_tasks
from components.tracking.scores import SCORED, Scores

SCORES, EPISODES, GALLERY = "scores.json", "episodes.jsonl", "gallery.json"


class EpisodeRow(Frozen):
    """A line of `episodes.jsonl`, as an evaluation writes it."""

    task_id: str
    repeat: int
    skill: str
    split: str
    apps: tuple[str, ...]
    channel: str
    success: bool
    calls: int
    tokens: int
    gui_calls: int
    terminal_calls: int
    unparsable: int
    ending: str
    infra_error: str


class _Loose(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class ShownStep(_Loose):
    """The pictures of a step; "" after the last one."""

    screen: str
    screen_after: str


class ShownEpisode(_Loose):
    """What the gate needs of an episode in the gallery; the report has its own schema for the rest."""

    task_id: str
    steps: tuple[ShownStep, ...]


class Gallery(_Loose):
    """`gallery.json` under one name, so that a list can be checked like a record."""

    episodes: tuple[ShownEpisode, ...] = Field(default=())


def load(inputs: Mapping[str, Path], params: Params) -> Loaded:
    """Reads `tasks` and one score folder a checkpoint, `scores-base` and so on."""
    splits = {task.task_id: task.split for task in load_tasks(inputs["tasks"])}
    loaded = Loaded({"scores": _scores(), "episodes": _episodes(), "shown": _shown()})
    for stage in SCORED:
        folder = inputs[f"scores-{stage}"]
        episodes = read_lines(folder / EPISODES, EpisodeRow, name=f"{stage}/{EPISODES}")
        scores = check_texts([_text(folder / SCORES)], Scores, name=f"{stage}/{SCORES}")
        gallery = check_texts([f'{{"episodes":{_text(folder / GALLERY)}}}'], Gallery, name=f"{stage}/{GALLERY}")
        for read in (episodes, scores, gallery):
            loaded.take(read)
        loaded.tables["scores"].files[f"{stage}/{SCORES}"] = len(scores.records)
        loaded.tables["episodes"].files[f"{stage}/{EPISODES}"] = len(episodes.records)
        for _, score in scores.records:
            _add_scores(loaded.tables["scores"], stage, score, [episode for _, episode in episodes.records])
        for line, episode in episodes.records:
            _add_episode(loaded.tables["episodes"], stage, line, episode, splits.get(episode.task_id, ""))
        stored = stored_sizes(folder)
        for _, told in gallery.records:
            for task_id, digest in _pictures(told):
                loaded.tables["shown"].add(stage=stage, task_id=task_id, picture=digest, stored=digest in stored)
    return loaded


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"the file cannot be read: {error}", where=str(path), remedy="evaluate again") from error


def _scores() -> Table:
    return Table(
        (
            "file_of", "stage", "checkpoint", "success", "interval_gap", "recount_gap", "calls", "tokens", "gui_share",
            "grounding", "single_step", "other_skills", "episodes", "infra_share", "task_set",
        )
    )  # fmt: skip


def _episodes() -> Table:
    return Table(
        (
            "stage", "line", "task_id", "repeat", "split", "task_split", "success", "calls", "tokens", "ending",
            "unparsable", "infra_error", "solved_without_sandbox",
        )
    )  # fmt: skip


def _shown() -> Table:
    return Table(("stage", "task_id", "picture", "stored"))


def _add_scores(table: Table, stage: str, score: Scores, episodes: Sequence[EpisodeRow]) -> None:
    """`interval_gap`: how far the success is outside of its interval; `recount_gap`: from the one counted from the
    episodes; `task_set`: digest of what was played.

    Figures that were not measured stay None, a missing value for the rules.
    """
    main = [episode for episode in episodes if episode.split == "heldout"]
    recount = sum(e.success and not e.infra_error for e in main) / len(main) if main else math.nan
    table.add(
        file_of=stage, stage=score.stage, checkpoint=score.checkpoint, success=score.success,
        interval_gap=_interval_gap(score),
        recount_gap=None if score.success is None or not main else abs(score.success - recount),
        calls=score.calls, tokens=score.tokens, gui_share=score.gui_share,
        grounding=score.grounding.micro if score.grounding else None,
        single_step=score.single_step.joint if score.single_step else None,
        other_skills=score.heldout_skills.success if score.heldout_skills else None, episodes=score.episodes,
        infra_share=score.infra_errors / score.episodes if score.episodes else None,
        task_set=digest_value(sorted([e.task_id, e.repeat] for e in episodes)),
    )  # fmt: skip


def _interval_gap(score: Scores) -> float | None:
    if score.success is None or score.success_interval is None:
        return None
    low, high = score.success_interval
    return max(low - score.success, score.success - high, 0.0)


def _add_episode(table: Table, stage: str, line: int, episode: EpisodeRow, task_split: str) -> None:
    table.add(
        stage=stage, line=line, task_id=episode.task_id, repeat=episode.repeat, split=episode.split,
        task_split=task_split, success=episode.success, calls=episode.calls, tokens=episode.tokens,
        ending=episode.ending, unparsable=episode.unparsable, infra_error=episode.infra_error,
        solved_without_sandbox=episode.success and bool(episode.infra_error),
    )  # fmt: skip


def _pictures(gallery: Gallery) -> Iterator[tuple[str, str]]:
    """(task, digest) of every picture that is named, each once an episode."""
    for episode in gallery.episodes:
        named = [digest for step in episode.steps for digest in (step.screen, step.screen_after) if digest]
        for digest in dict.fromkeys(named):
            yield episode.task_id, digest
