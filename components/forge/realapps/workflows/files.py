"""Workflows of the file manager (pcmanfm) and the editor (mousepad)."""

from __future__ import annotations

from components.forge.realapps.workflows.kit import (
    Args,
    Branches,
    Moves,
    both,
    check,
    made,
    noise,
    noise_steps,
    rest,
    save,
    step,
    term,
)


def _select(name: str) -> Moves:
    """Typing in a folder selects the first entry that begins so."""
    return [["type", name], ["key", "esc"]]


def _rename(args: Args) -> Branches:
    old, new = args["old"], args["new"]
    return Branches(
        setup=(step("text", path=old, text=args["text"]), *noise_steps(args), step("open", app="files")),
        checks=(check("absent", path=old), check("same_as_start", path=new, source=old), rest(old, new)),
        plan=(
            both(
                [
                    *_select(old),
                    ["key", "f2"],
                    ["window", "Rename File"],
                    ["key", "ctrl", "a"],
                    ["type", new + "\n"],
                    ["saved", new],
                ],
                f"mv {old} {new}",
            ),
        ),
        shortcut=(term(f"cp {old} {new}"),),
    )


RENAME = made(
    "files-rename",
    (("rename", "change the name of"), ("the file {old} to {new}", "{old} to {new}")),
    lambda rng, bank: {
        "old": bank.word() + ".txt",
        "new": bank.word() + ".txt",
        "text": f"{bank.filler()} {bank.number()}\n",
        "noise": noise(bank),
    },
    _rename,
    lambda rng, bank, args: {**args, "new": "x" + args["new"]},
)


def _move(args: Args) -> Branches:
    file, folder = args["file"], args["folder"]
    target = f"{folder}/{file}"
    return Branches(
        setup=(
            step("text", path=file, text=args["text"]),
            step("folder", path=folder),
            step("folder", path=args["other"]),
            *noise_steps(args),
            step("open", app="files"),
        ),
        checks=(check("absent", path=file), check("same_as_start", path=target, source=file), rest(file, target)),
        plan=(
            both(
                [
                    *_select(file),
                    ["key", "ctrl", "x"],
                    *_select(folder),
                    ["key", "enter"],
                    ["window", folder],
                    ["key", "ctrl", "v"],
                    ["saved", target],
                ],
                f"mv {file} {folder}/",
            ),
        ),
        shortcut=(term(f"cp {file} {folder}/"),),
    )


MOVE = made(
    "files-move",
    (("move", "put"), ("the file {file} into the folder {folder}", "{file} into {folder}")),
    lambda rng, bank: {
        "file": bank.word() + ".txt",
        "folder": bank.word(),
        "other": bank.word(),
        "text": f"{bank.filler()}\n",
        "noise": noise(bank),
    },
    _move,
    lambda rng, bank, args: {**args, "folder": args["other"], "other": args["folder"]},
)


def _append(args: Args) -> Branches:
    path, line = args["path"], args["line"]
    return Branches(
        setup=(
            step("text", path=path, text=args["text"] + "\n"),
            *noise_steps(args),
            step("open", app="editor", path=path),
        ),
        checks=(check("text", path=path, text=f"{args['text']}\n{line}"), rest(path)),
        plan=(both([["key", "ctrl", "end"], ["type", line + "\n"], *save(path)], f"echo '{line}' >> {path}"),),
        shortcut=(term(f"echo '{line}' > {path}"),),
    )


APPEND = made(
    "editor-append",
    (
        ("add the line {line} at the end of {path}", "write {line} as the last line of {path}"),
        ("and save", "and save the file"),
    ),
    lambda rng, bank: {
        "path": bank.word() + ".txt",
        "text": f"{bank.word()} {bank.number()}",
        "line": f"{bank.word()} {bank.number()}",
        "noise": noise(bank),
    },
    _append,
    lambda rng, bank, args: {**args, "line": args["line"] + "1"},
)


def _new(args: Args) -> Branches:
    path, text = args["path"], args["text"]
    return Branches(
        setup=(*noise_steps(args), step("open", app="editor", path=args["noise"][0])),
        checks=(check("text", path=path, text=text), rest(path)),
        plan=(
            both(
                [
                    ["key", "ctrl", "n"],
                    ["window", "Untitled"],
                    ["type", text + "\n"],
                    ["key", "ctrl", "s"],
                    ["window", "Save As"],
                    ["key", "ctrl", "a"],
                    ["type", path],
                    ["key", "alt", "s"],
                    ["saved", path],
                    ["gone", "Save As"],
                ],
                f"echo '{text}' > {path}",
            ),
        ),
        shortcut=(term(f"touch {path}"),),
    )


NEW = made(
    "editor-new",
    (("write a new text file {path}", "make the text file {path}"), ("that says {text}", "with the one line {text}")),
    lambda rng, bank: {
        "path": bank.word() + ".txt",
        "text": f"{bank.word()} {bank.word()} {bank.number()}",
        "noise": noise(bank),
    },
    _new,
    lambda rng, bank, args: {**args, "text": args["text"] + "1"},
)

WORKFLOWS = (RENAME, MOVE, APPEND, NEW)
