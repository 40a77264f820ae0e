"""What `cowork run` and `cowork rerun` were asked for, which stages that means, and the `dvc repro` calls for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipelines.plan import Plan
from pipelines.registry import StageDef, makers


@dataclass(frozen=True)
class Options:
    """What was asked for. `only`: bring this stage and what it needs up to date. `force`: run this one regardless,
    and what depends on it where its output differs (`downstream`), on the outputs of another run (`from_run`)."""

    profile: str = ""
    sets: tuple[str, ...] = ()
    only: str = ""
    force: str = ""
    unconfined: bool = False
    wait: float = 60.0
    as_json: bool = False
    ship: bool = True
    cap_usd: float | None = None
    """The run's spend cap in USD, None = as it is, infinity = none. Likewise in tokens of model calls."""
    cap_tokens: float | None = None
    downstream: bool = True
    from_run: str = ""

    @property
    def narrow(self) -> bool:
        """Whether the stages before the forced one are taken as they are."""
        return bool(self.force and (self.from_run or not self.downstream))


def ancestors(stages: Mapping[str, StageDef], name: str) -> list[str]:
    """The stages that `name` needs, itself last."""
    maker = makers(stages)
    wanted: set[str] = set()
    waiting = [name]
    while waiting:
        stage = waiting.pop()
        if stage not in wanted:
            wanted.add(stage)
            waiting += [maker[path] for path in stages[stage].inputs.values() if path in maker]
    return [stage for stage in stages if stage in wanted]


def descendants(stages: Mapping[str, StageDef], name: str) -> list[str]:
    """The stages that depend on `name`, without itself."""
    return [stage for stage in stages if stage != name and name in ancestors(stages, stage)]


def phases(plan: Plan, stages: Mapping[str, StageDef], options: Options) -> list[list[str]]:
    """The `dvc repro` calls for these options."""
    if options.narrow:
        later = [["--downstream", options.force]] if options.downstream else []
        return [["--single", "--force", options.force], *later]
    if options.force:
        before = [s for s in ancestors(stages, options.force)[:-1] if plan.named(s).action != "keep"]
        calls = [[*before]] if before else []
        return [*calls, ["--single", "--force", options.force], ["--downstream", options.force]]
    return [[options.only]] if options.only else [[]]


def in_scope(stages: Mapping[str, StageDef], options: Options) -> list[str]:
    if options.narrow:
        return [options.force, *(descendants(stages, options.force) if options.downstream else [])]
    if options.force:
        return [*ancestors(stages, options.force), *descendants(stages, options.force)]
    return ancestors(stages, options.only) if options.only else list(stages)
