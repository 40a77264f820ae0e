"""A sandbox that is a child process of ours, and whose agent talks over an inherited socket: bwrap, runc, podman."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress

from components.contracts.errors import SandboxError
from components.sandbox.shell.spawn import kill_namespace, open_init
from components.sandbox.x11.channel import Channel
from components.sandbox.x11.drivers import layout
from components.sandbox.x11.drivers.base import Screen
from components.sandbox.x11.drivers.cgroups import Group
from components.sandbox.x11.drivers.slots import SlotId

_START_SECONDS = 30.0
_STOP_SECONDS = 10.0
REMEDY = "run .ci/x11 (or: make desktops)"

# Joins the groups named before `--`, then becomes what is named after it.
_JOIN = 'while [ "$1" != -- ]; do echo 0 > "$1" || exit 70; shift; done; shift; exec "$@"'


def joining(group: Group) -> list[str]:
    """What stands before a command that is to run in `group`."""
    return ["/bin/sh", "-c", _JOIN, "sh", *group.joins, "--"] if group.joins else []


class Descriptors:
    """What a child process inherits: files that exist only as descriptors, and its ends of the agent's two sockets: one
    to work, one to watch."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.our_eye, self.their_eye = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._stack.callback(self.theirs.close)
        self._stack.callback(self.their_eye.close)
        self.complaints, self._complaints_end = os.pipe2(os.O_CLOEXEC)
        self._stack.callback(os.close, self._complaints_end)
        os.set_blocking(self.complaints, False)
        self._fds: list[int] = []

    def file(self, data: bytes) -> int:
        """A descriptor with `data`, open at its beginning."""
        fd = os.memfd_create("file", os.MFD_CLOEXEC)
        self._stack.callback(os.close, fd)
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.lseek(fd, 0, os.SEEK_SET)
        self._fds.append(fd)
        return fd

    def start(self, driver: str, argv: Sequence[str], env: dict[str, str]) -> subprocess.Popen[bytes]:
        """Raises `SandboxError`."""
        try:
            return subprocess.Popen(
                argv, env=env, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=self._complaints_end, start_new_session=True,
                pass_fds=(*self._fds, self.theirs.fileno(), self.their_eye.fileno()),
            )  # fmt: skip
        except OSError as error:
            raise SandboxError(f"the sandbox cannot be started: {error}", where=driver, remedy=REMEDY) from error

    def __enter__(self) -> Descriptors:
        return self

    def give_up(self) -> None:
        """Closes our ends: no sandbox takes them over."""
        self.ours.close()
        self.our_eye.close()
        os.close(self.complaints)

    def said(self) -> str:
        """The end of what the process has written to its error output so far."""
        return said_on(self.complaints)

    def __exit__(self, kind: object, *_: object) -> None:
        self._stack.close()
        if kind is not None:
            self.give_up()


class LocalSandbox:
    """One sandbox. `pid` is the process on the host that we started."""

    def __init__(
        self,
        driver: str,
        process: subprocess.Popen[bytes],
        descriptors: Descriptors,
        slot: SlotId | None,
        group: Group,
        screen: Screen,
        tidy: Callable[[], None] = lambda: None,
        *,
        grace: float = 0.0,
        init: int | None = None,
    ) -> None:
        """`tidy` is called when all its processes are gone; `grace`: seconds in which the process tidies up itself;
        `init`: a descriptor of the first process inside, where that is no child of the process that we started."""
        self._driver = driver
        self._process = process
        self._channel = Channel(descriptors.ours)
        self._eye = Channel(descriptors.our_eye)
        self._complaints = descriptors.complaints
        self._slot = slot
        self._group = group
        self._screen = screen
        self._tidy, self._grace = tidy, grace
        self._init = init
        self._opened = self._stopped = False

    @property
    def pid(self) -> int:
        return self._process.pid

    def connect(self) -> Channel:
        if not self._opened:
            try:
                self._channel.open(layout.settings(self._screen), _START_SECONDS)
            except SandboxError as error:
                said = said_on(self._complaints)
                if not said:
                    raise
                raise SandboxError(f"{error.message}: {said}", where=self._driver, remedy=REMEDY) from error
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
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(self._grace)
        self._process.kill()
        self._process.wait()
        os.close(self._complaints)
        self._tidy()
        self._group.remove()
        if self._slot is not None:
            self._slot.release()

    def limits(self) -> dict[str, str]:
        memory = "cgroup" if "memory" in self._group.holds else "sizes of the file systems only"
        return {"processes": "cgroup and rlimit" if "pids" in self._group.holds else "rlimit", "memory": memory,
                "files": "sizes of the file systems"}  # fmt: skip

    def _find_init(self) -> None:
        if self._init is None and self._process.returncode is None:  # the number of one that has ended may be another's
            self._init = open_init(self._process.pid)


def complaint_of(driver: str, argv: Sequence[str], env: dict[str, str], seconds: float) -> str:
    """Runs a sandbox that ends by itself: why it failed, "" when it ended well."""
    try:
        with Descriptors() as given:
            process = given.start(driver, argv, env)
            try:
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise
            said = given.said()
            given.give_up()
    except (SandboxError, subprocess.TimeoutExpired) as error:
        return str(error)
    return (said or f"exit status {code}") if code else ""


def said_on(complaints: int) -> str:
    """The end of what a process wrote to its error output."""
    with suppress(BlockingIOError):
        return os.read(complaints, 1 << 16).decode(errors="replace").strip()[-500:]
    return ""
