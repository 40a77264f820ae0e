from __future__ import annotations

import json
import string
from pathlib import Path

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from components.contracts.arguments import arguments_of
from components.contracts.calls import BashCall, ComputerUse
from components.contracts.coords import ScreenSpace
from components.contracts.folding import to_chat
from components.contracts.response import render_response
from components.forge.words import ALL_WORDS
from components.training.engine import render_ids
from components.training.sequences import Encoder
from components.training.tokenizer import build_tokenizer, wire_scaffolds
from tests.unit.training.kit import prompt, small_policy, tokenizer

ASCII = "".join(c for c in string.printable if c not in "\r\x0b\x0c")
PIECES = st.one_of(
    st.text(ASCII, max_size=12), st.sampled_from(sorted(ALL_WORDS)), st.sampled_from(wire_scaffolds()),
    st.sampled_from([" ", "  ", "25", "1000", "007", "Save", "a1", "-rf ", "$(ls)", "it's", "|>", "<|", '"}']),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=12).map("".join))
@example("a  b   c")
@example(" leading and trailing ")
@example("x |> y <| z")
@example("wordword1 2 3a 4 .txt . txt notes.txt\n\n\tend")
def test_text_over_printable_ascii_survives_the_vocabulary(text: str) -> None:
    words = tokenizer()
    ids = words(text, add_special_tokens=False).input_ids
    assert words.unk_token_id not in ids
    assert words.decode(ids) == text


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=30))
def test_any_text_at_all_becomes_known_ids(text: str) -> None:
    words = tokenizer()
    ids = words(text, add_special_tokens=False).input_ids
    assert all(0 <= i < len(words) for i in ids)
    assert isinstance(words.decode(ids), str)


def test_a_click_takes_at_most_24_tokens() -> None:
    space = ScreenSpace("normalized_1000", (288, 224), step=25)
    words = tokenizer()
    longest = 0
    for x in range(0, 288, 37):
        for y in range(0, 224, 31):
            call = ComputerUse(action="left_click", coordinate=(x, y))
            text = render_response(
                "save is the button", "click the save button", "computer_use", arguments_of(call, space)
            )
            longest = max(longest, len(words(text, add_special_tokens=False).input_ids) + 1)
    assert longest <= 24


def test_a_quoted_command_fits_the_token_limit_of_the_tiny_profile() -> None:
    space = ScreenSpace("normalized_1000", (288, 224), step=25)
    command = 'echo "tax 25" > notes/total.txt && cat notes/total.txt && rm *.log'
    text = render_response(
        "the task is to write it so the terminal is cheaper", f"run {command}", "bash",
        arguments_of(BashCall(command=command), space),
    )  # fmt: skip
    ids = tokenizer()(text, add_special_tokens=False).input_ids
    assert len(ids) + 1 <= 96 and tokenizer().decode(ids) == text


def test_equal_words_give_equal_files_whatever_their_order(tmp_path: Path) -> None:
    words = ["save", "open", "report", "tax", "25"]
    build_tokenizer(words).save_pretrained(tmp_path / "a")
    build_tokenizer([*reversed(words), "tax"]).save_pretrained(tmp_path / "b")
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_stock_loader_reads_it_without_custom_code(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    ours = tokenizer()
    ours.save_pretrained(tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path, local_files_only=True, trust_remote_code=False)
    text = "<think>x</think>\nAction: click the  save button 25, 1000\n"
    assert theirs(text).input_ids == ours(text).input_ids
    assert theirs.decode(theirs(text).input_ids) == text
    assert theirs.chat_template == ours.chat_template
    assert (theirs.pad_token, theirs.eos_token) == (ours.pad_token, ours.eos_token)


def test_chat_template_and_token_renderer_are_twins() -> None:
    """A serving engine renders the template; rollouts render ids. One image pad in the text is a picture's tokens."""
    policy = small_policy()
    encoder = Encoder(policy)
    for past in range(7):
        messages = prompt(past)
        ids, screens = render_ids(encoder, messages)
        text = policy.tokenizer.apply_chat_template(to_chat(messages), tokenize=False, add_generation_prompt=True)
        template = policy.tokenizer(text, add_special_tokens=False).input_ids
        expanded: list[int] = []
        pictures = iter(screens)
        for i in template:
            if i == policy.image_id:
                rows, columns = policy.grid.tokens(*next(pictures).shape[:2])
                expanded += [i] * (rows * columns)
            else:
                expanded.append(i)
        assert next(pictures, None) is None and len(screens) == min(3, past + 1)
        assert np.array_equal(expanded, ids)


def test_the_stored_base_was_made_with_the_words_and_prompts_of_this_code(tmp_path: Path) -> None:
    """A new word, prompt or tool changes ids: the base has to be made again (`make_base`), or it reads nonsense."""
    base = Path(__file__).parents[3] / "components/training/base"
    tokenizer().save_pretrained(tmp_path)
    for name in ("tokenizer.json", "chat_template.jinja"):
        assert (base / name).read_bytes() == (tmp_path / name).read_bytes(), name
    config = json.loads((base / "config.json").read_text())
    assert config["text_config"]["vocab_size"] == len(tokenizer())
    assert config["image_token_id"] == tokenizer().convert_tokens_to_ids("<|image_pad|>")
