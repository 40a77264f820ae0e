"""A small recipe's data, sound in every respect: what the gates pass, and ways to break it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from components.contracts.errors import CoworkError
from components.contracts.folding import Turn, fold
from components.contracts.params import Params
from components.contracts.response import render_response
from components.contracts.stage import StepContext
from components.contracts.task import Task, Verdict
from components.contracts.trajectory import Step, Trajectory
from components.curation.corpora import Sample, dump_messages, write_corpus
from components.curation.datagates.step import run
from components.curation.datagates.verdict import GateFailed
from components.forge.generate import Generated, generate
from components.forge.store import load_tasks, save
from components.harness.spec import HarnessSpec, default_spec
from components.rollout.screens import encode_png, screen_digest
from components.rollout.store import StoredScreen, read_trajectories, write_screens, write_store, write_trajectories
from components.rollout.tables import read_table, write_table
from components.tracking.scores import SCORED
from tests.unit.rollout_store.small import params

STORES = {"gui": ("click", "click", "click"), "terminal": ("bash", "bash"), "hybrid": ("click", "bash", "click")}
CORPORA = {"midtrain": "gui", "gui-sft": "gui", "terminal-sft": "terminal", "hybrid-sft": "hybrid"}
EPISODES = 24
"""Kept ones of each store; one more is dropped."""
COUNTS = {"train": 50, "dev": 25, "heldout": 25, "heldout_skills": 10}
WIDTH, HEIGHT = 288, 224


@dataclass(frozen=True)
class World:
    """Folders as the stages leave them, and parameters that fit."""

    root: Path
    params: Params

    def copy(self, root: Path) -> World:
        shutil.copytree(self.root, root)
        return World(root, self.params)

    def inputs(self, kind: str) -> dict[str, Path]:
        found = {"tasks": self.root / "tasks"}
        if kind in ("trajectories", "corpora"):
            found["harness"] = self.root / "harness"
        if kind == "trajectories":
            found |= {f"trajectories-{store}": self.root / "trajectories" / store for store in STORES}
        if kind == "corpora":
            found |= {f"corpus-{name}": self.root / "corpora" / name for name in CORPORA}
        if kind == "scores":
            found |= {f"scores-{stage}": self.root / "scores" / stage for stage in SCORED}
        return found

    def outputs(self, kind: str) -> dict[str, Path]:
        return {"gate": self.root / "gates" / kind, "validation": self.root / "validation" / kind}

    def check(self, kind: str) -> dict[str, float]:
        """The gate of that kind over this data."""
        context = StepContext(f"gate-{kind}", 0, self.root / "work")
        return run(self.params, self.inputs(kind), self.outputs(kind), context)

    def failure(self, kind: str) -> GateFailed:
        """The gate's refusal. Any other error, or a pass, fails the test."""
        try:
            self.check(kind)
        except GateFailed as error:
            return error
        except CoworkError as error:
            raise AssertionError(f"{type(error).__name__}: {error}") from error
        raise AssertionError("the gate passed")

    def broken_rules(self, kind: str) -> dict[tuple[str, str], list[dict[str, Any]]]:
        """(table, column or type of the rule) -> rows that failed, of the last report."""
        folder = self.outputs(kind)["validation"]
        found: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for name, table in json.loads((folder / "results.json").read_text())["tables"].items():
            for rule in table["rules"]:
                if rule["verdict"] != "pass":
                    kwargs = rule["kwargs"]
                    column = kwargs.get("column") or kwargs.get("column_A") or rule["type"]
                    rows = found.setdefault((name, column), [])
                    for line in (folder / "failed_rows.jsonl").read_text().splitlines():
                        row = json.loads(line)
                        if (row["table"], row["rule"]) == (name, rule["rule"]):
                            rows.append(row["row"])
        return found

    # Ways to break it.

    def edit_tasks(self, change: Callable[[list[dict[str, Any]]], Any]) -> None:
        path = self.root / "tasks" / "tasks.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        change(rows)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def edit_store(self, store: str, change: Callable[[list[Trajectory]], list[Trajectory]]) -> None:
        folder = self.root / "trajectories" / store
        write_trajectories(folder, change(read_trajectories(folder)))

    def edit_episode(
        self, store: str, number: int, step: dict[str, Any] | None = None, **changes: Any
    ) -> dict[str, Any]:
        """Change one kept episode, and its first step; what names it in a report."""

        def change(whole: list[Trajectory]) -> list[Trajectory]:
            old = whole[number]
            named.append(changes.get("trajectory_id", old.trajectory_id))
            steps = (old.steps[0].model_copy(update=step or {}), *old.steps[1:])
            whole[number] = old.model_copy(update={"steps": steps} | changes)
            return whole

        named: list[str] = []
        self.edit_store(store, change)
        return {"store": store, "trajectory_id": named[0]}

    def edit_samples(self, corpus: str, change: Callable[[list[dict[str, Any]]], Any]) -> None:
        path = self.root / "corpora" / corpus / "samples.parquet"
        names = ("sample_id", "kind", "skill", "trajectory_id", "step", "messages", "response", "mask_think", "weight")
        kinds: dict[str, Any] = {"step": "int", "mask_think": "bool", "weight": "float"}
        columns = read_table(path, names)
        rows = [dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        change(rows)
        write_table(path, {name: (kinds.get(name, "text"), [row[name] for row in rows]) for name in names})

    def edit_scores(self, folder: str, **changes: Any) -> None:
        path = self.root / "scores" / folder / "scores.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    def edit_episodes(self, stage: str, change: Callable[[list[dict[str, Any]]], Any]) -> None:
        path = self.root / "scores" / stage / "episodes.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        change(rows)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def build(root: Path) -> World:
    """The sound data, in a moment: real tasks, episodes and scores by hand."""
    save(generate(0, COUNTS, lambda batch: [""] * len(batch)), root / "tasks")  # type: ignore[arg-type]
    (root / "harness").mkdir()
    specs = {name: default_spec(name) for name in STORES}  # type: ignore[arg-type]
    for name, spec in specs.items():
        (root / "harness" / f"{name}.json").write_text(spec.model_dump_json())
    tasks = load_tasks(root / "tasks", "train")
    chosen = sorted(tasks, key=lambda task: task.skill)[: EPISODES + 1]  # two a skill; the last one's is dropped
    screens = _screens()
    for store, calls in STORES.items():
        episodes = [_episode(task, store, calls, tuple(screens)) for task in chosen]
        episodes[-1] = episodes[-1].model_copy(update={"dropped": "failed", "verdict": Verdict(success=False)})
        write_store(root / "trajectories" / store, episodes, screens)
    for corpus, store in CORPORA.items():
        kept = [t for t in read_trajectories(root / "trajectories" / store) if not t.dropped]
        samples = [sample for trajectory in kept for sample in _samples(trajectory, specs[store])]
        if corpus == "midtrain":
            samples += [_pack(number, next(iter(screens))) for number in range(8)]
        write_corpus(root / "corpora" / corpus, samples, screens, {})
    for number, stage in enumerate(SCORED):
        _write_scores(root / "scores" / stage, stage, number, load_tasks(root / "tasks"), screens)
    fitted = params(
        forge=COUNTS,
        collect={store: {"tasks": EPISODES + 1} for store in STORES},
        curate={f"{name}_sft": {"steps": (len(STORES[name]) + 1) * EPISODES} for name in STORES},
    )
    return World(root, fitted)


def _screens() -> dict[str, StoredScreen]:
    found = {}
    for shade in (40, 90):
        screen = np.full((HEIGHT, WIDTH, 3), shade, np.uint8)
        found[screen_digest(screen)] = StoredScreen(encode_png(screen))
    return found


def _episode(task: Task, store: str, calls: tuple[str, ...], screens: tuple[str, ...]) -> Trajectory:
    made: dict[str, tuple[str, dict[str, Any], str]] = {
        "click": (
            "click the save button",
            {"tool": "computer_use", "action": "left_click", "coordinate": [7, 14]},
            "gui",
        ),
        "bash": ("run ls", {"tool": "bash", "command": "ls"}, "terminal"),
        "end": ("finish", {"tool": "computer_use", "action": "terminate", "status": "success"}, "none"),
    }
    steps = []
    for index, name in enumerate((*calls, "end")):
        action, call, channel = made[name]
        steps.append(
            Step(
                index=index, screen=screens[index % 2], screen_after=screens[(index + 1) % 2], think="", action=action,
                call=call, channel=channel,  # type: ignore[arg-type]
            )
        )  # fmt: skip
    return Trajectory(
        trajectory_id=f"{store}/{task.task_id}", task_id=task.task_id, skill=task.skill, split=task.split,
        instruction=task.instruction, harness=store, source="teacher", steps=tuple(steps),
        verdict=Verdict(success=True), ending="terminated", reward=1.0,
    )  # fmt: skip


def _samples(trajectory: Trajectory, spec: HarnessSpec) -> list[Sample]:
    system, samples = spec.system_prompt("normalized_1000"), []
    turns: list[Turn] = []
    for step in trajectory.steps:
        call = dict(step.call or {})
        name = call.pop("tool")
        response = render_response("the screen shows it", step.action, name, call)
        messages = fold(system, trajectory.instruction, [*turns, Turn(step.screen)])
        turns.append(Turn(step.screen, None, response, step.action))
        samples.append(
            Sample(
                sample_id=f"{trajectory.trajectory_id}/{step.index}", kind="agent", skill=trajectory.skill,
                trajectory_id=trajectory.trajectory_id, step=step.index, messages=dump_messages(messages),
                response=response, mask_think=False,
                images=tuple(p.image for m in messages for p in m.parts if hasattr(p, "image")),
            )
        )  # fmt: skip
    return samples


def _pack(number: int, screen: str) -> Sample:
    answer = {"action": "left_click", "coordinate": [500, 250]}
    items = [
        {"instruction": text, "response": render_response("", text, "computer_use", answer)}
        for text in ("click the save button", "click the files icon", "click the ok button", "click the new button")
    ]
    body = {"system": "point", "screen": screen, "items": items}
    name = f"synth/{number}"
    return Sample(name, "click_pack", "grounding-synth", "", 0, json.dumps(body), "", True, images=(screen,))


def _write_scores(folder: Path, stage: str, number: int, tasks: list[Task], screens: dict[str, StoredScreen]) -> None:
    folder.mkdir(parents=True)
    played = [task for task in tasks if task.split in ("heldout", "heldout_skills")]
    rows = [
        {
            "task_id": task.task_id, "repeat": 0, "skill": task.skill, "split": task.split, "apps": list(task.apps),
            "channel": "gui", "success": index < number and task.split == "heldout", "calls": 3, "tokens": 40,
            "gui_calls": 2, "terminal_calls": 0, "unparsable": 0, "ending": "terminated", "infra_error": "",
        }
        for index, task in enumerate(played)
    ]  # fmt: skip
    main = [row for row in rows if row["split"] == "heldout"]
    success = sum(bool(row["success"]) for row in main) / len(main)
    scores = {
        "stage": stage, "checkpoint": f"sha256:{number:064d}", "success": success, "episodes": len(main),
        "success_interval": [max(0.0, success - 0.1), success + 0.1], "calls": 3.0, "tokens": 40.0, "gui_share": 1.0,
        "grounding": {"micro": 0.5, "macro": 0.5}, "heldout_skills": {"success": 0.0, "n": 10},
        "single_step": {"syntax": 1.0, "action": 0.5, "arguments": 0.5, "hit": 0.5, "joint": 0.25},
    }  # fmt: skip
    (folder / "scores.json").write_text(json.dumps(scores))
    (folder / "episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    first, second = screens
    steps = [{"screen": first, "screen_after": second, "raw": ""}, {"screen": second, "screen_after": ""}]
    (folder / "gallery.json").write_text(json.dumps([{"task_id": played[0].task_id, "steps": steps}]))
    write_screens(folder, screens)


def regenerate(world: World, tasks: list[Task]) -> None:
    """The task files anew, ids and all."""
    save(Generated(tasks), world.root / "tasks")
