from __future__ import annotations

import numpy as np
import torch

from components.contracts.schemas import THINK_CLOSE, THINK_OPEN
from components.training.corpus import click_prefix, click_question, response_weights, step_sequence
from components.training.engine import render_ids
from components.training.sequences import Encoder, Packed, collate, pack, packed_positions, token_losses
from tests.unit.training.kit import prompt, response, screen, small_policy


def _branches(encoder: Encoder, count: int) -> list[tuple[list[int], list[float]]]:
    out = []
    for i in range(count):
        question = click_question(f"click the save button {i}", encoder)
        answer = [*encoder.text(response(i)), encoder.close()[0]]
        out.append(([*question, *answer], [0.0] * len(question) + [1.0 + i] * len(answer)))
    return out


def _loss(policy: object, items: list[Packed]) -> tuple[float, float]:
    batch = collate(policy, items)  # type: ignore[arg-type]
    with torch.no_grad():
        losses = token_losses(policy, batch)  # type: ignore[arg-type]
    return float((losses * batch.weights).sum()), float(batch.weights.sum())


def test_loss_of_a_pack_behind_one_picture_is_the_loss_of_its_parts() -> None:
    policy = small_policy(layers=2)
    encoder = Encoder(policy)
    shot = screen(3)
    prefix = click_prefix("You point.", shot, encoder)
    branches = _branches(encoder, 4)
    together, weight = _loss(policy, [pack(prefix, branches, [shot])])
    parts = [_loss(policy, [pack(prefix, [branch], [shot])]) for branch in branches]
    assert np.isclose(together, sum(loss for loss, _ in parts), rtol=1e-5)
    assert weight == sum(w for _, w in parts) > 0


def test_the_first_token_of_a_branch_is_predicted_by_the_prefix() -> None:
    """Supervised from its first token on, a branch costs the same behind any other as alone."""
    policy = small_policy(layers=2)
    encoder = Encoder(policy)
    shot = screen(3)
    prefix = click_prefix("You point.", shot, encoder)
    branches = [(ids, [1.0] * len(ids)) for ids, _ in _branches(encoder, 3)]
    together, weight = _loss(policy, [pack(prefix, branches, [shot])])
    parts = [_loss(policy, [pack(prefix, [branch], [shot])])[0] for branch in branches]
    assert np.isclose(together, sum(parts), rtol=1e-5) and weight == sum(len(ids) for ids, _ in branches)


def test_a_branch_alone_is_the_plain_sequence_an_agent_reads() -> None:
    """Packed positions and masks of one question are those of the unpacked conversation."""
    policy = small_policy(layers=2)
    encoder = Encoder(policy)
    shot = screen(4)
    prefix = click_prefix("You point.", shot, encoder)
    ((ids, weights),) = _branches(encoder, 1)
    answer = sum(w > 0 for w in weights)
    plain = step_sequence([*prefix, *ids[:-answer]], [shot], ids[-answer:], weights[-answer:])
    packed = pack(prefix, [(ids, weights)], [shot])
    size = [policy.grid.tokens(*shot.shape[:2])]
    assert np.array_equal(
        packed_positions(packed, policy.image_id, size), packed_positions(plain, policy.image_id, size)
    )
    assert np.isclose(_loss(policy, [packed])[0], _loss(policy, [plain])[0], rtol=1e-5)


def test_loss_of_a_padded_batch_is_the_loss_of_its_rows() -> None:
    policy = small_policy(layers=2)
    encoder = Encoder(policy)
    items = []
    for past in (0, 3, 1):
        ids, screens = render_ids(encoder, prompt(past, past))
        answer = [*encoder.text(response(past)), encoder.close()[0]]
        items.append(step_sequence(ids, screens, answer, [1.0] * len(answer)))
    items.append(pack(click_prefix("You point.", screen(8), encoder), _branches(encoder, 3), [screen(8)]))
    together, weight = _loss(policy, items)
    alone = [_loss(policy, [item]) for item in items]
    assert np.isclose(together, sum(loss for loss, _ in alone), rtol=1e-5)
    assert weight == sum(w for _, w in alone)


def test_a_picture_of_its_own_reaches_each_row() -> None:
    """Swapping the screenshots of two rows must change the losses: pictures are not mixed up or ignored."""
    policy = small_policy(layers=2)
    encoder = Encoder(policy)
    a, b = screen(1), screen(2)
    branch = _branches(encoder, 1)
    prefix = click_prefix("You point.", a, encoder)
    losses = {name: _loss(policy, [pack(prefix, branch, [shot])])[0] for name, shot in (("a", a), ("b", b))}
    both = _loss(policy, [pack(prefix, branch, [a]), pack(prefix, branch, [b])])[0]
    assert abs(losses["a"] - losses["b"]) > 1e-3
    assert np.isclose(both, losses["a"] + losses["b"], rtol=1e-5)


def test_the_rationale_is_masked_and_everything_else_is_trained() -> None:
    encoder = Encoder(small_policy())
    for text in (response(2), "<think></think>\nAction: finish\n<tool_call>\n{}\n</tool_call>"):
        ids = [*encoder.text(text), encoder.close()[0]]
        weights = response_weights(text, ids, encoder, mask_think=True, weight=0.5)
        inside = text[len(THINK_OPEN) : text.index(THINK_CLOSE)]
        masked = [i for i, w in zip(ids, weights, strict=True) if w == 0.0]
        assert masked == encoder.text(inside)
        assert set(weights) <= {0.0, 0.5} and weights[0] == weights[-1] == 0.5
        assert response_weights(text, ids, encoder, mask_think=False, weight=0.5) == [0.5] * len(ids)


def test_a_masked_rationale_gives_its_own_words_no_gradient_signal() -> None:
    """The loss does not change with what a masked rationale predicts, only with what follows it."""
    policy = small_policy()
    encoder = Encoder(policy)
    ids, screens = render_ids(encoder, prompt(0))
    text = response()
    answer = [*encoder.text(text), encoder.close()[0]]
    weights = response_weights(text, answer, encoder, mask_think=True, weight=1.0)
    batch = collate(policy, [step_sequence(ids, screens, answer, weights)])
    supervised = set(batch.columns.numpy() + 1 - len(ids))
    assert supervised == {i for i, w in enumerate(weights) if w}
    assert batch.targets.tolist() == [i for i, w in zip(answer, weights, strict=True) if w]
