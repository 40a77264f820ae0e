from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from components.contracts.coords import ScreenSpace
from components.contracts.digests import digest_tree
from components.contracts.errors import DataError, ParamsError
from components.contracts.folding import Message, TextPart
from components.contracts.rng import stream
from components.curation.corpora import Sample, balanced, read_corpus, step_samples, weighted, write_corpus
from components.curation.filters import REASONS, learnable
from components.curation.rationale import ScriptedWriter
from components.curation.step import run
from components.harness.spec import load_spec
from components.rollout.episodes import EpisodeSettings, run_episodes
from components.rollout.policy import Completion, Request
from components.rollout.screens import screen_digest
from components.rollout.slots import slots
from components.rollout.store import load_screens, read_trajectories
from tests.unit.rollout_store.small import UNCONFINED, collected, context, tasks

SPACE = ScreenSpace("normalized_1000", (288, 224), step=25)


def curate(stage: str, channel: str, out: Path, work: Path) -> dict[str, float]:
    inputs, params = collected(channel)
    return run(params, inputs, {"corpus": out}, context(f"curate-{stage}", work))


def samples_of(channel: str) -> list[Sample]:
    inputs, params = collected(channel)
    spec, table = load_spec(inputs["harness"] / f"{channel}.json"), load_screens(inputs["trajectories"])
    kept, _ = learnable(read_trajectories(inputs["trajectories"]), spec)
    system = spec.system_prompt("normalized_1000")
    return [s for t in kept for s in step_samples(t, table, system, SPACE, params.context, ScriptedWriter())]


class Replay:
    """A policy that answers with the responses of a corpus and keeps the prompts it was shown."""

    special: tuple[str, ...] = ()
    version = 0

    def __init__(self, responses: Sequence[str]) -> None:
        self.responses = list(responses)
        self.prompts: list[list[Message]] = []

    def complete(self, requests: Sequence[Request], temperature: float) -> list[Completion]:
        self.prompts += [list(r.messages) for r in requests]
        return [Completion(self.responses.pop(0), (1,), (1,), (0.0,)) for _ in requests]


def flat(messages: Sequence[Message]) -> list[tuple[str, list[str]]]:
    return [
        (m.role, [p.text if isinstance(p, TextPart) else screen_digest(p.image) for p in m.parts]) for m in messages
    ]


@pytest.mark.parametrize("channel", ["gui", "hybrid"])
def test_a_policy_that_repeats_the_responses_sees_exactly_the_prompts_of_the_corpus(channel: str, tmp_path: Path):
    inputs, params = collected(channel)
    spec = load_spec(inputs["harness"] / f"{channel}.json")
    by_id = {t.task_id: t for t in tasks(each=3)}
    stored = {t.trajectory_id: t for t in read_trajectories(inputs["trajectories"])}
    by_trajectory: dict[str, list[Sample]] = {}
    for sample in samples_of(channel):
        by_trajectory.setdefault(sample.trajectory_id, []).append(sample)
    settings = EpisodeSettings(spec, params.context, params.model, 12)
    compared = 0
    for trajectory_id, own in by_trajectory.items():
        if len(own) != len(stored[trajectory_id].steps):
            continue  # a perturbed step is no sample, so its response is not at hand here
        client = Replay([s.response for s in own])
        task = by_id[stored[trajectory_id].task_id]
        (episode,) = run_episodes([task], client, settings, slots(tmp_path, spec, unconfined=UNCONFINED))
        assert episode.success
        for sample, prompt in zip(own, client.prompts, strict=True):
            told = [
                (m["role"], [p.get("text", p.get("image")) for p in m["parts"]]) for m in json.loads(sample.messages)
            ]
            assert told == flat(prompt)
            compared += 1
    assert compared > 5


def test_perturbed_steps_are_history_and_never_targets():
    inputs, _ = collected("gui")
    stored = {t.trajectory_id: t for t in read_trajectories(inputs["trajectories"])}
    seen = 0
    for sample in samples_of("gui"):
        trajectory = stored[sample.trajectory_id]
        assert not trajectory.steps[sample.step].perturbed
        before = trajectory.steps[sample.step - 1] if sample.step else None
        if before is not None and before.perturbed:
            seen += 1
            assert f"Action: {before.action}\n<tool_call>" in sample.messages.replace("\\n", "\n")
    assert seen > 5


def test_every_trajectory_counts_once():
    for by_skill in (False, True):
        totals: Counter[tuple[str, str]] = Counter()
        for sample in weighted(samples_of("hybrid"), by_skill=by_skill):
            totals[sample.skill if by_skill else "", sample.trajectory_id] += sample.weight  # type: ignore[assignment]
        groups: dict[str, list[float]] = {}
        for (group, _), total in totals.items():
            groups.setdefault(group, []).append(total)
        assert all(max(g) - min(g) < 1e-4 for g in groups.values())
        weights = [s.weight for s in weighted(samples_of("hybrid"), by_skill=by_skill)]
        assert abs(sum(weights) / len(weights) - 1) < 1e-4


def test_the_balance_gives_each_skill_the_same_number_of_steps():
    samples = samples_of("gui")
    skills = {s.skill for s in samples}
    chosen = balanced(samples, 100, lambda name: stream(0, "x", name))
    counts = Counter(s.skill for s in chosen)
    assert len(chosen) == 100 and set(counts) == skills
    assert max(counts.values()) - min(counts.values()) <= 1
    assert len({s.sample_id for s in chosen}) == 100
    known = {(s.trajectory_id, s.step): s.response for s in samples}
    assert all(known[s.trajectory_id, s.step] == s.response for s in chosen)


@pytest.mark.parametrize(
    ("stage", "channel", "steps"),
    [("gui-sft", "gui", 90), ("hybrid-sft", "hybrid", 90), ("terminal-sft", "terminal", 40)],
)
def test_a_curated_corpus_is_read_back_with_its_screens_and_made_again_byte_for_byte(
    stage: str, channel: str, steps: int, tmp_path: Path
):
    metrics = curate(stage, channel, tmp_path / "one", tmp_path / "work")
    curate(stage, channel, tmp_path / "two", tmp_path / "work")
    assert digest_tree(tmp_path / "one") == digest_tree(tmp_path / "two")
    rows, screens = read_corpus(tmp_path / "one")
    assert len(rows) == steps == metrics["samples"] == metrics["agent_steps"]
    summary = json.loads((tmp_path / "one" / "summary.json").read_text())
    assert summary["harness"] == channel and sum(summary["by_skill"].values()) == steps
    for row in rows:
        assert row["kind"] == "agent" and not row["mask_think"] and row["weight"] > 0
        named = [p["image"] for m in json.loads(row["messages"]) for p in m["parts"] if "image" in p]
        assert 1 <= len(named) <= 3 and all(screens[d].shape == (224, 288, 3) for d in named)
    assert not any(screens.elements(d) for d in screens)


def test_midtrain_has_packs_of_both_kinds_and_masked_agent_steps_beside_them(tmp_path: Path):
    metrics = curate("midtrain", "gui", tmp_path / "c", tmp_path / "work")
    rows, _ = read_corpus(tmp_path / "c")
    packs = [r for r in rows if r["kind"] == "click_pack"]
    agent = [r for r in rows if r["kind"] == "agent"]
    assert Counter(r["skill"] for r in packs) == {"grounding-synth": 12, "grounding-app": 12}
    share = collected("gui")[1].curate.midtrain.agent_share
    assert len(agent) == round(24 * share / (1 - share)) and metrics["questions"] > 70
    assert all(r["mask_think"] for r in rows)
    assert all("You point at things" not in r["messages"] for r in agent)
    assert all("Call terminate" not in r["messages"] for r in packs)


def test_a_truncated_corpus_is_named(tmp_path: Path):
    curate("gui-sft", "gui", tmp_path / "c", tmp_path / "work")
    path = tmp_path / "c" / "samples.parquet"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match=r"samples\.parquet"):
        read_corpus(tmp_path / "c")


def test_dropped_foreign_and_unusable_trajectories_are_counted_by_reason():
    inputs, _ = collected("gui")
    spec = load_spec(inputs["harness"] / "gui.json")
    good = next(t for t in read_trajectories(inputs["trajectories"]) if not t.dropped)
    other = {"tool": "bash", "command": "ls"}
    cases = {
        "failed": good.model_copy(update={"dropped": "failed"}),
        "other_split": good.model_copy(update={"split": "dev"}),
        "other_harness": good.model_copy(update={"harness": "hybrid"}),
        "unknown_tool": good.model_copy(update={"steps": (good.steps[0].model_copy(update={"call": other}),)}),
        "nothing_to_learn": good.model_copy(update={"steps": (good.steps[0].model_copy(update={"perturbed": True}),)}),
    }
    assert set(cases) == {*REASONS, "failed"}
    accepted, reasons = learnable([good, *cases.values()], spec)
    assert accepted == [good] and reasons == dict.fromkeys(cases, 1)


def test_nothing_to_learn_from_is_an_error_and_an_unknown_stage_is_refused(tmp_path: Path):
    inputs, params = collected("gui")
    wrong = {**inputs, "harness": tmp_path}
    spec = load_spec(inputs["harness"] / "gui.json").model_copy(update={"name": "other"})
    (tmp_path / "gui.json").write_text(spec.model_dump_json())
    with pytest.raises(DataError, match="other_harness"):
        run(params, wrong, {"corpus": tmp_path / "c"}, context("curate-gui-sft", tmp_path))
    assert not (tmp_path / "c").exists()
    with pytest.raises(ParamsError, match="curate-rl"):
        run(params, inputs, {"corpus": tmp_path / "c"}, context("curate-rl", tmp_path))


def test_a_corpus_without_a_named_screenshot_is_not_written(tmp_path: Path):
    sample = samples_of("gui")[0]
    with pytest.raises(KeyError):
        write_corpus(tmp_path / "c", [sample], {}, {})
    assert list(tmp_path.iterdir()) == []
