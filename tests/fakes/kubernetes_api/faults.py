"""What can go wrong with a request, on order."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass


@dataclass
class Fault:
    """For requests whose method and path match, `times` times (None = always), after `skip` that go through.

    `status` is answered (with `retry_after` seconds), `delay` seconds pass first, `drop` closes the connection without
    an answer: `before` the request is carried out, or `after`.
    """

    method: str
    path: str
    status: int = 0
    times: int | None = 1
    skip: int = 0
    retry_after: int | None = None
    delay: float = 0.0
    drop: str = ""
    met: int = 0

    def fits(self, method: str, path: str) -> bool:
        return self.method in ("*", method) and re.search(self.path, path) is not None


class Faults:
    """Orders are met in their order; one a request."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    def add(self, method: str, path: str, **details: object) -> Fault:
        fault = Fault(method, path, **details)  # type: ignore[arg-type]
        with self._lock:
            self._faults.append(fault)
        return fault

    def clear(self) -> None:
        with self._lock:
            self._faults.clear()

    def next(self, method: str, path: str) -> Fault | None:
        with self._lock:
            for fault in self._faults:
                if fault.fits(method, path):
                    if fault.skip > 0:
                        fault.skip -= 1
                        continue
                    fault.met += 1
                    if fault.times is not None and fault.met >= fault.times:
                        self._faults.remove(fault)
                    return fault
        return None
