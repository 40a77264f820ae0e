"""The bundle of a slot, after the OCI runtime specification: pure, from what a slot is given to `config.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from components.sandbox import seccomp
from components.sandbox.x11.drivers import layout
from components.sandbox.x11.drivers.base import Limits

FIRST_UID, RANGE = 1_000_000, 65_536
"""Slot N is, on the host, the users FIRST_UID + N * RANGE and RANGE - 1 more: its own alone."""
CAPABILITIES = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_KILL", "CAP_SETGID", "CAP_SETUID")
"""The agent's, in its own user namespace: to be another user, and to stop and end that user's processes."""
_SPARE_PROCESSES = 32
"""What the applications leave to the agent and the X server, when they take all that they may."""


def uid_range(slot: int) -> int:
    """First host uid of a slot."""
    return FIRST_UID + slot * RANGE


def config(root: Path, limits: Limits, slot: int, command: list[str]) -> dict[str, Any]:
    """`root`: the system that is shown read-only. `command`: first process, root in the container."""
    env = [f"{name}={value}" for name, value in sorted(layout.environment().items())]
    mapping = [{"containerID": 0, "hostID": uid_range(slot), "size": RANGE}]
    sets = dict.fromkeys(("bounding", "effective", "permitted"), list(CAPABILITIES))
    return {
        "ociVersion": "1.0.2",
        "hostname": "desk",
        "root": {"path": "rootfs", "readonly": True},
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": command,
            "env": env,
            "cwd": "/",
            "noNewPrivileges": True,
            "capabilities": sets,
            "rlimits": [
                {"type": f"RLIMIT_{name.upper()}", "hard": n, "soft": n} for name, n in rlimits(limits).items()
            ],
        },
        "mounts": [*_memory(limits), *_system(root)],
        "linux": {
            "namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount", "user", "cgroup")],
            "uidMappings": mapping,
            "gidMappings": mapping,
            "seccomp": seccomp.oci_profile(),
            "resources": {
                "devices": [{"allow": False, "access": "rwm"}],
                "memory": {"limit": limits.memory_bytes},
                "pids": {"limit": limits.processes},
            },
            "maskedPaths": [f"/proc/{name}" for name in HIDDEN],
            "readonlyPaths": [f"/proc/{name}" for name in ("bus", "fs", "irq", "sys", "sysrq-trigger")],
        },
    }


HIDDEN = ("acpi", "asound", "kcore", "keys", "latency_stats", "sched_debug", "scsi", "timer_list", "timer_stats")
"""Of /proc, what is not shown."""


def rlimits(limits: Limits) -> dict[str, int]:
    """Limits of each process, soft and hard, by their names in lower case."""
    return {"core": 0, "nofile": limits.open_files, "nproc": max(1, limits.processes - _SPARE_PROCESSES)}


def mount_points(root: Path) -> list[str]:
    """Folders that must be in the empty root before anything is mounted; links of the system are not among them."""
    places = [place for source, place in layout.system(root) if source.startswith("/")]
    return [*places, "/dev", "/etc", "/home", "/opt", "/proc", "/run", "/tmp", "/var"]


def links(root: Path) -> list[tuple[str, str]]:
    """(target, place) of the system's links, /bin above all."""
    return [(source, place) for source, place in layout.system(root) if not source.startswith("/")]


def memory(limits: Limits) -> list[tuple[str, int, str]]:
    """(place, bytes, mode) of the file systems in memory, each of limited size."""
    return [
        ("/etc", 1 << 20, "755"), ("/var", 1 << 20, "755"), ("/opt", 8 << 20, "755"), ("/run", limits.run_bytes, "755"),
        ("/home", limits.home_bytes, "755"), ("/tmp", limits.tmp_bytes, "1777"), ("/dev/shm", limits.shm_bytes, "1777"),
    ]  # fmt: skip


def packages(root: Path) -> list[tuple[str, str]]:
    """(source, place inside) of what is shown read-only."""
    return [*((source, place) for source, place in layout.system(root) if source.startswith("/")), *layout.shared(root)]


def _memory(limits: Limits) -> list[dict[str, Any]]:
    found = [{"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]}]
    devices = ["nosuid", "strictatime", "mode=755", f"size={1 << 16}"]
    found.append({"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": devices})
    for place, size, mode in memory(limits):
        options = ["nosuid", "nodev", f"mode={mode}", f"size={size}"]
        found.append({"destination": place, "type": "tmpfs", "source": "tmpfs", "options": options})
    terminals = ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]
    found.append({"destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": terminals})
    return found


def _system(root: Path) -> list[dict[str, Any]]:
    return [
        {"destination": place, "type": "bind", "source": source, "options": ["rbind", "ro", "nosuid", "nodev"]}
        for source, place in packages(root)
    ]
