"""OSWorld's task files: what one says, checked before anything runs.

A task's name is its folder and its id, `chrome/0d8b7de3`: an id alone may be shared by two tasks, and then the results
of one would overwrite the other's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from components.contracts.errors import TaskError
from components.contracts.task import Task
from components.sandbox.osworld.registry import SETUP_TYPES

INFEASIBLE = "infeasible"
SPEC = "osworld"
"""Where a product task holds the OSWorld task, in its `spec`."""


class TaskFileError(TaskError):
    """A task file or list that cannot be used. `code` is a stable short name, `key` the task's."""

    def __init__(self, code: str, key: str, message: str) -> None:
        super().__init__(f"{code}: {message}", where=f"task {key}", remedy="repair the file or take it off the list")
        self.code, self.key = code, key


class Step(BaseModel):
    """One call of a setup function."""

    model_config = ConfigDict(extra="allow", frozen=True)
    type: str
    parameters: dict[str, Any] = Field(default_factory=dict)

    @field_validator("type")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in SETUP_TYPES:
            raise ValueError(f"unknown_setup_step: {value!r}")
        return value


class Probe(BaseModel):
    """One check: a metric over what two getters give. `expected` None: the metric looks at the result alone."""

    model_config = ConfigDict(frozen=True)
    func: str
    result: dict[str, Any]
    expected: dict[str, Any] | None = None
    options: dict[str, Any] = Field(default_factory=dict)


class Evaluator(BaseModel):
    """Single and list forms alike: probes joined by `conj`. No probe: the task is infeasible."""

    model_config = ConfigDict(extra="allow", frozen=True)
    probes: tuple[Probe, ...]
    conj: Literal["and", "or"] = "and"
    postconfig: tuple[Step, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _from_file(cls, raw: Any) -> Any:
        if isinstance(raw, Mapping) and "probes" in raw:
            return dict(raw)
        if not isinstance(raw, Mapping):
            raise ValueError("checker_not_an_object: the evaluator is no JSON object")
        rest = {k: v for k, v in raw.items() if k not in ("func", "result", "expected", "options")}
        return {**rest, "probes": _probes(raw)}


def _probes(raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    func = raw.get("func")
    funcs = func if isinstance(func, list) else [func]
    if not funcs or not all(isinstance(name, str) and name for name in funcs):
        raise ValueError("no_check: the evaluator names no function")
    if funcs == [INFEASIBLE]:
        return []
    if INFEASIBLE in funcs:
        raise ValueError("no_check: `infeasible` stands alone or not at all")
    parts: dict[str, list[Any]] = {}
    for name in ("result", "expected", "options"):
        given = raw.get(name)
        if given is None or given == {} or given == []:
            parts[name] = [None] * len(funcs)
        elif isinstance(given, list) is not isinstance(func, list):
            raise ValueError(f"uneven_checker: `{name}` and `func` are not both lists")
        else:
            parts[name] = given if isinstance(given, list) else [given]
        if len(parts[name]) != len(funcs):
            raise ValueError(f"uneven_checker: {len(funcs)} functions and {len(parts[name])} of `{name}`")
    for name in ("result", "expected"):
        for part in parts[name]:
            if part and not (isinstance(part, Mapping) and isinstance(part.get("type"), str) and part["type"]):
                raise ValueError(f"no_getter: `{name}` names no type")
    if not all(parts["result"]):
        raise ValueError("no_result: a function has nothing to look at")
    return [
        {"func": name, "result": result, "expected": expected or None, "options": options or {}}
        for name, result, expected, options in zip(
            funcs, parts["result"], parts["expected"], parts["options"], strict=True
        )
    ]


class OsworldTask(BaseModel):
    """A task file; keys that later releases added are kept and not read."""

    model_config = ConfigDict(extra="allow", frozen=True)
    id: str = Field(min_length=1)
    instruction: str = Field(min_length=1)
    evaluator: Evaluator
    snapshot: str = ""
    config: tuple[Step, ...] = ()
    related_apps: tuple[str, ...] = ()
    proxy: bool = False
    key: str = ""

    @property
    def feasible(self) -> bool:
        return bool(self.evaluator.probes)


def read_task(key: str, data: bytes | Mapping[str, Any]) -> OsworldTask:
    """The task file of `key` (folder/id). Raises `TaskFileError` with what is wrong and where."""
    raw: Any = data
    if isinstance(data, bytes):
        try:
            raw = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise TaskFileError("damaged_file", key, f"no JSON: {error}") from error
    if not isinstance(raw, Mapping):
        raise TaskFileError("damaged_file", key, "no JSON object")
    named = key.rpartition("/")[2]
    if raw.get("id") != named:
        raise TaskFileError("id_differs_from_file_name", key, f"the file is {named}, its id is {raw.get('id')!r:.80}")
    try:
        return OsworldTask(**{**{str(k): v for k, v in raw.items()}, "key": key})
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        code, _, said = str(first["msg"]).removeprefix("Value error, ").partition(": ")
        if first["type"] != "value_error" or not said:
            code, said = "bad_field", str(first["msg"])
        raise TaskFileError(code, key, f"{field}: {said}" if field else said) from error


def as_task(task: OsworldTask, *, split: Literal["train", "dev", "heldout", "heldout_skills"] = "heldout") -> Task:
    """The task as the rest of the product knows one."""
    return Task.build(
        skill=SPEC, workflow=task.key or task.id, apps=task.related_apps, channels=(("gui",), ("terminal",)),
        instruction=task.instruction, wording=task.key or task.id, split=split, setup=(), verifier=(),
        spec={SPEC: task.model_dump(mode="json")}, max_steps=15,
    )  # fmt: skip


def of_task(task: Task) -> OsworldTask:
    """The OSWorld task within a product task. Raises `TaskError` for one that holds none."""
    raw = task.spec.get(SPEC)
    if not isinstance(raw, Mapping):
        raise TaskError("this is no OSWorld task", where=f"task {task.task_id[:12]}", remedy="make it by as_task")
    try:
        return OsworldTask(**raw)
    except ValidationError as error:
        raise TaskError(f"damaged OSWorld task: {error}", where=f"task {task.task_id[:12]}") from error
