"""Driver `podman`: the containers of `runc`, started by podman, so that a machine's operator sees and ends them as any
other (`podman ps`, `podman rm`). Needs root, podman and runc.

The system inside is a folder, or an image that podman has. podman itself ends when the container runs; beside it stays
podman's monitor, conmon. The container ends with its agent, and the agent with the host's end of the socket; then
conmon has the container removed. So after `kill -9` of the host process no container is left, unless conmon was killed
too: then its record is, and is removed, found by its label, at the next start of a slot (`sweep`).
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from select import POLLIN, poll

from components.contracts.errors import SandboxError
from components.sandbox import seccomp
from components.sandbox.x11.drivers import cgroups, containers, podman_options, runc
from components.sandbox.x11.drivers.base import Limits, Screen
from components.sandbox.x11.drivers.cgroups import Group
from components.sandbox.x11.drivers.containers import ContainerDriver
from components.sandbox.x11.drivers.local import Descriptors, LocalSandbox, complaint_of, joining
from components.sandbox.x11.drivers.slots import SlotId

_SECONDS = 60.0
"""How long one command of podman may take: they wait for each other, and a machine may start many slots at once."""
_CONMON_SECONDS = 10.0
_LABEL = "cowork.x11"
ENVIRONMENT = {**containers.ENVIRONMENT, "CONTAINERS_CONF": "/dev/null"}
"""The machine's settings could add mounts, devices and variables to every container: they do not count."""
REMEDY = "install podman and runc (apt install podman runc) and start this as root, or use runc or bwrap-host"


class Podman(ContainerDriver):
    """See the module's text."""

    name = "podman"
    remedy = REMEDY

    def __init__(self, root: Path = Path("/"), image: str = "") -> None:
        """`root`: as for `Runc`. `image`: name of an image that podman has, instead; nothing is pulled.

        An image is mounted once, for all slots, and stays so until `podman image unmount` or the machine's next start.
        """
        self._root, self._image = root, image

    def problem(self) -> str:
        return _problem(self._root, self._image)

    def _make(self, limits: Limits, slot: SlotId) -> Path:
        return make_bundle(system_of(self._root, self._image))

    def _run(self, bundle: Path, screen: Screen, limits: Limits, slot: SlotId, group: Group) -> LocalSandbox:
        words = podman_options.words(bundle, system_of(self._root, self._image), limits, slot.number, label(),
                                     containers.boot_command())  # fmt: skip
        with Descriptors() as given:
            argv = [*joining(group), *containers.placing(given),
                    *command("run", "--detach", "--preserve-fds", "3", "--pidfile", str(bundle / "pid"),
                             "--conmon-pidfile", str(bundle / "conmon"), *words)]  # fmt: skip
            process = given.start(self.name, argv, ENVIRONMENT)
            try:
                code = process.wait(_SECONDS)
            except subprocess.TimeoutExpired as error:
                process.kill()
                process.wait()
                raise SandboxError(f"podman did not start a container in {_SECONDS:g} s", where=self.name,
                                   remedy="is the machine overloaded?") from error  # fmt: skip
            if code:
                raise SandboxError(f"podman did not start a container: {given.said()}", where=self.name, remedy=REMEDY)
            conmon = _descriptor(bundle / "conmon")
            return LocalSandbox(self.name, process, given, slot, group, screen, lambda: _tidy(bundle, conmon),
                                init=_descriptor(bundle / "pid"))  # fmt: skip

    def _delete(self, bundle: Path) -> None:
        delete(bundle)

    def _sweep(self) -> int:
        return sweep()


def command(*words: str) -> list[str]:
    return [containers.program("podman"), *podman_options.GLOBAL, *words]


def label() -> str:
    """Of all our containers. Process numbers, which their names hold, mean something in one process namespace only, so
    that one may share podman's records with others and not take theirs for abandoned."""
    return f"{_LABEL}={os.stat('/proc/self/ns/pid').st_ino}"


def system_of(root: Path, image: str) -> Path:
    """Where the system of a driver with these arguments lies. Raises `SandboxError` for an image that is not there."""
    return _mounted(image) if image else root


@functools.cache
def _mounted(image: str) -> Path:
    done = _call("image", "mount", image)
    if done.returncode:
        raise SandboxError(f"podman has no image {image}: {_words(done.stderr)}", where="podman",
                           remedy="build or load it (podman load), or give the folder of its root")  # fmt: skip
    return Path(_words(done.stdout))


def make_bundle(root: Path) -> Path:
    """A new folder with an empty root and the filter of system calls; its name is the container's."""
    folder = containers.make_folder(root)
    (folder / "rootfs" / "sys").mkdir(exist_ok=True)
    (folder / "seccomp.json").write_text(json.dumps(seccomp.oci_profile()), encoding="utf-8")
    return folder


def delete(bundle: Path, number: str = "") -> None:
    """Ends the container if it still runs, and removes it and its folder. May be called again.

    `number`: podman's of the container, where it is known from elsewhere than the folder.
    """
    with suppress(OSError):
        number = number or (bundle / "cid").read_text().strip()
    with suppress(SandboxError):
        # Of a container whose monitor was killed podman finds out with the first call that it has ended, and forgets it
        # with the second.
        for _ in range(2):
            if _call("rm", "--force", "--ignore", "--time", "0", bundle.name).returncode == 0:
                break
    if number:
        # It then forgets the runtime's record and control groups, too.
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                [containers.program("runc"), "delete", "--force", number], env=ENVIRONMENT, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=_SECONDS, check=False,
            )  # fmt: skip
    shutil.rmtree(bundle, ignore_errors=True)


def known() -> dict[str, str]:
    """Name -> number of all our containers that podman knows, running or not. Raises `SandboxError`."""
    done = _call("ps", "--all", "--no-trunc", "--filter", f"label={label()}", "--format", "{{.Names}} {{.ID}}")
    if done.returncode:
        raise SandboxError(f"podman lists no containers: {_words(done.stderr)}", where="podman", remedy=REMEDY)
    rows = (line.split() for line in done.stdout.decode().splitlines())
    return {name: number for name, number in rows if name.startswith(cgroups.PREFIX)}


def sweep() -> int:
    """Removes containers, folders and groups of host processes that are gone. Returns how many containers and folders
    were removed."""
    count = 0
    for name, number in known().items():
        if cgroups.is_abandoned(name):
            delete(Path(tempfile.gettempdir()) / name, number)
            count += 1
    return count + runc.sweep()


def _tidy(bundle: Path, conmon: int | None) -> None:
    """Removes the container, and waits for its monitor: it is in the slot's group, which can be removed when empty."""
    delete(bundle)
    if conmon is not None:
        waiter = poll()
        waiter.register(conmon, POLLIN)
        waiter.poll(_CONMON_SECONDS * 1000)
        os.close(conmon)


def _descriptor(file: Path) -> int | None:
    """Of the process whose number stands in a file; None when it has ended already."""
    with suppress(ProcessLookupError):
        return os.pidfd_open(int(file.read_text()))
    return None


def _call(*words: str) -> subprocess.CompletedProcess[bytes]:
    """Raises `SandboxError` when it cannot be started, or takes too long."""
    try:
        return subprocess.run(
            command(*words), env=ENVIRONMENT, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxError(f"podman {words[0]} did not end well: {error}", where="podman", remedy=REMEDY) from error


def _words(output: bytes) -> str:
    return output.decode(errors="replace").strip()[-500:]


@functools.cache
def _problem(root: Path, image: str) -> str:
    problem = containers.cannot_run("podman", "runc")
    if problem:
        return problem
    try:
        system = system_of(root, image)
    except SandboxError as error:
        return error.message
    if ":" in str(system):
        return f"podman cannot mount from a folder with a colon in its name: {system}"
    return containers.lacking(system) or _trial(system)


def _trial(system: Path) -> str:
    slot = SlotId()
    bundle = make_bundle(system)
    try:
        words = podman_options.words(bundle, system, Limits(), slot.number, label(), list(containers.TRIAL))
        said = complaint_of("podman", command("run", *words), ENVIRONMENT, _SECONDS)
    finally:
        delete(bundle)
        slot.release()
    return f"podman does not work here: {said}" if said else ""
