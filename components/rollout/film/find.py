"""Which stored episode is meant: by id, by its beginning, or by its number in a folder. And what it holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from components.contracts.errors import DataError
from components.contracts.marks import Mark, mark_of
from components.rollout.screens import png_size
from components.rollout.store import TRAJECTORIES, load_screens, read_trajectories, shard_paths
from components.rollout.tables import read_table

GALLERY = "gallery.json"
_LEAST = 4
"""Characters that the beginning of an id needs."""
_SHOWN = 6


@dataclass(frozen=True)
class Listed:
    """One episode of a folder. `number` counts from 0 in the order of the folder."""

    folder: Path
    kind: Literal["trajectories", "gallery"]
    number: int
    ids: tuple[str, ...]
    """Names it answers to, the best one first."""
    instruction: str
    ending: str

    @property
    def name(self) -> str:
        return self.ids[0]


@dataclass(frozen=True)
class FilmStep:
    """`png` is the screen before the step; `error` and `decision` are "" where there was none."""

    png: bytes
    think: str
    action: str
    mark: Mark
    output: str
    error: str
    decision: str
    terminal: bool


@dataclass(frozen=True)
class Film:
    """An episode with its pictures. `last` is the screen after the last step, empty where it was not kept."""

    name: str
    instruction: str
    result: str
    good: bool | None
    """Whether it passed; None when nothing checked it."""
    steps: tuple[FilmStep, ...]
    last: bytes
    size: tuple[int, int]


def is_store(folder: Path) -> bool:
    """Whether a folder holds episodes with pictures."""
    return (folder / f"{TRAJECTORIES}.parquet").is_file() or (folder / GALLERY).is_file()


def episodes_in(folder: Path) -> list[Listed]:
    """Every episode of a folder of trajectories or of scores. Raises DataError for any other folder."""
    if (folder / f"{TRAJECTORIES}.parquet").is_file():
        found: list[Listed] = []
        for path in shard_paths(folder, TRAJECTORIES):
            columns = read_table(path, ("trajectory_id", "task_id", "instruction", "ending"))
            for own, task, instruction, ending in zip(*columns.values(), strict=True):
                found.append(Listed(folder, "trajectories", len(found), (own, task), instruction, ending))
        return found
    if (folder / GALLERY).is_file():
        return [
            Listed(folder, "gallery", number, (str(entry["task_id"]),), str(entry["instruction"]), str(entry["ending"]))
            for number, entry in enumerate(_gallery(folder))
        ]
    raise DataError(
        "holds no episodes with pictures", where=str(folder),
        remedy=f"name a folder with {TRAJECTORIES}.parquet or {GALLERY}",
    )  # fmt: skip


def find_episode(wanted: str, folders: Sequence[Path]) -> Listed:
    """The one episode that is meant. Raises DataError that names the candidates, or what there is."""
    listed = [episode for folder in folders for episode in episodes_in(folder)]
    if not listed:
        raise DataError("there are no stored episodes", where=", ".join(map(str, folders)), remedy="cowork run")
    plain = wanted.removeprefix("sha256:").lower()
    if wanted.isdigit() and len(wanted) < _LEAST:
        if len(folders) != 1:
            raise DataError(
                f"episode number {wanted} of which folder?", where="EPISODE", remedy="name the folder with --in"
            )
        if int(wanted) < len(listed):
            return listed[int(wanted)]
        raise DataError(f"no episode {wanted}: there are 0 to {len(listed) - 1}", where=str(folders[0]))
    if len(plain) < _LEAST:
        raise DataError(f"{wanted!r} is too short for an id", where="EPISODE", remedy=f"give {_LEAST} digits or more")
    exact = [e for e in listed if wanted in e.ids or plain in (i.removeprefix("sha256:") for i in e.ids)]
    hits = exact or [e for e in listed if any(i.removeprefix("sha256:").startswith(plain) for i in e.ids)]
    if len(hits) == 1:
        return hits[0]
    if not hits:
        raise DataError(
            f"no episode {wanted!r} among {len(listed)}", where=", ".join(map(str, folders[:_SHOWN])),
            remedy=f"e.g. {_short(listed[0].name)}",
        )  # fmt: skip
    raise DataError(
        f"{wanted!r} is ambiguous: {_list(hits)}", where="EPISODE", remedy="give more digits, or the folder with --in"
    )


def _list(hits: Iterable[Listed]) -> str:
    names = [f"{_short(hit.name)} ({hit.folder} number {hit.number})" for hit in hits]
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _short(name: str) -> str:
    return name.removeprefix("sha256:")[:12]


def load_film(listed: Listed) -> Film:
    """The whole episode. Raises DataError when its pictures are missing or damaged."""
    screens = load_screens(listed.folder)
    if listed.kind == "gallery":
        entry = _gallery(listed.folder)[listed.number]
        steps, good = list(entry["steps"]), entry.get("success")
        infos: Sequence[Mapping[str, Any]] = [{}] * len(steps)
        result = _result(str(entry["ending"]), good, [c["reason"] for c in entry.get("checks", ()) if not c["passed"]])
    else:
        trajectory = read_trajectories(listed.folder)[listed.number]
        steps = [step.model_dump(mode="json") for step in trajectory.steps]
        told = list(trajectory.meta.get("steps", ()))
        infos = told if len(told) == len(steps) else [{}] * len(steps)
        verdict = trajectory.verdict
        checked = bool(trajectory.meta.get("checked", True) and (verdict.results or verdict.error))
        good = (verdict.success and trajectory.ending == "terminated") if checked else None
        reasons = [r.reason for r in verdict.results if not r.passed] + [verdict.error] * checked
        result = _result(trajectory.ending, good, [reason for reason in reasons if reason])
    if not steps or not steps[0]["screen"]:
        raise DataError("the episode has no pictures", where=str(listed.folder), remedy="choose another")
    width, height = png_size(screens.png(steps[0]["screen"]), where=str(listed.folder))
    made = tuple(
        FilmStep(
            screens.png(step["screen"]), step["think"], step["action"], mark_of(step["call"], (width, height)),
            step["output"], step["error"], _decision(info), step["channel"] == "terminal",
        )
        for step, info in zip(steps, infos, strict=True)
    )  # fmt: skip
    last = screens.png(steps[-1]["screen_after"]) if steps[-1]["screen_after"] else b""
    return Film(listed.name, listed.instruction, result, good, made, last, (width, height))


def _decision(info: Mapping[str, Any]) -> str:
    decided = info.get("decision")
    if not isinstance(decided, Mapping):
        return ""
    return f"{'allowed' if decided.get('allowed') else 'refused'}: {(decided.get('risk') or {}).get('reason', '')}"


def _result(ending: str, good: Any, reasons: Sequence[str]) -> str:
    words = {
        "terminated": "the policy said it was done", "step_limit": "not finished", "unparsable": "unreadable answers",
        "infra_error": "the desktop failed", "stopped": "stopped by the user",
    }.get(ending, ending)  # fmt: skip
    if good:
        return "passed"
    return f"{'not checked' if good is None else 'failed'}: {words}" + (f"; {reasons[0]}" if reasons else "")


def _gallery(folder: Path) -> list[dict[str, Any]]:
    path = folder / GALLERY
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found, list) and all(isinstance(e, dict) and {"task_id", "steps"} <= set(e) for e in found):
            return found
    except ValueError:
        pass
    raise DataError("not a gallery", where=str(path), remedy="run the stage that writes it again")
