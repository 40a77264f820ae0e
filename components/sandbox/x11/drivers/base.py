"""What every way of starting a sandbox offers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from components.sandbox.x11.channel import Channel

_MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Limits of one sandbox.

    memory_bytes: of all its processes and its file systems in memory together (where cgroups allow it).
    processes: threads count. open_files: of one process. home_bytes, tmp_bytes, shm_bytes, run_bytes: sizes of the
    file systems; they live in memory, so that their sum should stay below `memory_bytes`.
    """

    memory_bytes: int = 2048 * _MIB
    processes: int = 512
    open_files: int = 4096
    home_bytes: int = 384 * _MIB
    tmp_bytes: int = 384 * _MIB
    shm_bytes: int = 256 * _MIB
    run_bytes: int = 32 * _MIB


@dataclass(frozen=True)
class Screen:
    """width and height in pixels; always 24 bits a pixel at 96 dots an inch."""

    width: int = 1280
    height: int = 720


class Sandbox(Protocol):
    """One running sandbox."""

    def connect(self) -> Channel:
        """The channel to its agent; the desktop's window manager is up. Raises `SandboxError`."""
        ...

    def stop(self) -> None:
        """Kills everything in it. When this returns nothing of it is left. May be called again."""
        ...

    def limits(self) -> dict[str, str]:
        """Which limits hold, and by what."""
        ...


@runtime_checkable
class Watchable(Protocol):
    """A sandbox whose screen can be watched while its agent is busy."""

    def eye(self) -> Channel:
        """The channel of the agent's eye (`guest_calls.EyeCalls`). For one caller at a time."""
        ...


class Driver(Protocol):
    """Starts sandboxes. Safe to use from several threads."""

    name: str

    def problem(self) -> str:
        """Why it cannot be used on this machine, with what to do; "" when it can."""
        ...

    def start(self, screen: Screen, limits: Limits) -> Sandbox:
        """Starts one, without waiting for its desktop. Raises `SandboxError`."""
        ...
