"""The parts that have to be right on their own: fairness, exact kills, the lease table."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from components.contracts.errors import ParamsError, SandboxError
from components.sandbox.pool.backends import name_of, named
from components.sandbox.pool.errors import PoolFullError
from components.sandbox.pool.kubernetes.sources import label
from components.sandbox.pool.models import Deadlines
from components.sandbox.pool.processes import Process, alive, boot_id, kill, start_of, this_process
from components.sandbox.pool.providers import LocalProvider
from components.sandbox.pool.queue import FairQueue
from components.sandbox.pool.serve import owner_id, parse_backend
from components.sandbox.pool.table import LeaseTable
from tests.unit.pool import kit
from tests.unit.pool.kit import minidesk_host, wait_for


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])


def test_a_process_that_has_the_number_of_an_old_one_is_left_alone() -> None:
    foreign = sleeper()
    try:
        start = start_of(foreign.pid)
        old = Process(foreign.pid, str(int(start) - 1))
        assert not alive(old) and kill(old, 1)  # ours is gone: its number is another's now
        assert foreign.poll() is None and alive(Process(foreign.pid, start))
        assert kill(Process(foreign.pid, ""), 1) and foreign.poll() is None
        assert kill(Process(foreign.pid, start), 5)
        assert foreign.wait(5) == -9 and kill(Process(foreign.pid, start), 1)
    finally:
        foreign.kill()
        foreign.wait()


def test_the_reaper_ends_what_its_own_table_names_and_nothing_else(tmp_path: Path) -> None:
    state = tmp_path / "state"
    runs = state / "slots" / "minidesk"
    ours, recycled, others, earlier = (sleeper() for _ in range(4))
    runs.mkdir(parents=True)
    for name in ("s-ours", "s-recycled", "s-others", "s-earlier", "s-unknown"):
        (runs / name).mkdir()

    def handle(name: str, process: subprocess.Popen[bytes], start: str = "") -> dict[str, object]:
        return {"folder": name, "process": [process.pid, start or start_of(process.pid)], "processes": []}

    past = LeaseTable(state / "leases.sqlite", "test-host")
    past._me = Process(past._me.pid, "1")  # an earlier life of this host, which had the same process number
    past.put_slot("s-ours", "minidesk", handle("s-ours", ours))
    past.put_slot("s-recycled", "minidesk", handle("s-recycled", recycled, "12345"))
    past._boot = "another-boot"
    past.put_slot("s-earlier", "minidesk", handle("s-earlier", earlier))
    past.put_slot("s-escape", "minidesk", {"folder": "../../..", "process": None, "processes": []})
    past.host = "other-host"
    past.put_slot("s-others", "minidesk", handle("s-others", others))
    past.close()
    host = minidesk_host(state)
    try:
        assert host.reaper.earlier_life() == 4 + 2  # and the two folders without a row of this host
        assert wait_for(lambda: ours.poll() == -9)
        assert [p.poll() for p in (recycled, others, earlier)] == [None] * 3
        assert list(runs.iterdir()) == [] and state.exists() and host.table.slots() == []
        rest = LeaseTable(state / "leases.sqlite", "other-host")
        assert [row.slot_id for row in rest.slots()] == ["s-others"]
        rest.close()
    finally:
        host.close()
        for process in (ours, recycled, others, earlier):
            process.kill()
            process.wait()


def test_within_a_run_it_is_first_come_first_served_and_between_runs_it_is_even() -> None:
    queue = FairQueue(2, 100)
    first = [queue.ticket("a"), queue.ticket("a")]
    assert all(ticket.granted for ticket in first)
    line = [queue.ticket("a") for _ in range(6)] + [queue.ticket("b") for _ in range(2)]
    order: list[int] = []
    holders = ["a", "a"]
    while not all(ticket.granted for ticket in line):
        queue.release(holders.pop(0))
        new = [i for i, ticket in enumerate(line) if ticket.granted and i not in order]
        assert len(new) == 1
        order += new
        holders.append(line[new[0]].owner)
    assert [i for i in order if i < 6] == [0, 1, 2, 3, 4, 5] and [i for i in order if i >= 6] == [6, 7]
    assert (
        order.index(6) == 0 and order.index(7) <= 3
    )  # run b, which came last and holds nothing, does not wait for all of a


def test_the_queue_hands_out_each_place_once_and_forgets_who_went_away() -> None:
    queue = FairQueue(3, 50)
    held = 0
    lock = threading.Lock()
    most = []

    def work(seed: int) -> None:
        nonlocal held
        rng = random.Random(seed)
        for _ in range(20):
            ticket = queue.ticket(f"run-{seed % 3}")
            if rng.random() < 0.2:
                ticket.cancel()
            try:
                queue.wait(ticket, 20)
            except PoolFullError:
                continue
            with lock:
                held += 1
                most.append(held)
            with lock:
                held -= 1
            queue.release(ticket.owner)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert max(most) <= 3 and queue.taken == 0 and queue.waiting == 0


def test_a_line_that_is_too_long_is_full_at_once() -> None:
    queue = FairQueue(1, 2)
    queue.wait(queue.ticket("a"), 0)
    queue.ticket("a"), queue.ticket("b")
    with pytest.raises(PoolFullError):
        queue.ticket("c")


def test_a_full_disk_makes_no_sandbox_that_nobody_would_remember(tmp_path: Path) -> None:
    host = minidesk_host(tmp_path / "state")
    pages = host.table._db.execute("pragma page_count").fetchone()[0]
    host.table._db.execute(f"pragma max_page_count = {pages}")  # SQLite's own "database or disk is full"
    from components.sandbox.pool.models import LeaseRequest, SlotSpec

    def lease(number: int, size: int) -> str:
        labels = {str(n): "x" * 190 for n in range(size)}
        request = LeaseRequest(key=f"lease-{number:04}", slot=SlotSpec(backend="minidesk"), labels=labels)
        return host.lease(request).lease

    try:
        with pytest.raises(SandboxError, match="full"):
            for number in range(40):
                host.queue.capacity += 1
                lease(number, 20)
        # The one that could not be noted is gone; those that were are not harmed, and room again means work again.
        assert host.stock.sandboxes == host.queue.taken == len(host.leases)
        host.table._db.execute("pragma max_page_count = 100000")
        lease(9999, 0)
    finally:
        host.close()
    assert list((tmp_path / "state" / "slots" / "minidesk").iterdir()) == []


def test_the_table_tells_lives_and_boots_apart(tmp_path: Path) -> None:
    table = LeaseTable(tmp_path / "t.sqlite", "h")
    table.put_slot("s", "p", {"a": 1})
    table.put_slot("s", "p", {"a": 2})
    (row,) = table.slots()
    assert row.handle == {"a": 2} and table.mine(row) and row.this_boot and row.maker == this_process()
    assert boot_id() and row.boot == boot_id()
    table.drop_slot("s")
    assert table.slots() == []
    table.close()
    (tmp_path / "bad.sqlite").write_bytes(b"not a database, not at all" * 100)
    with pytest.raises(SandboxError, match="lease table"):
        LeaseTable(tmp_path / "bad.sqlite", "h")


def test_setups_and_verifiers_travel_by_name(tmp_path: Path) -> None:
    assert named(name_of(kit.prepare)) is kit.prepare and name_of(None) == ""
    with pytest.raises(ParamsError, match="cannot be imported"):
        name_of(lambda: None)
    for wrong in ("no.such:thing", "components.sandbox.pool.models:Nothing", "", "json"):
        with pytest.raises(ParamsError):
            named(wrong)
    provider = LocalProvider("minidesk", "no.such:backend", tmp_path / "runs")
    from components.sandbox.pool.models import SlotSpec

    with pytest.raises(ParamsError, match="no.such"):
        provider.create("s-1", SlotSpec(backend="minidesk"), 30, lambda handle: None)
    assert list((tmp_path / "runs").iterdir()) == []
    provider.close()


def test_a_lease_gets_no_longer_than_the_host_allows() -> None:
    capped = Deadlines(create=1, setup=9999, act=1, episode=1, grading=1).capped(Deadlines(setup=60))
    assert (capped.create, capped.setup) == (1, 60)


def test_two_hosts_of_one_name_mark_their_pods_differently(tmp_path: Path) -> None:
    first, second = (owner_id(tmp_path / name, "node") for name in ("a", "b"))
    assert first != second and first.startswith("node.") and owner_id(tmp_path / "a", "node") == first
    assert len(label(owner_id(tmp_path / "a", "n" * 80))) <= 63 and label(first) == first
    (tmp_path / "a" / "owner-id").write_text("")
    with pytest.raises(SandboxError, match="damaged"):
        owner_id(tmp_path / "a", "node")


def test_every_backend_of_the_command_has_a_name_and_a_wrong_one_is_told_which() -> None:
    names = [parse_backend(text, {}, "h", "ns")[0] for text in ("minidesk", "x11", "claims:p", "statefulset:app=d")]
    assert names == ["minidesk", "x11", "claims", "statefulset"]
    for wrong in ("claims", "statefulset:", "docker"):
        with pytest.raises(ParamsError, match="--backend"):
            parse_backend(wrong, {}, "h", "ns")


def test_what_ends_badly_is_ended_again_until_it_is_gone(tmp_path: Path) -> None:
    host = minidesk_host(tmp_path / "state")
    from components.sandbox.pool.models import LeaseRequest, SlotSpec

    lease = host.lease(LeaseRequest(key="lease-one", slot=SlotSpec(backend="minidesk"))).lease
    provider = host.providers["minidesk"]
    good, tries = provider.destroy, []

    def destroy(*arguments: object) -> bool:
        tries.append(arguments)
        if len(tries) < 3:
            raise OSError("no")
        return good(*arguments)  # type: ignore[arg-type]

    provider.destroy = destroy  # type: ignore[method-assign, assignment]
    try:
        host.release(lease)
        assert host.queue.taken == 0 and len(host.table.slots()) == 1  # noted as long as it may be there
        assert wait_for(lambda: host.reaper.tick() is None and host.table.slots() == [])
        assert len(tries) == 3
    finally:
        host.close()
