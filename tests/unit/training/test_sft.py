from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from components.contracts.digests import digest_file, digest_tree
from components.contracts.errors import BudgetError, CheckpointError, DataError, ParamsError
from components.contracts.params import Frozen, Sft
from components.contracts.stage import NullMeter, NullSink, StepContext
from components.rollout.store import ScreenTable
from components.tracking.events import SpoolSink, spool_path
from components.tracking.ledger import run_costs
from components.training import checkpoint
from components.training.corpus import load_corpus
from components.training.model import Policy, name_ids
from components.training.parallel import Ranks
from components.training.screen_features import features_for
from components.training.sequences import Encoder, collate, token_losses
from components.training.sft import SftInputs, train_sft
from tests.unit.training.corpora import make_corpus
from tests.unit.training.kit import small_policy, write_policy

STEPS = 9


def sft(**changes: object) -> Sft:
    fields = {
        "steps": STEPS, "batch": 4, "lr": 1e-3, "weight_decay": 0.02, "warmup": 2, "clip_norm": 1.0,
        "replay_base": 0.1, "replay_grounding": 0.2, "replay_gui": 0.2, "checkpoint_every": 2, "log_every": 3,
    }  # fmt: skip
    return Sft.model_validate(fields | changes)


class Events(NullSink):
    """Remembers metrics and notes; kills its process when a step is reported, if asked to."""

    def __init__(self, kill_at: int = -1) -> None:
        self.metrics: dict[tuple[str, int], float] = {}
        self.notes: list[str] = []
        self.kill_at = kill_at

    def metric(self, name: str, value: float, step: int = 0) -> None:
        self.metrics[name, step] = value

    def note(self, text: str) -> None:
        self.notes.append(text)

    def progress(self, done: int, total: int, unit: str = "") -> None:
        if done == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> SftInputs:
    root = tmp_path_factory.mktemp("inputs")
    return SftInputs(
        write_policy(root / "policy"), make_corpus(root / "own"), make_corpus(root / "grounding", 0, 4, seed=1),
        make_corpus(root / "gui", 6, 0, seed=2),
    )  # fmt: skip


def context(folder: Path, workers: int = 1, events: Events | None = None) -> StepContext:
    return StepContext("gui-sft", 3, folder / "work", events or Events(), workers=workers)


def killed(work: Callable[[], object]) -> None:
    """Run `work` in a process of its own, which must end by SIGKILL."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("workers", "frozen", "muon_lr"), [(1, (), 0.0), (2, (), 6e-3), (2, ("vision", "names"), 6e-3)]
)
def test_a_stage_killed_in_the_middle_ends_with_the_weights_of_an_undisturbed_one(
    tmp_path: Path, inputs: SftInputs, workers: int, frozen: tuple[Frozen, ...], muon_lr: float
) -> None:
    """Killed between two checkpoints, then again while one is being written; curves and figures are the same too."""
    plain = Events()

    def train(root: Path, events: Events | None = None) -> dict[str, float]:
        return train_sft(sft(muon_lr=muon_lr), inputs, root / "out", context(root, workers, events), frozen=frozen)

    figures = train(tmp_path / "plain", plain)

    broken = tmp_path / "broken"
    killed(lambda: train(broken, Events(kill_at=3)))
    newest, _ = checkpoint.latest(broken / "work")
    assert newest is not None and newest.step == 2 and not (broken / "out").exists()

    def die_while_saving() -> None:
        def half(folder: Path, **_: object) -> None:
            (folder / "model.safetensors").write_bytes(b"half")
            os.kill(os.getpid(), signal.SIGKILL)

        checkpoint.save_state = half  # only in the forked process
        train(broken)

    killed(die_while_saving)
    newest, warnings = checkpoint.latest(broken / "work")
    assert newest is not None and newest.step == 2 and any("half written" in w for w in warnings)

    events = Events()
    assert train(broken, events) == figures
    assert "resumed at step 2" in events.notes
    assert digest_tree(broken / "out") == digest_tree(tmp_path / "plain" / "out")
    assert all(plain.metrics[key] == value for key, value in events.metrics.items()) and events.metrics


def test_frozen_parts_stay_as_they_were_and_the_rest_learns(tmp_path: Path, inputs: SftInputs) -> None:
    policy = Policy.load(inputs.checkpoint)
    before = {name: p.detach().clone() for name, p in policy.model.named_parameters()}
    train_sft(sft(), inputs, tmp_path / "out", context(tmp_path), frozen=("vision", "names"), coord_step=25)
    after = dict(Policy.load(tmp_path / "out").model.named_parameters())
    assert {name for name, value in before.items() if torch.equal(value, after[name])} == {
        name for name in before if ".visual." in name
    }
    (words,) = (name for name in before if "embed_tokens" in name)
    changed = set((before[words] != after[words]).any(dim=1).nonzero().flatten().tolist())
    names = set(name_ids(policy.tokenizer, 25))
    assert names and changed and not changed & names


def test_features_kept_for_a_stage_are_those_of_the_encoder(tmp_path: Path, inputs: SftInputs) -> None:
    policy = Policy.load(inputs.checkpoint)
    corpus = load_corpus(inputs.corpus, Encoder(policy))
    assert isinstance(corpus.pictures, ScreenTable)
    assert features_for(policy, corpus.pictures, corpus.pictures) is None, "a trained encoder gives others at each step"
    policy.freeze(["vision"], 25)
    kept = features_for(policy, corpus.pictures, corpus.pictures)
    assert kept is not None
    kept.fill(policy, Ranks(0, 1))
    raw = collate(policy, corpus.items[:0] + tuple(corpus[i] for i in range(3)))
    ready = collate(policy, tuple(replace(corpus, pictures=kept)[i] for i in range(3)))
    assert raw.patches is not None and ready.patches is None and ready.features is not None
    torch.testing.assert_close(ready.features, policy.image_features(raw.patches, raw.sizes), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(token_losses(policy, ready), token_losses(policy, raw), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("rates", [{"lr": 1e-2}, {"lr": 1e-3, "muon_lr": 1e-2}])
def test_training_changes_the_weights_and_lowers_the_loss(
    tmp_path: Path, inputs: SftInputs, rates: dict[str, float]
) -> None:
    many = sft(steps=24, **rates, replay_base=0.0, replay_grounding=0.0, replay_gui=0.0)
    train_sft(many, inputs, tmp_path / "out", context(tmp_path))
    curve = [json.loads(line) for line in (tmp_path / "out" / "curves.jsonl").read_text().splitlines()]
    assert [point["step"] for point in curve] == list(range(3, 25, 3))
    assert curve[-1]["loss"] < 0.7 * curve[0]["loss"]
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert record["stage"] == "gui-sft" and record["steps"] == 24 and record["seed"] == 3
    assert digest_file(tmp_path / "out" / "model.safetensors") != digest_file(inputs.checkpoint / "model.safetensors")
    assert Policy.load(tmp_path / "out").parameters() == record["parameters"] == small_policy().parameters()


def test_another_seed_gives_another_model(tmp_path: Path, inputs: SftInputs) -> None:
    weights = []
    for seed in (1, 2):
        folder = tmp_path / str(seed)
        ctx = StepContext("gui-sft", seed, folder / "work", workers=1)
        train_sft(sft(steps=2), inputs, folder / "out", ctx)
        weights.append(digest_file(folder / "out" / "model.safetensors"))
    assert weights[0] != weights[1]


@pytest.mark.parametrize("changed", ["corpus", "params", "seed", "ranks"])
def test_a_resume_under_other_conditions_is_refused_and_names_them(
    tmp_path: Path, inputs: SftInputs, changed: str
) -> None:
    killed(lambda: train_sft(sft(), inputs, tmp_path / "out", context(tmp_path, events=Events(kill_at=3))))
    own, ctx, sources = sft(), context(tmp_path), inputs
    named = {"corpus": "data_digest", "params": "params_digest", "seed": "seed", "ranks": "ranks"}[changed]
    if changed == "corpus":
        sources = SftInputs(inputs.checkpoint, make_corpus(tmp_path / "other", seed=5), inputs.grounding, inputs.gui)
    elif changed == "params":
        own = sft(lr=2e-3)
    elif changed == "seed":
        ctx = StepContext("gui-sft", 4, ctx.work, workers=1)
    else:
        ctx = context(tmp_path, workers=2)
    with pytest.raises(CheckpointError, match=f"cannot resume.*{named} was"):
        train_sft(own, sources, tmp_path / "out", ctx)
    assert not (tmp_path / "out").exists()


def test_a_damaged_checkpoint_is_named_and_not_skipped(tmp_path: Path, inputs: SftInputs) -> None:
    killed(lambda: train_sft(sft(), inputs, tmp_path / "out", context(tmp_path, events=Events(kill_at=3))))
    weights = tmp_path / "work" / "step-00000002" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(bytes(data))
    with pytest.raises(CheckpointError, match="model.safetensors does not match"):
        train_sft(sft(), inputs, tmp_path / "out", context(tmp_path))


def test_a_replay_share_without_its_corpus_is_refused_before_training(tmp_path: Path, inputs: SftInputs) -> None:
    with pytest.raises(ParamsError, match="replay_gui"):
        train_sft(sft(), SftInputs(inputs.checkpoint, inputs.corpus, inputs.grounding), tmp_path, context(tmp_path))


def test_pictures_of_a_corpus_stay_compressed_until_an_item_is_taken(inputs: SftInputs) -> None:
    corpus = load_corpus(inputs.corpus, Encoder(small_policy()))
    assert len(corpus) == 13 and all(isinstance(d, str) for item in corpus.items for d in item.screens)
    for item, stored in zip((corpus[i] for i in range(len(corpus))), corpus.items, strict=True):
        assert [s.shape for s in item.screens] == [(64, 96, 3)] * len(stored.screens)
        assert item.ids is stored.ids and item.weights.sum() > 0


def test_a_broken_sample_is_named(tmp_path: Path) -> None:
    from components.rollout.tables import read_table, write_table

    folder = make_corpus(tmp_path / "corpus")
    path = folder / "samples.parquet"
    names = ("sample_id", "kind", "skill", "trajectory_id", "step", "messages", "response", "mask_think", "weight")
    columns = read_table(path, names)
    columns["messages"][3] = '[{"role": "user"}]'
    kinds = {"step": "int", "mask_think": "bool", "weight": "float"}
    write_table(path, {name: (kinds.get(name, "text"), list(columns[name])) for name in names})  # type: ignore[misc]
    with pytest.raises(DataError, match=str(columns["sample_id"][3])) as caught:
        list(load_corpus(folder, Encoder(small_policy())).items)
    assert str(folder) in str(caught.value)


def test_a_broken_sample_stops_a_stage_before_its_first_step(tmp_path: Path, inputs: SftInputs) -> None:
    from components.rollout.tables import read_table, write_table

    folder = make_corpus(tmp_path / "corpus")
    names = ("sample_id", "kind", "skill", "trajectory_id", "step", "messages", "response", "mask_think", "weight")
    columns = read_table(folder / "samples.parquet", names)
    columns["messages"][-1] = "{}"
    kinds = {"step": "int", "mask_think": "bool", "weight": "float"}
    table = {name: (kinds.get(name, "text"), list(columns[name])) for name in names}
    write_table(folder / "samples.parquet", table)  # type: ignore[arg-type]
    seen = Events()
    with pytest.raises(DataError, match=str(columns["sample_id"][-1])):
        train_sft(sft(), replace(inputs, corpus=folder), tmp_path / "out", replace(context(tmp_path), events=seen))
    assert not seen.metrics and not (tmp_path / "out").exists()


class StopAt(NullMeter):
    """A spend cap that is reached at the n-th look."""

    def __init__(self, look: int) -> None:
        self.left = look

    def check(self, model: str = "") -> None:
        self.left -= 1
        if self.left == 0:
            raise BudgetError("the cap is reached", where="spend")


def test_the_spend_cap_stops_training_after_a_checkpoint_and_every_token_is_entered_once(
    tmp_path: Path, inputs: SftInputs, capfd: pytest.CaptureFixture[str]
) -> None:
    def train(folder: Path, attempt: int, meter: NullMeter | None = None) -> dict[str, float]:
        with SpoolSink(spool_path(folder / "run", "gui-sft", attempt)) as sink:
            ctx = StepContext("gui-sft", 3, folder / "work", sink, meter or NullMeter(), workers=2)
            return train_sft(sft(log_every=2), inputs, folder / "out", ctx)

    figures = train(tmp_path / "plain", 1)
    (undisturbed,) = run_costs(tmp_path / "plain" / "run")
    assert undisturbed.flops == figures["flops"] == 6.0 * small_policy().parameters() * undisturbed.train_tokens > 0
    with pytest.raises(BudgetError, match="the cap is reached"):
        train(tmp_path / "capped", 1, StopAt(2))
    newest, _ = checkpoint.latest(tmp_path / "capped" / "work")
    assert newest is not None and newest.step == 4 and not (tmp_path / "capped" / "out").exists()
    assert "Traceback" not in capfd.readouterr().err, "the ranks stop together and in order"
    assert train(tmp_path / "capped", 2) == figures
    assert digest_tree(tmp_path / "capped" / "out") == digest_tree(tmp_path / "plain" / "out")
    (resumed,) = run_costs(tmp_path / "capped" / "run")
    assert (resumed.train_tokens, resumed.flops) == (undisturbed.train_tokens, undisturbed.flops)
