"""The typed schema of `params.yaml`: one section a stage (or a family of stages), plus what they share.

Every blank of the published recipe is a parameter here; the reason for a value stands beside it in
`params.yaml`. Loading and its error messages live in `load_params`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[int, Field(gt=0)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Rate = Annotated[float, Field(gt=0.0, lt=1.0)]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


Frozen = Literal["vision", "names"]
"""The vision encoder; the embeddings of the words that tasks are about. A name that training tasks use and one that
they do not then stay the same kind of thing to a policy, which has to copy both."""


class Model(Section):
    """Where the policy comes from and how screens and coordinates reach it.

    `frozen`: parts that stages 1 to 5 leave as the base has them.
    """

    base: str
    frozen: tuple[Frozen, ...]
    coord_space: Literal["normalized_1000", "normalized_1", "pixel_screen", "pixel_model"]
    coord_step: Positive
    max_prompt_tokens: Positive
    max_new_tokens: Positive


class Context(Section):
    """The folding window (paper.md 1.2)."""

    screenshots: Positive
    responses: Annotated[int, Field(ge=0)]
    action_lines: Positive
    output_chars: Positive


class Forge(Section):
    train: Positive
    dev: Positive
    heldout: Positive
    heldout_skills: Annotated[int, Field(ge=0)]
    gate: Share


class Harness(Section):
    trial_tasks: Positive
    routes: tuple[str, ...]


class Collect(Section):
    """One teacher configuration's collection: `collect.gui`, `collect.terminal`, `collect.hybrid`."""

    tasks: Positive
    perturb: Share
    verbose: Share
    check: Share
    channel_temperature: Annotated[float, Field(ge=0.0)]


class CollectAll(Section):
    gui: Collect
    terminal: Collect
    hybrid: Collect


class CurateMidtrain(Section):
    screens: Positive
    synth_screens: Positive
    questions: Positive
    agent_share: Share
    by_primitive: Share
    mask_think: bool


class CurateSft(Section):
    """`balance`: the same number of steps for each skill; `by_primitive`: the share that is even over actions."""

    steps: Positive
    balance: bool
    by_primitive: Share


class CurateAll(Section):
    midtrain: CurateMidtrain
    gui_sft: CurateSft
    terminal_sft: CurateSft
    hybrid_sft: CurateSft


class Sft(Section):
    """One supervised stage. Budgets are optimiser steps. `replay_*` are shares of batches. `muon_lr`: the rate of
    Muon on matrices, 0 = AdamW at `lr` for every weight."""

    steps: Positive
    batch: Positive
    lr: Rate
    muon_lr: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    weight_decay: Annotated[float, Field(ge=0.0)]
    warmup: Annotated[int, Field(ge=0)]
    clip_norm: Annotated[float, Field(gt=0.0)]
    replay_base: Share
    replay_grounding: Share
    replay_gui: Share = 0.0
    checkpoint_every: Positive
    log_every: Positive


class Rl(Section):
    iterations: Positive
    tasks_per_iteration: Positive
    focus: Share = 0.0
    group: Annotated[int, Field(ge=2)]
    lr: Rate
    lr_final: Share
    temperature: Annotated[float, Field(gt=0.0)]
    minibatch: Positive
    clip_low: Rate
    clip_high: Rate
    tis_cap: Annotated[float, Field(gt=0.0)]
    max_lag: Annotated[int, Field(ge=0)]
    advantage: Literal[
        "leave_one_out_mean_only", "mean_only", "population_std", "sample_std",
        "leave_one_out_population_std", "leave_one_out_sample_std",
    ]  # fmt: skip
    call_cost: Annotated[float, Field(ge=0.0, lt=1.0)]
    token_cost: Annotated[float, Field(ge=0.0, lt=1.0)]
    unparsable_cost: Annotated[float, Field(ge=0.0)]
    timeout_cost: Annotated[float, Field(ge=0.0)]
    drop_all_fail: bool
    max_samples: Positive
    max_steps: Positive
    warmup: Annotated[int, Field(ge=0)]
    clip_norm: Annotated[float, Field(gt=0.0)]
    checkpoint_every: Positive


class Evaluate(Section):
    tasks: Positive
    heldout_skill_tasks: Annotated[int, Field(ge=0)]
    grounding_screens: Positive
    single_steps: Positive
    repeats: Positive
    repeat_temperature: Annotated[float, Field(ge=0.0)]
    max_steps: Positive
    gallery: Annotated[int, Field(ge=0)]


class Feedback(Section):
    weakest: Positive


class Report(Section):
    episodes: Annotated[int, Field(ge=0)]


class Params(Section):
    """The whole recipe."""

    profile: str
    seed: Annotated[int, Field(ge=0)]
    model: Model
    context: Context
    forge: Forge
    harness: Harness
    collect: CollectAll
    curate: CurateAll
    midtrain: Sft
    gui_sft: Sft
    terminal_sft: Sft
    hybrid_sft: Sft
    rl: Rl
    evaluate: Evaluate
    feedback: Feedback
    report: Report
