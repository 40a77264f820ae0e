"""`make bench`: the figures, with the machine they were measured on.

Speed (command line, desktop, a run that does nothing), the recipe with several seeds (each in a recipe folder of its
own, so finished work is not repeated) and the harness duel. Prints tables and writes `.cowork/bench.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from components.contracts.errors import CoworkError, OrchestrationError
from components.contracts.load_params import edit_text, load_params
from components.tracking.events import end_of, list_spools, read_events
from pipelines import records
from pipelines.duel import ARMS, Arm
from pipelines.registry import STAGES
from pipelines.step import stage_environment, with_source
from pipelines.workspace import Workspace, find_workspace

COLUMNS = ("success", "grounding", "single_step", "calls", "tokens", "gui_share")


def timed(command: Sequence[str], root: Path, repeats: int = 5) -> float:
    """Median wall seconds of a command."""
    env = with_source(dict(os.environ))
    found = []
    for _ in range(repeats):
        began = time.perf_counter()
        subprocess.run(command, cwd=root, env=env, capture_output=True, check=True)
        found.append(time.perf_counter() - began)
    return statistics.median(found)


def desktop_speed(seconds: float = 3.0) -> float:
    """Screens drawn after an action, per second of one core: pointer moves and clicks over an open window, no shell."""
    from components.contracts.calls import ComputerUse
    from components.contracts.task import Task, Verdict
    from components.sandbox.minidesk.desktop import MiniDesk

    task = Task.build(
        skill="bench", workflow="bench", apps=("files",), channels=(("gui",),), instruction="", wording="bench",
        spec={}, setup=(), verifier=(), split="train",
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="cowork-bench-") as scratch:
        desk = MiniDesk(Path(scratch), prepare=lambda *_: None, grade=lambda *_: Verdict(success=False))
        seen = desk.reset(task)
        icons = [e.center for e in seen.elements if e.kind == "icon"]
        steps, began = 0, time.process_time()
        while time.process_time() - began < seconds:
            for action in ("double_click", "mouse_move", "left_click"):
                desk.act(ComputerUse(action=action, coordinate=icons[steps % len(icons)]))  # type: ignore[arg-type]
                desk.observe()
                steps += 1
        rate = steps / (time.process_time() - began)
        desk.close()
    return rate


def speed(workspace: Workspace) -> dict[str, float]:
    cowork = [sys.executable, "-m", "pipelines.cli"]
    return {
        "cowork --help, s": timed([*cowork, "--help"], workspace.root),
        "cowork plan, s": timed([*cowork, "plan"], workspace.root, 3),
        "cowork run with nothing to do, s": timed([*cowork, "run", "--json"], workspace.root, 3),
        "minidesk, steps/s of one core": desktop_speed(),
    }


def seed_workspace(main: Workspace, seed: int) -> list[str]:
    """Arguments of `cowork` for this seed: none for the seed of params.yaml, else a profile file."""
    params = load_params(main.params_file)
    if seed == params.seed:
        return []
    name = f"{params.profile}-seed-{seed}"
    text = main.params_file.read_text(encoding="utf-8")
    path = main.state / "bench" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(edit_text(edit_text(text, "profile", name), "seed", seed), encoding="utf-8")
    return ["--profile", str(path)]


def folder_of(main: Workspace, arguments: Sequence[str]) -> Workspace:
    return Workspace(main.state / "profiles" / Path(arguments[1]).stem) if arguments else main


def run_recipe(main: Workspace, seed: int, extra: Sequence[str]) -> dict[str, Any]:
    """One seed's scores, wall seconds of its stages and largest process. Raises OrchestrationError when it fails."""
    arguments = seed_workspace(main, seed)
    command = [sys.executable, "-m", "pipelines.cli", "run", "--json", *arguments, *extra]
    done = subprocess.run(command, cwd=main.root, env=with_source(dict(os.environ)), stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise OrchestrationError(f"the recipe failed with seed {seed}", remedy=f"cowork run {' '.join(arguments)}")
    workspace = folder_of(main, arguments)
    result: dict[str, Any] = json.loads(done.stdout)
    ends = [end_of(read_events(s.path).events) for run in records.run_directories(workspace) for s in list_spools(run)]
    return {
        "stages": result["stages"],
        "minutes": sum(records.stage_seconds(workspace, STAGES).values()) / 60,
        "peak_mb": max((end.get("peak_mb", 0) for end in ends), default=0),
    }


def run_duel(main: Workspace, seed: int) -> list[Arm]:
    """Both arms on the outputs of that seed's recipe, one after the other."""
    workspace = folder_of(main, seed_workspace(main, seed))
    found = []
    for arm in ARMS:
        folder = workspace.state / "duel" / f"{arm}-{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pipelines.duel", arm, str(seed), str(folder)]
        subprocess.run(command, cwd=workspace.root, env=stage_environment(os.environ), check=True)
        found.append(Arm(**json.loads((folder / "arm.json").read_text(encoding="utf-8"))))
    return found


# Tables.


def _number(value: float | None, scale: float = 1.0, places: int = 1) -> str:
    return "-" if value is None else f"{value * scale:.{places}f}"


def recipe_table(by_seed: Mapping[int, dict[str, Any]]) -> str:
    """Every stage: each figure as mean over seeds, with the lowest and the highest where they differ."""
    rows = [("stage", "success %", "grounding %", "single step %", "calls", "tokens", "GUI %")]
    first = next(iter(by_seed.values()))
    for stage in first["stages"]:
        cells = [stage]
        for column in COLUMNS:
            scale = 1.0 if column in ("calls", "tokens") else 100.0
            values = [run["stages"][stage][column] for run in by_seed.values()]
            known = [value for value in values if value is not None]
            if not known:
                cells.append("-")
            elif max(known) - min(known) < 1e-9:
                cells.append(_number(known[0], scale))
            else:
                low, high = _number(min(known), scale), _number(max(known), scale)
                cells.append(f"{_number(statistics.mean(known), scale)} ({low} to {high})")
        rows.append(tuple(cells))  # type: ignore[arg-type]
    return _grid(rows)


def duel_table(arms: Sequence[Arm]) -> str:
    rows = [("teacher's harness", "seed", "student success %", "calls", "tokens")]
    rows += [(a.arm, str(a.seed), _number(a.success, 100), _number(a.calls, 1, 2), _number(a.tokens)) for a in arms]
    return _grid(rows)


def _grid(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]

    def line(row: tuple[str, ...]) -> str:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        return "  ".join([row[0].ljust(widths[0]), *cells[1:]])

    lines = [line(row) for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--skip", nargs="*", default=[], choices=["speed", "recipe", "duel"])
    parser.add_argument("--unconfined", action="store_true")
    options = parser.parse_args(arguments)
    try:
        workspace = find_workspace()
        result = bench(workspace, options.seeds, options.skip, ["--unconfined"] if options.unconfined else [])
    except CoworkError as error:
        print(f"error ({error.border}): {error}", file=sys.stderr)
        return error.exit_code
    target = workspace.state / "bench.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(result, indent=1, sort_keys=True), encoding="utf-8")
    print(f"\nwritten to {target.relative_to(workspace.root)}")
    return 0


def bench(workspace: Workspace, seeds: Sequence[int], skip: Sequence[str], extra: Sequence[str]) -> dict[str, Any]:
    machine = records.environment()
    print("machine: " + ", ".join(f"{name} {value}" for name, value in machine.items()), flush=True)
    result: dict[str, Any] = {"machine": machine}
    if "recipe" not in skip:
        by_seed = {}
        for seed in seeds:
            by_seed[seed] = run_recipe(workspace, seed, extra)
            minutes, peak = by_seed[seed]["minutes"], by_seed[seed]["peak_mb"]
            print(f"seed {seed}: stages took {minutes:.1f} min, largest process {peak} MB", flush=True)
        print("\n" + recipe_table(by_seed), flush=True)
        result["recipe"] = by_seed
    if "speed" not in skip:
        result["speed"] = speed(workspace)
        print("\n" + _grid([("speed", ""), *((name, f"{v:.2f}") for name, v in result["speed"].items())]), flush=True)
    if "duel" not in skip:
        arms = [arm for seed in seeds for arm in run_duel(workspace, seed)]
        print("\n" + duel_table(arms), flush=True)
        result["duel"] = [asdict(arm) for arm in arms]
    return result


if __name__ == "__main__":
    raise SystemExit(main())
