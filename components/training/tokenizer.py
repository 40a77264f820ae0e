"""The tiny policy's own tokenizer: word level with lossless fall-backs, as a stock `tokenizers` pipeline.

A word-level vocabulary keeps a response near 20 tokens, so that a model of under a million parameters can learn
it. The wire format stays plain text: JSON scaffolding such as `, "coordinate": [` is one token, a known word is one
token, and everything else over printable ASCII falls back to pieces down to single characters, so
`decode(encode(text)) == text`.

How: the normaliser maps each scaffold string to one private-use character and marks unusual spaces with one more;
single spaces between two word characters are implied by neighbouring word tokens. The model is WordPiece (greedy
longest match, `##` for continuations). The decoder undoes exactly that. Nothing here needs custom code at load time:
the result is a plain `tokenizer.json`.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SPECIALS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<unk>",
)
PAD, IM_START, IM_END, VISION_START, VISION_END, IMAGE_PAD, VIDEO_PAD, UNK = SPECIALS

_PUA = 0xE000
_SPACE = "\uf8ff"
_WORD = "[A-Za-z0-9]"

ROLE_LINES = ("system\n", "user\n", "assistant\n")
CALL_OPEN = '\n<tool_call>\n{"name": "'
_GUI_ACTIONS = (
    "key", "type", "mouse_move", "left_click", "left_click_drag", "right_click", "middle_click",
    "double_click", "scroll", "wait", "terminate",
)  # fmt: skip


def wire_scaffolds() -> list[str]:
    """The fixed strings of the response format, longest forms included, in no particular order."""
    calls = [f'{CALL_OPEN}computer_use", "arguments": {{"action": "{action}"' for action in _GUI_ACTIONS]
    accessibility = [f'{CALL_OPEN}accessibility", "arguments": {{"action": "{action}"' for action in ("tree", "click")]
    return [
        *calls, *accessibility,
        f'{CALL_OPEN}bash", "arguments": {{"command": "',
        "<think>", "</think>", "</think>\nAction: ", "\nAction: ", "Action: ",
        ', "coordinate": [', ', "start_coordinate": [', "]}}\n</tool_call>", "}}\n</tool_call>", '"}}\n</tool_call>',
        ', "text": "', ', "keys": ["', '"]}}\n</tool_call>', '", "', ', "pixels": ', ', "time": ', ', "status": "',
        ', "element": ', ', "timeout": ', ', "restart": ',
        "<tool_call>", "</tool_call>", "<tool_response>\n", "\n</tool_response>\n", "\n</tool_response>",
        "<tool_response>", "</tool_response>",
        *ROLE_LINES,
        ", ", ". ", ": ", "\n", "\n\n", '\\"', "\\n", " > ", " >> ", " < ", " | ", " *.", "*.",
        " -", " -c ", " -n ", " -w ", " -l ",
        ".txt", ".log", ".csv", ".md", ".xlsx", "_", "/",
    ]  # fmt: skip


def build_tokenizer(
    words: Iterable[str], blocks: Sequence[str] = (), model_max_length: int = 1024
) -> PreTrainedTokenizerFast:
    """A tokenizer over `words` (letters and digits only), the wire scaffolds and `blocks` (long fixed prompt texts).

    Vocabulary order is fixed by sorting, so equal inputs give equal ids.
    """
    from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers
    from tokenizers.models import WordPiece
    from transformers import PreTrainedTokenizerFast

    words = sorted(set(words))
    bad = [w for w in words if not w or not all(c in string.ascii_letters + string.digits for c in w)]
    if bad:
        raise ValueError(f"words may hold only ASCII letters and digits: {bad[:5]}")
    punctuation = [c for c in string.punctuation + "\n\t"]
    scaffolds = sorted({*blocks, *wire_scaffolds(), *punctuation}, key=lambda s: (-len(s), s))
    marks = {text: chr(_PUA + i) for i, text in enumerate(scaffolds)}
    letters = string.ascii_letters + string.digits
    ordered = sorted(scaffolds, key=lambda s: s not in ROLE_LINES)
    vocab: dict[str, int] = {}
    for token in (*SPECIALS, *marks.values(), _SPACE, *words, *letters, *(f"##{c}" for c in letters)):
        vocab.setdefault(token, len(vocab))

    pua = f"[\ue000-{_SPACE}]"
    tokenizer = Tokenizer(
        WordPiece(vocab, unk_token=UNK, max_input_chars_per_word=10_000, continuing_subword_prefix="##")
    )
    tokenizer.normalizer = normalizers.Sequence(
        [
            # The line of a role first: a whole chat text then cuts after it, where the token-level renderer cuts too.
            *(normalizers.Replace(text, marks[text]) for text in ordered),
            # Any space that the decoder would not put there by itself is kept as a token of its own.
            normalizers.Replace(Regex(f"(?<!{_WORD}) | (?!{_WORD})"), _SPACE),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(" ", "removed"), pre_tokenizers.Split(Regex(pua), "isolated")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.WordPiece("##", cleanup=False),
            decoders.Fuse(),
            decoders.Replace(Regex(f"(?<={pua}) | (?={pua})"), ""),
            decoders.Replace(Regex(r"(?<=\|>) | (?=<\|)"), ""),
            decoders.Replace(_SPACE, " "),
            *(decoders.Replace(mark, text) for text, mark in marks.items()),
        ]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=IM_END,
        unk_token=UNK,
        additional_special_tokens=[IM_START, VISION_START, VISION_END, IMAGE_PAD, VIDEO_PAD],
        model_max_length=model_max_length,
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
    "{% if p.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ p.text }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""Qwen's chat layout: the same text a serving engine renders and `rollout.render` tokenises."""
