"""The slot host over HTTP. Each route is one method of `SlotHost`; errors are `Failure`s with a fitting status.

POST   /leases                      lease, after waiting in the queue
POST   /leases/ID/heartbeat         once in a third of the ttl
DELETE /leases/ID                   release
POST   /leases/ID/reset             a fresh sandbox set up for a task
POST   /leases/ID/prefetch          prepare the next task meanwhile
GET    /leases/ID/observe           screen and pointer
POST   /leases/ID/act               one action, at most once for a key
GET    /leases/ID/requests/KEY      what became of the request with that key
POST   /leases/ID/grade             the verifier's verdict
GET    /leases/ID/state  /status  /metrics  /healthz
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypeVar

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from components.contracts.errors import CoworkError
from components.contracts.task import Verdict
from components.sandbox.pool.auth import App, Guard
from components.sandbox.pool.failures import failure_of
from components.sandbox.pool.host import SlotHost
from components.sandbox.pool.models import (
    Act,
    ActRequest,
    Done,
    Failure,
    GradeRequest,
    LeaseInfo,
    LeaseRequest,
    Outcome,
    PrefetchInfo,
    PrefetchRequest,
    Seen,
    Status,
    TaskRequest,
)
from components.sandbox.pool.queue import Ticket

T = TypeVar("T")
STATUSES = {
    "call": 400, "task": 422, "params": 422, "request": 422, "auth": 401, "key": 409, "lease": 410, "full": 503,
    "deadline": 504, "gone": 502, "verifier": 500, "sandbox": 502, "internal": 500,
}  # fmt: skip
_GONE_LOOK = 0.5
"""Seconds between two looks whether a client in the queue is still there."""


def build_app(host: SlotHost, token: str) -> App:
    """The application; it starts the host and closes it. Every route but /healthz wants the token."""
    most = 3 * host.config.capacity + host.config.longest_queue + 16
    workers = ThreadPoolExecutor(most, thread_name_prefix="pool-request")

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(host.start)
        try:
            yield
        finally:
            await asyncio.to_thread(host.close)
            workers.shutdown(wait=False, cancel_futures=True)

    app = FastAPI(lifespan=life, docs_url=None, redoc_url=None, openapi_url=None)

    async def run(work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(workers, work)

    @app.exception_handler(CoworkError)
    async def ours(request: Request, error: CoworkError) -> Response:
        return _failed(failure_of(error))

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> Response:
        # Where and what, not the value: it may be anything.
        told = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:5])
        return _failed(Failure(kind="request", message=told[:1000], where="request"))

    @app.exception_handler(Exception)
    async def internal(request: Request, error: Exception) -> Response:
        return _failed(failure_of(error))

    @app.get("/healthz")
    async def healthz() -> Done:
        return Done()

    @app.get("/metrics")
    async def metrics() -> Response:
        return PlainTextResponse(await run(host.metrics.text), media_type="text/plain; version=0.0.4")

    @app.get("/status")
    async def status() -> Status:
        return host.status()

    @app.post("/leases")
    async def lease(body: LeaseRequest, request: Request) -> LeaseInfo:
        tickets: list[Ticket] = []
        work = asyncio.ensure_future(run(lambda: host.lease(body, tickets.append)))
        while not (await asyncio.wait({work}, timeout=_GONE_LOOK))[0]:
            if tickets and not tickets[0].granted and await request.is_disconnected():
                tickets[0].cancel()  # nobody waits at the other end: the place goes to the next
        return work.result()

    @app.post("/leases/{lease_id}/heartbeat")
    async def heartbeat(lease_id: str) -> LeaseInfo:
        return host.heartbeat(lease_id)  # never behind slower requests

    @app.delete("/leases/{lease_id}")
    async def release(lease_id: str) -> Done:
        await run(lambda: host.release(lease_id))
        return Done()

    @app.post("/leases/{lease_id}/reset")
    async def reset(lease_id: str, body: TaskRequest) -> Seen:
        return await run(lambda: host.reset(lease_id, body.key, body.task))

    @app.post("/leases/{lease_id}/prefetch")
    async def prefetch(lease_id: str, body: PrefetchRequest) -> PrefetchInfo:
        return PrefetchInfo.model_validate({"state": await run(lambda: host.prefetch(lease_id, body.task))})

    @app.get("/leases/{lease_id}/observe")
    async def observe(lease_id: str) -> Seen:
        return await run(lambda: host.observe(lease_id))

    @app.post("/leases/{lease_id}/act")
    async def act(lease_id: str, body: ActRequest) -> Act:
        return await run(lambda: host.act(lease_id, body.key, body.call))

    @app.post("/leases/{lease_id}/grade")
    async def grade(lease_id: str, body: GradeRequest) -> Verdict:
        return await run(lambda: host.grade(lease_id, body.key))

    @app.get("/leases/{lease_id}/state")
    async def state(lease_id: str) -> dict[str, Any]:
        return await run(lambda: host.state(lease_id))

    @app.get("/leases/{lease_id}/requests/{key}")
    async def outcome(lease_id: str, key: str, wait: Annotated[float, Query(ge=0, le=30)] = 0.0) -> Outcome:
        return await run(lambda: host.outcome(lease_id, key, wait))

    return Guard(app, token)


def _failed(failure: Failure) -> Response:
    headers = {"retry-after": str(round(failure.seconds))} if failure.kind == "full" else {}
    return JSONResponse({"failure": failure.model_dump()}, STATUSES.get(failure.kind, 502), headers)
