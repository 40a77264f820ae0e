"""Parts of scenes that many workflows share: noise files, sheets, preferences, forms, what is open at the start."""

from __future__ import annotations

from random import Random
from typing import Any

from components.contracts.task import SetupStep
from components.forge import words
from components.forge.workflows.base import Args, Bank, step

Scene = dict[str, Any]


LONG_SHARE, LONG_LIST = 0.15, (6, 8)
"""Share of scenes with more files than a window shows, and how many: what they need may have to be scrolled to."""


def text(rng: Random, bank: Bank, most: int = 3) -> str:
    """One line of 1 to `most` words."""
    return " ".join(bank.some(rng.randint(1, most)))


def noise(
    rng: Random, bank: Bank, least: int = 1, most: int = 4, folders: int = 1, logs: bool = True
) -> list[list[str]]:
    """Files and folders that have nothing to do with the task: (path, text), a folder has no dot in its name.

    All stems of a task differ, so a name stands for one thing on the screen. Drawn last: one word is left in the bank
    for the gate's wrong value, so a small bank gives fewer files.
    """
    made: list[list[str]] = []
    count = rng.randint(*LONG_LIST) if rng.random() < LONG_SHARE else rng.randint(least, most)
    for _ in range(min(count, bank.left - 1)):
        stem, extension = bank.word(), rng.choice((".txt", ".txt", ".md", ".log") if logs else (".txt", ".txt", ".md"))
        made.append([stem + extension, bank.filler() + "\n"])
    for _ in range(min(rng.randint(0, folders), bank.left - 1)):
        made.append([bank.word(), ""])
    return made


def noise_steps(noise_files: list[list[str]]) -> tuple[SetupStep, ...]:
    return tuple(
        step("text_file", path=path, text=content) if "." in path else step("folder", path=path)
        for path, content in noise_files
    )


def text_step(path: str, content: str) -> SetupStep:
    return step("text_file", path=path, text=content)


def sheet(rng: Random, bank: Bank, rows: int = 3, columns: int = 3) -> list[list[str]]:
    """A header and `rows` rows: words of at most 5 letters (a cell shows 5) in column a, numbers in the others."""
    headers = [words.HEADERS[0], *rng.sample(words.HEADERS[1:], columns - 1)]
    names = rng.sample([w for w in words.words_of(bank.split) if len(w) <= 5], rows)
    body = [[name, *(str(bank.number()) for _ in range(columns - 1))] for name in names]
    return [headers, *body]


def sheet_name(rng: Random, bank: Bank) -> str:
    """One sheet in sixteen is an .xlsx: a workbook costs a hundred times what a .csv costs to read."""
    return bank.word() + (".xlsx" if rng.random() < 1 / 16 else ".csv")


def prefs(rng: Random, bank: Bank, *needed: str, menu: str | None = None) -> Scene:
    """Checkboxes (3 to 5, the needed ones among them, in random order), a volume and one drop-down."""
    free = [label for label in words.CHECKS if label not in needed]
    labels = [*needed, *rng.sample(free, max(0, rng.randint(3, 5) - len(needed)))]
    rng.shuffle(labels)
    menu = menu or rng.choice(tuple(words.MENUS))
    options = list(words.MENUS[menu])
    return {
        "order": labels,
        "checks": {label: rng.random() < 0.5 for label in labels},
        "volume": rng.choice((0, 5, *bank.fives(), 100)),
        "menu": {"label": menu, "options": options, "value": rng.choice(options)},
    }


def prefs_step(scene: Scene) -> SetupStep:
    return step("prefs", **scene)


def form(rng: Random, texts: tuple[str, ...], choice: str | None = None, check: str | None = None) -> Scene:
    """A form with the needed fields in random order, and at times one more that may stay empty."""
    fields: list[dict[str, Any]] = [{"label": label, "kind": "text", "required": True} for label in texts]
    if choice:
        fields.append({"label": choice, "kind": "choice", "options": list(words.FORM_CHOICES[choice]), "value": ""})
    if check:
        fields.append({"label": check, "kind": "check", "value": False})
    if len(fields) < 3 and rng.random() < 0.5:
        fields.append(
            {"label": rng.choice([t for t in words.FORM_TEXTS if t not in texts]), "kind": "text", "required": False}
        )
    rng.shuffle(fields)
    return {"name": rng.choice(words.FORM_NAMES), "fields": fields}


def form_step(scene: Scene) -> SetupStep:
    return step("form", **scene)


def spare_word(bank: Bank, args: Args, longest: int = 6) -> str:
    """A word for a wrong value: one that the task does not use, else one that is none of its arguments by itself."""
    fitting = [w for w in words.words_of(bank.split) if len(w) <= longest]
    used, direct = repr(args), {str(v).split(".")[0] for v in args.values()}
    return next((w for w in fitting if w not in used), None) or next(w for w in fitting if w not in direct)


def maybe_open(rng: Random, document: str, share: float = 0.25) -> list[str]:
    """What is open at the start: now and then the document itself; else the task's seed decides."""
    return [document] if rng.random() < share else []


def open_steps(apps: list[str]) -> tuple[SetupStep, ...]:
    return (step("open_apps", apps=apps),) if apps else ()
