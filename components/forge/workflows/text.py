"""Workflows of the terminal's text tools: one short, plain command each."""

from __future__ import annotations

from random import Random

from components.forge.workflows import scene
from components.forge.workflows.base import Args, Bank, Branches, bash, check, others, workflow


def _store(args: Args, source: str, command: str, wanted: str, shortcut: str, *extra: tuple[str, str]) -> Branches:
    """`command` reads files of the setup and stores `wanted` in `args["target"]`; numbers compare as words."""
    target = args["target"]
    files = ((args["file"], source), *extra)
    return Branches(
        setup=(*(scene.text_step(path, text) for path, text in files), *scene.noise_steps(args["noise"])),
        checks=(check("file_text", path=target, text=wanted, loose=wanted.strip().isdigit()), others(target)),
        plan=(bash(command),),
        shortcut=(bash(shortcut),),
    )


def _pair(bank: Bank) -> Args:
    return {"file": bank.word() + ".txt", "target": bank.word() + ".txt"}


def _wrong_target(rng: Random, bank: Bank, args: Args) -> Args:
    return {**args, "target": scene.spare_word(bank, args) + ".txt"}


_INTO = ("and store the result in {target}", "and write the result in {target}", "and save the result as {target}")


def _sample_words(rng: Random, bank: Bank) -> Args:
    pair, count = _pair(bank), rng.randint(3, 9)
    lines = [bank.filler() for _ in range(count)]
    cut = rng.randint(1, count - 1)
    text = " ".join(lines[:cut]) + "\n" + " ".join(lines[cut:]) + "\n"
    return {**pair, "text": text, "count": count, "noise": scene.noise(rng, bank, most=3)}


def _words(args: Args) -> Branches:
    file, target = args["file"], args["target"]
    return _store(args, args["text"], f"wc -w < {file} > {target}", f"{args['count']}\n", f"wc -l < {file} > {target}")


COUNT_WORDS = workflow(
    "count-words",
    (("count the words of {file}", "count the words in {file}"), _INTO),
    _sample_words,
    _words,
    _wrong_target,
    derived=("count",),
)


def _sample_lines(rng: Random, bank: Bank, least: int = 3) -> list[str]:
    """Distinct lines of one word, out of order."""
    count = rng.randint(least, 5)
    lines: list[str] = []
    while len(lines) < count:
        word = bank.filler()
        if word not in lines:
            lines.append(word)
    if lines == sorted(lines):
        lines.reverse()
    return lines


def _sample_sort(rng: Random, bank: Bank) -> Args:
    return {**_pair(bank), "lines": _sample_lines(rng, bank), "noise": scene.noise(rng, bank, most=3)}


def _sort(args: Args) -> Branches:
    file, target, lines = args["file"], args["target"], args["lines"]
    text = "\n".join(lines) + "\n"
    return _store(args, text, f"sort {file} > {target}", "\n".join(sorted(lines)) + "\n", f"cp {file} {target}")


SORT_LINES = workflow(
    "sort-lines",
    (("sort the lines of {file}", "order the lines of {file}"), _INTO),
    _sample_sort,
    _sort,
    _wrong_target,
)


def _sample_join(rng: Random, bank: Bank) -> Args:
    pair = _pair(bank)
    return {
        **pair, "second": bank.word() + ".txt", "text": scene.text(rng, bank, 1), "more": scene.text(rng, bank, 1),
        "noise": scene.noise(rng, bank, most=2),
    }  # fmt: skip


def _join(args: Args) -> Branches:
    file, second, target = args["file"], args["second"], args["target"]
    text, more = args["text"] + "\n", args["more"] + "\n"
    return _store(args, text, f"cat {file} {second} > {target}", text + more, f"cp {file} {target}", (second, more))


JOIN = workflow(
    "join-files",
    (
        ("join {file} and {second}", "join the files {file} and {second}"),
        ("into {target}", "and store the result in {target}", "and save the result as {target}"),
    ),
    _sample_join,
    _join,
    _wrong_target,
)


def _sample_matches(rng: Random, bank: Bank) -> Args:
    """Lines of two words; the word asked for is in some of them and never inside another word."""
    pair, word, others_ = _pair(bank), bank.word(), bank.word()
    hits, misses = rng.randint(2, 4), rng.randint(1, 2)
    lines = [f"{word} {others_}"] * hits + [others_] * misses
    rng.shuffle(lines)
    return {**pair, "word": word, "lines": lines, "count": hits, "noise": scene.noise(rng, bank, most=2)}


def _matches(args: Args) -> Branches:
    file, target, word = args["file"], args["target"], args["word"]
    text = "\n".join(args["lines"]) + "\n"
    return _store(
        args, text, f"grep -c {word} {file} > {target}", f"{args['count']}\n", f"grep {word} {file} > {target}"
    )


COUNT_MATCHES = workflow(
    "count-matches",
    (("count the lines with {word} in {file}", "count how many lines in {file} have {word}"), _INTO),
    _sample_matches,
    _matches,
    _wrong_target,
    derived=("count",),
)


def _sample_copy(rng: Random, bank: Bank) -> Args:
    extension = rng.choice((".txt", ".md", ".log"))
    return {
        "file": bank.word() + extension, "folder": bank.word(), "new": bank.word() + extension,
        "text": bank.filler() + "\n", "noise": scene.noise(rng, bank, most=3),
    }  # fmt: skip


def _copy(args: Args) -> Branches:
    file, target = args["file"], f"{args['folder']}/{args['new']}"
    return Branches(
        setup=(scene.text_step(file, args["text"]), *scene.noise_steps([[args["folder"], ""], *args["noise"]])),
        checks=(check("same_bytes_as_setup", path=target, source=file), others(target)),
        plan=(bash(f"cp {file} {target}"),),
        shortcut=(bash(f"mv {file} {target}"),),
    )


def _wrong_copy(rng: Random, bank: Bank, args: Args) -> Args:
    new = args["new"]
    return {**args, "new": scene.spare_word(bank, args) + new[new.index(".") :]}


COPY_AS = workflow(
    "copy-as",
    (
        ("copy {file}", "copy the file {file}"),
        ("into {folder} as {new}", "to the folder {folder} as {new}", "into {folder} and name it {new}"),
    ),
    _sample_copy,
    _copy,
    _wrong_copy,
)


def _sample_first(rng: Random, bank: Bank) -> Args:
    return {**_pair(bank), "lines": _sample_lines(rng, bank, least=2), "noise": scene.noise(rng, bank, most=3)}


def _first(args: Args) -> Branches:
    file, target, lines = args["file"], args["target"], args["lines"]
    text = "\n".join(lines) + "\n"
    return _store(args, text, f"head -n 1 {file} > {target}", lines[0] + "\n", f"cp {file} {target}")


FIRST_LINE = workflow(
    "first-line",
    (
        ("take the first line of {file}", "copy the first line of {file}"),
        ("and store it in {target}", "and write it in {target}", "and save it as {target}"),
    ),
    _sample_first,
    _first,
    _wrong_target,
)

WORKFLOWS = (COUNT_WORDS, SORT_LINES, JOIN, COUNT_MATCHES, COPY_AS, FIRST_LINE)
