"""What a run would do and why, from `dvc.lock` and the files alone: the questions DVC asks, answered with reasons."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from components.contracts.params import Params
from pipelines.dvcfiles import Content, Locked, content, read_lock
from pipelines.registry import StageDef
from pipelines.stage_params import sections
from pipelines.workspace import Workspace

Action = Literal["run", "maybe", "keep"]


@dataclass(frozen=True)
class Planned:
    """`run`: it will be executed (or restored from DVC's cache of earlier runs). `maybe`: a stage before it runs, so
    it depends on what that one writes. `keep`: nothing changed."""

    stage: str
    action: Action
    reasons: tuple[str, ...] = ()


@dataclass
class Plan:
    stages: list[Planned] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)
    """Path -> digest of everything that was looked at and is there."""

    def named(self, name: str) -> Planned:
        return next(planned for planned in self.stages if planned.stage == name)

    @property
    def empty(self) -> bool:
        return all(planned.action == "keep" for planned in self.stages)

    def count(self, *actions: Action) -> int:
        return sum(planned.action in actions for planned in self.stages)


def make_plan(
    workspace: Workspace,
    stages: Mapping[str, StageDef],
    params: Params,
    keys: Mapping[str, str],
    forced: frozenset[str] = frozenset(),
    locked: Mapping[str, Locked] | None = None,
    digests: Mapping[str, str] | None = None,
) -> Plan:
    """The plan for all stages in order. `keys`: stage -> code key. Hashes every input and output once.

    `locked` and `digests` (path -> digest) put a recorded state in the place of the folder's.
    """
    locked = read_lock(workspace.lock_file) if locked is None else locked
    seen: dict[str, Content | None] = {path: Content(digest, 0) for path, digest in (digests or {}).items()}
    plan = Plan()
    maker = {path: stage.name for stage in stages.values() for path in stage.outputs.values()}
    for name, stage in stages.items():
        for path in (*stage.inputs.values(), *stage.outputs.values()):
            if path not in seen and digests is None:
                seen[path] = content(workspace.root / path)
        now = {path: found.digest for path, found in seen.items() if found}
        reasons = _reasons(stage, locked.get(name), sections(params, stage), keys[name], now)
        if name in forced:
            reasons.insert(0, "asked for")
        before = sorted({maker[path] for path in stage.inputs.values() if path in maker})
        moving = [other for other in before if plan.named(other).action != "keep"]
        if reasons:
            plan.stages.append(Planned(name, "run", tuple(reasons)))
        elif moving:
            plan.stages.append(Planned(name, "maybe", (f"if the output of {', '.join(moving)} changes",)))
        else:
            plan.stages.append(Planned(name, "keep"))
    plan.digests = {path: found.digest for path, found in seen.items() if found}
    return plan


def _reasons(
    stage: StageDef, locked: Locked | None, params: Mapping[str, Any], key: str, now: Mapping[str, str]
) -> list[str]:
    if locked is None:
        return ["never ran here"]
    reasons = []
    if locked.cmd != f"cowork step {stage.name}":
        reasons.append("its command changed in dvc.yaml")
    for path in stage.inputs.values():
        if path in now and locked.deps.get(path) != now[path]:
            reasons.append(f"input {path} changed" if path in locked.deps else f"input {path} is new")
    for dotted, value in params.items():
        if dotted not in locked.params:
            reasons.append(f"param {dotted} is new")
        reasons += [f"param {line}" for line in differences(locked.params.get(dotted, value), value, dotted)]
    if locked.code_key != key:
        reasons.append("its code changed")
    for path in stage.outputs.values():
        if path not in now:
            reasons.append(f"output {path} is missing")
        elif locked.outs.get(path) != now[path]:
            reasons.append(f"output {path} was changed by hand")
    return reasons


def differences(old: Any, new: Any, dotted: str) -> list[str]:
    """`rl.lr: 0.0002 -> 0.0001` for every leaf that differs."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        found = []
        for key in sorted({*old, *new}):
            if key not in old:
                found.append(f"{dotted}.{key} is new")
            elif key not in new:
                found.append(f"{dotted}.{key} is gone")
            else:
                found += differences(old[key], new[key], f"{dotted}.{key}")
        return found
    return [] if _same(old, new) else [f"{dotted}: {old} -> {new}"]


def _same(old: Any, new: Any) -> bool:
    """Equal values. A number may come back from dvc.lock as text (YAML 1.1 reads `1e-05` so)."""
    if isinstance(new, int | float) and not isinstance(new, bool) and isinstance(old, str):
        try:
            return math.isclose(float(old), new, rel_tol=0.0, abs_tol=0.0)
        except ValueError:
            return False
    if isinstance(old, list) and isinstance(new, list | tuple):
        return len(old) == len(new) and all(_same(a, b) for a, b in zip(old, new, strict=True))
    return (
        type(old) is type(new)
        and old == new
        or (not isinstance(old, bool) and not isinstance(new, bool) and old == new)
    )
