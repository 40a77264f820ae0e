"""Every word the tiny world speaks: the bank (file stems and typed content, one split each), labels, templates.

The tiny tokenizer is word-level over `ALL_WORDS`, so an instruction, an action line or a rationale may use nothing
else beside numbers, `EXTENSIONS`, `LETTERS` (column and key names) and `PUNCTUATION`. A test holds that. What an agent
has to copy (a file stem, a typed word, a number) belongs to one split only; labels and grammar belong to all.
"""

from __future__ import annotations

from components.contracts.task import Split

BANK: dict[str, tuple[str, ...]] = {
    "train": tuple(
        "tax plan memo trip bill lunch photo music draft story garden winter paper rent party guest stock quote letter "
        "diary essay chart graph video movie novel poem song river apple lemon mango bread honey coffee horse tiger "
        "lamp clock silver".split()
    ),
    "dev": tuple("budget summer peach eagle radio piano tower ticket".split()),
    "heldout": tuple(
        "report recipe lake grape melon onion sugar zebra wolf desk gold island rocket castle bridge camera".split()
    ),
}
"""Lower-case words of 3-6 letters."""

EXTENSIONS = (".txt", ".log", ".csv", ".md", ".xlsx")
LETTERS = tuple("abcdefghijklmnopqrstuvwxyz")
PUNCTUATION = tuple(".,:;*/<>|-+=_'\"()?!&~")

APPS = ("files", "sheet", "notes", "prefs", "forms")
CHECKS = ("wifi", "sound", "alarm", "sync", "lock", "dark")
"""Checkboxes of Prefs."""
MENUS: dict[str, tuple[str, ...]] = {
    "theme": ("light", "night", "blue", "green"),
    "lang": ("english", "french", "german", "spanish"),
}
"""Drop-downs of Prefs and their options."""
FORM_NAMES = ("order", "contact", "survey")
FORM_TEXTS = ("name", "city", "team", "code")
FORM_CHOICES: dict[str, tuple[str, ...]] = {"level": ("low", "mid", "high"), "color": ("red", "green", "blue")}
FORM_CHECKS = ("urgent", "paid", "public")
HEADERS = ("item", "qty", "cost", "rank")
"""First row of a sheet."""

UI_WORDS: tuple[str, ...] = (
    *APPS,
    *"new up save copy clear sort sum open rename delete ok cancel yes no send reset sent error close".split(),
    *CHECKS, "volume", *MENUS, *(o for options in MENUS.values() for o in options),
    *FORM_NAMES, *FORM_TEXTS, *FORM_CHOICES, *(o for options in FORM_CHOICES.values() for o in options),
    *FORM_CHECKS, *HEADERS,
)  # fmt: skip

KIND_WORDS = tuple("icon button checkbox field row cell menu item slider handle title text window dialog list".split())

COMMAND_WORDS = tuple("bash run mv rm cp cat ls echo wc grep mkdir head tail sheet set get".split())
KEY_WORDS = tuple("ctrl shift alt enter esc tab delete backspace home end up down left right".split())

ACTION_WORDS = tuple(
    "click double press type drag scroll move wait finish check look point use the a an to at in on of with for from "
    "and pointer down up left right middle".split()
)

INSTRUCTION_WORDS = tuple(
    "please can you now i want your task is to turn switch off make sure that set move change choose pick select as "
    "value it its this fill put write add enter send tick then paste clipboard into save file called named new give "
    "remove get rid all every files ending create folder inside note saying content line word words number count how "
    "many sort order by column total under below cell read which first last two both join lines together one after "
    "another store result contain replace empty take out store rows document so folders be should like help me "
    "need has have there form same".split()
)

RATIONALE_WORDS = tuple(
    "i the is are was not yet next now need needs must should see shown here still so because since before after "
    "done ready finished already right wrong nothing something changed open opened closed again back try only more "
    "less quick easy step steps goal screen terminal shell command output says "
    "value wanted want first then last both it its that this there has have will let me works failed "
    "missing correct current state mistake fix left go".split()
)


def _distinct(*groups: tuple[str, ...]) -> tuple[str, ...]:
    """Words in order of first appearance."""
    return tuple(dict.fromkeys(word for group in groups for word in group))


ALL_WORDS = _distinct(
    *BANK.values(), UI_WORDS, KIND_WORDS, COMMAND_WORDS, KEY_WORDS, ACTION_WORDS, INSTRUCTION_WORDS, RATIONALE_WORDS
)
"""Bank, labels and every word of a template."""

_SPLIT_OF_RESIDUE: tuple[str, ...] = ("train",) * 5 + ("dev",) + ("heldout",) * 2
_BANK_SPLIT: dict[str, str] = {"heldout_skills": "heldout"}


def bank_split(split: Split) -> str:
    """The partition a task's words come from: tasks of `heldout_skills` use the held-out words."""
    return _BANK_SPLIT.get(split, split)


def words_of(split: Split) -> tuple[str, ...]:
    return BANK[bank_split(split)]


def number_split(number: int) -> str:
    """Split a two-digit number belongs to: by its remainder modulo 8, so that multiples of 5 fall in every split."""
    return _SPLIT_OF_RESIDUE[number % 8]


def numbers_of(split: Split, low: int = 10, high: int = 99) -> tuple[int, ...]:
    """Numbers from `low` to `high` (both included) of a split."""
    return tuple(n for n in range(low, high + 1) if number_split(n) == bank_split(split))
