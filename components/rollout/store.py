"""The trajectory store: a directory of Parquet shards.

    trajectories.parquet   one row a trajectory, sorted by skill, task and id; kept and dropped ones alike
    screens.parquet        one row a distinct screenshot: digest of its pixels, PNG bytes, its elements (JSON)

`elements` are for teachers, grounding data and rationales; a policy never sees them. Where a shard would exceed
`SHARD_BYTES`, the next one is `trajectories-00001.parquet`, and so on. Equal content gives equal bytes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from components.contracts.artifacts import output_dir
from components.contracts.desktop import Element, Screen
from components.contracts.digests import canonical_json
from components.contracts.errors import DataError
from components.contracts.trajectory import Step, Trajectory
from components.rollout.screens import ScreenCache
from components.rollout.tables import Kind, read_table, write_table

TRAJECTORIES, SCREENS = "trajectories", "screens"
SHARD_BYTES = 128 << 20

_FLAT = ("trajectory_id", "task_id", "skill", "split", "instruction", "harness", "source", "ending", "dropped")
_NESTED = ("steps", "verdict", "meta")


@dataclass(frozen=True)
class StoredScreen:
    """A screenshot as stored. `elements` is the JSON of `pack_elements`, or "" where nobody needs it."""

    png: bytes
    elements: str = ""


def pack_elements(elements: Iterable[Element]) -> str:
    return canonical_json([[e.kind, e.label, list(e.box), e.state] for e in elements])


def unpack_elements(text: str) -> tuple[Element, ...]:
    if not text:
        return ()
    return tuple(Element(kind, label, (b[0], b[1], b[2], b[3]), state) for kind, label, b, state in json.loads(text))


def shard_path(folder: Path, name: str, number: int) -> Path:
    return folder / (f"{name}-{number:05d}.parquet" if number else f"{name}.parquet")


def shard_paths(folder: Path, name: str) -> list[Path]:
    """Shards in order. `DataError` when there is none or one in the middle is missing."""
    count = len(list(folder.glob(f"{name}*.parquet")))
    paths = [shard_path(folder, name, number) for number in range(max(1, count))]
    for path in paths:
        if not path.is_file():
            raise DataError("the shard is missing", where=str(path), remedy="run the stage that writes it")
    return paths


def _cut(sizes: Iterable[int]) -> Iterator[slice]:
    """Slices of consecutive rows whose sizes add up to at most `SHARD_BYTES`; at least one slice."""
    begin = end = used = 0
    for size in sizes:
        if used + size > SHARD_BYTES and end > begin:
            yield slice(begin, end)
            begin, used = end, 0
        end, used = end + 1, used + size
    yield slice(begin, end)


def write_screens(folder: Path, screens: Mapping[str, StoredScreen]) -> None:
    """All shards of screenshots, sorted by digest."""
    digests = sorted(screens)
    for number, part in enumerate(_cut(len(screens[d].png) + len(screens[d].elements) for d in digests)):
        chosen = digests[part]
        write_table(
            shard_path(folder, SCREENS, number),
            {
                "digest": ("text", chosen),
                "png": ("bytes", [screens[d].png for d in chosen]),
                "elements": ("text", [screens[d].elements for d in chosen]),
            },
        )


def write_trajectories(folder: Path, trajectories: Iterable[Trajectory]) -> None:
    rows = sorted(trajectories, key=lambda t: (t.skill, t.task_id, t.trajectory_id))
    dumped = [t.model_dump(mode="json") for t in rows]
    nested = {name: [canonical_json(d[name]) for d in dumped] for name in _NESTED}
    for number, part in enumerate(_cut(len(nested["steps"][i]) for i in range(len(rows)))):
        columns: dict[str, tuple[Kind, Sequence[Any]]] = {n: ("text", [d[n] for d in dumped[part]]) for n in _FLAT}
        columns["length"] = ("int", [len(t.steps) for t in rows[part]])
        columns["success"] = ("bool", [t.verdict.success for t in rows[part]])
        columns["reward"] = ("text", ["" if t.reward is None else repr(t.reward) for t in rows[part]])
        columns |= {name: ("text", nested[name][part]) for name in _NESTED}
        write_table(shard_path(folder, TRAJECTORIES, number), columns)


def write_store(target: Path, trajectories: Iterable[Trajectory], screens: Mapping[str, StoredScreen]) -> None:
    """Write a whole store, or nothing. `DataError` when a step names a screenshot that is not among `screens`."""
    kept = list(trajectories)
    for trajectory in kept:
        for step in trajectory.steps:
            for digest in (step.screen, step.screen_after):
                if digest and digest not in screens:
                    raise DataError(
                        f"step {step.index} names screenshot {digest}, which is not in the store",
                        where=f"trajectory {trajectory.trajectory_id}",
                    )
    with output_dir(target) as draft:
        write_trajectories(draft, kept)
        write_screens(draft, screens)


def read_trajectories(folder: Path) -> list[Trajectory]:
    """Every trajectory, dropped ones included (`dropped` says why). A broken shard is a `DataError` that names it."""
    found: list[Trajectory] = []
    for path in shard_paths(folder, TRAJECTORIES):
        for number, row in enumerate(read_rows(path)):
            try:
                row |= {name: json.loads(row[name]) for name in _NESTED}
                row["reward"] = float(row["reward"]) if row["reward"] else None
                found.append(Trajectory.model_validate(row))
            except (ValueError, ValidationError) as error:
                raise DataError(
                    f"record {number} is no trajectory: {str(error).splitlines()[0]}", where=str(path),
                    remedy="run the stage that writes it again",
                ) from error  # fmt: skip
    return found


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of one shard of trajectories as stored: texts, `steps`, `verdict` and `meta` as JSON."""
    names = (*_FLAT, "reward", *_NESTED)
    columns = read_table(path, names)
    for values in zip(*(columns[name] for name in names), strict=True):
        yield dict(zip(names, values, strict=True))


def turn_output(step: Step) -> str | None:
    """The text that came with the observation after a step; None where nothing is printed (a GUI call that worked)."""
    printed = step.error or (step.call is not None and step.call["tool"] != "computer_use")
    return step.output if printed else None


class ScreenTable(Mapping[str, Screen]):
    """The screenshots of a directory. PNG bytes are in memory; pixels are decoded when asked for, and cached."""

    def __init__(self, folder: Path, cache: int = 512) -> None:
        self._png: dict[str, bytes] = {}
        self._elements: dict[str, str] = {}
        self.where = str(folder)
        for path in shard_paths(folder, SCREENS):
            columns = read_table(path, ("digest", "png", "elements"))
            self._png.update(zip(columns["digest"], columns["png"], strict=True))
            self._elements.update(zip(columns["digest"], columns["elements"], strict=True))
        self._cache = ScreenCache(self.png, cache)

    def __contains__(self, digest: object) -> bool:
        return digest in self._png

    def __len__(self) -> int:
        return len(self._png)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._png))

    def __getitem__(self, digest: str) -> Screen:
        """(height, width, 3) uint8, read-only."""
        return self._cache[digest]

    def png(self, digest: str) -> bytes:
        try:
            return self._png[digest]
        except KeyError:
            raise DataError(f"screenshot {digest} is missing", where=self.where, remedy="make the data again") from None

    def shape(self, digest: str) -> tuple[int, int]:
        """(height, width), from the file's header alone."""
        width, height = struct.unpack(">II", self.png(digest)[16:24])
        return height, width

    def elements(self, digest: str) -> tuple[Element, ...]:
        self.png(digest)
        return unpack_elements(self._elements[digest])

    def stored(self, digest: str) -> StoredScreen:
        return StoredScreen(self.png(digest), self._elements[digest])


def load_screens(folder: Path, cache: int = 512) -> ScreenTable:
    """The screenshots of a store or a corpus."""
    return ScreenTable(folder, cache)
