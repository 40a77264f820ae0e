"""One supervised loop for stages 1 to 4: plain next-token loss, budgets in steps, resumable bit for bit.

The batch of a step is a function of (seed, stage, step): which source it comes from (the stage's corpus, or replay of
base questions, grounding packs or GUI steps) and which items. A killed stage goes on at its last checkpoint and ends
with the same weights as an undisturbed one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from components.contracts.digests import canonical_json, digest_tree, digest_value
from components.contracts.errors import ParamsError
from components.contracts.params import Frozen, Sft
from components.contracts.rng import stream
from components.contracts.stage import StepContext
from components.training import checkpoint
from components.training.corpus import Corpus, load_corpus
from components.training.model import Policy
from components.training.optimizer import make_optimizer, set_rates
from components.training.parallel import Ranks, run_ranks, sum_gradients
from components.training.plan import BASE_DENSITY, PlannedStep, plan_steps
from components.training.resume import resume_progress, save_progress, stop_at_cap
from components.training.schedule import cosine
from components.training.screen_features import ScreenFeatures, features_for
from components.training.sequences import Encoder, Packed, collate, token_losses

ItemSource = Callable[[str, int], Packed]
"""(stream item name, index) -> one sequence."""


@dataclass(frozen=True)
class SftInputs:
    """Directories of a stage's inputs. `grounding` and `gui` are replayed corpora, absent where the stage has none."""

    checkpoint: Path
    corpus: Path
    grounding: Path | None = None
    gui: Path | None = None

    def digest(self) -> str:
        return digest_value(
            [digest_tree(p) if p else "" for p in (self.checkpoint, self.corpus, self.grounding, self.gui)]
        )


def train_sft(
    settings: Sft, inputs: SftInputs, out: Path, ctx: StepContext, *, frozen: Sequence[Frozen] = (),
    coord_step: float = 1,
) -> dict[str, float]:  # fmt: skip
    """Train one stage and write its checkpoint directory. Returns the last loss, steps, tokens and nominal FLOPs.

    `frozen`, `coord_step`: see `Policy.freeze`.
    """
    import torch

    identity = {
        "params_digest": digest_value([settings.model_dump(mode="json"), sorted(frozen), coord_step]),
        "data_digest": inputs.digest(),
        "seed": ctx.seed,
        "ranks": ctx.workers,
    }
    torch.set_num_threads(1)
    # Read before the ranks are forked: they share these pages.
    policy = Policy.load(inputs.checkpoint)
    policy.freeze(frozen, coord_step)
    corpora = _read_corpora(settings, inputs, Encoder(policy))
    plan = plan_steps(settings, ctx.seed, ctx.stage, corpora)
    features = {
        name: features_for(policy, corpus.pictures, _shown(corpus, name, plan))
        for name, corpus in corpora.items()
        if not isinstance(corpus.pictures, ScreenFeatures)
    }

    def work(ranks: Ranks) -> dict[str, float]:
        ready = dict(corpora)
        for name, own in features.items():
            if own is not None:
                own.fill(policy, ranks)
                ready[name] = replace(corpora[name], pictures=own)
        return _Loop(settings, policy, ready, plan, out, ctx, ranks, identity).run()

    result: dict[str, float] = run_ranks(work, ctx.workers)
    return result


def _read_corpora(settings: Sft, inputs: SftInputs, encoder: Encoder) -> dict[str, Corpus]:
    """The stage's own corpus and those whose replay has a share. A share without a corpus is an error."""
    corpora = {"corpus": load_corpus(inputs.corpus, encoder)}
    for name, share, path in (
        ("grounding", settings.replay_grounding, inputs.grounding),
        ("gui", settings.replay_gui, inputs.gui),
    ):
        if share and path is None:
            raise ParamsError(
                f"replay_{name} is {share} and this stage has no {name} corpus", where="sft", remedy="set it to 0"
            )
        if share and path is not None:
            corpora[name] = load_corpus(path, encoder)
    return corpora


def _shown(corpus: Corpus, name: str, plan: Sequence[PlannedStep]) -> set[str]:
    """Digests of the screenshots that a stage will show from one of its corpora."""
    taken = {place for planned in plan if planned.source == name for place in planned.items}
    return {digest for place in taken for digest in corpus.items[place].screens}


class _Loop:
    def __init__(
        self, settings: Sft, policy: Policy, corpora: Mapping[str, Corpus], plan: Sequence[PlannedStep], out: Path,
        ctx: StepContext, ranks: Ranks, identity: Mapping[str, Any],
    ) -> None:  # fmt: skip
        self.plan = plan
        self.settings, self.out, self.ctx, self.ranks, self.identity = settings, out, ctx, ranks, identity
        self.policy, self.corpora = policy, corpora
        self.replay = _base_source(self.policy, ctx.seed, ctx.stage)
        self.optimizer = make_optimizer(self.policy, settings.lr, settings.weight_decay, settings.muon_lr, ranks)
        self.curves: list[dict[str, float]] = []
        self.tokens = 0
        self.seen = 0
        """All tokens that went through the model, for the nominal operations; `tokens` are the supervised ones."""
        self.told = 0
        """Of `seen`, those in the ledger. What a killed attempt trained after its last checkpoint is trained again
        and counts again: it was work."""
        self.sums = [0.0, 0.0]
        """Loss and weight since the last point of the curve."""

    def batch(self, planned: PlannedStep) -> Sequence[Packed]:
        if planned.source == "base":
            return [self.replay("replay", i) for i in self.ranks.share(list(planned.items))]
        corpus = self.corpora[planned.source]
        return [corpus[place] for place in self.ranks.share(list(planned.items))]

    def run(self) -> dict[str, float]:
        plan = self.plan
        first = self.resume()
        lead = self.ranks.rank == 0
        loss = self.curves[-1]["loss"] if self.curves else 0.0
        for step in range(first, len(plan)):
            share = cosine(step, len(plan), 1.0, self.settings.warmup)
            lr = self.settings.lr * share
            set_rates(self.optimizer, share)
            total, weight, tokens, seen = self.step(self.batch(plan[step]))
            self.tokens += tokens
            self.seen += seen
            if plan[step].source == "corpus":
                self.sums = [self.sums[0] + total, self.sums[1] + weight]
            if (step + 1) % self.settings.log_every == 0 or step + 1 == len(plan):
                loss = self.sums[0] / self.sums[1] if self.sums[1] else loss
                self.sums = [0.0, 0.0]
                self.curves.append({"step": step + 1, "loss": round(loss, 6), "lr": round(lr, 9)})
                if lead:
                    self.tell_ledger()
                    self.ctx.events.metric("loss", loss, step + 1)
                    self.ctx.events.metric("lr", lr, step + 1)
                    self.ctx.events.progress(step + 1, len(plan), "steps")
            if (step + 1) % self.settings.checkpoint_every == 0 and step + 1 < len(plan):
                self.save(step + 1)
                stop_at_cap(self.ctx, self.ranks)
        if lead:
            self.tell_ledger()
            self.write(loss)
        flops = 6.0 * self.policy.parameters() * self.seen
        return {"loss": loss, "steps": float(len(plan)), "tokens": float(self.tokens), "flops": flops}

    def tell_ledger(self) -> None:
        """Enter what was trained since the last entry."""
        if self.seen > self.told:
            self.ctx.events.ledger("train", tokens=self.seen - self.told, parameters=self.policy.parameters())
            self.told = self.seen

    def step(self, items: Sequence[Packed]) -> tuple[float, float, int, int]:
        """One optimiser step over all ranks: (summed loss, summed weight, supervised tokens, all tokens)."""
        import torch

        self.optimizer.zero_grad(set_to_none=True)
        total, weight, count, seen = torch.zeros(()), 0.0, 0, sum(len(item) for item in items)
        if items:
            batch = collate(self.policy, items)
            losses = token_losses(self.policy, batch)
            total = (losses * batch.weights).sum()
            weight, count = float(batch.weights.sum()), len(losses)
            total.backward()
        figures = [float(total.detach()), count, seen]
        parameters = self.policy.model.parameters()
        whole, sums = sum_gradients(self.ranks, parameters, weight, figures, self.settings.clip_norm)
        self.optimizer.step()
        return sums[0], whole, int(sums[1]), int(sums[2])

    # -- state ---------------------------------------------------------------------------------------------

    def save(self, step: int) -> None:
        extra = {"curves": self.curves, "tokens": self.tokens, "seen": self.seen, "sums": self.sums}
        save_progress(self.ctx, self.ranks, self.policy, self.optimizer, step, extra, self.identity)

    def resume(self) -> int:
        step, extra = resume_progress(self.ctx, self.ranks, self.policy, self.optimizer, self.identity, "step")
        if extra:
            self.curves, self.tokens, self.sums = list(extra["curves"]), int(extra["tokens"]), list(extra["sums"])
            self.seen = self.told = int(extra["seen"])
        return step

    def write(self, loss: float) -> None:
        write_checkpoint(
            self.policy,
            self.out,
            {"stage": self.ctx.stage, "steps": self.settings.steps, "loss": round(loss, 6), **self.identity},
            self.curves,
        )


def write_checkpoint(
    policy: Policy, out: Path, record: Mapping[str, Any], curves: Sequence[Mapping[str, float]]
) -> None:
    """The stage's output: weights, tokenizer, `record.json`, `curves.jsonl`. No times: equal runs, equal bytes."""
    with checkpoint.atomic_dir(out) as folder:
        policy.save(folder)
        (folder / "record.json").write_text(canonical_json({**record, "parameters": policy.parameters()}) + "\n")
        (folder / "curves.jsonl").write_text("".join(json.dumps(row, sort_keys=True) + "\n" for row in curves))


def _base_source(policy: Policy, seed: int, stage: str) -> ItemSource:
    """Fresh base questions, one packed screen an index."""
    from components.sandbox.minidesk.synth import synth_screen
    from components.training import base_drills
    from components.training.base_items import GLUE, QUESTIONS, Builder, base_words

    builder, words = Builder(policy), base_words()

    def make(name: str, index: int) -> Packed:
        rng = stream(seed, stage, f"{name}-{index}")
        screen = synth_screen(rng, words, track=True, files=rng.randint(0, 3))
        task_first = index % 4 == 3
        count = 1 if task_first else BASE_DENSITY * QUESTIONS
        drills, mix = base_drills.REPLAY_DRILLS, base_drills.REPLAY_MIX
        asked = base_drills.mixed(rng, screen, words, GLUE, count, drills, mix, more=True)
        return builder.item(screen, asked, task_first).packed

    return make
