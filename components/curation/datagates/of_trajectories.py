"""Tables of the trajectory gate: `trajectories`, `steps`, `points` (one row a coordinate), `stores`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from components.contracts.calls import AccessibilityCall, BashCall, ComputerUse, DesktopCall
from components.contracts.errors import CallError
from components.contracts.params import Params
from components.contracts.response import render_response
from components.contracts.task import Task
from components.contracts.trajectory import Step, Trajectory
from components.curation.datagates.border import check_texts
from components.curation.datagates.loaded import Loaded, Table, shares
from components.curation.datagates.pictures import stored_sizes
from components.forge.store import load_tasks
from components.harness.spec import load_spec
from components.rollout.store import TRAJECTORIES, read_rows, shard_paths

STORES = ("gui", "terminal", "hybrid")
CHANNELS = ("gui", "terminal", "none")
_CALLS: dict[str, type[ComputerUse] | type[BashCall] | type[AccessibilityCall]] = {
    "computer_use": ComputerUse, "bash": BashCall, "accessibility": AccessibilityCall,
}  # fmt: skip
_NESTED = ("steps", "verdict", "meta")


def load(inputs: Mapping[str, Path], params: Params) -> Loaded:
    """Reads `tasks`, `harness` and `trajectories-gui`, `-terminal`, `-hybrid`."""
    tasks = {task.task_id: task for task in load_tasks(inputs["tasks"])}
    loaded = Loaded({"trajectories": _trajectories(), "steps": _steps(), "points": _points(), "stores": _stores()})
    for store in STORES:
        folder = inputs[f"trajectories-{store}"]
        tools = load_spec(inputs["harness"] / f"{store}.json").tools
        sizes = stored_sizes(folder)
        whole: list[Trajectory] = []
        for path in shard_paths(folder, TRAJECTORIES):
            name = f"{store}/{path.name}"
            read = check_texts(map(_text, read_rows(path)), Trajectory, name=name)
            loaded.take(read)
            loaded.tables["trajectories"].files[name] = len(read.records)
            whole += [trajectory for _, trajectory in read.records]
        for trajectory in whole:
            _add(loaded, store, trajectory, tasks.get(trajectory.task_id), tools, sizes)
        _add_store(loaded.tables["stores"], store, whole, sizes)
    return loaded


def _text(row: Mapping[str, Any]) -> str:
    """A stored row as the JSON of a trajectory; what is JSON already is not read twice."""
    parts = [f"{json.dumps(name)}:{json.dumps(row[name])}" for name in row if name not in (*_NESTED, "reward")]
    parts += [f'"{name}":{row[name]}' for name in _NESTED]
    return "{" + ",".join([*parts, f'"reward":{row["reward"] or "null"}']) + "}"


def _trajectories() -> Table:
    return Table(
        (
            "store", "trajectory_id", "task_id", "split", "task_split", "instruction_is_the_tasks", "harness", "ending",
            "dropped", "solved", "steps", "learnable_steps", "indexed",
        )
    )  # fmt: skip


def _steps() -> Table:
    return Table(
        (
            "store", "trajectory_id", "step", "channel", "format_error", "call_error", "own_tool", "pictures", "stored",
        )
    )  # fmt: skip


def _points() -> Table:
    return Table(("store", "trajectory_id", "step", "end", "x", "y", "width", "height"))


def _stores() -> Table:
    return Table(
        (
            "store", "trajectories", "kept_share", "steps", "perturbed_share", "unused_pictures", "skills",
            *(f"{name}_share" for name in CHANNELS),
        )
    )  # fmt: skip


def _add(
    loaded: Loaded,
    store: str,
    trajectory: Trajectory,
    task: Task | None,
    tools: tuple[str, ...],
    sizes: Mapping[str, tuple[int, int]],
) -> None:
    steps = trajectory.steps
    loaded.tables["trajectories"].add(
        store=store, trajectory_id=trajectory.trajectory_id, task_id=trajectory.task_id, split=trajectory.split,
        task_split=task.split if task else "", instruction_is_the_tasks=task is None
        or task.instruction == trajectory.instruction,
        harness=trajectory.harness, ending=trajectory.ending, dropped=trajectory.dropped,
        solved=trajectory.verdict.success and not trajectory.verdict.error, steps=len(steps),
        learnable_steps=sum(not step.perturbed for step in steps),
        indexed=[step.index for step in steps] == list(range(len(steps))),
    )  # fmt: skip
    for step in steps:
        _add_step(loaded, store, trajectory.trajectory_id, step, tools, sizes)


def _add_step(
    loaded: Loaded,
    store: str,
    trajectory_id: str,
    step: Step,
    tools: tuple[str, ...],
    sizes: Mapping[str, tuple[int, int]],
) -> None:
    call, call_error = _call(step)
    named = [digest for digest in (step.screen, step.screen_after) if digest]
    loaded.tables["steps"].add(
        store=store, trajectory_id=trajectory_id, step=step.index, channel=step.channel,
        format_error=_format_error(step), call_error=call_error, own_tool=call is None or call.tool in tools,
        pictures=len(named), stored=sum(digest in sizes for digest in named),
    )  # fmt: skip
    if isinstance(call, ComputerUse) and step.screen in sizes:
        width, height = sizes[step.screen]
        for end, point in (("start", call.start), ("coordinate", call.coordinate)):
            if point is not None:
                loaded.tables["points"].add(
                    store=store, trajectory_id=trajectory_id, step=step.index, end=end,
                    x=point[0], y=point[1], width=width, height=height,
                )  # fmt: skip


def _call(step: Step) -> tuple[DesktopCall | None, str]:
    """The typed call, and why there is none. A step without a call says so itself (`error`)."""
    if step.call is None:
        return None, "" if step.error else "neither a call nor an error"
    model = _CALLS.get(str(step.call.get("tool")))
    if model is None:
        return None, f"unknown tool {str(step.call.get('tool'))[:40]!r}"
    try:
        return model.model_validate_json(json.dumps(step.call), strict=True), ""
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        return None, f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _format_error(step: Step) -> str:
    """Why reasoning and action line could not stand in a response, "" when they could."""
    try:
        render_response(step.think, step.action, "", {})
    except CallError as error:
        return error.code
    return ""


def _add_store(table: Table, store: str, whole: list[Trajectory], sizes: Mapping[str, tuple[int, int]]) -> None:
    """Shares of channels are those of kept trajectories: what can be learned from."""
    kept = [trajectory for trajectory in whole if not trajectory.dropped]
    steps = [step for trajectory in whole for step in trajectory.steps]
    used = {digest for step in steps for digest in (step.screen, step.screen_after)}
    channels = shares(Counter(step.channel for trajectory in kept for step in trajectory.steps), CHANNELS)
    parts: dict[str, Any] = {f"{name}_share": share for name, share in channels.items()}
    table.files[store] = len(whole)
    table.add(
        store=store, trajectories=len(whole), kept_share=len(kept) / len(whole) if whole else 0.0, steps=len(steps),
        perturbed_share=sum(step.perturbed for step in steps) / len(steps) if steps else 0.0,
        unused_pictures=sum(digest not in used for digest in sizes), skills=len({t.skill for t in kept}), **parts,
    )  # fmt: skip
