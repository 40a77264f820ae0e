"""`PooledDesktop`: a slot of another machine, used like one of this. `AsyncPooledDesktop` is its asynchronous twin."""

from __future__ import annotations

import base64
import binascii
import threading
from collections.abc import Generator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar

import httpx
from pydantic import RootModel

from components.contracts.calls import DesktopCall
from components.contracts.desktop import ActResult, Observation
from components.contracts.errors import CoworkError, ParamsError, SandboxError
from components.contracts.task import Task, Verdict
from components.sandbox.pool import flows
from components.sandbox.pool.auth import check_token
from components.sandbox.pool.errors import LeaseEndedError
from components.sandbox.pool.flows import Answer, Lost, Pause, Request
from components.sandbox.pool.models import (
    Act,
    Deadlines,
    Done,
    LeaseInfo,
    LeaseRequest,
    PrefetchInfo,
    Seen,
    SlotSpec,
    act_seconds,
)
from components.sandbox.pool.protocol import decode_seen

T = TypeVar("T")
WHERE = "pool client"
_CONNECT_SECONDS = 5.0
SLACK = 20.0
"""Seconds beyond the host's own deadlines before its answer counts as lost."""
_LOOK_SECONDS = 60.0


class State(RootModel[dict[str, Any]]):
    """A desktop's state: whatever its backend tells."""


class LeaseTerms:
    """What is asked for, and what a lease's paths and times are. Shared by both clients."""

    def __init__(
        self,
        backend: SlotSpec | str,
        *,
        labels: Mapping[str, str] | None = None,
        ttl: float = 30.0,
        wait: float = 60.0,
        deadlines: Deadlines | None = None,
        patience: float = 5.0,
        slack: float = SLACK,
    ) -> None:
        self.spec = backend if isinstance(backend, SlotSpec) else SlotSpec(backend=backend)
        self.labels, self.ttl, self.wait = dict(labels or {}), ttl, wait
        self.deadlines = deadlines
        self.patience, self.slack = patience, slack
        self.lease: LeaseInfo | None = None
        self.lost: CoworkError | None = None

    def request(self) -> LeaseRequest:
        return LeaseRequest(
            key=flows.new_key(), slot=self.spec, labels=self.labels, ttl=self.ttl, wait=self.wait,
            deadlines=self.deadlines,
        )  # fmt: skip

    def times(self) -> Deadlines:
        return self.lease.deadlines if self.lease else self.deadlines or Deadlines()

    def path(self) -> str:
        if self.lost is not None:
            raise self.lost
        if self.lease is None:
            raise SandboxError("no episode is open", where=WHERE, remedy="call reset first")
        return f"/leases/{self.lease.lease}"

    # -- flows: see `flows.py`

    def take(self) -> flows.Flow[LeaseInfo]:
        seconds = self.wait + self.times().create + self.slack
        body = self.request().model_dump(mode="json")
        return flows.renew("POST", "/leases", body, LeaseInfo, seconds, patience=self.patience)

    def change(self, verb: str, model: type[Any], seconds: float, body: Mapping[str, Any]) -> flows.Flow[Any]:
        data = {"key": flows.new_key(), **body}
        return flows.change(self.path(), verb, data, model, seconds + self.slack, patience=self.patience)

    def reset(self, task: Task) -> flows.Flow[Seen]:
        times = self.times()
        return self.change("reset", Seen, times.create + 2 * times.setup, {"task": task.model_dump(mode="json")})

    def act(self, call: DesktopCall) -> flows.Flow[Act]:
        seconds = act_seconds(call, self.times()) + self.slack
        return self.change("act", Act, seconds, {"call": call.model_dump(mode="json")})

    def grade(self) -> flows.Flow[Verdict]:
        return self.change("grade", Verdict, self.times().grading, {})

    def prefetch(self, task: Task) -> flows.Flow[PrefetchInfo]:
        body = {"task": task.model_dump(mode="json")}
        return flows.renew("POST", f"{self.path()}/prefetch", body, PrefetchInfo, _LOOK_SECONDS, patience=self.patience)

    def look(self, what: str, model: type[Any]) -> flows.Flow[Any]:
        seconds = self.times().act + self.slack
        return flows.look(f"{self.path()}/{what}", model, min(seconds, _LOOK_SECONDS), patience=self.patience)

    def heartbeat(self, path: str) -> flows.Flow[LeaseInfo]:
        return flows.renew("POST", f"{path}/heartbeat", None, LeaseInfo, 10.0, patience=0.0)

    def release(self, path: str) -> flows.Flow[Done]:
        return flows.renew("DELETE", path, None, Done, 30.0, patience=min(1.0, self.patience))

    def note(self, error: CoworkError) -> None:
        """A lease that has ended or a host that is gone stays so: no old screen is shown as if it were new."""
        if isinstance(error, LeaseEndedError) and self.lost is None:
            self.lost = error


def observation(seen: Seen) -> Observation:
    try:
        png = base64.b64decode(seen.png, validate=True)
    except binascii.Error as error:
        raise SandboxError("the screen is no base64", where=WHERE, remedy="the episode is lost") from error
    return decode_seen({"pointer": seen.pointer, "elements": seen.elements}, png)


def _headers(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {check_token(token, 'token')}"}


def _lost(error: httpx.TransportError) -> Lost:
    """Only a connection that was never made is known to have carried nothing."""
    sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    return Lost(f"{type(error).__name__}: {error}".rstrip(": "), sent)


def unusable(error: Exception) -> ParamsError:
    """An address or a token with which no request can be made at all. Says nothing of the token."""
    return ParamsError(
        f"no request can be made ({type(error).__name__})", where=WHERE,
        remedy="give http://HOST:PORT and the token without spaces",
    )  # fmt: skip


def _timeout(seconds: float) -> httpx.Timeout:
    return httpx.Timeout(seconds, connect=_CONNECT_SECONDS)


class PooledDesktop:
    """One lease, from the first `reset` (or `open`) to `close`. Heartbeats go out by themselves meanwhile.

    `url` and `token` of the slot host; `backend` a name or a whole `SlotSpec`. `wait`: seconds to queue for a slot.
    `patience`: seconds for which a host that refuses connections is tried again; `slack`: seconds beyond the host's own
    deadlines before its answer counts as lost. Use from one thread at a time.
    """

    def __init__(self, url: str, token: str, backend: SlotSpec | str, **terms: Any) -> None:
        self._terms = LeaseTerms(backend, **terms)
        limits = httpx.Limits(max_keepalive_connections=2, keepalive_expiry=60)
        self._http = httpx.Client(base_url=url, headers=_headers(token), limits=limits, trust_env=False)
        self._beats = httpx.Client(base_url=url, headers=_headers(token), trust_env=False)
        self._seen: Observation | None = None
        self._stop = threading.Event()
        self._heart: threading.Thread | None = None
        self._closed = False

    def __enter__(self) -> PooledDesktop:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- Desktop ------------------------------------------------------------------------------------------------

    @property
    def size(self) -> tuple[int, int]:
        """(width, height); leases if that has not been done yet."""
        return self.open().size

    def open(self) -> LeaseInfo:
        """Leases. Raises `PoolFullError` when none came free in time, `SandboxError`, `ParamsError`."""
        if self._closed:
            raise SandboxError("this desktop was closed", where=WHERE, remedy="make another")
        if self._terms.lease is not None and self._terms.lost is None:
            return self._terms.lease
        self._stop_heart()
        self._terms.lease, self._terms.lost = None, None
        self._terms.lease = self._run(self._terms.take())
        self._stop = threading.Event()
        self._heart = threading.Thread(target=self._beat, args=(self._terms.lease, self._stop), daemon=True)
        self._heart.start()
        return self._terms.lease

    def reset(self, task: Task) -> Observation:
        """A fresh slot set up for `task`. After a lost lease this leases again."""
        self._seen = None
        self.open()
        try:
            seen = self._run(self._terms.reset(task))
        except LeaseEndedError:  # it ended while nobody used it; nothing of this reset has begun
            self.open()
            seen = self._run(self._terms.reset(task))
        self._seen = observation(seen)
        return self._seen

    def observe(self) -> Observation:
        self._terms.path()
        if self._seen is None:
            self._seen = observation(self._run(self._terms.look("observe", Seen)))
        return self._seen

    def act(self, call: DesktopCall) -> ActResult:
        """Runs the call at most once, whatever the network does. Raises `CallError`, `SandboxError`."""
        self._seen = None
        return self._run(self._terms.act(call)).result()

    def grade(self) -> Verdict:
        self._seen = None
        return self._run(self._terms.grade())

    def state(self) -> dict[str, Any]:
        answer: State = self._run(self._terms.look("state", State))
        return answer.root

    def close(self) -> None:
        """Gives the slot back. May be called again; a host that cannot be reached takes it back by itself."""
        if self._closed:
            return
        self._closed = True
        self._stop_heart()
        self._seen = None
        lease, self._terms.lease = self._terms.lease, None
        with suppress(CoworkError):
            if lease is not None and self._terms.lost is None:
                self._run(self._terms.release(f"/leases/{lease.lease}"))
        self._http.close()
        self._beats.close()

    # -- more -----------------------------------------------------------------------------------------------------

    def prefetch(self, task: Task) -> str:
        """Have the host prepare the next task while this episode goes on; the reset for it is quick then."""
        return self._run(self._terms.prefetch(task)).state

    # -- parts ----------------------------------------------------------------------------------------------------

    def _run(self, flow: Generator[Any, Any, T], client: httpx.Client | None = None) -> T:
        http = client or self._http
        came: Answer | Lost | None = None
        try:
            while True:
                wish: Request | Pause = flow.send(came)
                if isinstance(wish, Pause):
                    came = None
                    self._stop.wait(wish.seconds)
                    continue
                try:
                    response = http.request(wish.method, wish.path, json=wish.body, timeout=_timeout(wish.seconds))
                    came = Answer(response.status_code, response.content, response.headers)
                except (httpx.LocalProtocolError, httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
                    raise unusable(error) from None
                except httpx.TransportError as error:
                    came = _lost(error)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        except CoworkError as error:
            self._terms.note(error)
            raise

    def _beat(self, lease: LeaseInfo, stop: threading.Event) -> None:
        """Until the end of the lease. A host that is away for a while is no end: it may still hold the lease."""
        path = f"/leases/{lease.lease}"
        while not stop.wait(lease.ttl / 3):
            try:
                self._run(self._terms.heartbeat(path), self._beats)
            except LeaseEndedError:
                return
            except (CoworkError, httpx.HTTPError, RuntimeError):
                continue

    def _stop_heart(self) -> None:
        self._stop.set()
        heart, self._heart = self._heart, None
        if heart is not None:
            heart.join(15)


__all__ = ["LeaseTerms", "PooledDesktop", "observation", "unusable"]
