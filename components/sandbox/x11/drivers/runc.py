"""Driver `runc`: an OCI container a slot. Needs root, and no image where the host has the packages.

What it has beyond bubblewrap: a range of users of its own, so that the agent and the X server are root of the
container and everything else is user 1000. What the model runs cannot end, stop, look into or answer for the agent.

The container ends with its agent, and the agent with the host's end of the socket; a folder and a control group that a
killed host process leaves are removed at the next start of any sandbox (`sweep`).
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

from components.contracts.errors import SandboxError
from components.sandbox import seccomp
from components.sandbox.shell.spawn import lasting
from components.sandbox.x11.drivers import cgroups, layout, oci
from components.sandbox.x11.drivers.base import Limits, Screen
from components.sandbox.x11.drivers.cgroups import Group, make_group
from components.sandbox.x11.drivers.local import Descriptors, LocalSandbox, joining
from components.sandbox.x11.drivers.slots import SlotId

_FIRST_FD = 3
_DELETE_SECONDS = 20.0
_GRACE = 5.0
REMEDY = "install runc (apt install runc) and start this as root, or use bwrap-host"


class Runc:
    """The strong driver; see the module's text."""

    name = "runc"

    def __init__(self, root: Path = Path("/")) -> None:
        """`root`: the system inside: the host's own, or the unpacked root file system of an image."""
        self._root = root

    def problem(self) -> str:
        return _problem(self._root)

    def start(self, screen: Screen, limits: Limits) -> LocalSandbox:
        problem = self.problem()
        if problem:
            raise SandboxError(problem, where=self.name, remedy=REMEDY)
        sweep()
        slot = SlotId()
        group = make_group(limits.memory_bytes, limits.processes)
        bundle: Path | None = None
        try:
            bundle = make_bundle(
                self._root, limits, slot.number, layout.boot_command(_FIRST_FD, _FIRST_FD + 1, _FIRST_FD + 2)
            )
            made = bundle
            return lasting(lambda: self._start(made, screen, slot, group))
        except BaseException:
            if bundle is not None:
                delete(bundle)
            group.remove()
            slot.release()
            raise

    def _start(self, bundle: Path, screen: Screen, slot: SlotId, group: Group) -> LocalSandbox:
        with Descriptors() as given:
            files = given.file(layout.archive())
            # runc hands on what stands at 3 and above, so the three are put there by a shell.
            argv = [*joining(group), "/bin/bash", "-c", _PLACE, "sh", str(given.theirs.fileno()), str(files),
                    str(given.their_eye.fileno()),
                    *command(bundle, "run", "--preserve-fds", "3", "--bundle", str(bundle), bundle.name)]  # fmt: skip
            process = given.start(self.name, argv, {"PATH": layout.PATH + ":/usr/sbin:/sbin"})
            return LocalSandbox(self.name, process, given, slot, group, screen, lambda: delete(bundle), grace=_GRACE)


# The numbers may be 3 to 5 in another order: all are moved out of the way first.
_PLACE = 'exec 100>&"$1" 101<&"$2" 102>&"$3"; exec 3>&100 4<&101 5>&102 100>&- 101>&- 102>&-; shift 3; exec "$@"'


def command(bundle: Path, *words: str) -> list[str]:
    """runc with its records inside the bundle, so that nothing is left elsewhere."""
    return [shutil.which("runc", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") or "runc",
            "--root", str(bundle / "state"), *words]  # fmt: skip


def make_bundle(root: Path, limits: Limits, slot: int, first: list[str]) -> Path:
    """A new folder with `config.json` and an empty root; its name is the container's."""
    folder = Path(tempfile.gettempdir()) / cgroups.new_name()
    (folder / "rootfs").mkdir(parents=True)
    for place in oci.mount_points(root):
        (folder / "rootfs" / place.lstrip("/")).mkdir(exist_ok=True)
    for target, place in oci.links(root):
        (folder / "rootfs" / place.lstrip("/")).symlink_to(target)
    # The container's root is nobody here: it may pass, and read nothing but its own root.
    folder.chmod(0o711)
    (folder / "rootfs").chmod(0o755)
    (folder / "config.json").write_text(json.dumps(oci.config(root, limits, slot, first)), encoding="utf-8")
    (folder / "config.json").chmod(0o600)
    return folder


def delete(bundle: Path) -> None:
    """Ends the container if it still runs, and removes all of it. May be called again."""
    if any((bundle / "state").glob("*")):
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                command(bundle, "delete", "--force", bundle.name), env={"PATH": layout.PATH}, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=_DELETE_SECONDS, check=False,
            )  # fmt: skip
    shutil.rmtree(bundle, ignore_errors=True)


def sweep() -> int:
    """Removes containers and groups of host processes that are gone. Returns how many folders were removed."""
    count = 0
    for folder in Path(tempfile.gettempdir()).glob(f"{cgroups.PREFIX}*"):
        if cgroups.is_abandoned(folder.name) and folder.is_dir() and folder.stat().st_uid == os.geteuid():
            delete(folder)
            count += 1
    cgroups.sweep()
    return count


@functools.cache
def _problem(root: Path) -> str:
    if os.geteuid() != 0:
        return "runc gives each slot a range of users, which only root may"
    if not Path(command(Path("/"))[0]).is_absolute():
        return "runc is not installed"
    missing = layout.missing(root)
    if missing:
        return f"not installed: {', '.join(missing)}"
    if seccomp.problem():
        return seccomp.problem()
    slot = SlotId()
    trial = ["/usr/bin/python3", "-I", "-c", "import Xlib.ext.damage, PIL.Image"]
    bundle = make_bundle(root, Limits(), slot.number, trial)
    try:
        with Descriptors() as given:
            argv = command(bundle, "run", "--bundle", str(bundle), bundle.name)
            process = given.start("runc", argv, {"PATH": layout.PATH + ":/usr/sbin:/sbin"})
            code = process.wait(_DELETE_SECONDS)
            with suppress(BlockingIOError):
                said = os.read(given.complaints, 1 << 16).decode(errors="replace").strip()[-300:]
            given.ours.close()
            os.close(given.complaints)
    except (SandboxError, subprocess.TimeoutExpired) as error:
        return f"runc does not work here: {error}"
    finally:
        delete(bundle)
        slot.release()
    return f"runc does not work here: {said}" if code else ""
