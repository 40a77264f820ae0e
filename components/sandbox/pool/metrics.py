"""What Prometheus reads. One registry a host, so that several can live in one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from components.contracts.errors import CallError, CoworkError
from components.sandbox.pool.errors import (
    DeadlineError,
    KeyReusedError,
    LeaseEndedError,
    PoolFullError,
    SlotGoneError,
)

_WAITS = (0.01, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
_STEPS = (0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 15, 60)


def kind_of(error: BaseException) -> str:
    """A short stable name: `deadline_setup`, `gone`, `lease`, `full`, `call`, `task`, `verifier`, `sandbox`, ..."""
    if isinstance(error, DeadlineError):
        return f"deadline_{error.which}"
    names: list[tuple[type[BaseException], str]] = [
        (SlotGoneError, "gone"), (LeaseEndedError, "lease"), (PoolFullError, "full"), (KeyReusedError, "key"),
        (CallError, "call"),
    ]  # fmt: skip
    for kind, name in names:
        if isinstance(error, kind):
            return name
    return error.border if isinstance(error, CoworkError) else "internal"


class Metrics:
    """Counters and histograms are written as things happen; `watch` names the functions that give the gauges."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        self.lease_wait = Histogram(
            "cowork_pool_lease_wait_seconds", "queue before a lease", buckets=_WAITS, registry=registry
        )
        self.create = Histogram(
            "cowork_pool_create_seconds", "making a sandbox", ["backend"], buckets=_WAITS, registry=registry
        )
        self.reset = Histogram("cowork_pool_reset_seconds", "reset, setup included", buckets=_WAITS, registry=registry)
        self.step = Histogram("cowork_pool_step_seconds", "one action", ["tool"], buckets=_STEPS, registry=registry)
        self.grade = Histogram("cowork_pool_grade_seconds", "grading", buckets=_WAITS, registry=registry)
        self.failures = Counter("cowork_pool_failures", "failed operations", ["operation", "kind"], registry=registry)
        self.made = Counter("cowork_pool_slots_made", "sandboxes made", ["backend"], registry=registry)
        self.ended = Counter("cowork_pool_slots_ended", "sandboxes ended", ["reason"], registry=registry)
        self.reaped = Counter(
            "cowork_pool_reaped", "what an earlier life or a lost client left", ["what"], registry=registry
        )
        self.standby_hits = Counter("cowork_pool_standby", "slots taken", ["source"], registry=registry)
        self.table_errors = Counter("cowork_pool_table_errors", "lease table not writable", registry=registry)

    def watch(self, **gauges: Callable[[], float]) -> None:
        """name -> function, read at each scrape: `cowork_pool_NAME`."""
        for name, function in gauges.items():
            Gauge(f"cowork_pool_{name}", name.replace("_", " "), registry=self.registry).set_function(function)

    def watch_leases(self, states: dict[str, Callable[[], float]]) -> None:
        gauge = Gauge("cowork_pool_leases", "leases by state", ["state"], registry=self.registry)
        for state, function in states.items():
            gauge.labels(state).set_function(function)

    @contextmanager
    def operation(self, name: str, histogram: Histogram | None = None) -> Iterator[None]:
        """Counts a failure by its kind; a success's time goes to the histogram."""
        began = monotonic()
        try:
            yield
        except BaseException as error:
            self.failures.labels(name, kind_of(error)).inc()
            raise
        if histogram is not None:
            histogram.observe(monotonic() - began)

    def text(self) -> bytes:
        return generate_latest(self.registry)
