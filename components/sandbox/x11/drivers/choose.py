"""Which driver a machine gets: by name, or the strongest that works, with the reasons for those that do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from components.contracts.errors import ParamsError, SandboxError
from components.sandbox.x11.drivers.base import Driver
from components.sandbox.x11.drivers.bwrap_host import BwrapHost, BwrapRootfs
from components.sandbox.x11.drivers.podman import Podman
from components.sandbox.x11.drivers.runc import Runc

NAMES = ("auto", "runc", "podman", "bwrap-rootfs", "bwrap-host")
"""Strongest first. `pod` is no choice of a machine's: it names a pod."""


@dataclass(frozen=True)
class Choice:
    driver: Driver
    reasons: dict[str, str]
    """Name -> why a stronger one was not taken."""


def choose_driver(name: str = "auto", root: Path | None = None, image: str = "") -> Choice:
    """`root`: an image's unpacked root file system; `image`: an image's name, which podman alone knows; without either
    the host's own packages are used.

    Raises `ParamsError` for an unknown name and `SandboxError` when what was asked for, or everything, does not work.
    """
    if name not in NAMES:
        raise ParamsError(f"there is no driver {name!r}", where="driver", remedy=f"one of {', '.join(NAMES)}")
    if image and (root is not None or name not in ("auto", "podman")):
        raise ParamsError("only podman takes the name of an image, and then no folder", where="driver",
                          remedy="leave `image` out, or give it alone, with the driver podman")  # fmt: skip
    system = root or Path("/")
    makers: dict[str, Callable[[], Driver]] = {
        "runc": lambda: Runc(system), "podman": lambda: Podman(system, image)
    }  # fmt: skip
    if image:
        del makers["runc"]
    elif root is not None:
        makers["bwrap-rootfs"] = lambda: BwrapRootfs(root)
    else:
        makers["bwrap-host"] = BwrapHost
    if name != "auto":
        if name not in makers:
            which = "needs the folder of an image" if name == "bwrap-rootfs" else "uses the host's packages, no image"
            raise ParamsError(f"the driver {name} {which}", where="driver", remedy="give `root`, or leave it out")
        makers = {name: makers[name]}
    reasons: dict[str, str] = {}
    for candidate, make in makers.items():
        driver = make()
        problem = driver.problem()
        if not problem:
            return Choice(driver, reasons)
        reasons[candidate] = problem
    said = "; ".join(f"{candidate}: {problem}" for candidate, problem in reasons.items())
    raise SandboxError(f"no driver works here: {said}", where="x11", remedy="run .ci/x11 (or: make desktops)")
