"""Slots that are pods, against a fake API server and real agents: the usual day, and every fault of a cluster's API."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.contracts.calls import BashCall
from components.contracts.errors import ClusterError, SandboxError
from components.sandbox.pool.errors import DeadlineError, SlotGoneError
from components.sandbox.pool.host import SlotHost
from components.sandbox.pool.kubernetes.api import CLAIMS, PODS, ClusterApi
from components.sandbox.pool.kubernetes.provider import PodProvider
from components.sandbox.pool.kubernetes.sources import ClaimSource, StatefulSetSource
from components.sandbox.pool.models import Deadlines, LeaseRequest, SlotSpec
from components.sandbox.pool.serve import build_host
from tests.fakes.kubernetes_api import FakeKubernetes
from tests.unit.pool.cluster_kit import (
    AGENT_TOKEN,
    Kubelet,
    all_claims,
    claim_controller,
    free_port,
    stateful_set,
)
from tests.unit.pool.kit import make_task, wait_for

NAMESPACE = "cowork-sandboxes"


@pytest.fixture
def kubelet() -> Iterator[Kubelet]:
    running = Kubelet(free_port())
    yield running
    running.close()


@pytest.fixture
def cluster(kubelet: Kubelet) -> Iterator[FakeKubernetes]:
    """Ends before its pods do."""
    with FakeKubernetes() as running:
        yield running


def api_of(cluster: FakeKubernetes, seconds: float = 10.0) -> ClusterApi:
    return ClusterApi(cluster.client, NAMESPACE, seconds=seconds)


def pod_host(state: Path, source: Any, kubelet: Kubelet, **settings: Any) -> SlotHost:
    provider = PodProvider("pods", source, port=kubelet.port, token=AGENT_TOKEN)
    return build_host(state, "host-1", {"pods": provider}, tick=0.1, **settings)


def lease(host: SlotHost, key: str, **more: Any) -> str:
    return host.lease(LeaseRequest(key=key, slot=SlotSpec(backend="pods"), **more)).lease


def claim_host(state: Path, cluster: FakeKubernetes, kubelet: Kubelet, **settings: Any) -> SlotHost:
    return pod_host(state, ClaimSource(api_of(cluster), "host-1", "desktop"), kubelet, **settings)


def test_an_episode_in_a_claimed_pod(cluster: FakeKubernetes, kubelet: Kubelet, tmp_path: Path) -> None:
    cluster.control("sandboxclaims", claim_controller(kubelet))
    host = claim_host(tmp_path / "state", cluster, kubelet)
    try:
        held = lease(host, "lease-one", labels={"run": "Run 7"})
        (claim,) = all_claims(cluster)
        labels = claim["metadata"]["labels"]
        assert labels["cowork.dev/host"] == "host-1" and labels["cowork.dev/run"] == "Run-7"
        assert held.startswith(labels["cowork.dev/lease"][:5]) and claim["spec"]["warmPoolRef"] == {"name": "desktop"}
        assert claim["spec"]["lifecycle"]["shutdownTime"].endswith("Z") and "env" not in claim["spec"]
        host.reset(held, "reset-001", make_task("pod"))
        assert host.act(held, "act-00001", BashCall(command="cat name.txt; echo done >> log.txt")).output == "pod"
        assert host.grade(held, "grade-001").success
        host.reset(held, "reset-002", make_task("next"))  # another pod
        assert host.act(held, "act-00002", BashCall(command="cat name.txt log.txt")).output == "next"
        assert [c["metadata"]["uid"] for c in all_claims(cluster)] != [claim["metadata"]["uid"]]
        # A pod that dies is an infrastructure error; the claim goes, and the next reset has another.
        os.kill(kubelet.running[-1], signal.SIGKILL)
        with pytest.raises(SlotGoneError):
            host.act(held, "act-00003", BashCall(command="true"))
        host.reset(held, "reset-003", make_task("third"))
        assert host.act(held, "act-00004", BashCall(command="cat name.txt")).output == "third"
        host.release(held)
        assert all_claims(cluster) == [] and host.table.slots() == []
        assert wait_for(lambda: kubelet.running == [])
    finally:
        host.close()


def test_the_agent_listens_to_one_host_with_its_token_and_then_to_nobody(kubelet: Kubelet) -> None:
    import socket

    from components.sandbox.pool.link import SlotLink
    from components.sandbox.pool.providers import open_slot

    ip = kubelet.run("pod")

    def connect(token: str) -> SlotLink:
        link = SlotLink(socket.create_connection((ip, kubelet.port), timeout=5))
        open_slot(link, "s", SlotSpec(backend="minidesk"), {"token": token}, 20)
        return link

    with socket.create_connection((ip, kubelet.port)):  # a probe: connects, says nothing
        for wrong in ("", "another-token-0123456789"):
            with pytest.raises(SlotGoneError):
                connect(wrong)
        link = connect(AGENT_TOKEN)
    with pytest.raises(OSError):
        socket.create_connection((ip, kubelet.port), timeout=2)
    link.close()
    assert wait_for(lambda: kubelet.running == [])  # with the line ends the agent


FAULTS: list[tuple[str, list[tuple[str, str, dict[str, Any]]]]] = [
    ("the server is busy", [
        ("POST", "claims", {"status": 429, "retry_after": 1}), ("GET", "claims", {"status": 500, "times": 2})]),
    ("the answer to the creation is lost", [("POST", "claims", {"drop": "after"})]),
    ("connections break before anything happens", [("*", "claims", {"drop": "before", "times": 3})]),
    ("the server is slow", [("*", "claims", {"delay": 0.3, "times": 6})]),
    ("the watch is too old", [("GET", "watch=1", {"status": 410})]),
    ("the watch is refused for a while", [("GET", "watch=1", {"status": 503, "times": 2})]),
    ("the deletion fails", [
        ("DELETE", "claims", {"status": 500, "times": 2}), ("DELETE", "claims", {"drop": "after"})]),
    ("the label cannot be written at once", [
        ("PATCH", "claims", {"status": 409}), ("PATCH", "claims", {"status": 500})]),
]  # fmt: skip


@pytest.mark.parametrize("faults", [f[1] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_a_fault_of_the_api_costs_time_and_no_claim(
    faults: list[tuple[str, str, dict[str, Any]]], cluster: FakeKubernetes, kubelet: Kubelet, tmp_path: Path
) -> None:
    cluster.control("sandboxclaims", claim_controller(kubelet))
    host = claim_host(tmp_path / "state", cluster, kubelet)
    ordered = [cluster.faults.add(method, path, **details) for method, path, details in faults]
    try:
        held = lease(host, "lease-one")
        assert len(all_claims(cluster)) == 1
        host.release(held)
        assert wait_for(lambda: host.reaper.tick() is None and all_claims(cluster) == [] and host.table.slots() == [])
        assert all(fault.met for fault in ordered)
    finally:
        cluster.faults.clear()
        host.close()


def test_watches_resume_where_they_were_cut_and_list_anew_when_that_is_too_old(cluster: FakeKubernetes) -> None:
    api = api_of(cluster)

    def check(held: dict[str, Any]) -> str | None:
        return (held.get("c") or {}).get("status", {}).get("go")

    found: list[str] = []
    waiter = threading.Thread(target=lambda: found.append(api.wait(CLAIMS, check, time.monotonic() + 30)))
    waiter.start()
    assert wait_for(lambda: cluster.watching == 1)
    made = {"apiVersion": CLAIMS.api_version, "kind": "SandboxClaim", "metadata": {"name": "c"}, "spec": {}}
    api.create(CLAIMS, made)

    def watches() -> int:
        return cluster.count("GET", "watch=1")

    def cut() -> None:
        before = watches()
        cluster.drop_watches()
        assert wait_for(lambda: watches() == before + 1)

    lists = cluster.count("GET", "sandboxclaims(?!.*watch)")
    for _ in range(3):
        cut()
    assert cluster.count("GET", "sandboxclaims(?!.*watch)") == lists  # resumed, not listed again
    cluster.store.compact()
    cluster.store.bump()
    cluster.drop_watches()
    kind = next(k for k, _ in cluster.store)
    cluster.store.patch(kind, NAMESPACE, "c", {"status": {"go": "now"}}, "merge", "status")
    waiter.join(20)
    assert found == ["now"]


def test_credentials_that_ran_out_are_renewed_and_refused_ones_are_said(cluster: FakeKubernetes) -> None:
    tokens = ["old-token", cluster.token]
    api = ClusterApi(lambda: cluster.client(tokens.pop(0)), NAMESPACE, seconds=5)
    assert api.listing(CLAIMS)[0] == [] and tokens == []
    refused = ClusterApi(lambda: cluster.client("never"), NAMESPACE, seconds=5)
    with pytest.raises(ClusterError, match="credentials"):
        refused.listing(CLAIMS)
    cluster.faults.add("GET", "pods", status=403)
    with pytest.raises(ClusterError, match="role"):
        api.listing(PODS)
    dead = ClusterApi(cluster.client, NAMESPACE, seconds=0.5)
    cluster.faults.add("GET", "pods", drop="before", times=None)
    with pytest.raises(ClusterError, match="in time"):
        dead.listing(PODS)


def test_a_claim_that_is_never_bound_is_given_up_and_removed(
    cluster: FakeKubernetes, kubelet: Kubelet, tmp_path: Path
) -> None:
    host = claim_host(tmp_path / "state", cluster, kubelet)
    try:
        with pytest.raises(DeadlineError) as caught:
            lease(host, "lease-one", deadlines=Deadlines(create=1.0))
        assert caught.value.which == "create" and all_claims(cluster) == [] and host.queue.taken == 0
    finally:
        host.close()


def test_the_reaper_deletes_its_own_forgotten_claims_and_no_others(
    cluster: FakeKubernetes, kubelet: Kubelet, tmp_path: Path
) -> None:
    cluster.control("sandboxclaims", claim_controller(kubelet))
    ours, others = ClaimSource(api_of(cluster), "host-1", "desktop"), ClaimSource(api_of(cluster), "host-2", "desktop")
    first = claim_host(tmp_path / "state", cluster, kubelet)
    lease(first, "lease-one")
    first._hold.release()  # its process is killed: nothing is closed, the rows and the claim stay
    for source, slot in ((ours, "s-forgotten"), (others, "s-theirs")):
        source._api.create(CLAIMS, source.manifest(slot))
    unlabelled = {"apiVersion": CLAIMS.api_version, "kind": "SandboxClaim", "metadata": {"name": "by-hand"}, "spec": {}}
    api_of(cluster).create(CLAIMS, unlabelled)
    assert len(all_claims(cluster)) == 4
    first.table._write("update slots set start = '1'", ())
    second = claim_host(tmp_path / "state", cluster, kubelet)
    try:
        assert second.reaper.earlier_life() == 2
        assert [c["metadata"]["name"] for c in all_claims(cluster)] == ["by-hand", "cowork-s-theirs"]
        assert second.table.slots() == [] and second.table.leases() == []
    finally:
        second.close()


def test_ordinals_of_a_stateful_set_are_lent_once_each_and_come_back_fresh(
    cluster: FakeKubernetes, kubelet: Kubelet, tmp_path: Path
) -> None:
    start, control = stateful_set(kubelet, "desktop", 2, NAMESPACE)
    start(cluster)
    cluster.control("pods", control)
    hosts = [
        pod_host(tmp_path / name, StatefulSetSource(api_of(cluster), name, "app=desktop"), kubelet)
        for name in ("host-1", "host-2")
    ]
    try:
        cluster.faults.add("PATCH", "pods", status=409)  # another host was quicker: read again
        cluster.faults.add("PATCH", "pods", drop="after")  # ours, though the answer was lost
        held = [lease(host, "lease-one") for host in hosts]
        with pytest.raises(DeadlineError):
            lease(hosts[0], "lease-two", deadlines=Deadlines(create=1.0))
        handles = {host.table.slots()[0].handle["pod"]: host.table.slots()[0].handle["uid"] for host in hosts}
        assert sorted(handles) == ["desktop-0", "desktop-1"]
        hosts[0].reset(held[0], "reset-001", make_task("one"))
        hosts[0].act(held[0], "act-00001", BashCall(command="echo x > left"))
        hosts[0].release(held[0])
        again = lease(hosts[1], "lease-three")  # the same ordinal, a fresh pod
        row = next(row for row in hosts[1].table.slots() if row.slot_id != hosts[1].leases[held[1]].slot.slot_id)  # type: ignore[union-attr]
        assert row.handle["pod"] in handles and row.handle["uid"] not in handles.values()
        hosts[1].reset(again, "reset-001", make_task("two"))
        assert hosts[1].act(again, "act-00001", BashCall(command="ls")).output.split() == ["log.txt", "name.txt"]
        # A pod that was taken and forgotten is given back by its host, and by no other.
        assert hosts[0].reaper.leftovers() == 0
        hosts[1].table.drop_slot(row.slot_id)
        hosts[1].stock._alive.pop(row.slot_id)
        assert hosts[1].reaper.leftovers() == 1
        with pytest.raises(SandboxError):
            hosts[1].act(again, "act-00002", BashCall(command="true"))
    finally:
        for host in hosts:
            host.close()
