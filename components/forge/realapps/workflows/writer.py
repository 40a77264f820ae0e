"""Workflows of LibreOffice Writer and Impress."""

from __future__ import annotations

from typing import Any

from components.forge.realapps.workflows.kit import (
    Args,
    Bank,
    Branches,
    Random,
    SetupStep,
    both,
    check,
    hand,
    keys,
    made,
    noise,
    noise_steps,
    office,
    python,
    rest,
    save,
    step,
    term,
)

BODY = "Normal"


def _sample(rng: Random, bank: Bank) -> Args:
    lines = [f"{bank.word()} {bank.number()}" for _ in range(3)]
    return {"path": bank.word() + ".docx", "lines": lines, "noise": noise(bank)}


def _setup(args: Args, opened: bool = True) -> tuple[SetupStep, ...]:
    steps = (step("document", path=args["path"], paragraphs=[["", line] for line in args["lines"]]), *noise_steps(args))
    return (*steps, step("open", app="office", path=args["path"])) if opened else steps


def _edit(args: Args, code: str) -> str:
    path = args["path"]
    return python(
        f"import docx\ndocument = docx.Document({path!r})\nlines = document.paragraphs\n{code}\ndocument.save({path!r})"
    )


def _paragraphs(lines: list[str], **special: dict[str, Any]) -> list[dict[str, Any]]:
    """All paragraphs plain but those in `special` (p0, p1, ...)."""
    plain = {"style": BODY, "bold": False}
    return [{"text": line, **plain, **special.get(f"p{number}", {})} for number, line in enumerate(lines)]


def _heading(args: Args) -> Branches:
    path, at = args["path"], args["number"] - 1
    code = "lines[{}].style = document.styles['Heading {}']"
    wanted = _paragraphs(args["lines"], **{f"p{at}": {"style": "Heading 1"}})
    return Branches(
        setup=_setup(args),
        checks=(check("paragraphs", path=path, paragraphs=wanted), rest(path)),
        plan=(
            both(
                [["key", "ctrl", "home"], *keys("down", at), ["key", "ctrl", "1"], *save(path)],
                _edit(args, code.format(at, 1)),
            ),
        ),
        shortcut=(term(_edit(args, code.format(at, 2))),),
    )


HEADING = made(
    "writer-heading",
    (
        ("give line {number} of {path} the style heading 1", "make line {number} of {path} a heading of level 1"),
        ("and save", "and save the document"),
    ),
    lambda rng, bank: {**_sample(rng, bank), "number": rng.choice((1, 2, 3))},
    _heading,
    lambda rng, bank, args: {**args, "number": args["number"] % 3 + 1},
)


def _append(args: Args) -> Branches:
    path, text = args["path"], args["text"]
    return Branches(
        setup=_setup(args),
        checks=(check("paragraphs", path=path, paragraphs=_paragraphs([*args["lines"], text])), rest(path)),
        plan=(
            both(
                [["key", "ctrl", "end"], ["type", "\n" + text], *save(path)],
                _edit(args, f"document.add_paragraph({text!r})"),
            ),
        ),
        shortcut=(term(_edit(args, f"lines[-1].add_run(' ' + {text!r})")),),
    )


APPEND = made(
    "writer-append",
    (
        ("add the paragraph {text} at the end of {path}", "write {text} as a new last paragraph of {path}"),
        ("and save", "and save the document"),
    ),
    lambda rng, bank: {**_sample(rng, bank), "text": bank.word()},
    _append,
    lambda rng, bank, args: {**args, "text": bank.filler() + "s"},
)


def _bold(args: Args) -> Branches:
    path, at = args["path"], args["number"] - 1
    code = "for run in lines[{}].runs:\n    run.bold = True"
    return Branches(
        setup=_setup(args),
        checks=(
            check("paragraphs", path=path, paragraphs=_paragraphs(args["lines"], **{f"p{at}": {"bold": True}})),
            rest(path),
        ),
        plan=(
            both(
                [
                    ["key", "ctrl", "home"],
                    *keys("down", at),
                    ["key", "shift", "end"],
                    ["key", "ctrl", "b"],
                    *save(path),
                ],
                _edit(args, code.format(at)),
            ),
        ),
        shortcut=(term(_edit(args, "for line in lines:\n    for run in line.runs:\n        run.bold = True")),),
    )


BOLD = made(
    "writer-bold",
    (
        ("make line {number} of {path} bold", "set all of line {number} of {path} in bold"),
        ("and save", "and save the document"),
    ),
    lambda rng, bank: {**_sample(rng, bank), "number": rng.choice((1, 2, 3))},
    _bold,
    lambda rng, bank, args: {**args, "number": args["number"] % 3 + 1},
)


def _replace_sample(rng: Random, bank: Bank) -> Args:
    old, other = bank.word(), bank.word()
    lines = [f"{old} {bank.number()}", f"{other} {bank.number()}", f"{other} {old}"]
    return {"path": bank.word() + ".docx", "lines": lines, "old": old, "new": bank.word(), "noise": noise(bank)}


def _replace(args: Args) -> Branches:
    path, old, new = args["path"], args["old"], args["new"]
    code = "for line in {}:\n    for run in line.runs:\n        run.text = run.text.replace({!r}, {!r})"
    return Branches(
        setup=_setup(args, opened=False),
        checks=(
            check("paragraphs", path=path, paragraphs=_paragraphs([line.replace(old, new) for line in args["lines"]])),
            rest(path),
        ),
        plan=(term(_edit(args, code.format("lines", old, new))),),
        shortcut=(term(_edit(args, code.format("lines[:1]", old, new))),),
    )


REPLACE = made(
    "writer-replace",
    (("replace {old} by {new}", "change every {old} to {new}"), ("everywhere in {path}", "in all of {path}")),
    _replace_sample,
    _replace,
    lambda rng, bank, args: {**args, "new": args["new"] + "s"},
)


def _draft(args: Args) -> Branches:
    """The task's own last step saves the document: what counts is that it is right on the screen."""
    path, text = args["path"], args["text"]
    return Branches(
        setup=(*_setup(args), step("save_at_end")),
        checks=(check("paragraphs", path=path, paragraphs=_paragraphs([*args["lines"], text])), rest(path)),
        plan=(hand(["key", "ctrl", "end"], ["type", "\n" + text]),),
        shortcut=(hand(["key", "ctrl", "end"], ["type", text]),),
    )


DRAFT = made(
    "writer-draft",
    (
        ("the document on the screen lacks a last line:", "one line is missing at the end of the open document:"),
        ("add {text} below the others", "write {text} on a line of its own"),
        ("and leave it open, it will be saved for you",),
    ),
    lambda rng, bank: {**_sample(rng, bank), "text": bank.word()},
    _draft,
    lambda rng, bank, args: {**args, "text": bank.filler() + "s"},
)


# -- Impress --------------------------------------------------------------------------------------------------------


def deck_sample(rng: Random, bank: Bank) -> Args:
    slides = [{"title": bank.word(), "lines": [f"{bank.filler()} {bank.number()}"]} for _ in range(3)]
    return {"path": bank.word() + ".pptx", "slides": slides, "noise": noise(bank)}


def retitle(path: str, old: str, new: str) -> str:
    """A command that changes a title in a deck's archive: the slot's python has no library for decks."""
    return python(
        "import os, zipfile\n"
        f"old = zipfile.ZipFile({path!r})\nwith zipfile.ZipFile('new.part', 'w', zipfile.ZIP_DEFLATED) as new:\n"
        "    for name in old.namelist():\n        data = old.read(name)\n"
        "        if name.startswith('ppt/slides/slide'):\n"
        f"            data = data.replace(b'<a:t>{old}</a:t>', b'<a:t>{new}</a:t>')\n"
        f"        new.writestr(name, data)\nos.replace('new.part', {path!r})"
    )


def _delete(args: Args) -> Branches:
    path, at = args["path"], args["number"] - 1
    left = [slide for number, slide in enumerate(args["slides"]) if number != at]
    code = (
        f"document = load({path!r})\npages = document.DrawPages\npages.remove(pages.getByIndex({at}))\n"
        "form = PropertyValue(Name='FilterName', Value='Impress MS PowerPoint 2007 XML')\n"
        "document.storeToURL(document.URL, (form,))\n"
        "document.close(True)"
    )
    return Branches(
        setup=(
            step("deck", path=path, slides=args["slides"]),
            *noise_steps(args),
            step("open", app="office", path=path),
        ),
        checks=(check("slides", path=path, slides=left), rest(path)),
        plan=(
            both(
                [["click", 65, 210], ["key", "home"], *keys("down", at), ["key", "delete"], *save(path)], office(code)
            ),
        ),
        shortcut=(term(retitle(path, args["slides"][at]["title"], "")),),
    )


DELETE = made(
    "impress-delete",
    (
        ("delete slide {number} of {path}", "remove slide number {number} from {path}"),
        ("and save", "and save the deck"),
    ),
    lambda rng, bank: {**deck_sample(rng, bank), "number": rng.choice((1, 2, 3))},
    _delete,
    lambda rng, bank, args: {**args, "number": args["number"] % 3 + 1},
)


def _title(args: Args) -> Branches:
    path, at, new = args["path"], args["number"] - 1, args["new"]
    slides = [dict(slide) for slide in args["slides"]]
    slides[at]["title"] = new
    other = args["slides"][at - 1]["title"]
    return Branches(
        setup=(step("deck", path=path, slides=args["slides"]), *noise_steps(args)),
        checks=(check("slides", path=path, slides=slides), rest(path)),
        plan=(term(retitle(path, args["slides"][at]["title"], new)),),
        shortcut=(term(retitle(path, other, new)),),
    )


TITLE = made(
    "impress-title",
    (
        ("change the title of slide {number} of {path} to {new}", "give slide {number} of {path} the title {new}"),
        ("", "and nothing else"),
    ),
    lambda rng, bank: {**deck_sample(rng, bank), "number": rng.choice((1, 2, 3)), "new": bank.word()},
    _title,
    lambda rng, bank, args: {**args, "new": args["new"] + "s"},
)

WORKFLOWS = (HEADING, APPEND, BOLD, REPLACE, DRAFT, DELETE, TITLE)
