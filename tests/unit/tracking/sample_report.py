"""A small hand-made run for the report's tests: numbers, two drawn screens, a few episodes."""

from __future__ import annotations

import io
import math
import random

from PIL import Image, ImageDraw

from components.tracking.ledger import StageCost
from components.tracking.lineage import Artifact, RunRecord, StageRecord
from components.tracking.report.data import (
    CheckView,
    CurveView,
    EpisodeView,
    FunnelRow,
    HarnessTrial,
    ReportData,
    RlView,
    StepView,
)
from components.tracking.scores import SCORED, Grounding, HeldoutSkills, Rate, Scores, SingleStep

SKILLS = (
    "copy cell to note",
    "fill a form",
    "find largest number",
    "rename a file",
    "set a preference",
    "sum a column",
)
SUCCESS = {"base": 0.02, "midtrain": 0.05, "gui-sft": 0.42, "terminal-sft": 0.36, "hybrid-sft": 0.61, "rl": 0.68}


def screen(title: str, rows: list[str], marked: int = -1) -> bytes:
    """A drawn window as PNG, 288 x 224."""
    image = Image.new("RGB", (288, 224), (58, 96, 130))
    draw = ImageDraw.Draw(image)
    for index in range(5):
        draw.rectangle((10, 10 + index * 42, 38, 36 + index * 42), fill=(224, 226, 232))
    draw.rectangle((56, 16, 280, 208), fill=(246, 246, 244), outline=(40, 44, 52))
    draw.rectangle((56, 16, 280, 32), fill=(44, 62, 94))
    draw.text((62, 18), title, fill=(255, 255, 255))
    for index, row in enumerate(rows):
        top = 40 + index * 32
        if index == marked:
            draw.rectangle((60, top, 276, top + 26), fill=(196, 216, 246))
        draw.text((68, top + 8), row, fill=(24, 26, 30))
    data = io.BytesIO()
    image.save(data, "PNG")
    return data.getvalue()


def scores() -> dict[str, Scores]:
    rng = random.Random(4)
    out = {}
    for position, stage in enumerate(SCORED):
        success = SUCCESS[stage]
        trained = 0.35 if stage == "base" else 0.96
        by_skill = {s: Rate(success=min(1.0, max(0.0, success + rng.uniform(-0.3, 0.3))), n=40) for s in SKILLS}
        out[stage] = Scores(
            stage=stage,
            grounding=Grounding(
                micro=trained,
                macro=trained - 0.03,
                items=400,
                by_kind={
                    kind: min(1.0, trained + rng.uniform(-0.15, 0.04)) for kind in ("button", "cell", "icon", "row")
                },
            ),
            single_step=SingleStep(
                syntax=0.98,
                action=0.9,
                arguments=0.85,
                hit=0.9,
                joint=trained - 0.1,
                by_primitive={
                    name: trained - 0.1 * rng.random() for name in ("click", "drag", "key", "scroll", "type")
                },
            ),
            success=success,
            success_interval=(max(0.0, success - 0.06), success + 0.06),
            by_skill=by_skill,
            by_channel={"gui only": Rate(success=success * 0.9, n=80), "either": Rate(success=success, n=160)},
            calls=6.2 - position * 0.4,
            tokens=182.0 - position * 14,
            gui_share=(1, 1, 1, 0.02, 0.66, 0.58)[position],
            episodes=240,
            infra_errors=1 if stage == "rl" else 0,
            heldout_skills=HeldoutSkills(success=success / 2, n=40),
            repeats=1,
        )
    return out


def curves() -> list[CurveView]:
    rng = random.Random(1)
    out = []
    for stage, steps in (("midtrain", 600), ("gui-sft", 400), ("hybrid-sft", 300)):
        loss = [(s, 4.2 * math.exp(-s / 90) + 0.09 + 0.05 * rng.random()) for s in range(1, steps)]
        right = [(s, min(1.0, s / steps + 0.2 * rng.random())) for s in range(0, steps, 20)]
        out += [CurveView(stage=stage, name="loss", points=loss, nonfinite=2 if stage == "gui-sft" else 0)]
        out += [CurveView(stage=stage, name="token accuracy", points=right)]
    return out


def episodes() -> list[EpisodeView]:
    solved = EpisodeView(
        stage="rl",
        task_id="sha256:aa",
        skill="rename a file",
        split="heldout",
        source="sha256:77",
        ending="terminated",
        instruction="Rename the file draft.txt to final.txt.",
        success=True,
        reward=0.91,
        checks=[
            CheckView(check="file exists: final.txt", passed=True),
            CheckView(check="no file draft.txt", passed=True),
        ],
        steps=[
            StepView(
                screen="one",
                screen_after="two",
                think="The file manager shows draft.txt in the second row.",
                action="Open the menu of draft.txt.",
                channel="gui",
                tokens=41,
                call={"tool": "computer_use", "action": "right_click", "coordinate": [120, 84]},
            ),
            StepView(
                screen="two",
                screen_after="two",
                think="Renaming is one command in the shell.",
                channel="terminal",
                action="Rename the file in the terminal.",
                output="renamed 'draft.txt' -> 'final.txt'",
                tokens=35,
                call={"name": "bash", "arguments": {"command": "mv -v draft.txt final.txt"}},
            ),
            StepView(
                screen="two",
                screen_after="one",
                think="Done.",
                action="Finish.",
                tokens=22,
                call={"tool": "computer_use", "action": "terminate", "status": "success"},
            ),
        ],
    )
    failed = EpisodeView(
        stage="gui-sft",
        task_id="sha256:bb",
        skill="fill a form",
        split="heldout",
        ending="step_limit",
        success=False,
        instruction="Move the volume slider to 40 and save.",
        reward=0.0,
        checks=[CheckView(check="setting volume", passed=False, reason="expected 40, found 25")],
        steps=[
            StepView(
                screen="two",
                think="I drag the handle.",
                action="Drag the slider.",
                channel="gui",
                call={
                    "name": "computer_use",
                    "arguments": {
                        "action": "left_click_drag",
                        "start_coordinate": [300, 500],
                        "coordinate": [700, 500],
                    },
                },
            ),
            StepView(
                screen="one",
                think="The list is long.",
                action="Scroll down.",
                channel="gui",
                call={"tool": "computer_use", "action": "scroll", "coordinate": [170, 110], "pixels": -120},
            ),
            StepView(
                screen="two",
                action="Type the value.",
                channel="gui",
                call={"tool": "computer_use", "action": "type", "text": "40"},
            ),
            StepView(screen="two", raw="<think>open", error="missing_tool_call: no call after the reasoning"),
        ],
    )
    broken = EpisodeView(
        stage="hybrid-sft",
        task_id="sha256:cc",
        skill="sum a column",
        instruction="Write the sum of column B to total.txt.",
        success=None,
        ending="infra_error",
        verdict_error="sandbox: the shell did not come up in 20 s",
    )
    return [solved, failed, broken]


def record() -> RunRecord:
    def data(name: str, letter: str, kind: str = "data") -> Artifact:
        return Artifact(name=name, digest=letter * 32 + ".dir", kind=kind)  # type: ignore[arg-type]

    run = RunRecord(run_id="20300101-120000", profile="tiny", commit="0123abcd" * 5, dirty=True, status="finished")
    run.environment = {"python": "3.11.7", "torch": "2.13.0", "machine": "2 cores, 8 GB"}
    flow = (
        ("forge", "", "1"),
        ("harness", "1", "2"),
        ("collect-gui", "12", "3"),
        ("collect-hybrid", "12", "4"),
        ("curate-midtrain", "3", "5"),
        ("curate-gui-sft", "3", "6"),
        ("curate-hybrid-sft", "4", "7"),
        ("midtrain", "5", "8"),
        ("gui-sft", "68", "9"),
        ("hybrid-sft", "79", "a"),
        ("rl", "1a", "b"),
        ("evaluate-hybrid-sft", "1a", "c"),
        ("evaluate-rl", "1b", "d"),
        ("report", "cd", "e"),
    )
    for name, reads, writes in flow:
        entry = StageRecord(name=name, key=f"key-{name}", status="finished", seconds=12 + len(name), attempt=1)
        entry.inputs = [data("in", letter) for letter in reads]
        entry.outputs = [data(name, writes, "checkpoint" if name in SCORED else "data")]
        run.stages.append(entry)
    run.stages[0].status = "reused"
    return run


def sample() -> ReportData:
    rng = random.Random(2)
    series = {
        name: [(i, max(0.0, start + slope * i + noise * rng.uniform(-1, 1))) for i in range(40)]
        for name, start, slope, noise in (
            ("reward", 0.5, 0.005, 0.05),
            ("success", 0.58, 0.003, 0.05),
            ("calls", 4.6, -0.02, 0.2),
            ("tokens", 124, -0.8, 5),
            ("groups_dropped", 3, 0.02, 2),
            ("clip_share", 0.02, 0, 0.01),
        )
    }
    return ReportData(
        subtitle="The tiny profile: one vision-language policy, five stages, two cores.",
        facts={
            "run": "20300101-120000",
            "profile": "tiny",
            "commit": "0123abcd",
            "seed": "7",
            "wall time": "11 min 04 s",
        },
        scores=scores(),
        seconds={"midtrain": 161.0, "gui-sft": 122.5, "terminal-sft": 64.0, "hybrid-sft": 130.0, "rl": 201.0},
        curves=curves(),
        episodes=episodes(),
        screens={
            "one": screen("Files", ["notes.txt", "draft.txt", "sales.csv"], 1),
            "two": screen("Settings", ["volume  25"]),
        },
        funnel=[
            FunnelRow(area="tasks", name="train", kept=1840, reasons={"passes without acting": 41, "duplicate": 119}),
            FunnelRow(area="tasks", name="held-out", kept=240, reasons={"shares a word with train": 12}),
            FunnelRow(
                area="trajectories", name="collect-hybrid", kept=900, reasons={"failed": 64, "no effect": 31, "long": 5}
            ),
            FunnelRow(area="corpora", name="curate-hybrid-sft", kept=4120, unit="samples", reasons={"duplicate": 300}),
        ],
        rl=RlView(series=series, facts={"group size": "8", "episodes": "2,560", "infrastructure failures masked": "3"}),
        harness=[
            HarnessTrial(
                harness="hybrid",
                tools=["computer_use", "bash"],
                teacher_success=0.97,
                teacher_steps=3.4,
                student_success=0.61,
                student_steps=4.3,
                episodes=120,
                chosen=True,
            ),
            HarnessTrial(
                harness="overlapping",
                tools=["computer_use", "bash", "accessibility"],
                teacher_success=0.95,
                teacher_steps=4.9,
                episodes=120,
                note="more steps for the same tasks",
            ),
        ],
        costs=[
            StageCost(stage="collect-hybrid", attempts=1, seconds=52, cpu_seconds=80, sandbox_seconds=31, calls=5400),
            StageCost(
                stage="hybrid-sft",
                attempts=2,
                seconds=130,
                cpu_seconds=129,
                train_tokens=3.1e6,
                flops=1.3e13,
                peak_mb=812,
            ),
            StageCost(
                stage="rl",
                attempts=1,
                seconds=201,
                cpu_seconds=388,
                calls=11000,
                tokens_in=8.1e6,
                tokens_out=3.3e5,
                train_tokens=1.2e6,
                flops=1.7e13,
                peak_mb=1004,
            ),
        ],
        record=record(),
        params={"seed": 7, "rl": {"lr": 1e-4, "groups": 8, "reward": {"per_call": 0.02}}, "profile": "tiny"},
        notes=["1 episode of evaluate-rl ended by an infrastructure failure and counts as not solved: sha256:cc."],
    )
