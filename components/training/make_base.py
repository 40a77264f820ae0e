"""Makes the aligned base checkpoint: `python -m components.training.make_base OUT`.

Outside the recipe, as the recipe starts from an aligned Mage-VL checkpoint (paper.md 1.1). All tricks of training a
tiny vision-language model from nothing live here and nowhere else:

- alignment loss: the visual token under a widget must match the tied embeddings of its label words (first half of the
  dimensions), of its x coordinate (third quarter) and of its y coordinate (last quarter);
- search attention: layer 1, head 0 must look from the position that predicts a coordinate (or a read label) at the
  widget's visual token;
- copy attention: layer 1, head 1 must look from the position that predicts a copied token at its source token;
- order (from the third phase): the embedding of a number n up to 100 must match that of the x coordinate 10 n (third
  quarter), so that numbers that a stage never met lie between those it met, as in a pretrained model.

Only layout-free screens are shown, never an application window. The stages of the recipe use the plain
language-model and policy-gradient losses (source of the design: measured, see README of this folder).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contracts.desktop import Box
from components.contracts.rng import stream
from components.forge.words import ALL_WORDS
from components.harness.spec import prompt_blocks
from components.sandbox.minidesk.draw import HANDLE, HEIGHT, WIDTH
from components.sandbox.minidesk.synth import SynthWords, synth_screen
from components.training import base_data, base_drills
from components.training.base_items import GLUE, QUESTIONS, Builder, Item, base_words
from components.training.model import Policy, init_tiny, tiny_config
from components.training.optimizer import make_optimizer
from components.training.parallel import Ranks, run_ranks, sum_gradients
from components.training.schedule import cosine
from components.training.sequences import collate
from components.training.tokenizer import IMAGE_PAD, VIDEO_PAD, VISION_END, VISION_START, build_tokenizer

if TYPE_CHECKING:
    import torch

ALIGN, SEARCH, COPY, ORDER = 1.0, 0.5, 0.5, 0.5
"""Weights of the auxiliary losses."""
BATCH = 8
WEIGHT_DECAY, WARMUP = 0.05, 100
TASK_FIRST = 0.2
"""Share of the later steps in which the question stands before the screenshot, as a task does in the agent's prompt."""

Triple = tuple[int, int, int]


def make_tokenizer() -> Any:
    numbers = {str(n) for n in (*range(0, 100), *range(0, 1001, base_data.COORD_STEP))}
    return build_tokenizer([*ALL_WORDS, *base_data.BASE_WORDS, *numbers], prompt_blocks("normalized_1000"), 2048)


def fresh_policy(seed: int) -> Policy:
    tokenizer = make_tokenizer()
    of = tokenizer.convert_tokens_to_ids
    ids = {
        "pad": tokenizer.pad_token_id, "eos": tokenizer.eos_token_id, "image": of(IMAGE_PAD), "video": of(VIDEO_PAD),
        "vision_start": of(VISION_START), "vision_end": of(VISION_END),
    }  # fmt: skip
    return Policy(init_tiny(tiny_config(len(tokenizer), ids), seed), tokenizer)


@dataclass(frozen=True)
class Phase:
    """One warm-up-and-cosine run. `mix`: shares of locate, read, state and copy. `plain`: the share of the phase with
    plain answers only; varied phrasing then grows in over as many steps (0 = varied from the start). `drills`: share of
    questions that are `base_drills`, of all kinds where `more`."""

    steps: int
    lr: float
    plain: float
    mix: tuple[float, float, float, float]
    drills: float = 0.0
    more: bool = False


PHASES = (
    Phase(4500, 1.5e-3, 0.3, (0.40, 0.15, 0.15, 0.30)),
    Phase(3000, 1.2e-3, 0.0, (0.28, 0.27, 0.15, 0.30)),
    Phase(2000, 1.2e-3, 0.0, (0.40, 0.20, 0.10, 0.30), drills=0.35),
    Phase(2000, 1.2e-3, 0.0, (0.35, 0.20, 0.10, 0.35), drills=0.5, more=True),
)
"""Search and copying first; then a second cosine in which reading, the last skill to appear, gets its share; then where
numbers lie; then which files are shown."""


def step_items(builder: Builder, seed: int, number: int, step: int, phase: Phase, words: SynthWords) -> list[Item]:
    """The batch of a step: a pure function of (seed, phase number, step)."""
    rng = stream(seed, "base", f"{number}/{step}")
    share = step / phase.steps
    variety = min(1.0, max(0.0, (share - phase.plain) / phase.plain)) if phase.plain else 1.0
    task_first = share >= phase.plain and rng.random() < TASK_FIRST
    out = []
    for _ in range(BATCH * 2 if task_first else BATCH):
        count = 1 if task_first else QUESTIONS
        screen = synth_screen(rng, words, track=phase.drills > 0, files=rng.randint(0, 5) if phase.more else 0)
        if phase.drills:
            asked = base_drills.mixed(rng, screen, words, GLUE, count, phase.drills, phase.mix, more=phase.more)
        else:
            asked = base_data.questions(rng, screen, words, GLUE, count, phase.mix, variety)
        out.append(builder.item(screen, asked, task_first))
    return out


class Watch:
    """Keeps what goes into decoder layer 1, to recompute its attention scores."""

    def __init__(self, policy: Policy) -> None:
        self.layer = policy.model.model.language_model.layers[1]
        self.inputs: tuple[Any, Any] | None = None
        self.layer.register_forward_pre_hook(self._keep, with_kwargs=True)

    def _keep(self, module: Any, args: Any, kwargs: Any) -> None:
        hidden = args[0] if args else kwargs["hidden_states"]
        self.inputs = (hidden, kwargs["position_embeddings"])

    def loss(self, head: int, links: Sequence[Triple], mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean cross-entropy of the attention rows of `links` = (batch, query, key), and the share that is right."""
        import torch
        import torch.nn.functional as F
        from transformers.models.qwen3_vl.modeling_qwen3_vl import apply_rotary_pos_emb

        assert self.inputs is not None
        hidden, (cos, sin) = self.inputs
        attention = self.layer.self_attn
        normed = self.layer.input_layernorm(hidden)
        shape = (*normed.shape[:-1], -1, attention.head_dim)
        q = attention.q_norm(attention.q_proj(normed).view(shape)).transpose(1, 2)
        k = attention.k_norm(attention.k_proj(normed).view(shape)).transpose(1, 2)
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        b, query, key = (torch.tensor(column) for column in zip(*links, strict=True))
        scores = torch.einsum("nd,nld->nl", q[b, head, query], k[b, head]) * attention.scaling
        scores = scores.masked_fill(~mask[b, 0, query], float("-inf"))
        return F.cross_entropy(scores, key), (scores.argmax(-1) == key).float().mean()


def alignment_loss(policy: Policy, features: torch.Tensor, builder: Builder, items: Sequence[Item]) -> torch.Tensor:
    """Visual tokens against tied embeddings: label words and states in the first half, x and y in the last quarters."""
    import torch
    import torch.nn.functional as F

    embed = policy.model.model.language_model.embed_tokens.weight
    d = embed.shape[1]
    per_image = builder.size[0] * builder.size[1]
    groups: dict[tuple[int, int], tuple[list[int], list[int], list[float]]] = {
        span: ([], [], []) for span in ((0, d // 2), (d // 2, 3 * d // 4), (3 * d // 4, d))
    }
    spans = list(groups)

    def add(span: int, token: int, targets: Sequence[int], weight: float = 1.0) -> None:
        rows, columns, weights = groups[spans[span]]
        for target in targets:
            rows.append(token)
            columns.append(target)
            weights.append(weight / len(targets))

    encode = builder.encoder.text
    for index, item in enumerate(items):
        for element in (*item.screen.elements, *item.screen.handles):
            token = index * per_image + builder.visual(0, element.center)
            x, y = base_data.grid_point(element.box)
            if element.kind == "head":
                letter = element.label.isalpha()
                add(0, token, encode(element.label) if letter else encode(f"a{element.label}")[1:])
                add(1 if letter else 2, token, encode(str(x if letter else y)))
                continue
            if element.kind not in ("cell", "close"):
                add(0, token, encode(element.label))
                # The same label may stand on a button and on a checkbox.
                add(0, token, encode(element.kind), 0.5)
                for point in base_data.label_anchors(element, builder.unit):
                    place = index * per_image + builder.visual(0, point)
                    if place != token:
                        add(0, place, encode(element.label))
            add(1, token, encode(str(x)))
            add(2, token, encode(str(y)))
            shown = element.state if element.kind in ("checkbox", "field", "cell") and element.state else ""
            if shown:
                place = index * per_image + builder.visual(0, base_data.state_anchor(element))
                add(0, place, encode(shown))
        for track in item.screen.tracks:
            x0, y0, _, y1 = track.box
            x, y = base_data.grid_point((x0, y0, x0 + HANDLE, y1))
            token = index * per_image + builder.visual(0, (x0, track.center[1]))
            add(1, token, encode(str(x)))
            add(2, token, encode(str(y)))
    total = features.new_zeros(())
    for importance, ((a, b), (rows, columns, weights)) in zip((2.0, 0.5, 0.5), groups.items(), strict=True):
        if not rows:
            continue
        visual = F.normalize(features[torch.tensor(rows)][:, a:b], dim=-1)
        words = F.normalize(embed[:, a:b], dim=-1)
        loss = F.cross_entropy(10.0 * visual @ words.T, torch.tensor(columns), reduction="none")
        w = torch.tensor(weights)
        total = total + importance * (loss * w).sum() / w.sum()
    return total


def order_loss(policy: Policy) -> torch.Tensor:
    """Numbers against coordinates: n between the two multiples of the step that 10 n lies between."""
    import torch
    import torch.nn.functional as F

    embed = policy.model.model.language_model.embed_tokens.weight
    d = embed.shape[1]
    coordinates = list(_coordinate_ids(policy))
    numbers = [n for n in range(101) if n % base_data.COORD_STEP]
    ids: Any = policy.tokenizer.convert_tokens_to_ids([str(n) for n in numbers])
    wanted = torch.zeros(len(numbers), len(coordinates))
    for row, n in enumerate(numbers):
        low, rest = divmod(10 * n, base_data.COORD_STEP)
        wanted[row, low] = 1 - rest / base_data.COORD_STEP
        wanted[row, low + 1] = rest / base_data.COORD_STEP
    own, others = (F.normalize(embed[rows, d // 2 : 3 * d // 4], dim=-1) for rows in (ids, coordinates))
    return F.cross_entropy(10.0 * own @ others.T, wanted)


def losses(
    policy: Policy, watch: Watch | None, builder: Builder, items: Sequence[Item], order: bool = False
) -> tuple[torch.Tensor, dict[str, float]]:
    import torch.nn.functional as F

    batch = collate(policy, [item.packed for item in items])
    assert batch.patches is not None
    features = policy.image_features(batch.patches, batch.sizes)
    hidden = policy.hidden(batch.ids, batch.positions, batch.mask, features)
    lm = F.cross_entropy(policy.logits(hidden[batch.rows, batch.columns]), batch.targets)
    figures = {"lm": float(lm.detach())}
    total = lm
    if watch is not None:
        align = alignment_loss(policy, features, builder, items)
        total = total + ALIGN * align
        figures["align"] = float(align.detach())
        if order:
            total = total + ORDER * order_loss(policy)
        for name, head, weight, links in (("search", 0, SEARCH, "search"), ("copy", 1, COPY, "copied")):
            triples = [(b, q, k) for b, item in enumerate(items) for q, k in getattr(item, links)]
            if triples:
                loss, right = watch.loss(head, triples, batch.mask)
                total = total + weight * loss
                figures[name] = float(right)
    return total, figures


def score(policy: Policy, builder: Builder, seed: int, screens: int, words: SynthWords) -> dict[str, float]:
    """Right answers by kind of question on screens of their own stream, teacher forced.

    Exact (every judged token the most likely one), but for `locate`: its point, the most likely coordinates, has to
    fall on the widget.
    """
    import torch

    coordinates = _coordinate_ids(policy)
    right: dict[str, list[float]] = {}
    with torch.no_grad():
        for k in range(screens // BATCH):
            rng = stream(seed, "base-test", k)
            items = []
            for _ in range(BATCH):
                screen = synth_screen(rng, words, track=True, files=rng.randint(0, 5))
                asked = base_drills.mixed(rng, screen, words, GLUE, QUESTIONS, 0.4, base_data.MIX, more=True)
                items.append(builder.item(screen, asked, False))
            batch = collate(policy, [item.packed for item in items])
            assert batch.patches is not None
            features = policy.image_features(batch.patches, batch.sizes)
            logits = policy.logits(policy.hidden(batch.ids, batch.positions, batch.mask, features))
            for row, answer in ((row, answer) for row, item in enumerate(items) for answer in item.answers):
                columns = [c - 1 for c in answer.columns]
                if answer.box is None:
                    best = logits[row, columns].argmax(-1)
                    good = bool((best == batch.ids[row, list(answer.columns)]).all())
                else:
                    # The last judged columns are x, the comma, y and the end.
                    picks = logits[row, [columns[-4], columns[-2]]][:, list(coordinates)].argmax(-1).tolist()
                    good = _inside(answer.box, *(list(coordinates.values())[i] for i in picks))
                right.setdefault(answer.kind, []).append(float(good))
    return {kind: sum(v) / len(v) for kind, v in sorted(right.items())}


def _coordinate_ids(policy: Policy) -> dict[int, int]:
    """Token id -> value on the grid."""
    values = range(0, 1001, base_data.COORD_STEP)
    ids: Any = policy.tokenizer.convert_tokens_to_ids([str(value) for value in values])
    return dict(zip(ids, values, strict=True))


def _inside(box: Box, x: int, y: int) -> bool:
    px, py = (min(size - 1, int(v * size / 1000 + 0.5)) for v, size in ((x, WIDTH), (y, HEIGHT)))
    return box[0] <= px < box[2] and box[1] <= py < box[3]


def train(out: Path, seed: int, first: int, ranks_count: int, every: int) -> dict[str, float]:
    """Run the phases from number `first` on, score and save. A later phase starts from the checkpoint in `out`.

    The checkpoint is rewritten every `every` steps, so an early one can be looked at.
    """

    def work(ranks: Ranks) -> dict[str, float]:
        policy = fresh_policy(seed) if first == 0 else Policy.load(out)
        builder, watch = Builder(policy), Watch(policy)
        scores: dict[str, float] = {}
        for number in range(first, len(PHASES)):
            scores = _run_phase(policy, builder, watch, ranks, seed, number, out, every)
        return scores

    result: dict[str, float] = run_ranks(work, ranks_count)
    return result


def _run_phase(
    policy: Policy, builder: Builder, watch: Watch, ranks: Ranks, seed: int, number: int, out: Path, every: int
) -> dict[str, float]:
    import torch

    phase, words = PHASES[number], base_words()
    optimizer = make_optimizer(policy, phase.lr, WEIGHT_DECAY)
    started, scores = time.process_time(), {}
    for step in range(phase.steps):
        for group in optimizer.param_groups:
            group["lr"] = cosine(step, phase.steps, phase.lr, WARMUP)
        items = ranks.share(step_items(builder, seed, number, step, phase, words))
        optimizer.zero_grad()
        loss, figures = losses(policy, watch, builder, items, order=phase.drills > 0)
        loss.backward()
        sum_gradients(ranks, policy.model.parameters(), 1.0)
        torch.nn.utils.clip_grad_norm_(policy.model.parameters(), 1.0)
        optimizer.step()
        if ranks.rank != 0:
            continue
        last = step + 1 == phase.steps
        if step % 50 == 0:
            shown = " ".join(f"{k}={v:.3f}" for k, v in figures.items())
            used = time.process_time() - started
            print(f"phase {number} step {step}/{phase.steps} {used:.0f} cpu-s {shown}", flush=True)
        if (step + 1) % every == 0 or last:
            scores = score(policy, builder, seed, 256 if last else 48, words)
            shown = " ".join(f"{k}={v:.3f}" for k, v in scores.items())
            print(f"phase {number} step {step + 1}: {shown}", flush=True)
            policy.save(out)
            record = {
                "phase": number,
                "step": step + 1,
                "scores": scores,
                "parameters": policy.parameters(),
                "seed": seed,
            }
            (out / "base.json").write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first-phase", type=int, default=0, help="go on with this phase from the checkpoint in OUT")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--every", type=int, default=500)
    args = parser.parse_args()
    print(train(args.out, args.seed, args.first_phase, args.ranks, args.every))


if __name__ == "__main__":
    main()
