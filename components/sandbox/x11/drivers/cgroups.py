"""A control group for a sandbox, below this process's own group; never at the root of a hierarchy.

Version 1 hierarchies and version 2 are used alike, as far as this process may create groups there. Where it may not,
rlimits and the sizes of the file systems have to do, and `Group.holds` says so.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

PREFIX = "cowork-x11-"
_MOUNTS = Path("/proc/self/mountinfo")
_MEMBERSHIPS = Path("/proc/self/cgroup")


def own_groups(mounts: str, memberships: str) -> dict[str, Path]:
    """Controller -> folder of this process's group, for `memory` and `pids`; `unified` is version 2.

    Groups that are the root of their hierarchy are left out: what is there belongs to the whole machine.
    """
    paths: dict[str, str] = {}
    for line in memberships.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(",") if controllers else ("unified",):
            paths[controller] = path
    found: dict[str, Path] = {}
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ")[:3]
        root, point = before.split(" ")[3:5]
        names = ("unified",) if kind == "cgroup2" else options.split(",") if kind == "cgroup" else ()
        for name in names:
            path = paths.get(name, "/")
            if name in ("memory", "pids", "unified") and path != "/" and path.startswith(root.rstrip("/")):
                found[name] = Path(point) / path.removeprefix(root).lstrip("/")
    return found


class Group:
    """One sandbox's group(s). `joins` are the files into which the sandbox's first process writes 0."""

    def __init__(self, folders: list[Path], holds: tuple[str, ...]) -> None:
        self._folders = folders
        self.holds = holds

    @property
    def joins(self) -> list[str]:
        return [str(folder / "cgroup.procs") for folder in self._folders]

    def remove(self) -> None:
        """To be called when its processes are gone. May be called again."""
        for folder in self._folders:
            with suppress(OSError):
                folder.rmdir()


def make_group(memory_bytes: int, processes: int, groups: Mapping[str, Path] | None = None) -> Group:
    """A new group with these limits, as far as that works here. `groups`: see `own_groups`, whose answer is default."""
    if groups is None:
        groups = own_groups(_MOUNTS.read_text(encoding="utf-8"), _MEMBERSHIPS.read_text(encoding="utf-8"))
    name = new_name()
    wanted = {"memory": ("memory.limit_in_bytes", memory_bytes), "pids": ("pids.max", processes)}
    folders: list[Path] = []
    holds: list[str] = []
    for controller, (file, value) in wanted.items():
        if controller in groups and _make(groups[controller] / name, {file: value}):
            folders.append(groups[controller] / name)
            holds.append(controller)
    if not holds and "unified" in groups:
        # A group hands controllers down only when it was told to, and only while it holds no process itself.
        with suppress(OSError):
            (groups["unified"] / "cgroup.subtree_control").write_text("+memory +pids")
        folder = groups["unified"] / name
        if _make(folder, {"memory.max": memory_bytes, "pids.max": processes}):
            with suppress(OSError):  # a nicety: no swap
                (folder / "memory.swap.max").write_text("0")
            folders.append(folder)
            holds = ["memory", "pids"]
    return Group(folders, tuple(holds))


def sweep() -> int:
    """Removes the empty groups of owners that are gone (killed before they could). Returns how many."""
    groups = own_groups(_MOUNTS.read_text(encoding="utf-8"), _MEMBERSHIPS.read_text(encoding="utf-8"))
    count = 0
    for parent in groups.values():
        for folder in parent.glob(f"{PREFIX}*"):
            if is_abandoned(folder.name):
                with suppress(OSError):  # not empty: its processes are still ending
                    for inner in folder.iterdir():
                        if inner.is_dir():
                            inner.rmdir()
                    folder.rmdir()
                    count += 1
    return count


def new_name() -> str:
    """For a group or a container. Pid and start of the owner stand in it: a later run can tell what one left."""
    return f"{PREFIX}{os.getpid()}-{_start_of(os.getpid())}-{secrets.token_hex(4)}"


def is_abandoned(name: str) -> bool:
    """Whether the process that made a thing of this name is gone."""
    owner, _, start = name.removeprefix(PREFIX).partition("-")
    return owner.isdigit() and _start_of(int(owner)) != start.partition("-")[0]


def _make(folder: Path, values: dict[str, int]) -> bool:
    try:
        folder.mkdir()
    except OSError:
        return False
    try:
        for file, value in values.items():
            (folder / file).write_text(str(value))
    except OSError:
        with suppress(OSError):
            folder.rmdir()
        return False
    return True


def _start_of(pid: int) -> str:
    """When a process started, in clock ticks since boot; "" when there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]
