"""Driver `runc`: an OCI container a slot. Needs root, and no image where the host has the packages.

What it has beyond bubblewrap: a range of users of its own, so that the agent and the X server are root of the
container and everything else is user 1000. What the model runs cannot end, stop, look into or answer for the agent.

The container ends with its agent, and the agent with the host's end of the socket; a folder and a control group that a
killed host process leaves are removed at the next start of any sandbox (`sweep`).
"""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

from components.sandbox.shell.spawn import lasting
from components.sandbox.x11.drivers import cgroups, containers, oci
from components.sandbox.x11.drivers.base import Limits, Screen
from components.sandbox.x11.drivers.cgroups import Group
from components.sandbox.x11.drivers.containers import ENVIRONMENT, ContainerDriver
from components.sandbox.x11.drivers.local import Descriptors, LocalSandbox, complaint_of, joining
from components.sandbox.x11.drivers.slots import SlotId

_DELETE_SECONDS = 20.0
_GRACE = 5.0
REMEDY = "install runc (apt install runc) and start this as root, or use bwrap-host"


class Runc(ContainerDriver):
    """The strong driver; see the module's text."""

    name = "runc"
    remedy = REMEDY

    def __init__(self, root: Path = Path("/")) -> None:
        """`root`: the system inside: the host's own, or the unpacked root file system of an image."""
        self._root = root

    def problem(self) -> str:
        return _problem(self._root)

    def _make(self, limits: Limits, slot: SlotId) -> Path:
        return make_bundle(self._root, limits, slot.number, containers.boot_command())

    def _run(self, bundle: Path, screen: Screen, limits: Limits, slot: SlotId, group: Group) -> LocalSandbox:
        def start() -> LocalSandbox:
            with Descriptors() as given:
                words = ("run", "--preserve-fds", "3", "--bundle", str(bundle), bundle.name)
                argv = [*joining(group), *containers.placing(given), *command(bundle, *words)]
                process = given.start(self.name, argv, ENVIRONMENT)
                return LocalSandbox(
                    self.name, process, given, slot, group, screen, lambda: delete(bundle), grace=_GRACE
                )

        return lasting(start)

    def _delete(self, bundle: Path) -> None:
        delete(bundle)

    def _sweep(self) -> int:
        return sweep()


def command(bundle: Path, *words: str) -> list[str]:
    """runc with its records inside the bundle, so that nothing is left elsewhere."""
    return [containers.program("runc"), "--root", str(bundle / "state"), *words]


def make_bundle(root: Path, limits: Limits, slot: int, first: list[str]) -> Path:
    """A new folder with `config.json` and an empty root; its name is the container's."""
    folder = containers.make_folder(root)
    (folder / "config.json").write_text(json.dumps(oci.config(root, limits, slot, first)), encoding="utf-8")
    (folder / "config.json").chmod(0o600)
    return folder


def delete(bundle: Path) -> None:
    """Ends the container if it still runs, and removes all of it. May be called again."""
    if any((bundle / "state").glob("*")):
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                command(bundle, "delete", "--force", bundle.name), env=ENVIRONMENT, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=_DELETE_SECONDS, check=False,
            )  # fmt: skip
    shutil.rmtree(bundle, ignore_errors=True)


def sweep() -> int:
    """Removes containers and groups of host processes that are gone. Returns how many folders were removed."""
    count = 0
    for folder in containers.abandoned_folders():
        delete(folder)
        count += 1
    cgroups.sweep()
    return count


@functools.cache
def _problem(root: Path) -> str:
    problem = containers.cannot_run("runc") or containers.lacking(root)
    if problem:
        return problem
    slot = SlotId()
    bundle = make_bundle(root, Limits(), slot.number, list(containers.TRIAL))
    try:
        said = complaint_of("runc", command(bundle, "run", "--bundle", str(bundle), bundle.name), ENVIRONMENT,
                            _DELETE_SECONDS)  # fmt: skip
    finally:
        delete(bundle)
        slot.release()
    return f"runc does not work here: {said}" if said else ""
