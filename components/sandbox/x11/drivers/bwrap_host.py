"""Driver `bwrap-host`: bubblewrap over the host's own packages, shown read-only. Needs no image.

Everything of a desktop, its X server too, lives inside: the display number, abstract sockets and loopback are its
own. Started by root, each sandbox is another user of the host (`slots.py`); inside it is always user 1000. All files
that are not packages come through descriptors, so that no folder of the host is needed and none can be left behind.
"""

from __future__ import annotations

import functools
import os
import shutil
import socket
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path

from components.contracts.errors import SandboxError
from components.sandbox.shell.spawn import kill_namespace, lasting, open_init
from components.sandbox.x11.channel import Channel
from components.sandbox.x11.drivers import layout
from components.sandbox.x11.drivers.base import Limits, Screen
from components.sandbox.x11.drivers.cgroups import Group, make_group, sweep
from components.sandbox.x11.drivers.slots import SlotId

_START_SECONDS = 30.0
_STOP_SECONDS = 10.0
_TOOLS = ("bwrap", "setpriv", "prlimit", "choom", "setsid", "Xvfb", "openbox", "pcmanfm", "tint2", "dbus-daemon")
_REMEDY = "run .ci/x11 (or: make desktops)"

# Joins the groups named before `--`, then becomes what is named after it.
_JOIN = 'while [ "$1" != -- ]; do echo 0 > "$1" || exit 70; shift; done; shift; exec "$@"'


class BwrapHost:
    """The light driver; see the module's text."""

    name = "bwrap-host"

    def problem(self) -> str:
        return _problem()

    def start(self, screen: Screen, limits: Limits) -> BwrapSandbox:
        problem = self.problem()
        if problem:
            raise SandboxError(problem, where=self.name, remedy=_REMEDY)
        sweep()
        slot = SlotId() if os.geteuid() == 0 else None
        group = make_group(limits.memory_bytes, limits.processes)
        try:
            return lasting(lambda: _start(screen, limits, slot, group))
        except BaseException:
            group.remove()
            if slot is not None:
                slot.release()
            raise


class BwrapSandbox:
    """One sandbox. `pid` is bubblewrap's own process, on the host."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        sock: socket.socket,
        eye: socket.socket,
        complaints: int,
        slot: SlotId | None,
        group: Group,
        screen: Screen,
    ) -> None:
        self._process = process
        self._channel = Channel(sock)
        self._eye = Channel(eye)
        self._complaints = complaints
        self._slot = slot
        self._group = group
        self._screen = screen
        self._init: int | None = None
        self._opened = self._stopped = False

    @property
    def pid(self) -> int:
        return self._process.pid

    def connect(self) -> Channel:
        if not self._opened:
            try:
                self._channel.open(layout.settings(self._screen), _START_SECONDS)
            except SandboxError as error:
                said = self._said()
                if not said:
                    raise
                raise SandboxError(f"{error.message}: {said}", where="bwrap-host", remedy=_REMEDY) from error
            self._opened = True
            self._find_init()
        return self._channel

    def eye(self) -> Channel:
        self.connect()
        return self._eye

    def stop(self) -> None:
        if self._stopped:
            return
        self._stopped = True
        self._find_init()
        self._channel.close()
        self._eye.close()
        if self._init is not None:
            kill_namespace(self._init, _STOP_SECONDS)
        self._process.kill()
        self._process.wait()
        os.close(self._complaints)
        self._group.remove()
        if self._slot is not None:
            self._slot.release()

    def limits(self) -> dict[str, str]:
        memory = "cgroup" if "memory" in self._group.holds else "sizes of the file systems only"
        return {"processes": "cgroup and rlimit" if "pids" in self._group.holds else "rlimit", "memory": memory,
                "files": "sizes of the file systems"}  # fmt: skip

    def _find_init(self) -> None:
        if self._init is None:
            self._init = open_init(self._process.pid)

    def _said(self) -> str:
        """The end of what bubblewrap and the agent complained of."""
        with suppress(BlockingIOError):
            return os.read(self._complaints, 1 << 16).decode(errors="replace").strip()[-500:]
        return ""


def _start(screen: Screen, limits: Limits, slot: SlotId | None, group: Group) -> BwrapSandbox:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    our_eye, their_eye = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    complaints, complaints_end = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(complaints, False)
    with ExitStack() as stack:
        stack.callback(theirs.close)
        stack.callback(their_eye.close)
        stack.callback(os.close, complaints_end)
        fds: list[int] = []

        def given(data: bytes) -> str:
            fd = os.memfd_create("file", os.MFD_CLOEXEC)
            stack.callback(os.close, fd)
            os.write(fd, data)
            os.lseek(fd, 0, os.SEEK_SET)
            fds.append(fd)
            return str(fd)

        options = [*_mounts(limits)]
        for path, data in [*layout.agent_files(), *layout.profile_files()]:
            options += ["--perms", "0644", "--file", given(data), path]
        for name, text in layout.ETC.items():
            options += ["--perms", "0644", "--file", given(text.encode()), f"/etc/{name}"]
        options += ["--remount-ro", "/", "--chdir", "/"]
        hidden = given(b"".join(os.fsencode(option) + b"\0" for option in options))
        argv = [*_outer(limits, slot, group), _tool("bwrap"), "--args", hidden, "--",
                *layout.agent_command(theirs.fileno(), their_eye.fileno())]  # fmt: skip
        try:
            process = subprocess.Popen(
                argv, env={}, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=complaints_end,
                pass_fds=(*fds, theirs.fileno(), their_eye.fileno()), start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            ours.close()
            our_eye.close()
            os.close(complaints)
            raise SandboxError(f"the sandbox cannot be started: {error}", where="bwrap-host", remedy=_REMEDY) from error
    return BwrapSandbox(process, ours, our_eye, complaints, slot, group, screen)


def _outer(limits: Limits, slot: SlotId | None, group: Group) -> list[str]:
    """What stands before bwrap: groups, limits, and the slot's own user."""
    argv = ["/bin/sh", "-c", _JOIN, "sh", *group.joins, "--"] if group.joins else []
    argv += [_tool("prlimit"), f"--nproc={limits.processes}", f"--nofile={limits.open_files}", "--core=0", "--"]
    argv += [_tool("setpriv"), "--no-new-privs"]
    if slot is not None:
        argv += ["--reuid", str(slot.uid), "--regid", str(slot.uid), "--clear-groups", "--inh-caps", "-all"]
    return [*argv, "--"]


def _mounts(limits: Limits) -> list[str]:
    """bwrap's options: namespaces, the read-only system, the file systems in memory, the environment."""
    args = ["--die-with-parent", "--new-session", "--hostname", "desk"]
    args += ["--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL"]
    args += ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    args += ["--ro-bind", "/usr", "/usr"]
    for name in layout.SYSTEM_DIRS:
        path = Path("/") / name
        if path.is_symlink():
            args += ["--symlink", os.readlink(path).lstrip("/"), str(path)]
        elif path.is_dir():
            args += ["--ro-bind", str(path), str(path)]
    for folder in ("/etc", "/var", "/opt"):
        args += ["--perms", "0755", "--dir", folder]
    for folder in (*(f"/etc/{name}" for name in layout.HOST_ETC), *layout.HOST_VAR):
        args += ["--ro-bind-try", folder, folder]
    args += ["--proc", "/proc", "--dev", "/dev"]
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
def _problem() -> str:
    missing = [name for name in _TOOLS if shutil.which(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)}"
    if not Path("/usr/bin/python3").exists():
        return "there is no /usr/bin/python3"
    libraries = subprocess.run(
        ["/usr/bin/python3", "-I", "-c", "import Xlib.ext.damage, PIL.Image"], env={}, stdin=subprocess.DEVNULL,
        capture_output=True, check=False,
    )  # fmt: skip
    if libraries.returncode:
        return "the system's python3 has no Xlib or no PIL (python3-xlib, python3-pil)"
    trial = subprocess.run(
        [_tool("bwrap"), "--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/",
         "--proc", "/proc", "--", "/bin/true"],
        env={}, stdin=subprocess.DEVNULL, capture_output=True, check=False,
    )  # fmt: skip
    said = trial.stderr.decode(errors="replace").strip()
    return f"bubblewrap does not work here: {said}" if trial.returncode else ""
