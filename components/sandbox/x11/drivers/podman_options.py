"""The words of `podman run` for a slot: pure, and the same container that `oci.config` describes for runc.

podman adds to what it is told: variables, files of /etc, /sys, message queues. What can be refused is refused here; the
rest is covered, or replaced by the slot's first program.
"""

from __future__ import annotations

from pathlib import Path

from components.sandbox.x11.drivers import layout, oci
from components.sandbox.x11.drivers.base import Limits

_COVERED = ("/sys", "/dev/mqueue", "/run/secrets", *(f"/proc/{name}" for name in oci.HIDDEN))
"""Empty inside: podman mounts the first two whatever it is told, and on some systems the host's subscriptions."""

GLOBAL = ("--cgroup-manager", "cgroupfs", "--events-backend", "none", "--runtime", "runc")
"""Before the command. No event is recorded of what lasts an episode; groups are made below our own (see `words`)."""


def words(bundle: Path, root: Path, limits: Limits, slot: int, label: str, first: list[str]) -> list[str]:
    """What follows `podman run`, and options such as `--detach`.

    `bundle`: folder with the empty `rootfs` and `seccomp.json`; its name is the container's. `root`: the system that is
    shown read-only. `label`: KEY=VALUE. `first`: first process, root in the container.
    """
    mapping = f"0:{oci.uid_range(slot)}:{oci.RANGE}"
    found = ["--name", bundle.name, "--label", label, "--cidfile", str(bundle / "cid"), "--rm", "--restart", "no"]
    found += ["--log-driver", "none"]
    found += ["--uidmap", mapping, "--gidmap", mapping, "--user", "0:0", "--cap-drop", "all"]
    for capability in oci.CAPABILITIES:
        found += ["--cap-add", capability]
    found += ["--security-opt", "no-new-privileges", "--security-opt", f"seccomp={bundle / 'seccomp.json'}"]
    found += ["--security-opt", f"mask={':'.join(_COVERED)}"]
    # Relative to the group that podman is started in, as runc takes it: nothing is made at the root of a hierarchy.
    found += ["--cgroups", "no-conmon", "--cgroup-parent", ".", "--cgroupns", "private"]
    found += ["--pids-limit", str(limits.processes), "--memory", f"{limits.memory_bytes}b"]
    for name, value in oci.rlimits(limits).items():
        found += ["--ulimit", f"{name}={value}:{value}"]
    # With `private` podman would keep /dev/shm outside, where a kill leaves it mounted.
    found += ["--network", "none", "--ipc", "none", "--uts", "private", "--pid", "private", "--hostname", "desk"]
    found += ["--no-hosts", "--passwd=false", "--http-proxy=false", "--unsetenv-all"]
    found += ["--systemd", "false", "--sdnotify", "ignore", "--no-healthcheck", "--workdir", "/"]
    found += ["--read-only", "--read-only-tmpfs=false"]
    for place, size, mode in oci.memory(limits):
        found += ["--tmpfs", f"{place}:rw,exec,nosuid,nodev,notmpcopyup,size={size},mode={mode}"]
    for source, place in oci.packages(root):
        found += ["--volume", f"{source}:{place}:ro,rbind,nosuid,nodev"]
    environment = [f"{name}={value}" for name, value in sorted(layout.environment().items())]
    return [*found, "--rootfs", str(bundle / "rootfs"), "/usr/bin/env", "-i", *environment, *first]
