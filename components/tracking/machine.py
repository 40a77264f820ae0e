"""What a stage takes of the machine: CPU seconds, GPU seconds, joules. What cannot be measured is None, never 0.

- CPU: this process, its finished children and its live descendants (forked workers and ranks).
- GPU: the time that this process held memory on a GPU, times the number of such GPUs. No CUDA: 0.
- Energy: the counters of the processor packages (Linux powercap, RAPL) and of the GPUs (NVML). They count the whole
  machine, whoever used it, and are None where no counter can be read: most virtual machines and containers.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

POWERCAP = Path("/sys/class/powercap")
_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds() -> float:
    """User and system time of this process, its finished children and its live descendants."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used) + _descendants(os.getpid())


def _descendants(pid: int) -> float:
    total = 0.0
    with suppress(OSError):  # ended while we looked, or no such files here
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as handle:
                for child in map(int, handle.read().split()):
                    total += _own(child) + _descendants(child)
    return total


def _own(pid: int) -> float:
    """Time of one other process, with that of the children it has waited for."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as handle:
            fields = handle.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS  # utime, stime, cutime, cstime


def gpus_held() -> int:
    """GPUs on which this process has memory."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return 0
    return sum(cuda.memory_reserved(index) > 0 for index in range(cuda.device_count()))


@dataclass
class _Counter:
    """A counter in microjoules that starts again at `limit`."""

    path: Path
    limit: int
    last: int = 0
    joules: float = 0.0

    def read(self) -> int:
        return int(self.path.read_text())

    def advance(self) -> float:
        now = self.read()
        gone = now - self.last if now >= self.last else now + self.limit - self.last
        self.last = now
        self.joules += gone / 1e6
        return self.joules


def powercap_counters(root: Path = POWERCAP) -> list[_Counter]:
    """The packages' counters (not their parts: those are in the package's). Empty where none can be read."""
    found = []
    for folder in sorted(root.glob("intel-rapl:*")) if root.is_dir() else []:
        if folder.name.count(":") == 1:
            with suppress(OSError, ValueError):
                counter = _Counter(folder / "energy_uj", int((folder / "max_energy_range_uj").read_text()))
                counter.last = counter.read()
                found.append(counter)
    return found


class _Nvml:
    """Millijoules since the driver was loaded, summed over the GPUs."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        if self.library.nvmlInit_v2() != 0:
            raise OSError("NVML does not start")
        count = ctypes.c_uint()
        if self.library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0 or not count.value:
            raise OSError("no GPU")
        self.handles = []
        for index in range(count.value):
            handle = ctypes.c_void_p()
            if self.library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == 0:
                self.handles.append(handle)
        self.start = self.read()

    def read(self) -> float:
        total = 0.0
        for handle in self.handles:
            value = ctypes.c_ulonglong()
            if self.library.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(value)) != 0:
                raise OSError("this GPU does not count its energy")
            total += value.value / 1e3
        return total

    def joules(self) -> float:
        return self.read() - self.start


def _nvml() -> _Nvml | None:
    if not os.path.exists("/dev/nvidiactl"):
        return None
    try:
        return _Nvml()
    except (OSError, AttributeError):
        return None


@dataclass
class Usage:
    """Amounts since this object was made, for the process that made it."""

    pid: int = field(default_factory=os.getpid)
    counters: list[_Counter] = field(default_factory=powercap_counters)
    nvml: _Nvml | None = field(default_factory=_nvml)
    began: float = field(default_factory=time.monotonic)
    cpu: float = field(default_factory=cpu_seconds)
    gpu_seconds: float = 0.0
    _looked: float = field(default_factory=time.monotonic)

    def amounts(self) -> dict[str, float | None]:
        """seconds, cpu_seconds, gpu_seconds, energy_joules (None = no counter)."""
        now = time.monotonic()
        self.gpu_seconds += gpus_held() * (now - self._looked)
        self._looked = now
        return {
            "seconds": round(now - self.began, 3),
            "cpu_seconds": round(max(0.0, cpu_seconds() - self.cpu), 3),
            "gpu_seconds": round(self.gpu_seconds, 3),
            "energy_joules": self._joules(),
        }

    def _joules(self) -> float | None:
        if not self.counters and self.nvml is None:
            return None
        try:
            cpu = sum(counter.advance() for counter in self.counters)
            return round(cpu + (self.nvml.joules() if self.nvml else 0.0), 3)
        except (OSError, ValueError):
            self.counters, self.nvml = [], None
            return None
