"""The stages `curate-midtrain`, `curate-gui-sft`, `curate-terminal-sft` and `curate-hybrid-sft`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from components.contracts.coords import ScreenSpace
from components.contracts.errors import DataError, ParamsError
from components.contracts.params import CurateMidtrain, CurateSft, Params
from components.contracts.rng import stream
from components.contracts.schemas import THINK_CLOSE, THINK_OPEN
from components.contracts.stage import StepContext
from components.contracts.trajectory import Trajectory
from components.curation.corpora import Sample, balanced, count_samples, step_samples, weighted, write_corpus
from components.curation.filters import learnable
from components.curation.gate import check_corpus, train_wording
from components.curation.grounding_packs import Shot, click_pack, count_questions, synth_shot, train_words
from components.curation.rationale import RationaleWriter, ScriptedWriter
from components.curation.substitution import substituted
from components.harness.spec import HarnessSpec, load_spec
from components.rollout.store import ScreenTable, StoredScreen, load_screens, read_trajectories

BARE_SHARE = 0.8
"""Share of stage 1's agent steps without a rationale. Where the interior of `<think>` is masked, a policy answers
without one: only these steps teach it which action to choose."""

_EASY = frozenset({"terminate", "wait", "middle_click"})
"""Primitives that the skills alone show often enough for what there is to learn about them."""

HARNESS_OF = {"midtrain": "gui", "gui-sft": "gui", "terminal-sft": "terminal", "hybrid-sft": "hybrid"}
"""Which harness wrote the trajectories of a stage."""


class _Source:
    """The accepted trajectories of a store, and what makes samples of them."""

    def __init__(self, params: Params, inputs: dict[str, Path], ctx: StepContext, writer: RationaleWriter) -> None:
        self.stage = ctx.stage.removeprefix("curate-")
        if self.stage not in HARNESS_OF:
            raise ParamsError(f"{ctx.stage!r} is no curation", where="curate", remedy=f"one of {sorted(HARNESS_OF)}")
        self.ctx, self.writer, self.params = ctx, writer, params
        self.harness: HarnessSpec = load_spec(inputs["harness"] / f"{HARNESS_OF[self.stage]}.json")
        self.screens: ScreenTable = load_screens(inputs["trajectories"])
        stored = read_trajectories(inputs["trajectories"])
        self.trajectories, self.dropped = learnable(stored, self.harness)
        if not self.trajectories:
            raise DataError(
                f"no trajectory can be learned from: {self.dropped}", where=str(inputs["trajectories"]),
                remedy="look at the reasons; collect again",
            )  # fmt: skip
        height, width = self.screens[self.trajectories[0].steps[0].screen].shape[:2]
        self.space = ScreenSpace(params.model.coord_space, (width, height), step=params.model.coord_step)
        self.system = self.harness.system_prompt(params.model.coord_space)

    def samples(self, mask_think: bool) -> list[Sample]:
        """Every step sample of every accepted trajectory."""
        out: list[Sample] = []
        for number, trajectory in enumerate(self.trajectories, start=1):
            out += self._of(trajectory, mask_think)
            self.ctx.events.progress(number, len(self.trajectories), "trajectories")
        return out

    def _of(self, trajectory: Trajectory, mask_think: bool) -> list[Sample]:
        return step_samples(
            trajectory, self.screens, self.system, self.space, self.params.context, self.writer, mask_think=mask_think
        )  # fmt: skip

    def choose(self, samples: list[Sample], steps: int, evenly: bool, by_primitive: float) -> list[Sample]:
        """`steps` samples: evenly over skills (or at random) with each trajectory counting once, and a share of them
        evenly over primitives, each step counting once. A policy that is to act needs the rare actions too."""
        seed, stage = self.ctx.seed, self.ctx.stage
        rest = round(steps * by_primitive)
        if evenly:
            chosen = balanced(samples, steps - rest, lambda name: stream(seed, stage, name))
        else:
            order = sorted(samples, key=lambda s: s.sample_id)
            stream(seed, stage, "sample").shuffle(order)
            chosen = order[: steps - rest]
        acting = [sample for sample in samples if sample.primitive not in _EASY]
        other = balanced(acting, rest, lambda name: stream(seed, f"{stage}/primitive", name), by="primitive")
        return self._substituted(
            [
                *weighted(chosen, by_skill=evenly),
                *(replace(sample, sample_id=f"{sample.sample_id}+") for sample in other),
            ]
        )

    def _substituted(self, samples: Sequence[Sample]) -> list[Sample]:
        names = f"{self.ctx.stage}/substitution"
        return [
            substituted(sample, stream(self.ctx.seed, names, f"{number}/{sample.sample_id}"))
            for number, sample in enumerate(samples)
        ]


def run(params: Params, inputs: dict[str, Path], outputs: dict[str, Path], ctx: StepContext) -> dict[str, float]:
    """Reads the store `trajectories` and `harness`, writes `corpus` (see `corpora.py`).

    Metrics: samples, agent_steps, distinct_steps, trajectories, click_packs, questions, screens, accepted, refused.
    """
    source = _Source(params, inputs, ctx, ScriptedWriter())
    screens: dict[str, StoredScreen] = {}
    summary: dict[str, Any] = {"stage": source.stage, "harness": source.harness.name}
    if source.stage == "midtrain":
        samples = _midtrain(source, params.curate.midtrain, screens)
        summary["questions"] = count_questions(s for s in samples if s.kind == "click_pack")
    else:
        section: CurateSft = getattr(params.curate, source.stage.replace("-", "_"))
        samples = source.choose(
            source.samples(mask_think=False), section.steps, section.balance, section.by_primitive
        )  # fmt: skip
    for sample in samples:
        for digest in sample.images:
            if digest not in screens:
                screens[digest] = source.screens.stored(digest)
    checked = check_corpus(samples, source.space, source.harness.tools, screens.__contains__, train_wording)
    summary |= count_samples(samples)
    summary |= {"accepted": len(source.trajectories), "dropped": source.dropped, "gate": {"checked": checked}}
    write_corpus(outputs["corpus"], samples, screens, summary)
    metrics = {
        name: float(summary[name])
        for name in ("samples", "agent_steps", "distinct_steps", "trajectories", "click_packs")
    }
    metrics |= {
        "questions": float(sum(summary.get("questions", {}).values())), "screens": float(len(screens)),
        "accepted": float(summary["accepted"]), "refused": float(sum(source.dropped.values())),
    }  # fmt: skip
    for name, value in metrics.items():
        ctx.events.metric(name, value)
    return metrics


def _midtrain(source: _Source, section: CurateMidtrain, screens: dict[str, StoredScreen]) -> list[Sample]:
    """Packs on layout-free screens and on collected ones, and agent steps beside them. Fills `screens`."""
    seed, stage = source.ctx.seed, source.ctx.stage
    packs: list[Sample] = []
    total = section.synth_screens + section.screens
    words = train_words()

    def add(name: str, shot: Shot) -> None:
        rng = stream(seed, f"{stage}/questions", name)
        pack = click_pack(
            rng, shot, section.questions, source.space, source.writer, name=name, mask_think=section.mask_think
        )  # fmt: skip
        if pack is not None:
            packs.append(pack)
        source.ctx.events.progress(len(packs), total, "screens")

    for index in range(section.synth_screens):
        shot, stored = synth_shot(stream(seed, f"{stage}/synth", index), words)
        screens[shot.digest] = stored
        add(f"synth/{index:06d}", shot)
    for digest in _collected(source, section.screens):
        screens[digest] = source.screens.stored(digest)
        add(f"app/{digest}", Shot(digest, source.screens.elements(digest), "app"))
    share = section.agent_share
    steps = round(len(packs) * share / (1 - share)) if share < 1 else len(packs)
    agent = source.samples(section.mask_think) if steps else []
    chosen = source.choose(agent, steps, True, section.by_primitive) if agent else []
    return packs + [_sometimes_bare(sample, seed, stage) for sample in chosen]


def _sometimes_bare(sample: Sample, seed: int, stage: str) -> Sample:
    """The sample, or the same step without its rationale."""
    if stream(seed, f"{stage}/bare", sample.sample_id).random() >= BARE_SHARE:
        return sample
    return replace(sample, response=f"{THINK_OPEN}{sample.response[sample.response.index(THINK_CLOSE) :]}")


def _collected(source: _Source, count: int) -> list[str]:
    """`count` distinct screens of accepted trajectories, skills in turn: no application crowds out the others."""
    by_skill: dict[str, list[str]] = {}
    seen: set[str] = set()
    for trajectory in source.trajectories:
        for step in trajectory.steps:
            if step.screen not in seen:
                seen.add(step.screen)
                by_skill.setdefault(trajectory.skill, []).append(step.screen)
    for skill, digests in by_skill.items():
        stream(source.ctx.seed, f"{source.ctx.stage}/screens", skill).shuffle(digests)
    depth = max((len(d) for d in by_skill.values()), default=0)
    turns = [by_skill[skill][i] for i in range(depth) for skill in sorted(by_skill) if i < len(by_skill[skill])]
    return turns[:count]
