"""Programs whose arguments decide what is lost: each reads its own. None of them runs another program."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from components.rollout.live.risk import NONE, Places, Risk, irreversible, scratch, unknown, worst, writing
from components.rollout.live.shell_tables import GIT_LOSING
from components.rollout.live.shell_words import Word

_SQL = re.compile(r"\b(drop|delete|truncate|update|replace|alter)\b", re.IGNORECASE)


def appending(path: str, places: Places) -> Risk:
    if scratch(path) or places.within(path) is not None:
        return NONE
    return irreversible("outside", f">> writes outside the home: {path}")


def named(words: Sequence[Word]) -> str:
    """The first operands, for a person."""
    names = [word.text for word in words if word.text and not word.text.startswith("-")]
    return f": {', '.join(names[:3])}{' ...' if len(names) > 3 else ''}" if names else ""


def operands(words: Sequence[Word]) -> list[str]:
    return [word.text for word in words if not word.text.startswith("-") or word.text == "-"]


def _short(words: Sequence[Word], letters: str) -> bool:
    """Whether one of these one-letter options is given, alone or among others."""
    flags = [w.text for w in words if re.fullmatch(r"-[A-Za-z]+", w.text)]
    return any(letter in flag[1:] for flag in flags for letter in letters)


def _move(name: str, rest: list[Word], places: Places) -> Risk:
    """mv, cp, install, ln: what lies at the target is lost; what is moved out of the home is out of sight."""
    texts = [word.text for word in rest]
    target = next((t.partition("=")[2] for t in texts if t.startswith("--target-directory=")), "")
    if "-t" in texts[:-1]:
        target = texts[texts.index("-t") + 1]
    given = [o for o in operands(rest) if o != target] if target else operands(rest)
    sources, target = (given, target) if target else (given[:-1], given[-1] if given else "")
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


_GIT_KEEPING = frozenset(
    "status log diff show branch tag remote blame ls-files rev-parse grep add commit init fetch describe".split()
)


def _git(name: str, rest: list[Word], places: Places) -> Risk:
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


def _curl(name: str, rest: list[Word], places: Places) -> Risk:
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


def _in_place(name: str, rest: list[Word], places: Places) -> Risk:
    """sed: -i changes files; the commands w and e write and run."""
    texts = [word.text for word in rest]
    if any(re.fullmatch(r"-[a-zA-Z]*i.*|--in-place.*", text) for text in texts):
        return irreversible("overwrite", f"{name} -i changes files in place{named(rest[-1:])}")
    scripts = [text for text in texts if not text.startswith("-")][:1]
    if any(re.search(r"(^|[;}\d/$gIp])\s*[wWe]($|\s)", script) for script in scripts):
        return irreversible("hidden", "sed writes a file or runs a command")
    return NONE


def _sort(name: str, rest: list[Word], places: Places) -> Risk:
    texts = [word.text for word in rest]
    named = [text[2:] if text.startswith("-o") else text.partition("=")[2] for text in texts
             if (text.startswith("-o") and text != "-o") or text.startswith("--output=")]  # fmt: skip
    if "-o" in texts[:-1]:
        named.append(texts[texts.index("-o") + 1])
    if any(text.startswith("--compress-program") for text in texts):
        return irreversible("hidden", "sort runs another program")
    return worst(writing(path, "sort", places) for path in named)


def _source(name: str, rest: list[Word], places: Places) -> Risk:
    if rest and rest[0].expands:
        return irreversible("hidden", "the shell runs what it is given, which cannot be read from the command")
    return unknown("the shell runs a file")


def _tee(name: str, rest: list[Word], places: Places) -> Risk:
    append = _short(rest, "a") or any(word.text == "--append" for word in rest)
    return worst((appending(path, places) if append else writing(path, "tee", places)) for path in operands(rest))


def _dd(name: str, rest: list[Word], places: Places) -> Risk:
    return worst(writing(w.text[3:], "dd", places) for w in rest if w.text.startswith("of="))


def _rights(name: str, rest: list[Word], places: Places) -> Risk:
    if _short(rest, "R") or any(word.text == "--recursive" for word in rest):
        return irreversible("permissions", f"{name} -R changes a whole folder{named(rest)}")
    outside = [path for path in operands(rest)[1:] if places.within(path) is None and not scratch(path)]
    return irreversible("permissions", f"{name} changes {outside[0]}") if outside else unknown(f"{name} changes rights")


def _archive(name: str, rest: list[Word], places: Places) -> Risk:
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


def _rsync(name: str, rest: list[Word], places: Places) -> Risk:
    texts = [word.text for word in rest]
    if any(text.startswith(("--delete", "--remove-source")) for text in texts):
        return irreversible("delete", "rsync deletes files")
    if any(re.match(r"[\w.@-]+:", text) for text in texts) or any(t.startswith(("-e", "--rsh")) for t in texts):
        return irreversible("network", "rsync speaks to another machine")
    return irreversible("overwrite", "rsync overwrites files that differ")


def _database(name: str, rest: list[Word], places: Places) -> Risk:
    if any(_SQL.search(word.text) for word in rest):
        return irreversible("delete", f"{name} changes or drops rows")
    return unknown(f"{name} opens a database")


def _gio(name: str, rest: list[Word], places: Places) -> Risk:
    sub = rest[0].text if rest else ""
    if sub in ("trash", "remove", "move", "save"):
        return irreversible("delete", f"gio {sub}{named(rest[1:])}")
    return unknown(f"gio {sub}")


def _sheet(name: str, rest: list[Word], places: Places) -> Risk:
    """The guest's own tool: `show` and `get` look, the rest writes the file."""
    sub = rest[0].text if rest else ""
    if sub in ("set", "sum", "sort"):
        return irreversible("save", f"sheet {sub} writes{named(rest[1:2])}")
    return NONE


PROGRAMS: dict[str, Callable[[str, list[Word], Places], Risk]] = {
    "mv": _move, "cp": _move, "install": _move, "ln": _move, "git": _git, "hub": _git,
    "curl": _curl, "wget": _curl, "http": _curl, "https": _curl, "xh": _curl, "aria2c": _curl, "sed": _in_place,
    "gsed": _in_place, "tee": _tee, "dd": _dd, "chmod": _rights, "chown": _rights, "chgrp": _rights, "tar": _archive,
    "unzip": _archive, "7z": _archive, "cpio": _archive, "gzip": _archive, "bzip2": _archive, "xz": _archive,
    "zip": _archive, "gunzip": _archive, "rsync": _rsync, "sqlite3": _database, "psql": _database, "mysql": _database,
    "mariadb": _database, "mongosh": _database, "redis-cli": _database, "gio": _gio, "kioclient": _gio,
    "sheet": _sheet, "sort": _sort, "source": _source, ".": _source,
}  # fmt: skip
