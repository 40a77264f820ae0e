"""`AsyncPooledDesktop`: many slots in one thread. The rules are those of `PooledDesktop` (`flows.py`)."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import suppress
from typing import Any, TypeVar

import httpx

from components.contracts.calls import DesktopCall
from components.contracts.desktop import ActResult, Observation
from components.contracts.errors import CoworkError, SandboxError
from components.contracts.task import Task, Verdict
from components.sandbox.pool.client import WHERE, LeaseTerms, State, _headers, _lost, _timeout, observation, unusable
from components.sandbox.pool.errors import LeaseEndedError
from components.sandbox.pool.flows import Answer, Lost, Pause, Request
from components.sandbox.pool.models import LeaseInfo, Seen, SlotSpec

T = TypeVar("T")


class AsyncPooledDesktop:
    """As `PooledDesktop`, with `await` before everything. `http` may be shared by many (same host, same token)."""

    def __init__(
        self, url: str, token: str, backend: SlotSpec | str, *, http: httpx.AsyncClient | None = None, **terms: Any
    ) -> None:
        self._terms = LeaseTerms(backend, **terms)
        self._own = http is None
        self._http = http or httpx.AsyncClient(base_url=url, headers=_headers(token), trust_env=False)
        self._seen: Observation | None = None
        self._heart: asyncio.Task[None] | None = None
        self._closed = False

    async def __aenter__(self) -> AsyncPooledDesktop:
        return self

    async def __aexit__(self, *details: object) -> None:
        await self.close()

    async def open(self) -> LeaseInfo:
        if self._closed:
            raise SandboxError("this desktop was closed", where=WHERE, remedy="make another")
        if self._terms.lease is not None and self._terms.lost is None:
            return self._terms.lease
        await self._stop_heart()
        self._terms.lease, self._terms.lost = None, None
        self._terms.lease = lease = await self._run(self._terms.take())
        self._heart = asyncio.create_task(self._beat(lease))
        return lease

    async def reset(self, task: Task) -> Observation:
        self._seen = None
        await self.open()
        try:
            seen = await self._run(self._terms.reset(task))
        except LeaseEndedError:
            await self.open()
            seen = await self._run(self._terms.reset(task))
        self._seen = observation(seen)
        return self._seen

    async def observe(self) -> Observation:
        self._terms.path()
        if self._seen is None:
            self._seen = observation(await self._run(self._terms.look("observe", Seen)))
        return self._seen

    async def act(self, call: DesktopCall) -> ActResult:
        self._seen = None
        return (await self._run(self._terms.act(call))).result()

    async def grade(self) -> Verdict:
        self._seen = None
        return await self._run(self._terms.grade())

    async def state(self) -> dict[str, Any]:
        answer: State = await self._run(self._terms.look("state", State))
        return answer.root

    async def prefetch(self, task: Task) -> str:
        return (await self._run(self._terms.prefetch(task))).state

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._stop_heart()
        lease, self._terms.lease = self._terms.lease, None
        with suppress(CoworkError):
            if lease is not None and self._terms.lost is None:
                await self._run(self._terms.release(f"/leases/{lease.lease}"))
        if self._own:
            await self._http.aclose()

    async def _run(self, flow: Generator[Any, Any, T]) -> T:
        came: Answer | Lost | None = None
        try:
            while True:
                wish: Request | Pause = flow.send(came)
                if isinstance(wish, Pause):
                    came = None
                    await _moment(wish.seconds)
                    continue
                try:
                    response = await self._http.request(
                        wish.method, wish.path, json=wish.body, timeout=_timeout(wish.seconds)
                    )
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

    async def _beat(self, lease: LeaseInfo) -> None:
        path = f"/leases/{lease.lease}"
        while not self._closed:
            await _moment(lease.ttl / 3)
            try:
                await self._run(self._terms.heartbeat(path))
            except LeaseEndedError:
                return
            except (CoworkError, httpx.HTTPError, RuntimeError):
                continue

    async def _stop_heart(self) -> None:
        heart, self._heart = self._heart, None
        if heart is not None:
            heart.cancel()
            with suppress(asyncio.CancelledError, CoworkError):
                await heart


async def _moment(seconds: float) -> None:
    """Between two tries, or two heartbeats. Ends early only by cancellation."""
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), seconds)
