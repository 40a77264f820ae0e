"""The asynchronous client: many slots in one thread, by the same rules."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from components.contracts.calls import BashCall
from components.contracts.errors import SandboxError
from components.contracts.task import Verdict
from components.sandbox.pool.async_client import AsyncPooledDesktop
from components.sandbox.pool.errors import LeaseEndedError
from components.sandbox.pool.models import Deadlines
from tests.unit.pool.kit import TOKEN, make_task, minidesk_host, serving
from tests.unit.pool.proxy import Proxy


async def episode(url: str, http: httpx.AsyncClient | None, number: int) -> Verdict:
    async with AsyncPooledDesktop(url, TOKEN, "minidesk", http=http, ttl=10.0) as desktop:
        await desktop.reset(make_task(str(number)))
        assert (await desktop.act(BashCall(command="cat name.txt; echo done >> log.txt"))).output == str(number)
        assert (await desktop.observe()).screen.any()
        return await desktop.grade()


def test_more_episodes_than_slots_share_one_connection_pool(tmp_path: Path) -> None:
    async def run(url: str) -> list[Verdict]:
        headers = {"authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(base_url=url, headers=headers, trust_env=False) as http:
            return await asyncio.gather(*(episode(url, http, number) for number in range(6)))

    host = minidesk_host(tmp_path / "state", slots=3)
    with serving(host) as url:
        assert all(verdict.success for verdict in asyncio.run(run(url)))
        assert host.queue.taken == 0 and host.table.slots() == []


def test_it_acts_once_however_the_line_breaks_and_says_when_its_lease_is_over(tmp_path: Path) -> None:
    host = minidesk_host(tmp_path / "state")

    async def run(proxy: Proxy) -> None:
        terms = {"deadlines": Deadlines(act=3.0), "slack": 0.3}
        desktop = AsyncPooledDesktop(proxy.url, TOKEN, "minidesk", **terms)  # type: ignore[arg-type]
        await desktop.reset(make_task("x"))
        for fault in (proxy.cut, proxy.hold):
            fault("POST .*/act")
            await desktop.act(BashCall(command="echo line >> log.txt"))
        assert (await desktop.act(BashCall(command="cat log.txt"))).output == "line\nline\n"
        await asyncio.to_thread(host.release, (await desktop.open()).lease)
        with pytest.raises(LeaseEndedError):
            await desktop.act(BashCall(command="true"))
        with pytest.raises(SandboxError):
            await desktop.observe()
        await desktop.reset(make_task("again"))
        assert await desktop.prefetch(make_task("next")) == "preparing"
        await desktop.close()
        await desktop.close()

    with serving(host) as url, Proxy(url) as proxy:
        asyncio.run(run(proxy))
        assert host.queue.taken == 0
