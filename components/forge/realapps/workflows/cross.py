"""Workflows over two applications: what one holds goes into the other."""

from __future__ import annotations

from components.forge.realapps.workflows.kit import (
    Args,
    Bank,
    Branches,
    Random,
    check,
    made,
    noise,
    noise_steps,
    python,
    rest,
    step,
    term,
)
from components.forge.realapps.workflows.pictures import convert, drawing
from components.forge.realapps.workflows.writer import BODY, deck_sample, retitle


def _text_sample(rng: Random, bank: Bank) -> Args:
    return {
        "path": bank.word() + ".txt",
        "new": bank.word() + ".docx",
        "title": bank.word(),
        "lines": [f"{bank.filler()} {bank.number()}" for _ in range(3)],
        "noise": noise(bank),
    }


def _text(args: Args) -> Branches:
    path, new = args["path"], args["new"]
    code = (
        "import docx\ndocument = docx.Document()\n{}"
        f"for line in open({path!r}).read().splitlines():\n    document.add_paragraph(line)\ndocument.save({new!r})"
    )
    heading = {"text": args["title"], "style": "Heading 1"}
    return Branches(
        setup=(
            step("text", path=path, text="\n".join(args["lines"]) + "\n"),
            *noise_steps(args),
            step("open", app="editor", path=path),
        ),
        checks=(
            check(
                "paragraphs", path=new, paragraphs=[heading, *({"text": line, "style": BODY} for line in args["lines"])]
            ),
            rest(new),
        ),
        plan=(term(python(code.format(f"document.add_heading({args['title']!r}, 1)\n"))),),
        shortcut=(term(python(code.format(f"document.add_paragraph({args['title']!r})\n"))),),
    )


TEXT_TO_WRITER = made(
    "text-to-writer",
    (
        ("make the document {new} from the text file {path}:", "turn the text file {path} into the document {new}:"),
        ("first a heading 1 that says {title},", "the heading 1 {title} on top,"),
        ("then its lines, each a paragraph",),
    ),
    _text_sample,
    _text,
    lambda rng, bank, args: {**args, "title": args["title"] + "s"},
)


def _csv_sample(rng: Random, bank: Bank) -> Args:
    rows = [[bank.word(), bank.number()] for _ in range(3)]
    return {"path": bank.word() + ".csv", "new": bank.word() + ".docx", "rows": [["thing", "count"], *rows]}


def _csv(args: Args) -> Branches:
    path, new = args["path"], args["new"]

    def write(rows: str) -> str:
        return python(
            f"import csv, docx\nrows = list(csv.reader(open({path!r}))){rows}\ndocument = docx.Document()\n"
            "table = document.add_table(len(rows), len(rows[0]))\nfor row, line in enumerate(rows):\n"
            "    for column, text in enumerate(line):\n        table.cell(row, column).text = text\n"
            f"document.save({new!r})"
        )

    table = args["rows"] if args.get("header", True) else args["rows"][1:]
    return Branches(
        setup=(step("csv", path=path, rows=args["rows"]),),
        checks=(check("doc_table", path=new, rows=table), rest(new)),
        plan=(term(write("" if args.get("header", True) else "[1:]")),),
        shortcut=(term(write("[:2]")),),
    )


CSV_TO_TABLE = made(
    "csv-to-table",
    (
        ("put the sheet {path}, header and all,", "put all rows of {path} with their header"),
        ("as a table into the new document {new}", "into a table in a new document {new}"),
    ),
    _csv_sample,
    _csv,
    lambda rng, bank, args: {**args, "header": False},
)


def _titles(args: Args) -> Branches:
    path, new = args["path"], args["new"]
    titles = [slide["title"] for slide in args["slides"]]
    read = f"python3 -c \"import zipfile; zipfile.ZipFile('{path}').testzip()\""
    return Branches(
        setup=(step("deck", path=path, slides=args["slides"]), *noise_steps(args)),
        checks=(check("text", path=new, text="\n".join(titles)), rest(new)),
        plan=(term(f"{read} && printf '%s\\n' {' '.join(titles)} > {new}"),),
        shortcut=(term(f"printf '%s\\n' {' '.join(titles[:2])} > {new}"),),
    )


DECK_TO_TEXT = made(
    "deck-to-text",
    (
        ("write the titles of all slides of {path}", "list the title of every slide of {path}"),
        ("into the text file {new}, one a line", "in a new text file {new}, each on its line"),
    ),
    lambda rng, bank: {**deck_sample(rng, bank), "new": bank.word() + ".txt"},
    _titles,
    lambda rng, bank, args: {**args, "slides": [args["slides"][0], *args["slides"][:0:-1]]},
)


def _deck_file(args: Args) -> Branches:
    path, new = args["path"], args["new"]
    slides = [{**args["slides"][0], "title": args["title"]}, *args["slides"][1:]]
    change = term(retitle(path, args["slides"][0]["title"], args["title"]))
    move = term(f"mv {path} {new}")
    return Branches(
        setup=(step("deck", path=path, slides=args["slides"]), *noise_steps(args), step("open", app="files")),
        checks=(check("slides", path=new, slides=slides), check("absent", path=path), rest(path, new)),
        plan=(change, move),
        shortcut=(move,),
    )


DECK_AND_FILE = made(
    "deck-and-file",
    (
        (
            "change the title of the first slide of {path} to {title}",
            "give the first slide of {path} the title {title}",
        ),
        ("and rename the file to {new}", "then rename the file to {new}"),
    ),
    lambda rng, bank: {**deck_sample(rng, bank), "title": bank.word(), "new": bank.word() + ".pptx"},
    _deck_file,
    lambda rng, bank, args: {**args, "title": args["title"] + "s"},
)


def _picture_sample(rng: Random, bank: Bank) -> Args:
    return {
        "path": bank.word() + ".png",
        "new": bank.word() + ".png",
        "folder": bank.word(),
        "noise": noise(bank),
        "drawing": drawing(rng, rng.choice(([250, 250, 250], [90, 90, 160]))),
        "change": "mirror",
    }


def _picture(args: Args) -> Branches:
    path, new, target = args["path"], args["new"], f"{args['folder']}/{args['path']}"
    code = {"mirror": "image = ImageOps.mirror(image)", "flip": "image = ImageOps.flip(image)"}[args["change"]]
    export, move = term(convert(path, new, code)), term(f"mv {path} {args['folder']}/")
    return Branches(
        setup=(step("picture", path=path, **args["drawing"]), step("folder", path=args["folder"]), *noise_steps(args)),
        checks=(
            check("picture", path=new, drawing=args["drawing"], change=args["change"], form="PNG"),
            check("same_as_start", path=target, source=path),
            check("absent", path=path),
            rest(path, new, target),
        ),
        plan=(export, move),
        shortcut=(export,),
    )


PICTURE_AND_FILE = made(
    "picture-and-file",
    (
        ("mirror {path} so that left and right change places,", "swap left and right of the picture {path},"),
        ("export the result as {new},",),
        ("and move the original into the folder {folder}", "then put {path} into {folder}"),
    ),
    _picture_sample,
    _picture,
    lambda rng, bank, args: {**args, "change": "flip"},
)

WORKFLOWS = (TEXT_TO_WRITER, CSV_TO_TABLE, DECK_TO_TEXT, DECK_AND_FILE, PICTURE_AND_FILE)
