"""Workflows of the Notes app: write, append, replace, clear, paste."""

from __future__ import annotations

from random import Random

from components.forge.workflows import scene
from components.forge.workflows.base import Args, Bank, Branches, bash, by_hand, check, either, goal, others, workflow


def _sample_write(rng: Random, bank: Bank) -> Args:
    return {"file": bank.word() + ".txt", "text": scene.text(rng, bank, 2), "noise": scene.noise(rng, bank, most=3)}


def _write(args: Args) -> Branches:
    file, text = args["file"], args["text"]
    return Branches(
        setup=scene.noise_steps(args["noise"]),
        checks=(check("file_text", path=file, text=text + "\n"), others(file)),
        plan=(either(goal("write_note", file=file, text=text), f"echo {text} > {file}"),),
        shortcut=(bash(f"echo > {file}"),),
    )


WRITE = workflow(
    "write-note",
    (("write", "save", "create"), ("a note {file} saying {text}", "a new note {file} with the content {text}")),
    _sample_write,
    _write,
    lambda rng, bank, args: {**args, "text": scene.spare_word(bank, args)},
)


def _sample_edit(rng: Random, bank: Bank) -> Args:
    file = bank.word() + rng.choice((".txt", ".txt", ".md"))
    return {
        "file": file, "text": scene.text(rng, bank, 2), "old": bank.filler(),
        "open": scene.maybe_open(rng, f"notes:{file}"), "noise": scene.noise(rng, bank, most=3),
    }  # fmt: skip


def _append(args: Args) -> Branches:
    file, text, old = args["file"], args["text"], args["old"]
    return Branches(
        setup=(scene.text_step(file, old + "\n"), *scene.open_steps(args["open"]), *scene.noise_steps(args["noise"])),
        checks=(check("file_text", path=file, text=f"{old}\n{text}\n"), others(file)),
        plan=(either(goal("edit_note", file=file, old=old, text=f"{old}\n{text}"), f"echo {text} >> {file}"),),
        shortcut=(bash(f"echo {text} > {file}"),),
    )


APPEND = workflow(
    "append-line",
    (
        ("add the line", "write the line", "put the line"),
        ("{text} at the end of {file}", "{text} at the end of the note {file}"),
    ),
    _sample_edit,
    _append,
    lambda rng, bank, args: {**args, "text": scene.spare_word(bank, args)},
)


def _replace(args: Args) -> Branches:
    file, text, old = args["file"], args["text"], args["old"]
    return Branches(
        setup=(scene.text_step(file, old + "\n"), *scene.open_steps(args["open"]), *scene.noise_steps(args["noise"])),
        checks=(check("file_text", path=file, text=text + "\n"), others(file)),
        plan=(either(goal("edit_note", file=file, old=old, text=text), f"echo {text} > {file}"),),
        shortcut=(bash(f"echo {text} >> {file}"),),
    )


REPLACE = workflow(
    "replace-text",
    (
        ("replace the text of", "replace all the text in", "replace the content of"),
        ("{file} with {text}", "the note {file} with {text}"),
    ),
    _sample_edit,
    _replace,
    lambda rng, bank, args: {**args, "text": scene.spare_word(bank, args)},
)


def _sample_clear(rng: Random, bank: Bank) -> Args:
    files = [bank.word() + ".txt", bank.word() + ".txt"]
    return {"file": files[0], "other": files[1], "old": bank.filler(), "noise": scene.noise(rng, bank, most=2)}


def _clear(args: Args) -> Branches:
    file, old = args["file"], args["old"]
    return Branches(
        setup=(
            scene.text_step(file, old + "\n"),
            scene.text_step(args["other"], old + "\n"),
            *scene.noise_steps(args["noise"]),
        ),
        checks=(check("file_text", path=file, text=""), others(file)),
        plan=(either(goal("edit_note", file=file, old=old, text=""), f"echo -n > {file}"),),
        shortcut=(bash(f"rm {file}"),),
    )


CLEAR = workflow(
    "clear-note",
    (("clear", "empty"), ("the note {file}", "all the text in {file}", "the content of {file}")),
    _sample_clear,
    _clear,
    lambda rng, bank, args: {**args, "file": args["other"], "other": args["file"]},
)


def _sample_paste(rng: Random, bank: Bank) -> Args:
    file = bank.word() + rng.choice((".txt", ".md"))
    return {
        "file": file, "clip": scene.text(rng, bank, 2), "old": bank.filler(),
        "open": scene.maybe_open(rng, f"notes:{file}"), "noise": scene.noise(rng, bank, most=3),
    }  # fmt: skip


def _paste(args: Args) -> Branches:
    """The clipboard belongs to the desktop: the shell cannot see it."""
    file, clip, old = args["file"], args["clip"], args["old"]
    return Branches(
        setup=(
            scene.step("clipboard", text=clip),
            scene.text_step(file, old + "\n"),
            *scene.open_steps(args["open"]),
            *scene.noise_steps(args["noise"]),
        ),
        checks=(check("file_text", path=file, text=f"{old}{clip}\n"), others(file)),
        plan=(by_hand("paste_note", file=file, old=old, text=old + clip),),
        shortcut=(bash(f"echo clipboard >> {file}"),),
    )


def _wrong_paste(rng: Random, bank: Bank, args: Args) -> Args:
    """Into another note that is there."""
    path, content = next(n for n in args["noise"] if n[0].endswith((".txt", ".md", ".log")))
    return {**args, "file": path, "old": content.strip()}


PASTE = workflow(
    "paste-note",
    (
        ("paste the clipboard into", "put the clipboard in", "add the clipboard to"),
        ("{file} and save it", "the note {file} and save it"),
    ),
    _sample_paste,
    _paste,
    _wrong_paste,
)

WORKFLOWS = (WRITE, APPEND, REPLACE, CLEAR, PASTE)
