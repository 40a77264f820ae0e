"""What is known about an action before it is done. Pure data, shared by the judges of terminal and screen actions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Level = Literal["none", "unknown", "irreversible"]
Kind = Literal[
    "", "delete", "overwrite", "outside", "disk", "network", "install", "permissions", "processes", "power", "hidden",
    "save", "confirm",
]  # fmt: skip
"""What cannot be taken back. `hidden`: what would run cannot be read from the command."""

_RANK: dict[Level, int] = {"none": 0, "unknown": 1, "irreversible": 2}
HOME = "/home/user"
"""The home of every desktop, as those inside see it."""
_SCRATCH = ("/tmp/", "/dev/shm/", "/var/tmp/", "/run/user/")


@dataclass(frozen=True)
class Risk:
    """`reason` is a clause for a person: "rm deletes: notes.txt"."""

    level: Level = "none"
    kind: Kind = ""
    reason: str = ""


NONE = Risk()


def irreversible(kind: Kind, reason: str) -> Risk:
    return Risk("irreversible", kind, reason)


def unknown(reason: str) -> Risk:
    return Risk("unknown", "", reason)


def worst(risks: Iterable[Risk]) -> Risk:
    """The highest of several; of equals the first."""
    found = NONE
    for risk in risks:
        if _RANK[risk.level] > _RANK[found.level]:
            found = risk
    return found


@dataclass(frozen=True)
class Places:
    """The files of the home as far as they are known: relative paths, or None when nobody looked."""

    files: frozenset[str] | None = None

    def within(self, path: str) -> str | None:
        """`path` relative to the home; None where it leads out of it. What the shell would expand is not known."""
        if path in ("~", HOME):
            return ""
        for prefix in ("~/", f"{HOME}/", "$HOME/", "${HOME}/"):
            if path.startswith(prefix):
                path = path[len(prefix) :]
                break
        else:
            if path.startswith(("/", "~")):
                return None
        depth = 0
        for part in path.split("/"):
            depth += -1 if part == ".." else part not in ("", ".")
            if depth < 0:
                return None
        return path

    def exists(self, path: str) -> bool:
        """Whether a file may be there. The shell may stand in any folder of the home, so that the end of a path
        counts."""
        inside = self.within(path)
        if self.files is None or inside is None or any(mark in path for mark in "*?[{$`"):
            return True
        plain = "/".join(part for part in inside.split("/") if part not in ("", ".", ".."))
        return bool(plain) and any(file == plain or file.endswith(f"/{plain}") for file in self.files)

    def is_folder(self, path: str) -> bool:
        """Whether a folder of that name is known to hold files."""
        inside = self.within(path)
        if inside in ("", "."):
            return True
        if self.files is None or inside is None:
            return False
        plain = inside.strip("/").removeprefix("./") + "/"
        return any(file.startswith(plain) or f"/{plain}" in file for file in self.files)


def scratch(path: str) -> bool:
    """Places for what nobody keeps, and the devices that are no files."""
    if path in ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty") or path.startswith("/dev/fd/"):
        return True
    return path.startswith(_SCRATCH) and ".." not in path


def writing(path: str, by: str, places: Places) -> Risk:
    """What it means that `by` writes `path` anew."""
    if scratch(path):
        return NONE
    if path.startswith("/dev/"):
        return irreversible("disk", f"{by} writes to the device {path}")
    if places.within(path) is None:
        return irreversible("outside", f"{by} writes outside the home: {path}")
    if places.exists(path):
        return irreversible("overwrite", f"{by} overwrites: {path}")
    return NONE
