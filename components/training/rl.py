"""Stage 5: online GRPO over live desktops.

An iteration rolls out `group` episodes on each of a few tasks with the current weights, turns verified rewards into
group advantages, and makes a few clipped policy-gradient steps on the step samples. Every sample carries the version
of the weights that wrote it; an optimiser step raises the trainer's version, and samples older than `max_lag` versions
are dropped and counted. All mathematics is in `grpo`, samples are made in `rl_samples`; this file is the loop.

Simplified against the recipe: rollouts and updates take turns in the same processes (the recipe overlaps them on
separate hosts), so the lag comes from the minibatches of one iteration only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contracts.digests import digest_tree, digest_value
from components.contracts.params import Params
from components.contracts.stage import StepContext
from components.contracts.task import Task
from components.harness.spec import HarnessSpec
from components.rollout.episodes import DesktopFactory, Episode, EpisodeSettings, run_episodes
from components.rollout.metering import MeteredClient
from components.training import grpo
from components.training.curriculum import SkillTurns
from components.training.engine import LocalClient, response_logprobs
from components.training.model import Policy
from components.training.optimizer import make_optimizer
from components.training.parallel import Ranks, run_ranks, sum_gradients
from components.training.policy_lag import admit
from components.training.resume import resume_progress, save_progress, stop_at_cap
from components.training.rl_samples import GroupFigures, Sample, choose_tasks, minibatches, samples_of
from components.training.sequences import collate, supervised_logits
from components.training.sft import write_checkpoint

if TYPE_CHECKING:
    import torch

POLICY_MODEL = "local/policy"
"""Name of the trained policy in the price table."""
FORWARD_BATCH = 24
"""Step samples per forward pass; a bound on memory, no influence on the result of a step but rounding."""


class RlLoop:
    """The loop of one rank. All ranks hold the same weights after every step."""

    def __init__(
        self, params: Params, start: Path, tasks: Sequence[Task], harness: HarnessSpec, factory: DesktopFactory,
        out: Path, ctx: StepContext, ranks: Ranks, identity: Mapping[str, Any],
    ) -> None:  # fmt: skip
        self.settings, self.params = params.rl, params
        self.tasks, self.factory = tasks, factory
        self.out, self.ctx, self.ranks, self.identity = out, ctx, ranks, identity
        self.policy = Policy.load(start)
        self.policy.freeze(params.model.frozen, params.model.coord_step)
        self.client = MeteredClient(
            LocalClient(self.policy, params.model.max_new_tokens, seed=ctx.seed), ctx.events, POLICY_MODEL,
            parameters=self.policy.parameters(),
        )  # fmt: skip
        self.episodes = EpisodeSettings(
            harness, params.context, params.model, params.rl.max_steps, params.rl.temperature
        )
        self.optimizer = make_optimizer(self.policy, self.settings.lr, 0.0)
        self.turns = SkillTurns((task.skill for task in tasks), self.settings.focus, ctx.seed)
        self.version = 0
        self.curves: list[dict[str, float]] = []
        self.flops = 0.0
        """Nominal operations so far: 6ND of what was trained, 2ND of what was read and written."""

    def run(self) -> dict[str, float]:
        first = self.resume()
        lead = self.ranks.rank == 0
        for iteration in range(first, self.settings.iterations):
            row = self.iterate(iteration)
            self.curves.append({"step": iteration + 1, **{k: round(v, 6) for k, v in row.items()}})
            if lead:
                for name, value in row.items():
                    self.ctx.events.metric(name, value, iteration + 1)
                self.ctx.events.progress(iteration + 1, self.settings.iterations, "iterations")
            if (iteration + 1) % self.settings.checkpoint_every == 0 and iteration + 1 < self.settings.iterations:
                self.save(iteration + 1)
                stop_at_cap(self.ctx, self.ranks)
        if lead:
            record = {
                "stage": self.ctx.stage,
                "steps": self.settings.iterations,
                "updates": self.version,
                **self.identity,
            }
            write_checkpoint(self.policy, self.out, record, self.curves)
        last = self.curves[-1] if self.curves else {}
        return {**{k: v for k, v in last.items() if k != "step"}, "flops": self.flops}

    # -- one iteration -------------------------------------------------------------------------------------

    def iterate(self, iteration: int) -> dict[str, float]:
        skills = self.turns.choose(self.settings.tasks_per_iteration, iteration)
        tasks = choose_tasks(self.tasks, skills, self.ctx.seed, iteration)
        self.client.version = self.version
        mine = self.ranks.share(list(enumerate(tasks)))
        attempts = [task for _, task in mine for _ in range(self.settings.group)]
        noise = f"rl/{iteration}/{self.ranks.rank}"
        self.policy.model.eval()
        done = run_episodes(attempts, self.client, self.episodes, self.factory, noise=noise)
        groups = [done[k : k + self.settings.group] for k in range(0, len(done), self.settings.group)]
        self.remember(groups)
        trajectories, figures = samples_of(
            groups, self.settings, self.version, self.ctx.seed, iteration, self.settings.max_samples // self.ranks.size
        )
        update = self.update(iteration, trajectories, figures)
        calls = [step.completion for episode in done for step in episode.steps]
        generated = sum(len(call.prompt_ids) + len(call.response_ids) for call in calls)
        *totals, tokens = self._sum([*vars(figures).values(), generated])
        self.flops += 2.0 * self.policy.parameters() * tokens
        return {**GroupFigures(*totals).metrics(), **update}

    def remember(self, groups: Sequence[Sequence[Episode]]) -> None:
        """Every rank takes the success of all ranks' groups into its turns, in one order."""
        own = []
        for episodes in groups:
            scored = [episode.success for episode in episodes if episode.ending != "infra_error"]
            if scored:
                own.append((episodes[0].task.skill, sum(scored) / len(scored)))
        for rank in self.ranks.gather(own):
            for skill, success in rank:
                self.turns.saw(skill, success)

    def update(self, iteration: int, trajectories: Sequence[list[Sample]], figures: GroupFigures) -> dict[str, float]:
        """A few clipped steps on this iteration's samples; every rank makes the same number of steps."""
        settings = self.settings
        largest = max(self.ranks.gather(sum(len(t) for t in trajectories)))
        per_rank = max(1, settings.minibatch // self.ranks.size)
        count = -(-largest // per_rank)
        lr = self._learning_rate(iteration)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        samples = [s for t in trajectories for s in t]
        old = self._trainer_logprobs(samples, iteration)
        trained = 0
        sums = [0.0] * 6
        batches = minibatches(trajectories, per_rank, count) if count else []
        start_version = self.version
        for batch in batches:
            fresh = [s for s in batch if admit(s.step.versions, self.version, settings.max_lag).accept]
            figures.too_old += len(batch) - len(fresh)
            trained += sum(len(s.packed) for s in fresh)
            part = self.optimiser_step(fresh, old)
            sums = [a + b for a, b in zip(sums, part, strict=True)]
        tokens, clipped, ratio_sum, loss, capped, misfit, trained_all, checked = self._sum(
            [*sums, trained, sum(len(s.packed) for s in samples)]
        )
        self.tell_ledger(trained_all, checked)
        n = max(1.0, tokens)
        return {
            "lr": lr, "updates": float(self.version - start_version),
            "lag": float(max(0, self.version - start_version - 1)), "clip_share": clipped / n,
            "mean_ratio": ratio_sum / n if tokens else 1.0, "loss": loss / max(1, count), "tis_capped": capped / n,
            "logprob_misfit": misfit / n,
        }  # fmt: skip

    def tell_ledger(self, trained: float, checked: float) -> None:
        """Enter tokens that went through the update, and those through the forward pass before it."""
        n = self.policy.parameters()
        self.flops += 6.0 * n * trained + 2.0 * n * checked
        if self.ranks.rank == 0 and checked:
            self.ctx.events.ledger("train", tokens=trained, parameters=n, flops=2.0 * n * checked)

    def _trainer_logprobs(self, samples: Sequence[Sample], iteration: int) -> dict[int, torch.Tensor]:
        """log p of the sampled tokens under the trainer's weights before the update; checked against the sampler's."""
        import numpy as np
        import torch

        out: dict[int, torch.Tensor] = {}
        with torch.no_grad():
            for part in parts_alike(samples):
                values, rows, _ = self._logprobs(part)
                for k, sample in enumerate(part):
                    out[id(sample)] = values[rows == k].detach().clone()
        if samples:
            trainer = np.concatenate([out[id(s)].numpy() for s in samples])
            sampler = np.concatenate([np.array(s.step.logprobs) for s in samples])
            grpo.importance_weights(trainer, sampler, self.settings.tis_cap, first_update_after_sync=True)
        return out

    def _logprobs(self, part: Sequence[Sample]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(tokens,) log-probabilities at the sampling temperature, their sample index, their per-token weight."""
        batch = collate(self.policy, [s.packed for s in part])
        logits = supervised_logits(self.policy, batch)
        return (
            response_logprobs(self.policy, logits, batch.targets, self.settings.temperature),
            batch.rows,
            batch.weights,
        )

    def optimiser_step(self, samples: Sequence[Sample], old: Mapping[int, torch.Tensor]) -> list[float]:
        """One step over all ranks. Returns sums: tokens, clipped, ratio, loss, capped importance weights, misfit."""
        import torch

        settings = self.settings
        self.optimizer.zero_grad(set_to_none=True)
        weight = sum(s.share for s in samples)
        sums = [0.0] * 6
        for part in parts_alike(samples):
            new, rows, token_weights = self._logprobs(part)
            before = torch.cat([old[id(s)] for s in part])
            sampler = torch.cat([torch.tensor(s.step.logprobs) for s in part])
            importance = grpo.importance_weights(before.numpy(), sampler.numpy(), settings.tis_cap)
            share = torch.tensor([s.share for s in part])[rows] * token_weights
            # One row a token: advantages and weights are per token, the weights carry the step's normalisation.
            advantage = torch.tensor([s.advantage for s in part])[rows]
            result = grpo.policy_loss(
                new[:, None], before[:, None], advantage, torch.ones_like(new)[:, None], settings.clip_low,
                settings.clip_high, torch.from_numpy(importance.weights)[:, None], sample_weight=share,
            )  # fmt: skip
            result.loss.backward()
            n = result.tokens
            figures = (
                n, n * result.clip_fraction, n * result.mean_ratio, float(result.loss.detach()),
                n * importance.share_capped, n * importance.mean_abs_difference,
            )  # fmt: skip
            sums = [total + value for total, value in zip(sums, figures, strict=True)]
        parameters = self.policy.model.parameters()
        whole, _ = sum_gradients(self.ranks, parameters, weight, clip_norm=settings.clip_norm)
        if whole > 0:
            self.optimizer.step()
            self.version += 1
        return sums

    def _learning_rate(self, iteration: int) -> float:
        """Linear warm-up, then linear to `lr_final` of the peak."""
        s = self.settings
        if iteration < s.warmup:
            return s.lr * (iteration + 1) / s.warmup
        share = (iteration - s.warmup) / max(1, s.iterations - 1 - s.warmup)
        return s.lr * (1.0 + (s.lr_final - 1.0) * min(1.0, share))

    def _sum(self, values: Sequence[float]) -> list[float]:
        import torch

        total = torch.tensor(list(values), dtype=torch.float64)
        self.ranks.sum(total)
        return [float(v) for v in total]

    # -- state ---------------------------------------------------------------------------------------------

    def save(self, iteration: int) -> None:
        extra = {
            "curves": self.curves,
            "version": self.version,
            "flops": self.flops,
            "turns": self.turns.state(),
        }
        save_progress(self.ctx, self.ranks, self.policy, self.optimizer, iteration, extra, self.identity)

    def resume(self) -> int:
        iteration, extra = resume_progress(
            self.ctx, self.ranks, self.policy, self.optimizer, self.identity, "iteration"
        )  # fmt: skip
        if extra:
            self.curves, self.version = list(extra["curves"]), int(extra["version"])
            self.flops = float(extra["flops"])
            self.turns.restore(extra["turns"])
        return iteration


def parts_alike(samples: Sequence[Sample]) -> Iterator[list[Sample]]:
    """The samples in parts of at most `FORWARD_BATCH`, of like length each."""
    ordered = sorted(samples, key=lambda sample: len(sample.packed))
    return (ordered[start : start + FORWARD_BATCH] for start in range(0, len(ordered), FORWARD_BATCH))


def train_rl(
    params: Params,
    start: Path,
    tasks: Sequence[Task],
    harness: HarnessSpec,
    factory: DesktopFactory,
    out: Path,
    ctx: StepContext,
) -> dict[str, float]:
    """Run the stage over `ctx.workers` ranks and write its checkpoint directory."""
    identity = {
        "params_digest": digest_value(
            [
                params.rl.model_dump(mode="json"),
                params.context.model_dump(mode="json"),
                params.model.model_dump(mode="json"),
            ]
        ),
        "data_digest": digest_value([digest_tree(start), sorted(t.task_id for t in tasks), harness.digest]),
        "seed": ctx.seed,
        "ranks": ctx.workers,
    }

    def work(ranks: Ranks) -> dict[str, float]:
        return RlLoop(params, start, tasks, harness, factory, out, ctx, ranks, identity).run()

    result: dict[str, float] = run_ranks(work, ctx.workers)
    return result
