"""`make bench`: the figures, with the machine they were measured on.

The recipe with several seeds (each in a recipe folder of its own, so finished work is not repeated): what each stage
scores, takes and needs; the speed of the parts; the harness duel. Prints tables and writes `.cowork/bench.json`.
`--quick` measures the speed alone, with few repeats. Heavy parts run in processes of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from components.contracts.errors import CoworkError, OrchestrationError
from components.contracts.load_params import edit_text, load_params
from components.evaluation.duel import ARMS, DuelRow, compare, summary
from components.tracking.events import end_of, list_spools, read_events
from pipelines import records
from pipelines.duel import scores_of
from pipelines.registry import BASE, STAGES, TRAIN_STAGES
from pipelines.step import stage_environment, with_source
from pipelines.workspace import Workspace, find_workspace

COLUMNS = ("success", "grounding", "single_step", "calls", "tokens", "gui_share")
Figure = dict[str, Any]
"""name, unit, median, low, high, repeats."""


def timed(name: str, command: Sequence[str], root: Path, repeats: int) -> Figure:
    """Wall seconds of a command."""
    env = with_source(dict(os.environ))
    found = []
    for _ in range(repeats):
        began = time.perf_counter()
        subprocess.run(command, cwd=root, env=env, capture_output=True, check=True)
        found.append(time.perf_counter() - began)
    return {
        "name": name, "unit": "s", "median": statistics.median(found), "low": min(found), "high": max(found),
        "repeats": repeats,
    }  # fmt: skip


def command_speed(workspace: Workspace, repeats: int) -> list[Figure]:
    """What a person waits for: help, a plan, and a run that has nothing to do (where that is so)."""
    cowork = [sys.executable, "-m", "pipelines.cli"]
    found = [
        timed("cowork --help", [*cowork, "--help"], workspace.root, repeats),
        timed("cowork plan", [*cowork, "plan"], workspace.root, min(3, repeats)),
    ]
    env = with_source(dict(os.environ))
    plan = subprocess.run([*cowork, "plan", "--json"], cwd=workspace.root, env=env, capture_output=True, check=True)
    if all(planned["action"] == "keep" for planned in json.loads(plan.stdout)["stages"]):
        found.append(timed("cowork run, nothing to do", [*cowork, "run", "--json"], workspace.root, min(3, repeats)))
    return found


def part_speed(workspace: Workspace, repeats: int, unconfined: bool) -> list[Figure]:
    """Desktop, shell, engine, training: see `components.evaluation.speed`. RL only where a run has left its inputs."""
    command = [sys.executable, "-m", "components.evaluation.speed", str(workspace.params_file), BASE]
    trained, tasks = (workspace.root / path for path in ("outputs/models/hybrid-sft", "outputs/tasks"))
    if trained.is_dir() and tasks.is_dir():
        command += ["--trained", str(trained), "--tasks", str(tasks)]
    command += ["--repeats", str(repeats), *(["--unconfined"] if unconfined else [])]
    done = subprocess.run(
        command, cwd=workspace.root, env=stage_environment(os.environ), stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise OrchestrationError("the speed of the parts could not be measured", remedy=" ".join(command[1:]))
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


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
    """One seed's scores, and of every stage its wall seconds and memory. Raises OrchestrationError when it fails."""
    arguments = seed_workspace(main, seed)
    command = [sys.executable, "-m", "pipelines.cli", "run", "--json", *arguments, *extra]
    done = subprocess.run(command, cwd=main.root, env=with_source(dict(os.environ)), stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise OrchestrationError(f"the recipe failed with seed {seed}", remedy=f"cowork run {' '.join(arguments)}")
    workspace = folder_of(main, arguments)
    result: dict[str, Any] = json.loads(done.stdout)
    return {
        "stages": result["stages"],
        "seconds": records.stage_seconds(workspace, STAGES),
        "peak_mb": peak_memory(workspace),
    }


def peak_memory(workspace: Workspace) -> dict[str, float]:
    """Megabytes of the largest process of each stage, over all recorded runs."""
    found: dict[str, float] = {}
    for run in records.run_directories(workspace):
        for spool in list_spools(run):
            peak = end_of(read_events(spool.path).events).get("peak_mb", 0)
            found[spool.stage] = max(peak, found.get(spool.stage, 0))
    return found


def run_duel(main: Workspace, seed: int, unconfined: bool) -> DuelRow:
    """Both arms on the outputs of that seed's recipe, one after the other."""
    workspace = folder_of(main, seed_workspace(main, seed))
    if not workspace.root.is_dir():
        raise OrchestrationError(
            f"there is no recipe of seed {seed} to start from", where=str(workspace.root),
            remedy="run the recipes too (no --skip recipe), or fewer --seeds",
        )  # fmt: skip
    scores = []
    for arm in ARMS:
        folder = workspace.state / "duel" / f"{arm}-{seed}"
        command = [sys.executable, "-m", "pipelines.duel", arm, str(seed), str(folder)]
        command += ["--unconfined"] if unconfined else []
        done = subprocess.run(command, cwd=workspace.root, env=stage_environment(os.environ), check=False)
        if done.returncode:
            raise OrchestrationError(f"the {arm} arm failed with seed {seed}", remedy=" ".join(command[1:]))
        scores.append(scores_of(folder))
    return compare(seed, *scores)


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


def stage_table(by_seed: Mapping[int, dict[str, Any]], params: Any) -> str:
    """Wall seconds and memory of each stage over the seeds, and its pace where the stage has a unit of work."""
    rows = [("stage", "wall s", "pace", "peak MB")]
    total = 0.0
    for stage in STAGES:
        walls = [run["seconds"][stage] for run in by_seed.values() if stage in run["seconds"]]
        if not walls:
            continue
        wall = statistics.median(walls)
        total += wall
        section = getattr(params, stage.replace("-", "_"), None) if stage in TRAIN_STAGES else None
        pace = ""
        if stage == "rl":
            pace = f"{wall / section.iterations:.1f} s/iteration"  # type: ignore[union-attr]
        elif section is not None:
            pace = f"{section.steps / wall:.1f} steps/s"
        peaks = [run["peak_mb"][stage] for run in by_seed.values() if stage in run["peak_mb"]]
        rows.append((stage, _spread(walls), pace, f"{max(peaks):.0f}" if peaks else "-"))
    rows.append(("all", f"{total:.0f}", "", ""))
    return _grid(rows)


def _spread(values: Sequence[float]) -> str:
    middle = f"{statistics.median(values):.1f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.1f} to {max(values):.1f})"


def speed_table(figures: Sequence[Figure]) -> str:
    """Median, lowest and highest of the repeats."""
    rows: list[tuple[str, ...]] = [("speed", "median", "lowest", "highest", "unit", "repeats")]
    rows += [
        (f["name"], *(f"{f[key]:.3g}" if f[key] < 100 else f"{f[key]:.0f}" for key in ("median", "low", "high")),
         f["unit"], str(f["repeats"]))
        for f in figures
    ]  # fmt: skip
    return _grid(rows)


def duel_table(rows: Sequence[DuelRow]) -> str:
    head = ("seed", "pruned %", "overlapping %", "difference (95 %)", "pruned calls", "overlapping calls")
    lines: list[tuple[str, ...]] = [head]
    for row in rows:
        low, high = row.success.interval.low, row.success.interval.high
        gain = f"{_number(row.success.mean, 100)} ({_number(low, 100)} to {_number(high, 100)})"
        success = [_number(arm.success, 100) for arm in (row.pruned, row.overlapping)]
        lines.append((str(row.seed), *success, gain, *(_number(a.calls, 1, 2) for a in (row.pruned, row.overlapping))))
    total = summary(rows)
    gain = f"{_number(total['success_difference'], 100)} in the mean, better in {total['pruned_better']} of {len(rows)}"
    return _grid(lines) + "\npruned less overlapping: " + gain


def _grid(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]

    def line(row: tuple[str, ...]) -> str:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        return "  ".join([row[0].ljust(widths[0]), *cells[1:]])

    lines = [line(row) for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def machine() -> dict[str, str]:
    facts = records.environment()
    try:
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return facts
    return facts | {"memory": f"{pages / 2**30:.1f} GiB"}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="seeds 0 to N-1 for the recipe and the duel")
    parser.add_argument("--skip", nargs="*", default=[], choices=["speed", "recipe", "duel"])
    parser.add_argument("--quick", action="store_true", help="the speed of the parts alone, with few repeats")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout, the tables on stderr")
    parser.add_argument("--unconfined", action="store_true", help="shells without isolation")
    options = parser.parse_args(arguments)
    skip = ["recipe", "duel"] if options.quick else options.skip
    out = sys.stderr if options.json else sys.stdout
    try:
        workspace = find_workspace()
        result = bench(workspace, range(options.seeds), skip, 3 if options.quick else 5, options.unconfined, out)
    except CoworkError as error:
        print(f"error ({error.border}): {error}", file=sys.stderr)
        return error.exit_code
    text = json.dumps(result, indent=1, sort_keys=True)
    target = workspace.state / "bench.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(text, encoding="utf-8")
    print(f"\nwritten to {target.relative_to(workspace.root)}", file=out)
    if options.json:
        print(text)
    return 0


def bench(
    workspace: Workspace, seeds: Sequence[int], skip: Sequence[str], repeats: int, unconfined: bool, out: TextIO
) -> dict[str, Any]:
    """Measure what is not skipped; each table is printed as soon as it is there."""

    def show(text: str) -> None:
        print("\n" + text, file=out, flush=True)

    facts = machine()
    print("machine: " + ", ".join(f"{name} {value}" for name, value in facts.items()), file=out, flush=True)
    result: dict[str, Any] = {"machine": facts}
    if "recipe" not in skip:
        by_seed = {}
        for seed in seeds:
            by_seed[seed] = run_recipe(workspace, seed, ["--unconfined"] if unconfined else [])
            print(f"seed {seed}: {sum(by_seed[seed]['seconds'].values()) / 60:.1f} min", file=out, flush=True)
        show(recipe_table(by_seed))
        show(stage_table(by_seed, load_params(workspace.params_file)))
        result["recipe"] = by_seed
    if "speed" not in skip:
        result["speed"] = [*command_speed(workspace, repeats), *part_speed(workspace, repeats, unconfined)]
        show(speed_table(result["speed"]))
    if "duel" not in skip:
        rows = [run_duel(workspace, seed, unconfined) for seed in seeds]
        show(duel_table(rows))
        result["duel"] = {"rows": [asdict(row) for row in rows], **summary(rows)}
    return result


if __name__ == "__main__":
    raise SystemExit(main())
