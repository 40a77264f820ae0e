"""What `runc` and `podman` have in common: a folder for each container, its start, and what a killed host left.

The folder is named after the process that made it (`cgroups.new_name`) and holds an empty root with places to mount on.
The container has the same name, so that either leads to the other.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

from components.contracts.errors import SandboxError
from components.sandbox import seccomp
from components.sandbox.x11.drivers import cgroups, layout, oci
from components.sandbox.x11.drivers.base import Limits, Screen
from components.sandbox.x11.drivers.cgroups import Group, make_group
from components.sandbox.x11.drivers.local import Descriptors, LocalSandbox
from components.sandbox.x11.drivers.slots import SlotId

FIRST_FD = 3
"""The runtimes hand on what stands here and above: the agent's socket, the tar, the socket of the eye."""
ENVIRONMENT = {"PATH": layout.PATH + ":/usr/sbin:/sbin"}
"""All that a runtime sees of ours."""
TRIAL = ("/usr/bin/python3", "-I", "-c", "import Xlib.ext.damage, PIL.Image")
"""What a container has to manage before the driver is said to work: start at all, with the agent's libraries."""

# The numbers may be 3 to 5 in another order: all are moved out of the way first.
_PLACE = 'exec 100>&"$1" 101<&"$2" 102>&"$3"; exec 3>&100 4<&101 5>&102 100>&- 101>&- 102>&-; shift 3; exec "$@"'


class ContainerDriver(ABC):
    """A driver whose slots are OCI containers with a range of users each; needs root."""

    name: str
    remedy: str

    @abstractmethod
    def problem(self) -> str:
        """See `base.Driver`."""

    def start(self, screen: Screen, limits: Limits) -> LocalSandbox:
        """See `base.Driver`."""
        problem = self.problem()
        if problem:
            raise SandboxError(problem, where=self.name, remedy=self.remedy)
        self._sweep()
        slot = SlotId()
        group = make_group(limits.memory_bytes, limits.processes)
        bundle: Path | None = None
        try:
            bundle = self._make(limits, slot)
            return self._run(bundle, screen, limits, slot, group)
        except BaseException:
            if bundle is not None:
                self._delete(bundle)
            group.remove()
            slot.release()
            raise

    @abstractmethod
    def _make(self, limits: Limits, slot: SlotId) -> Path:
        """The folder of a container."""

    @abstractmethod
    def _run(self, bundle: Path, screen: Screen, limits: Limits, slot: SlotId, group: Group) -> LocalSandbox:
        """Starts the container of that folder. Raises `SandboxError`."""

    @abstractmethod
    def _delete(self, bundle: Path) -> None:
        """Ends the container if it still runs, and removes all of it, the folder too. May be called again."""

    @abstractmethod
    def _sweep(self) -> int:
        """Removes what host processes that are gone have left; how much."""


def make_folder(root: Path) -> Path:
    """A new folder with an empty root that has the places which the system below `root` is mounted on."""
    folder = Path(tempfile.gettempdir()) / cgroups.new_name()
    (folder / "rootfs").mkdir(parents=True)
    for place in oci.mount_points(root):
        (folder / "rootfs" / place.lstrip("/")).mkdir(exist_ok=True)
    for target, place in oci.links(root):
        (folder / "rootfs" / place.lstrip("/")).symlink_to(target)
    # The container's root is nobody here: it may pass, and read nothing but its own root.
    folder.chmod(0o711)
    (folder / "rootfs").chmod(0o755)
    return folder


def abandoned_folders() -> Iterator[Path]:
    """Folders of containers whose host process is gone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{cgroups.PREFIX}*"):
        if cgroups.is_abandoned(folder.name) and folder.is_dir() and folder.stat().st_uid == os.geteuid():
            yield folder


def boot_command() -> list[str]:
    """First process of a container that was started behind `placing`."""
    return layout.boot_command(FIRST_FD, FIRST_FD + 1, FIRST_FD + 2)


def placing(given: Descriptors) -> list[str]:
    """What stands before a runtime that hands on three descriptors: a shell that puts them at `FIRST_FD` and above."""
    files = given.file(layout.archive())
    return ["/bin/bash", "-c", _PLACE, "sh", str(given.theirs.fileno()), str(files), str(given.their_eye.fileno())]


def program(name: str) -> str:
    """Path of a runtime; the mere name where it is not installed."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") or name


def cannot_run(*names: str) -> str:
    """Why these runtimes cannot be used by this process; "" when they can."""
    if os.geteuid() != 0:
        return f"{names[0]} gives each slot a range of users, which only root may"
    missing = [name for name in names if not Path(program(name)).is_absolute()]
    return f"not installed: {', '.join(missing)}" if missing else ""


def lacking(root: Path) -> str:
    """What the system below `root`, or this machine, lacks for a slot; "" when nothing."""
    missing = layout.missing(root)
    return f"not installed: {', '.join(missing)}" if missing else seccomp.problem()
