"""What the base is drilled in: the answers are right, and every link points at what the answer comes from."""

import random
import re

from components.contracts.coords import slider_place
from components.contracts.desktop import Element
from components.sandbox.minidesk.draw import HANDLE, HEIGHT, WIDTH
from components.sandbox.minidesk.prefs import Prefs
from components.sandbox.minidesk.synth import SynthWords, synth_screen
from components.training.base_data import MIX
from components.training.base_drills import by_ending, mixed, presence, slide

WORDS = SynthWords(("apple", "banana", "cedar", "date"), ("name", "city", "volume", "team"), (12, 37, 64))
GLUE = ("set", "please", "new", "now", "put", "the")


def test_a_number_on_a_slider_is_where_a_slider_drops_it() -> None:
    track = Element("slider", "volume", (40, 96, 40 + 192, 116))
    for number in range(0, 101, 5):
        x0, y0, x1, y1 = slider_place(track.box, HANDLE, number)
        for x in (x0, (x0 + x1 - 1) // 2, x1 - 1):
            assert _dropped(x - track.box[0]) == number
        assert (y0, y1) == (96, 116)


def _dropped(x: int) -> int:
    """The value that Prefs keeps when a handle is dropped `x` pixels right of the slider's begin."""
    kept: list[int] = []
    app = Prefs.__new__(Prefs)
    app._set = lambda _label, value: bool(kept.append(value)) or True  # type: ignore[method-assign,func-returns-value]
    app._slide("volume", x + 8)  # windows begin a margin of 8 px before their sliders
    return kept[0]


def test_slide_answers_fall_on_the_asked_place_of_a_slider_on_the_screen() -> None:
    rng = random.Random(1)
    for _ in range(60):
        screen = synth_screen(rng, WORDS, track=True)
        for track in screen.tracks:
            question = slide(rng, track)
            x, y = (int(n) for n in re.findall(r"(\d+), (\d+)$", question.answer)[0])
            assert question.box is not None
            left, top, right, bottom = question.box
            assert left <= round(x * WIDTH / 1000) < right and top <= round(y * HEIGHT / 1000) < bottom
            number = re.findall(r"\d+$", question.text)[0]
            sources = [link for link in question.links if link.source is not None]
            assert all(question.text[link.source :].startswith(number) for link in sources)
            assert {link.point for link in question.links if link.point} == {(track.box[0], track.center[1])}


def test_screens_have_a_slider_only_when_asked_and_drills_are_a_share() -> None:
    rng = random.Random(4)
    assert synth_screen(rng, WORDS).tracks == ()
    screen = next(s for s in (synth_screen(rng, WORDS, track=True) for _ in range(50)) if s.tracks)
    asked = [q for _ in range(60) for q in mixed(rng, screen, WORDS, GLUE, 8, 0.5, MIX, more=False)]
    assert len(asked) == 480
    assert 0.25 < sum(q.kind == "slide" for q in asked) / len(asked) < 0.5
    assert all(q.kind != "slide" for q in mixed(rng, screen, WORDS, GLUE, 40, 0.0, MIX, more=True))


def test_the_order_loss_puts_numbers_between_their_neighbours() -> None:
    import torch

    from components.training.make_base import order_loss
    from tests.unit.training.kit import small_policy

    policy = small_policy()
    embed = policy.model.model.language_model.embed_tokens.weight
    optimizer = torch.optim.Adam([embed], lr=0.05)
    for _ in range(60):
        optimizer.zero_grad()
        order_loss(policy).backward()
        optimizer.step()
    of = policy.tokenizer.convert_tokens_to_ids
    d = embed.shape[1]

    def likeness(one: int, other: int) -> float:
        a, b = (embed[of(str(n)), d // 2 : 3 * d // 4] for n in (one, other))
        return float(torch.cosine_similarity(a.detach(), b.detach(), dim=0))

    for number in (12, 37, 64, 88):
        near, far = likeness(number, number + 1), likeness(number, (number + 40) % 100 + 1)
        assert near > far + 0.3


def test_a_file_is_said_to_be_shown_when_it_is_and_only_then() -> None:
    rng = random.Random(5)
    said: list[bool] = []
    for _ in range(300):
        screen = synth_screen(rng, WORDS)
        question = presence(rng, screen, WORDS)
        if question is None:
            continue
        name, answer = question.answer.split(" is ")
        rows = {e.label: e for e in screen.elements if e.kind == "row"}
        assert name in question.text
        assert answer == ("shown" if name in rows else "not shown")
        assert [link.point for link in question.links if link.point] == [rows[n].center for n in rows if n == name]
        said.append(name in rows)
    assert 0.3 < sum(said) / len(said) < 0.8


def test_the_file_with_an_ending_is_the_first_on_the_screen_that_has_it() -> None:
    rng = random.Random(7)
    named = missing = 0
    for _ in range(300):
        screen = synth_screen(rng, WORDS, files=3)
        question = by_ending(rng, screen)
        if question is None:
            continue
        ending = re.findall(r"[.][a-z]+", question.text)[0]
        rows = [e for e in screen.elements if e.kind == "row" and e.label.endswith(ending)]
        answer = question.answer.removeprefix("now ")
        if not rows:
            assert answer == f"no {ending} is shown"
            missing += 1
            continue
        top = min(e.box[1] for e in rows)
        assert answer in {f"{e.label} is shown" for e in rows if e.box[1] == top}
        named += 1
    assert named > 100 and missing > 10


def test_all_drills_also_ask_for_the_handle_of_a_full_slider() -> None:
    rng = random.Random(6)
    screens = [s for s in (synth_screen(rng, WORDS, track=True) for _ in range(80)) if s.tracks]
    asked = [(s, q) for s in screens for q in mixed(rng, s, WORDS, GLUE, 8, 0.6, MIX, more=True)]
    handles = [(s, q) for s, q in asked if q.kind == "handle"]
    assert len(handles) > 20 and all(q.box == s.handles[0].box for s, q in handles)
    assert {"presence", "ending", "slide", "state"} <= {q.kind for _, q in asked}
