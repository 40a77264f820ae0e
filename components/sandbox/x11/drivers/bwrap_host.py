"""Drivers `bwrap-host` and `bwrap-rootfs`: bubblewrap over packages shown read-only, the host's own or an image's.

Everything of a desktop, its X server too, lives inside: the display number, abstract sockets and loopback are its
own. Started by root, each sandbox is another user of the host (`slots.py`); inside it is always user 1000. All files
that are not packages come through descriptors, so that no folder of the host is needed and none can be left behind.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from pathlib import Path

from components.contracts.errors import SandboxError
from components.sandbox import seccomp
from components.sandbox.shell.spawn import lasting
from components.sandbox.x11.drivers import layout
from components.sandbox.x11.drivers.base import Limits, Screen
from components.sandbox.x11.drivers.cgroups import Group, make_group, sweep
from components.sandbox.x11.drivers.local import REMEDY, Descriptors, LocalSandbox, joining
from components.sandbox.x11.drivers.slots import SlotId

_TOOLS = ("bwrap", "setpriv", "prlimit")


class BwrapHost:
    """The light driver, without an image; see the module's text."""

    name = "bwrap-host"

    def __init__(self) -> None:
        self._root = Path("/")

    def problem(self) -> str:
        return _problem(self._root)

    def start(self, screen: Screen, limits: Limits) -> LocalSandbox:
        problem = self.problem()
        if problem:
            raise SandboxError(problem, where=self.name, remedy=REMEDY)
        sweep()
        slot = SlotId() if os.geteuid() == 0 else None
        group = make_group(limits.memory_bytes, limits.processes)
        try:
            return lasting(lambda: _start(self.name, self._root, screen, limits, slot, group))
        except BaseException:
            group.remove()
            if slot is not None:
                slot.release()
            raise


class BwrapRootfs(BwrapHost):
    """The same over the unpacked root file system of an image, so that all machines show the same pixels."""

    name = "bwrap-rootfs"

    def __init__(self, root: Path) -> None:
        """`root`: the folder with the image's `usr`, `etc` and `var`; see manifests/images/desktop."""
        super().__init__()
        self._root = root


def _start(driver: str, root: Path, screen: Screen, limits: Limits, slot: SlotId | None, group: Group) -> LocalSandbox:
    with Descriptors() as given:
        options = [*_mounts(root, limits), "--seccomp", str(given.file(seccomp.program()))]
        for path, data in [*layout.agent_files(), *layout.profile_files()]:
            options += ["--perms", "0644", "--file", str(given.file(data)), path]
        for name, text in layout.ETC.items():
            options += ["--perms", "0644", "--file", str(given.file(text.encode())), f"/etc/{name}"]
        options += ["--remount-ro", "/", "--chdir", "/"]
        hidden = given.file(b"".join(os.fsencode(option) + b"\0" for option in options))
        argv = [*_outer(limits, slot, group), _tool("bwrap"), "--args", str(hidden), "--",
                *layout.agent_command(given.theirs.fileno(), given.their_eye.fileno())]  # fmt: skip
        return LocalSandbox(driver, given.start(driver, argv, {}), given, slot, group, screen)


def _outer(limits: Limits, slot: SlotId | None, group: Group) -> list[str]:
    """What stands before bwrap: groups, limits, and the slot's own user."""
    argv = [*joining(group), _tool("prlimit"), f"--nproc={limits.processes}", f"--nofile={limits.open_files}"]
    argv += ["--core=0", "--", _tool("setpriv"), "--no-new-privs"]
    if slot is not None:
        argv += ["--reuid", str(slot.uid), "--regid", str(slot.uid), "--clear-groups", "--inh-caps", "-all"]
    return [*argv, "--"]


def _mounts(root: Path, limits: Limits) -> list[str]:
    """bwrap's options: namespaces, the read-only system below `root`, file systems in memory, the environment."""
    args = ["--die-with-parent", "--new-session", "--hostname", "desk"]
    args += ["--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL"]
    args += ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    for source, place in layout.system(root):
        args += ["--symlink", source, place] if not source.startswith("/") else ["--ro-bind", source, place]
    for folder in ("/etc", "/var", "/opt"):
        args += ["--perms", "0755", "--dir", folder]
    for source, place in layout.shared(root):
        args += ["--ro-bind", source, place]
    # The settings of its own IPC and process namespaces would be the user's to write.
    args += ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev"]
    for size, mode, place in (
        (limits.tmp_bytes, "1777", "/tmp"), (limits.run_bytes, "0755", "/run"), (limits.home_bytes, "0755", "/home"),
        (limits.shm_bytes, "1777", "/dev/shm"),
    ):  # fmt: skip
        args += ["--perms", mode, "--size", str(size), "--tmpfs", place]
    args += ["--perms", "1777", "--dir", "/tmp/.X11-unix", "--perms", "0755", "--dir", "/run/user"]
    args += ["--perms", "0700", "--dir", layout.RUNTIME, "--perms", "0755", "--dir", layout.HOME]
    # Without this anyone could fill the memory through /dev, which has no size of its own.
    args += ["--remount-ro", "/dev", "--clearenv"]
    for name, value in layout.environment().items():
        args += ["--setenv", name, value]
    return args


def _tool(name: str) -> str:
    return shutil.which(name) or name


@functools.cache
def _problem(root: Path) -> str:
    missing = [name for name in _TOOLS if shutil.which(name) is None] + layout.missing(root)
    if missing:
        return f"not installed: {', '.join(missing)}"
    if seccomp.problem():
        return seccomp.problem()
    if root != Path("/"):
        return _trial()
    libraries = subprocess.run(
        ["/usr/bin/python3", "-I", "-c", "import Xlib.ext.damage, PIL.Image"], env={}, stdin=subprocess.DEVNULL,
        capture_output=True, check=False,
    )  # fmt: skip
    if libraries.returncode:
        return "the system's python3 has no Xlib or no PIL (python3-xlib, python3-pil)"
    return _trial()


@functools.cache
def _trial() -> str:
    trial = subprocess.run(
        [_tool("bwrap"), "--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/",
         "--proc", "/proc", "--", "/bin/true"],
        env={}, stdin=subprocess.DEVNULL, capture_output=True, check=False,
    )  # fmt: skip
    said = trial.stderr.decode(errors="replace").strip()
    return f"bubblewrap does not work here: {said}" if trial.returncode else ""
