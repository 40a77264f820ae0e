"""Tables of the corpus gate: `samples`, `tasks_told` (one row a distinct task text), `corpora`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal

from components.contracts.coords import ScreenSpace
from components.contracts.errors import CallError
from components.contracts.params import Params
from components.contracts.response import parse_response
from components.contracts.schemas import THINK_CLOSE, THINK_OPEN
from components.contracts.task import Frozen
from components.curation.corpora import SAMPLES
from components.curation.datagates.border import check_rows
from components.curation.datagates.leaks import TextIndex
from components.curation.datagates.loaded import Loaded, Table, shares
from components.curation.datagates.pictures import stored_sizes
from components.curation.gate import Told, foreign_words, tell
from components.curation.records import RecordError, check_record
from components.curation.step import HARNESS_OF
from components.forge.store import load_tasks
from components.harness.spec import load_spec
from components.rollout.tables import read_table

_TASK = re.compile(r"^Task: (.*)$", re.MULTILINE)
"""Where the folding renderer puts the instruction; lines of earlier actions stand before it."""
CHANNELS = ("gui", "terminal", "none")
_COORDINATE_CODES = ("bad_coordinate", "out_of_range")
_SOMEWHERE = (-1, -1)
"""A pointer whose place is known to the live agent and not stored: a call may act where it is."""


class SampleRow(Frozen):
    """A stored row of `samples.parquet`, see `curation.corpora`."""

    sample_id: str
    kind: Literal["agent", "click_pack"]
    skill: str
    trajectory_id: str
    step: int
    messages: str
    response: str
    mask_think: bool
    weight: float


@dataclass(frozen=True)
class _Seen:
    """What a sample's prompt and responses show, whatever its number and weight."""

    columns: dict[str, Any]
    responses: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()


@dataclass
class _Corpus:
    """What is counted over one corpus, and what its samples are read with."""

    name: str
    sizes: Mapping[str, tuple[int, int]]
    tools: tuple[str, ...]
    params: Params
    channels: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    skills: Counter[str] = field(default_factory=Counter)
    told: dict[str, str] = field(default_factory=dict)
    """Task text -> the first sample that tells it."""
    used: set[str] = field(default_factory=set)
    known: dict[tuple[str, str, str], _Seen] = field(default_factory=dict)

    def space(self, told: Told) -> ScreenSpace | None:
        """The coordinate space of the newest picture, None when it is not there."""
        size = self.sizes.get(told.images[-1]) if told.images else None
        return _space(self.params.model.coord_space, size, self.params.model.coord_step) if size else None


@cache
def _space(space: Any, size: tuple[int, int], step: int) -> ScreenSpace:
    return ScreenSpace(space, size, step=step)


def load(inputs: Mapping[str, Path], params: Params) -> Loaded:
    """Reads `tasks`, `harness` and one corpus a supervised stage, `corpus-midtrain` and so on."""
    heldout = TextIndex(task.instruction for task in load_tasks(inputs["tasks"]) if task.split != "train")
    loaded = Loaded({"samples": _samples(), "tasks_told": _tasks_told(), "corpora": _corpora()})
    for name, harness in HARNESS_OF.items():
        folder = inputs[f"corpus-{name}"]
        columns = read_table(folder / SAMPLES, tuple(SampleRow.model_fields))
        rows = (dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))
        read = check_rows(rows, SampleRow, name=f"{name}/{SAMPLES}")
        loaded.take(read)
        corpus = _Corpus(name, stored_sizes(folder), load_spec(inputs["harness"] / f"{harness}.json").tools, params)
        for number, row in read.records:
            _add(loaded.tables["samples"], corpus, number, row)
        for text, sample in corpus.told.items():
            similarity, nearest = heldout.nearest(text)
            loaded.tables["tasks_told"].add(
                corpus=name, sample_id=sample, task=text, similarity=similarity, nearest=nearest
            )
        _add_corpus(loaded.tables["corpora"], corpus, len(read.records))
        loaded.tables["samples"].files[f"{name}/{SAMPLES}"] = len(read.records)
    return loaded


def _samples() -> Table:
    return Table(
        (
            "corpus", "record", "sample_id", "kind", "readable", "placeholders", "pictures", "missing_pictures",
            "record_error", "response_error", "coordinate_error", "questions", "learned_chars", "weight",
            "other_split_words",
        )
    )  # fmt: skip


def _tasks_told() -> Table:
    return Table(("corpus", "sample_id", "task", "similarity", "nearest"))


def _corpora() -> Table:
    return Table(
        (
            "corpus", "samples", "agent_steps", "click_packs", "skills", "skill_balance", "unused_pictures",
            *(f"{name}_share" for name in CHANNELS),
        )
    )  # fmt: skip


def _add(table: Table, corpus: _Corpus, number: int, row: SampleRow) -> None:
    corpus.kinds[row.kind] += 1
    if row.kind == "agent":
        corpus.skills[row.skill] += 1
    key = (row.kind, row.messages, row.response)  # rare skills come several times over
    if key not in corpus.known:
        corpus.known[key] = _look(corpus, *key)
    seen = corpus.known[key]
    corpus.channels.update(seen.channels)
    learned = sum(learned_chars(text, row.mask_think) for text in seen.responses) if row.weight > 0 else 0
    for task in seen.tasks:
        corpus.told.setdefault(task, row.sample_id)
    _row(table, corpus, number, row, learned_chars=learned, questions=len(seen.responses), **seen.columns)


def _look(corpus: _Corpus, kind: str, messages: str, response: str) -> _Seen:
    try:
        told = tell(kind, messages, response)
    except (ValueError, KeyError, TypeError) as error:
        return _Seen({"readable": f"{type(error).__name__}: {error}"})
    corpus.used.update(told.images)
    space = corpus.space(told)
    answers = [_answer(text, space, corpus.tools) for text in told.responses]
    words = {word for text in (*told.texts, *told.responses) for word in foreign_words(text)}
    columns = {
        "placeholders": sum(part["type"] == "image" for message in told.messages for part in message["content"]),
        "pictures": len(told.images),
        "missing_pictures": sum(digest not in corpus.sizes for digest in told.images),
        "record_error": _record_error(told),
        "response_error": next((form for form, _, _ in answers if form), ""),
        "coordinate_error": next((place for _, place, _ in answers if place), ""),
        "other_split_words": " ".join(sorted(words)),
    }
    tasks = tuple(task for text in told.texts for task in _TASK.findall(text)[-1:])
    return _Seen(columns, told.responses, tasks, tuple(channel for _, _, channel in answers if channel))


def _row(table: Table, corpus: _Corpus, number: int, row: SampleRow, **values: Any) -> None:
    found: dict[str, Any] = {
        "corpus": corpus.name, "record": number, "sample_id": row.sample_id, "kind": row.kind, "readable": "",
        "placeholders": 0, "pictures": 0, "missing_pictures": 0, "record_error": "", "response_error": "",
        "coordinate_error": "", "questions": 0, "learned_chars": 0, "weight": row.weight, "other_split_words": "",
    }  # fmt: skip
    table.add(**(found | values))


def _record_error(told: Told) -> str:
    """What the contract of chat records says, its count of pictures aside: that is a rule of its own."""
    try:
        check_record(told.record(), 1)
    except RecordError as error:
        return "" if error.code == "image_count_mismatch" else error.code
    return ""


@lru_cache(maxsize=1 << 16)
def _answer(text: str, space: ScreenSpace | None, tools: tuple[str, ...]) -> tuple[str, str, str]:
    """(error of the form, error of a coordinate, channel) of one response."""
    if space is None:
        return "no_picture_to_point_at", "", ""
    try:
        call = parse_response(text, space, pointer=_SOMEWHERE, tools=tools).call
    except CallError as error:
        return ("", error.code, "") if error.code in _COORDINATE_CODES else (error.code, "", "")
    if call.tool == "bash":
        return "", "", "terminal"
    return "", "", "none" if call.action in ("terminate", "wait") else "gui"


def learned_chars(response: str, mask_think: bool) -> int:
    """Characters that the loss sees: all of a response, or all but the interior of its reasoning."""
    if not mask_think or not response.startswith(THINK_OPEN) or THINK_CLOSE not in response:
        return len(response)
    return len(response) - (response.index(THINK_CLOSE) - len(THINK_OPEN))


def _add_corpus(table: Table, corpus: _Corpus, samples: int) -> None:
    """`skill_balance`: steps of the rarest skill / steps of the most frequent one."""
    skills = corpus.skills
    parts: dict[str, Any] = {f"{name}_share": share for name, share in shares(corpus.channels, CHANNELS).items()}
    table.files[corpus.name] = samples
    table.add(
        corpus=corpus.name, samples=samples, agent_steps=corpus.kinds["agent"], click_packs=corpus.kinds["click_pack"],
        skills=len(skills), skill_balance=min(skills.values()) / max(skills.values()) if skills else 0.0,
        unused_pictures=len(corpus.sizes.keys() - corpus.used), **parts,
    )  # fmt: skip
