"""Which terminal commands cannot be taken back. Pure: reads the command and a list of files, runs nothing.

It is a seat belt for a model that means well, not a border: what must not happen is kept from happening by the
sandbox. Where in doubt between two readings it takes the worse.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from components.rollout.live.risk import NONE, Places, Risk, irreversible, scratch, unknown, worst, writing
from components.rollout.live.shell_tables import (
    ALWAYS,
    CLOUD,
    CLOUD_VERBS,
    GIT_LOSING,
    HARMLESS,
    INSTALLERS,
    INSTALLING,
    INTERPRETERS,
    SHELLS,
    WRAPPERS,
)
from components.rollout.live.shell_words import Simple, Unreadable, Word, read_line

_DEPTH = 8
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
_SQL = re.compile(r"\b(drop|delete|truncate|update|replace|alter)\b", re.IGNORECASE)


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
        found += [_appending(word.text, places) for word in command.appends]
    if command.words:
        found.append(_words(command.words, command, places, depth))
    return worst(found)


def _appending(path: str, places: Places) -> Risk:
    if scratch(path) or places.within(path) is not None:
        return NONE
    return irreversible("outside", f">> writes outside the home: {path}")


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
        return irreversible(kind, f"{name} {does}{_named(rest)}")
    if name.startswith("mkfs"):
        return irreversible("disk", f"{name} empties a file system{_named(rest)}")
    if name in INTERPRETERS or re.fullmatch(r"(python|perl|ruby|lua|php)[\d.]+", name):
        return _interpreter(name, rest, command, places, depth)
    special = _SPECIAL.get(name)
    if special is not None:
        return special(name, rest, places, depth)
    if name in INSTALLERS:
        if INSTALLING & set(texts) or any(re.fullmatch(r"-[SRUPirae]\w*", text) for text in texts):
            return irreversible("install", f"{name} changes what is installed{_named(rest)}")
        return unknown(f"{name} is a package manager")
    if name in CLOUD:
        verbs = [text for text in texts if text in CLOUD_VERBS or text.startswith(("delete-", "terminate-", "put-"))]
        return irreversible("network", f"{name} {verbs[0]}") if verbs else unknown(f"{name} speaks to a service")
    if name in HARMLESS:
        return NONE
    return unknown(f"{name} is not a program known to be harmless")


def _named(words: Sequence[Word]) -> str:
    """The first operands, for a person."""
    names = [word.text for word in words if word.text and not word.text.startswith("-")]
    return f": {', '.join(names[:3])}{' ...' if len(names) > 3 else ''}" if names else ""


def _operands(words: Sequence[Word]) -> list[str]:
    return [word.text for word in words if not word.text.startswith("-") or word.text == "-"]


def _short(words: Sequence[Word], letters: str) -> bool:
    """Whether one of these one-letter options is given, alone or among others."""
    flags = [w.text for w in words if re.fullmatch(r"-[A-Za-z]+", w.text)]
    return any(letter in flag[1:] for flag in flags for letter in letters)


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
    found = []
    for start, word in enumerate(rest):
        before = [w.text for w in rest[:start]]
        if word.text.startswith("-") or re.match(r"[A-Za-z_]\w*=", word.text):
            if re.match(r"(PATH|LD_PRELOAD|BASH_ENV)=", word.text):
                found.append(irreversible("hidden", f"sets {word.text.partition('=')[0]}"))
            if name == "env" and (inner := word.text.removeprefix("-S").removeprefix("--split-string=")) != word.text:
                found.append(judge_command(inner, places, depth=depth + 1))
            continue
        if " " in word.text and before:  # watch 'rm x', flock f -c 'rm x', env -S 'rm x'
            found.append(judge_command(word.text, places, depth=depth + 1))
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
            return irreversible("overwrite", f"perl -i changes files in place{_named(rest[place + 2 :])}")
    if awk and "-f" not in texts and (programs := _operands(rest)):
        codes.append(programs[0])
        if "inplace" in texts:
            return irreversible("overwrite", "awk changes files in place")
    if any(_CODE.search(code) for code in codes):
        return irreversible("hidden", f"{name} runs a program that deletes, writes, sends or starts something")
    if codes:
        return NONE if awk else unknown(f"{name} runs a program")
    if (command.piped or command.reads) and not _operands(rest):
        return irreversible("hidden", f"{name} runs what it is sent, which cannot be read from the command")
    return unknown(f"{name} runs a file")


def _move(name: str, rest: list[Word], places: Places, depth: int) -> Risk:
    """mv, cp, install, ln: what lies at the target is lost; what is moved out of the home is out of sight."""
    texts = [word.text for word in rest]
    target = next((t.partition("=")[2] for t in texts if t.startswith("--target-directory=")), "")
    if "-t" in texts[:-1]:
        target = texts[texts.index("-t") + 1]
    operands = [o for o in _operands(rest) if o != target] if target else _operands(rest)
    sources, target = (operands, target) if target else (operands[:-1], operands[-1] if operands else "")
    if not sources or not target:
        return NONE
    if name == "ln" and not _short(rest, "f") and "--force" not in texts:
        return NONE
    outside = [path for path in (target, *(sources if name == "mv" else ())) if places.within(path) is None]
    if outside and not all(scratch(path) or scratch(path + "/") for path in outside):
        return irreversible("outside", f"{name} goes outside the home: {outside[0]}")
    if (_short(rest, "n") or "--no-clobber" in texts) and name in ("mv", "cp"):
        return NONE
    if scratch(target) or scratch(target + "/"):
        return NONE if name != "mv" else irreversible("outside", f"mv takes out of the home: {', '.join(sources[:3])}")
    hidden = [w.text for w in rest if w.expands or (w.globs and w.text == target)]
    if hidden:
        return irreversible("overwrite", f"{name} may overwrite: {hidden[0]}")
    folder = target.endswith("/") or places.is_folder(target) or len(sources) > 1
    wanted = [f"{target.rstrip('/')}/{s.rstrip('/').rpartition('/')[2]}" for s in sources] if folder else [target]
    lost = [path for path in wanted if places.exists(path)]
    return irreversible("overwrite", f"{name} overwrites: {', '.join(lost[:3])}") if lost else NONE


def _find(name: str, rest: list[Word], places: Places, depth: int) -> Risk:
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


_GIT_KEEPING = frozenset(
    "status log diff show branch tag remote blame ls-files rev-parse grep add commit init fetch describe shortlog".split()
)


def _git(name: str, rest: list[Word], places: Places, depth: int) -> Risk:
    texts = [word.text for word in rest]
    place = 0
    while place < len(texts) and texts[place].startswith("-"):
        setting = "".join(texts[place + 1 : place + 2])
        if texts[place] == "-c" and any(mark in setting for mark in ("!", "alias", "ssh")):
            return irreversible("hidden", "git is told to run another program")
        place += 2 if texts[place] in ("-C", "-c", "--git-dir", "--work-tree", "--namespace") else 1
    sub, arguments = (texts[place], texts[place + 1 :]) if place < len(texts) else ("", [])
    if sub == "push":
        strong = ("-f", "-d", "--delete", "--mirror", "--prune")
        forced = [a for a in arguments if a in strong or a.startswith(("--force", "+", ":"))]
        return irreversible("network", f"git push {forced[0]} changes what others have" if forced
                            else "git push sends commits away")  # fmt: skip
    for word in GIT_LOSING.get(sub, ()):
        if not word or word in arguments:
            return irreversible("delete", f"git {sub} {word} loses what is not committed".replace("  ", " "))
    if sub == "clean" or (sub == "config" and any("!" in a or "alias" in a for a in arguments)):
        return irreversible("hidden", f"git {sub}")
    return NONE if sub in _GIT_KEEPING or not sub else unknown(f"git {sub}")


def _curl(name: str, rest: list[Word], places: Places, depth: int) -> Risk:
    found = [unknown(f"{name} speaks to a server")]
    texts = [word.text for word in rest]
    for place, text in enumerate(texts):
        following = texts[place + 1] if place + 1 < len(texts) else ""
        method = re.fullmatch(r"(?:-[a-zA-Z]*X|--request=?|--method=?)(.*)", text)
        if method:
            verb = (method.group(1) or following).upper()
            if verb not in ("GET", "HEAD", "OPTIONS"):
                found.append(irreversible("network", f"{name} sends {verb or 'a request'}"))
        elif re.fullmatch(r"-[a-zA-Z]*[dFT].*", text) and name == "curl" and not text.startswith("--"):
            found.append(irreversible("network", "curl sends data"))
        elif text.startswith(("--data", "--form", "--upload-file", "--json", "--post-", "--body-", "--mail-")):
            found.append(irreversible("network", f"{name} sends data"))
        elif name != "curl" and text in ("POST", "PUT", "DELETE", "PATCH"):
            found.append(irreversible("network", f"{name} sends {text}"))
        elif re.fullmatch(r"-[a-zA-Z]*[oO]|--output|--output-document", text):
            if text.endswith(("o", "output", "document")) or name == "wget":
                found.append(writing(following, name, places))
        elif text in ("-K", "--config", "-i", "--input-file"):
            found.append(irreversible("hidden", f"{name} does what a file says") if text != "-i" else NONE)
    return worst(found)


def _in_place(name: str, rest: list[Word], places: Places, depth: int) -> Risk:
    """sed: -i changes files; the commands w and e write and run."""
    texts = [word.text for word in rest]
    if any(re.fullmatch(r"-[a-zA-Z]*i.*|--in-place.*", text) for text in texts):
        return irreversible("overwrite", f"{name} -i changes files in place{_named(rest[-1:])}")
    scripts = [text for text in texts if not text.startswith("-")][:1]
    if any(re.search(r"(^|[;}\d/$gIp])\s*[wWe]($|\s)", script) for script in scripts):
        return irreversible("hidden", "sed writes a file or runs a command")
    return NONE


def _sort(name: str, rest: list[Word], places: Places, depth: int) -> Risk:
    texts = [word.text for word in rest]
    named = [text[2:] if text.startswith("-o") else text.partition("=")[2] for text in texts
             if (text.startswith("-o") and text != "-o") or text.startswith("--output=")]  # fmt: skip
    if "-o" in texts[:-1]:
        named.append(texts[texts.index("-o") + 1])
    if any(text.startswith("--compress-program") for text in texts):
        return irreversible("hidden", "sort runs another program")
    return worst(writing(path, "sort", places) for path in named)


def _source(name: str, rest: list[Word], places: Places, depth: int) -> Risk:
    if rest and rest[0].expands:
        return irreversible("hidden", "the shell runs what it is given, which cannot be read from the command")
    return unknown("the shell runs a file")


def _tee(name: str, rest: list[Word], places: Places, depth: int) -> Risk:
    append = _short(rest, "a") or any(word.text == "--append" for word in rest)
    return worst((_appending(path, places) if append else writing(path, "tee", places)) for path in _operands(rest))


def _dd(name: str, rest: list[Word], places: Places, depth: int) -> Risk:
    return worst(writing(w.text[3:], "dd", places) for w in rest if w.text.startswith("of="))


def _rights(name: str, rest: list[Word], places: Places, depth: int) -> Risk:
    if _short(rest, "R") or any(word.text == "--recursive" for word in rest):
        return irreversible("permissions", f"{name} -R changes a whole folder{_named(rest)}")
    outside = [path for path in _operands(rest)[1:] if places.within(path) is None and not scratch(path)]
    return irreversible("permissions", f"{name} changes {outside[0]}") if outside else unknown(f"{name} changes rights")


def _archive(name: str, rest: list[Word], places: Places, depth: int) -> Risk:
    texts = [word.text for word in rest]
    first = texts[0] if texts else ""
    run = [t for t in texts if t.startswith(("--to-command", "--checkpoint-action", "--use-compress", "-I", "-TT"))]
    if run:
        return irreversible("hidden", f"{name} runs another program: {run[0]}")
    if name == "tar" and ("--delete" in texts or "--remove-files" in texts):
        return irreversible("delete", "tar removes files")
    if name == "tar" and re.match(r"-?[A-Za-z]*c", first) and len(texts) > 1 and "f" in first:
        return writing(texts[1], "tar", places)
    if name == "tar" and re.match(r"-?[A-Za-z]*t", first):
        return NONE
    if name == "unzip" and _short(rest, "l"):
        return NONE
    if name in ("unzip", "7z", "tar", "cpio"):
        return irreversible("overwrite", f"{name} may overwrite files when it unpacks")
    return unknown(f"{name} replaces files by packed ones")


def _rsync(name: str, rest: list[Word], places: Places, depth: int) -> Risk:
    texts = [word.text for word in rest]
    if any(text.startswith(("--delete", "--remove-source")) for text in texts):
        return irreversible("delete", "rsync deletes files")
    if any(re.match(r"[\w.@-]+:", text) for text in texts) or any(t.startswith(("-e", "--rsh")) for t in texts):
        return irreversible("network", "rsync speaks to another machine")
    return irreversible("overwrite", "rsync overwrites files that differ")


def _database(name: str, rest: list[Word], places: Places, depth: int) -> Risk:
    if any(_SQL.search(word.text) for word in rest):
        return irreversible("delete", f"{name} changes or drops rows")
    return unknown(f"{name} opens a database")


def _gio(name: str, rest: list[Word], places: Places, depth: int) -> Risk:
    sub = rest[0].text if rest else ""
    if sub in ("trash", "remove", "move", "save"):
        return irreversible("delete", f"gio {sub}{_named(rest[1:])}")
    return unknown(f"gio {sub}")


def _sheet(name: str, rest: list[Word], places: Places, depth: int) -> Risk:
    """The guest's own tool: `show` and `get` look, the rest writes the file."""
    sub = rest[0].text if rest else ""
    if sub in ("set", "sum", "sort"):
        return irreversible("save", f"sheet {sub} writes{_named(rest[1:2])}")
    return NONE


_SPECIAL: dict[str, Callable[[str, list[Word], Places, int], Risk]] = {
    "mv": _move, "cp": _move, "install": _move, "ln": _move, "find": _find, "fd": _find, "git": _git, "hub": _git,
    "curl": _curl, "wget": _curl, "http": _curl, "https": _curl, "xh": _curl, "aria2c": _curl, "sed": _in_place,
    "gsed": _in_place, "tee": _tee, "dd": _dd, "chmod": _rights, "chown": _rights, "chgrp": _rights, "tar": _archive,
    "unzip": _archive, "7z": _archive, "cpio": _archive, "gzip": _archive, "bzip2": _archive, "xz": _archive,
    "zip": _archive, "gunzip": _archive, "rsync": _rsync, "sqlite3": _database, "psql": _database, "mysql": _database,
    "mariadb": _database, "mongosh": _database, "redis-cli": _database, "gio": _gio, "kioclient": _gio,
    "sheet": _sheet, "sort": _sort, "source": _source, ".": _source,
}  # fmt: skip
