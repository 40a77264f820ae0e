"""The `feedback` stage: what the student failed at, as a refined skill taxonomy for the next generation round.

The published recipe says that student feedback expands and refines the taxonomy between rounds (paper.md 3.2), not how.
Here: the weakest skills get a larger share of the next round's tasks and are split by what sets their failures apart
(how episodes ended, which application); skills that are solved get a smaller share. Nothing here looks at what a
held-out task contains, only at its skill and outcome.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from components.contracts.digests import canonical_json
from components.contracts.errors import DataError
from components.contracts.params import Params
from components.contracts.stage import StepContext
from components.forge.skills import BY_ID

FLOOR, CEILING = 0.5, 2.0
"""Bounds of a skill's weight in the next round: a solved skill is kept in practice, a hopeless one takes not all."""


def run(params: Params, inputs: dict[str, Path], outputs: dict[str, Path], ctx: StepContext) -> dict[str, float]:
    """Read `tasks` and `scores` (episodes.jsonl of an evaluated student); write `feedback/taxonomy.json`."""
    from components.contracts.artifacts import output_dir

    episodes = read_episodes(inputs["scores"] / "episodes.jsonl")
    taxonomy = refine([e for e in episodes if e["split"] == "heldout"], params.feedback.weakest)
    with output_dir(outputs["feedback"]) as folder:
        (folder / "taxonomy.json").write_text(canonical_json(taxonomy) + "\n")
    weakest = [s for s in taxonomy["skills"] if s["refine"]]
    return {
        "skills": float(len(taxonomy["skills"])),
        "refined": float(len(weakest)),
        "failures": float(taxonomy["failures"]),
    }


def read_episodes(path: Path) -> list[dict[str, Any]]:
    """The outcome rows of an evaluation."""
    if not path.is_file():
        raise DataError("the evaluation's episodes are missing", where=str(path), remedy="run the evaluate stage")
    return [json.loads(line) for line in path.read_text().splitlines()]


def refine(episodes: list[dict[str, Any]], weakest: int) -> dict[str, Any]:
    """The taxonomy with a weight a skill and the `weakest` ones split further. Infrastructure errors do not count."""
    by_skill: dict[str, list[dict[str, Any]]] = {}
    for episode in episodes:
        if not episode["infra_error"]:
            by_skill.setdefault(episode["skill"], []).append(episode)
    rates = {skill: sum(e["success"] for e in own) / len(own) for skill, own in by_skill.items()}
    order = sorted(rates, key=lambda skill: (rates[skill], skill))
    chosen = {skill for skill in order[:weakest] if rates[skill] < 1.0}
    skills = []
    for skill in sorted(by_skill):
        failures = [e for e in by_skill[skill] if not e["success"]]
        known = BY_ID.get(skill)
        skills.append(
            {
                "id": skill,
                "version": known.version if known else 1,
                "episodes": len(by_skill[skill]),
                "success": round(rates[skill], 4),
                # Twice the share for a skill that always fails, half for one that never does.
                "weight": round(FLOOR + (CEILING - FLOOR) * (1.0 - rates[skill]), 4),
                "failures": dict(sorted(Counter(_how(e) for e in failures).items())),
                "refine": _sub_skills(skill, failures) if skill in chosen else [],
            }
        )
    return {"failures": sum(not e["success"] for own in by_skill.values() for e in own), "skills": skills}


def _how(episode: dict[str, Any]) -> str:
    """What a failure looked like: the wrong result, no end, or nothing that could be read."""
    if episode["ending"] == "terminated":
        return "wrong result claimed as done"
    if episode["ending"] == "unparsable" or episode["unparsable"]:
        return "unreadable call"
    return "did not finish"


def _sub_skills(skill: str, failures: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Narrower skills to author next, the most frequent kind of failure first."""
    kinds = Counter((_how(e), "terminal" if e["terminal_calls"] > e["gui_calls"] else "gui") for e in failures)
    return [
        {"id": f"{skill}/{how.split()[0]}-{channel}", "failure": how, "channel": channel, "count": count}
        for (how, channel), count in sorted(kinds.items(), key=lambda item: (-item[1], item[0]))
    ]
