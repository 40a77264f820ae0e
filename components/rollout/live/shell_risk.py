"""Which terminal commands cannot be taken back. Pure: reads the command and a list of files, runs nothing.

It is a seat belt for a model that means well, not a border: what must not happen is kept from happening by the
sandbox. Where in doubt between two readings it takes the worse.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from components.rollout.live.risk import NONE, Places, Risk, irreversible, unknown, worst, writing
from components.rollout.live.shell_programs import PROGRAMS, appending, named, operands
from components.rollout.live.shell_tables import (
    ALWAYS,
    CLOUD,
    CLOUD_VERBS,
    HARMLESS,
    INSTALLERS,
    INSTALLING,
    INTERPRETERS,
    SHELLS,
    WRAPPERS,
)
from components.rollout.live.shell_words import Simple, Unreadable, Word, read_line

_DEPTH = 8
_WORDS = 500
_STEERING = frozenset("PATH LD_PRELOAD LD_LIBRARY_PATH BASH_ENV ENV IFS PROMPT_COMMAND PS4 PYTHONSTARTUP".split())
"""Variables that change what a later command means."""
_FORK_BOMB = re.compile(r"([\w:.]+)\s*\(\)\s*\{[^}]*\1\s*\|\s*\1")
_CODE = re.compile(
    r"\bos\.(remove|unlink|rmdir|removedirs|rename|replace|truncate|system|popen|exec\w*|spawn\w*|kill\w*|chmod|chown)"
    r"|shutil|subprocess|\bunlink|\brmtree|\brmdir|\brmSync|write_(text|bytes)|writeFile|open\([^)]*,\s*(mode\s*=\s*)?[\"'][^\"']*[wax+]"
    r"|\bsystem\b|\bexec\b|\beval\b|\bpopen\b|__import__|importlib|getattr|requests\.(post|put|patch|delete)|urlopen|child_process"
    r"|\.(delete|drop|send|post|put|unlink|rename|remove|save)\(|\bgetline\b|>\s*\"|\|\s*\"|\bqx\b|`",
)
"""Signs in a program given on the command line of deleting, writing, sending or running something."""


def judge_command(text: str, places: Places | None = None, *, depth: int = 0) -> Risk:
    """The worst that a command line does, as far as it can be read."""
    places = places or Places()
    if depth > _DEPTH:
        return irreversible("hidden", "commands within commands, too deep to read")
    if _FORK_BOMB.search(text):
        return irreversible("processes", "starts copies of itself without end")
    try:
        line = read_line(text)
    except Unreadable as error:
        return irreversible("hidden", f"the command cannot be read: {error}")
    return worst(
        [
            *(_judge(command, places, depth) for command in line.commands),
            *(judge_command(inner, places, depth=depth + 1) for inner in line.inner),
        ]
    )


def _judge(command: Simple, places: Places, depth: int) -> Risk:
    found = [NONE]
    steering = [name for name in command.variables if name in _STEERING]
    if steering:
        found.append(irreversible("hidden", f"sets {steering[0]}, which changes what commands mean"))
    if not (command.words and command.words[0].text == "[["):  # where < and > compare
        found += [writing(word.text, ">", places) for word in command.writes]
        found += [appending(word.text, places) for word in command.appends]
    if command.words:
        found.append(_words(command.words, command, places, depth))
    return worst(found)


def _words(words: Sequence[Word], command: Simple, places: Places, depth: int) -> Risk:
    """A program with its arguments."""
    first = words[0]
    if first.expands or (first.globs and first.text not in ("[", "[[")):
        return irreversible("hidden", f"the name of the program is not written out: {first.text}")
    name = first.text.rpartition("/")[2]
    rest = list(words[1:])
    texts = [word.text for word in rest]
    if name in SHELLS:
        return _shell(rest, command, places, depth)
    if name == "eval":
        if any(word.expands for word in rest):
            return irreversible("hidden", "eval runs what a variable holds")
        return judge_command(" ".join(texts), places, depth=depth + 1)
    if name in ("alias", "trap", "su", "complete", "bind"):
        inner = [judge_command(text.partition("=")[2] if name == "alias" else text, places, depth=depth + 1)
                 for text in texts if not text.startswith("-")]  # fmt: skip
        return worst([*inner, unknown(f"{name} sets up commands") if texts else NONE])
    if name in WRAPPERS:
        return _wrapped(name, rest, command, places, depth)
    if name in ALWAYS:
        if _only_looks(name, texts):
            return NONE
        kind, does = ALWAYS[name]
        return irreversible(kind, f"{name} {does}{named(rest)}")
    if name.startswith("mkfs"):
        return irreversible("disk", f"{name} empties a file system{named(rest)}")
    if name in INTERPRETERS or re.fullmatch(r"(python|perl|ruby|lua|php)[\d.]+", name):
        return _interpreter(name, rest, command, places, depth)
    if name in ("find", "fd"):
        return _find(rest, places, depth)
    special = PROGRAMS.get(name)
    if special is not None:
        return special(name, rest, places)
    if name in INSTALLERS:
        if INSTALLING & set(texts) or any(re.fullmatch(r"-[SRUPirae]\w*", text) for text in texts):
            return irreversible("install", f"{name} changes what is installed{named(rest)}")
        return unknown(f"{name} is a package manager")
    if name in CLOUD:
        verbs = [text for text in texts if text in CLOUD_VERBS or text.startswith(("delete-", "terminate-", "put-"))]
        return irreversible("network", f"{name} {verbs[0]}") if verbs else unknown(f"{name} speaks to a service")
    if name in HARMLESS:
        return NONE
    return unknown(f"{name} is not a program known to be harmless")


def _only_looks(name: str, texts: list[str]) -> bool:
    if {"--help", "--version"} & set(texts):
        return len(texts) == 1
    looking = {
        "kill": ("-l", "-L"), "crontab": ("-l",), "at": ("-l",), "mount": (), "service": ("--status-all",),
        "systemctl": ("status", "list-units", "is-active", "show", "--user", "cat"), "loginctl": ("list-sessions",),
    }.get(name)  # fmt: skip
    if looking is None:
        return False
    return all(text in looking for text in texts) if looking else not texts


def _wrapped(name: str, rest: list[Word], command: Simple, places: Places, depth: int) -> Risk:
    """`sudo -u x rm y`: the options of each wrapper are not learnt by heart; any beginning may be the command."""
    if name == "command" and rest and rest[0].text in ("-v", "-V"):
        return NONE
    if name in ("exec", "env", "time", "script") and not rest:
        return NONE
    if len(rest) > _WORDS:
        return irreversible("hidden", f"{name} with {len(rest)} words is too long to read")
    found = []
    for start, word in enumerate(rest):
        before = [w.text for w in rest[:start]]
        if word.text.startswith("-") or re.match(r"[A-Za-z_]\w*=", word.text):
            if re.match(r"(PATH|LD_PRELOAD|BASH_ENV)=", word.text):
                found.append(irreversible("hidden", f"sets {word.text.partition('=')[0]}"))
            if name == "env" and (inner := word.text.removeprefix("-S").removeprefix("--split-string=")) != word.text:
                found.append(judge_command(inner, places, depth=depth + 1))
            continue
        if " " in word.text:  # watch 'rm x', flock f -c 'rm x', env -S 'rm x'
            found.append(judge_command(word.text, places, depth=depth + 1))
        if word.text.rpartition("/")[2] in WRAPPERS or re.fullmatch(r"[\d.]+[smhd]?", word.text):
            continue  # what such a one would run is looked at as the next beginning
        risk = _words(rest[start:], command, places, depth + 1) if depth < _DEPTH else irreversible("hidden", name)
        if risk.level == "irreversible":
            if risk.kind != "hidden" or all(text.startswith("-") for text in before):
                found.append(risk)
        elif all(text.startswith("-") or "=" in text or text.isdigit() for text in before):
            found.append(risk)
            if risk.level == "none":
                break
    return worst([*found, unknown(f"{name} changes how a command runs") if name in ("sudo", "doas") else NONE])


def _shell(rest: list[Word], command: Simple, places: Places, depth: int) -> Risk:
    if any(re.fullmatch(r"-[a-z]*c[a-z]*", word.text) for word in rest):
        scripts = [word for word in rest if not word.text.startswith(("-", "+"))]
        if not scripts or scripts[0].expands:
            return irreversible("hidden", "a shell runs what a variable holds")
        return judge_command(scripts[0].text, places, depth=depth + 1)
    if command.given:
        return worst(judge_command(text, places, depth=depth + 1) for text in command.given)
    if command.piped or command.reads:
        return irreversible("hidden", "a shell runs what it is sent, which cannot be read from the command")
    return unknown("a shell runs a file")


def _interpreter(name: str, rest: list[Word], command: Simple, places: Places, depth: int) -> Risk:
    texts = [word.text for word in rest]
    if "-m" in texts[:-1]:
        return _words(rest[texts.index("-m") + 1 :], command, places, depth + 1)
    awk = name.endswith("awk")
    codes = [text for text in command.given]
    for place, text in enumerate(texts):
        if re.fullmatch(r"-[A-Za-z]*[ceEr]|--eval|--exec", text) and place + 1 < len(texts) and not awk:
            codes.append(texts[place + 1])
        if name == "perl" and re.fullmatch(r"-[A-Za-z0-9]*i\S*", text):
            return irreversible("overwrite", f"perl -i changes files in place{named(rest[place + 2 :])}")
    if awk and "-f" not in texts and (programs := operands(rest)):
        codes.append(programs[0])
        if "inplace" in texts:
            return irreversible("overwrite", "awk changes files in place")
    if any(_CODE.search(code) for code in codes):
        return irreversible("hidden", f"{name} runs a program that deletes, writes, sends or starts something")
    if codes:
        return NONE if awk else unknown(f"{name} runs a program")
    if (command.piped or command.reads) and not operands(rest):
        return irreversible("hidden", f"{name} runs what it is sent, which cannot be read from the command")
    return unknown(f"{name} runs a file")


def _find(rest: list[Word], places: Places, depth: int) -> Risk:
    texts = [word.text for word in rest]
    if "-delete" in texts:
        return irreversible("delete", "find -delete deletes what it finds")
    found = [NONE]
    for place, text in enumerate(texts):
        if text in ("-exec", "-execdir", "-ok", "-okdir") and rest[place + 1 :]:
            found.append(_words(rest[place + 1 :], Simple(), places, depth + 1))
        if text.startswith("-fprint") or text == "-fls":
            found += [writing(path, "find", places) for path in texts[place + 1 : place + 2]]
    return worst(found)
