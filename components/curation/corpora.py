"""Corpora: what the supervised stages train on. A directory:

    samples.parquet   one row a sample: id, kind, skill, trajectory, step, messages, response, mask_think, weight
    screens.parquet   the screenshots the samples name, by digest (as in the trajectory store, without elements)
    summary.json      counts by skill, channel, primitive; what was dropped and why

`kind` "agent": one step of a trajectory. `messages` is the folded prompt as JSON, a list of
`{"role", "parts": [{"text": ...} | {"image": digest}, ...]}`; `response` is the text to learn.
`kind` "click_pack" (stage 1): several questions behind one screenshot, see `grounding_packs.py`.
`mask_think`: the loss leaves out what stands inside the reasoning tags. `weight`: of each token of the sample.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, cast

from pydantic import TypeAdapter

from components.contracts.arguments import arguments_of
from components.contracts.artifacts import output_dir
from components.contracts.calls import DesktopCall
from components.contracts.coords import ScreenSpace
from components.contracts.digests import canonical_json
from components.contracts.folding import ContextLimits, Message, Part, TextPart, Turn, fold
from components.contracts.params import Context
from components.contracts.response import render_response
from components.contracts.trajectory import Step, Trajectory
from components.curation.rationale import RationaleRequest, RationaleWriter, ScreenState
from components.curation.rationale import Style as RationaleStyle
from components.rollout.filters import step_infos
from components.rollout.store import ScreenTable, StoredScreen, load_screens, turn_output, write_screens
from components.rollout.tables import read_table, write_table

SAMPLES, SUMMARY = "samples.parquet", "summary.json"
_COLUMNS = (
    "sample_id", "kind", "skill", "trajectory_id", "step", "messages", "response", "mask_think", "weight",
)  # fmt: skip
_CALL: TypeAdapter[Any] = TypeAdapter(DesktopCall)


@dataclass(frozen=True)
class Sample:
    """One row. What follows `weight` is for the gate and the summary and is not stored.

    `images`: the digests it names. `pointer`: where the pointer was.
    """

    sample_id: str
    kind: str
    skill: str
    trajectory_id: str
    step: int
    messages: str
    response: str
    mask_think: bool
    weight: float = 1.0
    images: tuple[str, ...] = ()
    pointer: tuple[int, int] | None = None
    channel: str = "none"
    primitive: str = ""
    wording: str = ""


def typed_call(call: Mapping[str, Any]) -> DesktopCall:
    """The call of a stored step."""
    return cast(DesktopCall, _CALL.validate_python(call))


def primitive_of(call: Mapping[str, Any]) -> str:
    """`left_click`, `type`, ... for the GUI tool; the tool's name for the others."""
    return str(call["action"]) if call["tool"] == "computer_use" else str(call["tool"])


def responses_of(
    trajectory: Trajectory, screens: ScreenTable, space: ScreenSpace, writer: RationaleWriter
) -> list[str]:
    """The full response of every step, perturbed ones included: they stand in the history of later steps."""
    style: RationaleStyle = "verbose" if trajectory.meta.get("style") == "verbose" else "short"
    out = []
    for step, info in zip(trajectory.steps, step_infos(trajectory), strict=True):
        assert step.call is not None  # `filters.learnable` refuses trajectories with unreadable steps
        think = writer.write(
            RationaleRequest(
                task=trajectory.instruction, before=_state(screens, step.screen),
                after=_state(screens, step.screen_after), call=step.call, action_line=step.action,
                intent=info.get("intent", {}), style=style, output=step.output,
            )
        )  # fmt: skip
        call = typed_call(step.call)
        out.append(render_response(think, step.action, call.tool, arguments_of(call, space)))
    return out


def _state(screens: ScreenTable, digest: str) -> ScreenState:
    return ScreenState(digest, screens.elements(digest) if digest else ())


def step_samples(
    trajectory: Trajectory,
    screens: ScreenTable,
    system: str,
    space: ScreenSpace,
    context: Context,
    writer: RationaleWriter,
    *,
    mask_think: bool = False,
) -> list[Sample]:
    """One sample a step that is not perturbed, folded as the live agent folds it. Weights are left at 1."""
    limits = ContextLimits(context.screenshots, context.responses, context.action_lines)
    responses = responses_of(trajectory, screens, space, writer)
    turns: list[Turn] = []
    samples: list[Sample] = []
    output: str | None = None
    for step, info, response in zip(trajectory.steps, step_infos(trajectory), responses, strict=True):
        if not step.perturbed:
            messages = fold(system, trajectory.instruction, [*turns, Turn(step.screen, output)], limits)
            samples.append(_sample(trajectory, step, info, messages, response, mask_think))
        turns.append(Turn(step.screen, output, response, step.action))
        output = turn_output(step)
    return samples


def _sample(
    trajectory: Trajectory, step: Step, info: Mapping[str, Any], messages: list[Message], response: str, mask: bool
) -> Sample:
    pointer = info.get("pointer")
    return Sample(
        sample_id=f"{trajectory.trajectory_id}/{step.index}", kind="agent", skill=trajectory.skill,
        trajectory_id=trajectory.trajectory_id, step=step.index, messages=dump_messages(messages), response=response,
        mask_think=mask, images=tuple(p.image for m in messages for p in m.parts if not isinstance(p, TextPart)),
        pointer=(pointer[0], pointer[1]) if pointer else None, channel=step.channel,
        primitive=primitive_of(step.call or {"tool": ""}), wording=str(trajectory.meta.get("wording", "")),
    )  # fmt: skip


def dump_messages(messages: Iterable[Message]) -> str:
    def part(p: Part) -> dict[str, Any]:
        return {"text": p.text} if isinstance(p, TextPart) else {"image": p.image}

    return json.dumps([{"role": m.role, "parts": [part(p) for p in m.parts]} for m in messages], ensure_ascii=False)


def balanced(
    samples: Sequence[Sample], steps: int, stream_of: Callable[[str], Random], *, by: str = "skill"
) -> list[Sample]:
    """`steps` samples in all, the same number for each skill, or `by` "primitive" for each (the first ones one more).

    A skill with too many gives whole trajectories in random order until its share is full; one with too few gives all
    of them again (ids get `#2`, `#3`, ...), so that a rare skill is seen as often as a common one.
    """
    by_skill: dict[str, dict[str, list[Sample]]] = {}
    for sample in samples:
        by_skill.setdefault(getattr(sample, by), {}).setdefault(sample.trajectory_id, []).append(sample)
    chosen: list[Sample] = []
    for number, skill in enumerate(sorted(by_skill)):
        share = steps // len(by_skill) + (number < steps % len(by_skill))
        taken: list[Sample] = []
        turn = 0
        while len(taken) < share:
            turn += 1
            order = sorted(by_skill[skill])
            stream_of(f"{skill}/{turn}").shuffle(order)
            for trajectory_id in order:
                again = by_skill[skill][trajectory_id]
                taken += again if turn == 1 else [replace(s, sample_id=f"{s.sample_id}#{turn}") for s in again]
        chosen += taken[:share]
    return chosen


def weighted(samples: Sequence[Sample], *, by_skill: bool) -> list[Sample]:
    """Weights with which every trajectory counts once: mean length / own length, in supervised steps.

    The mean is over the skill where skills are balanced already (else skills of long trajectories would lose what the
    balance gave them), over all trajectories otherwise.
    """
    lengths: dict[str, dict[str, set[int]]] = {}
    for sample in samples:
        group = sample.skill if by_skill else ""
        lengths.setdefault(group, {}).setdefault(sample.trajectory_id, set()).add(sample.step)
    means = {group: sum(len(v) for v in own.values()) / len(own) for group, own in lengths.items()}
    out = []
    for sample in samples:
        group = sample.skill if by_skill else ""
        weight = means[group] / len(lengths[group][sample.trajectory_id])
        out.append(replace(sample, weight=round(weight, 6)))
    return out


def count_samples(samples: Sequence[Sample]) -> dict[str, Any]:
    """Counts for the summary."""
    agent = [s for s in samples if s.kind == "agent"]
    return {
        "samples": len(samples),
        "agent_steps": len(agent),
        "click_packs": len(samples) - len(agent),
        "distinct_steps": len({s.sample_id.partition("#")[0] for s in agent}),
        "trajectories": len({s.trajectory_id for s in agent}),
        "by_skill": dict(sorted(Counter(s.skill for s in agent).items())),
        "by_channel": dict(sorted(Counter(s.channel for s in agent).items())),
        "by_primitive": dict(sorted(Counter(s.primitive for s in agent).items())),
        "longest_prompt_chars": max((len(s.messages) for s in agent), default=0),
    }


def write_corpus(
    target: Path, samples: Iterable[Sample], screens: Mapping[str, StoredScreen], summary: Mapping[str, Any]
) -> None:
    """Write a whole corpus, or nothing. Only the screenshots that a sample names are written."""
    rows = sorted(samples, key=lambda s: (s.kind, s.skill, s.trajectory_id, s.step, s.sample_id))
    named = sorted({digest for s in rows for digest in s.images})
    with output_dir(target) as draft:
        write_table(
            draft / SAMPLES,
            {
                name: (cast(Any, _KINDS.get(name, "text")), [getattr(s, name) for s in rows])
                for name in _COLUMNS
            },
        )  # fmt: skip
        write_screens(draft, {digest: replace(screens[digest], elements="") for digest in named})
        (draft / SUMMARY).write_text(canonical_json(summary) + "\n")


_KINDS = {"step": "int", "mask_think": "bool", "weight": "float"}


def read_corpus(folder: Path) -> tuple[list[dict[str, Any]], ScreenTable]:
    """The rows of a corpus in the order of its file, and its screenshots (decoded when asked for)."""
    columns = read_table(folder / SAMPLES, _COLUMNS)
    rows = [dict(zip(_COLUMNS, values, strict=True)) for values in zip(*(columns[n] for n in _COLUMNS), strict=True)]
    return rows, load_screens(folder)
