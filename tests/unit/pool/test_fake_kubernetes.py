"""The fake API server behaves, towards the real Python client, as a cluster does."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client, watch
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from tests.fakes.kubernetes_api import FakeKubernetes, Kind
from tests.unit.pool.kit import wait_for

GROUP, VERSION, PLURAL = "extensions.agents.x-k8s.io", "v1beta1", "sandboxclaims"
CLAIMS = (GROUP, VERSION, "ns", PLURAL)


@pytest.fixture
def cluster() -> Iterator[FakeKubernetes]:
    with FakeKubernetes() as running:
        yield running


@pytest.fixture
def claims(cluster: FakeKubernetes) -> Any:
    return client.CustomObjectsApi(cluster.client())


def claim(name: str, **labels: str) -> dict[str, Any]:
    meta = {"name": name, "labels": labels}
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "SandboxClaim", "metadata": meta, "spec": {"warmPoolRef": {}}}


def code_of(work: Any) -> int:
    with pytest.raises(ApiException) as caught:
        work()
    return int(caught.value.status)


def test_objects_are_made_read_listed_and_removed(claims: Any) -> None:
    made = claims.create_namespaced_custom_object(*CLAIMS, claim("a", run="1"))
    assert made["metadata"]["uid"] and made["metadata"]["generation"] == 1 and made["metadata"]["creationTimestamp"]
    claims.create_namespaced_custom_object(*CLAIMS, claim("b", run="2"))
    assert claims.get_namespaced_custom_object(*CLAIMS, "a") == made
    listed = claims.list_namespaced_custom_object(*CLAIMS)
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a", "b"]
    assert int(listed["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])
    for selector, names in (("run=1", ["a"]), ("run!=1", ["b"]), ("run in (1,2)", ["a", "b"]), ("!run", [])):
        found = claims.list_namespaced_custom_object(*CLAIMS, label_selector=selector)
        assert [item["metadata"]["name"] for item in found["items"]] == names
    found = claims.list_namespaced_custom_object(*CLAIMS, field_selector="metadata.name=b")
    assert [item["metadata"]["name"] for item in found["items"]] == ["b"]
    claims.delete_namespaced_custom_object(*CLAIMS, "a")
    assert code_of(lambda: claims.get_namespaced_custom_object(*CLAIMS, "a")) == 404
    assert code_of(lambda: claims.create_namespaced_custom_object(*CLAIMS, claim("b"))) == 409


def test_a_stale_replacement_is_a_conflict_and_status_is_a_part_of_its_own(claims: Any) -> None:
    first = claims.create_namespaced_custom_object(*CLAIMS, claim("a"))
    first["spec"]["warmPoolRef"] = {"name": "x"}
    second = claims.replace_namespaced_custom_object(*CLAIMS, "a", first)
    assert second["metadata"]["generation"] == 2
    assert code_of(lambda: claims.replace_namespaced_custom_object(*CLAIMS, "a", first)) == 409
    second["status"] = {"sandbox": {"name": "s"}}
    assert "status" not in claims.replace_namespaced_custom_object(*CLAIMS, "a", second)
    third = claims.patch_namespaced_custom_object_status(*CLAIMS, "a", {"status": {"sandbox": {"name": "s"}}})
    assert third["status"] == {"sandbox": {"name": "s"}} and third["metadata"]["generation"] == 2
    patched = claims.patch_namespaced_custom_object(*CLAIMS, "a", {"spec": {"warmPoolRef": {"name": None, "b": 1}}})
    assert patched["spec"] == {"warmPoolRef": {"b": 1}} and patched["status"] == third["status"]
    stale = {"metadata": {"resourceVersion": first["metadata"]["resourceVersion"], "labels": {"x": "y"}}}
    assert code_of(lambda: claims.patch_namespaced_custom_object(*CLAIMS, "a", stale)) == 409


def test_finalizers_delay_the_end_and_a_uid_protects_the_next_of_the_same_name(cluster: FakeKubernetes) -> None:
    core = client.CoreV1Api(cluster.client())
    pod = {"metadata": {"name": "d-0", "finalizers": ["x/y"]}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    uid = core.create_namespaced_pod("ns", pod).metadata.uid
    core.delete_namespaced_pod("d-0", "ns")
    assert core.read_namespaced_pod("d-0", "ns").metadata.deletion_timestamp is not None
    core.patch_namespaced_pod("d-0", "ns", {"metadata": {"finalizers": None}})
    assert code_of(lambda: core.read_namespaced_pod("d-0", "ns")) == 404
    core.create_namespaced_pod("ns", {**pod, "metadata": {"name": "d-0"}})
    wrong = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid=uid))
    assert code_of(lambda: core.delete_namespaced_pod("d-0", "ns", body=wrong)) == 409
    assert core.read_namespaced_pod("d-0", "ns").metadata.uid != uid
    # A strategic patch merges named lists.
    more = {"spec": {"containers": [{"name": "c", "image": "j"}, {"name": "d", "image": "k"}]}}
    images = [c.image for c in core.patch_namespaced_pod("d-0", "ns", more).spec.containers]
    assert images == ["j", "k"]


def test_a_watch_tells_what_happened_since_and_brings_bookmarks(cluster: FakeKubernetes, claims: Any) -> None:
    claims.create_namespaced_custom_object(*CLAIMS, claim("old"))
    version = claims.list_namespaced_custom_object(*CLAIMS)["metadata"]["resourceVersion"]
    claims.create_namespaced_custom_object(*CLAIMS, claim("a", run="1"))
    claims.create_namespaced_custom_object(*CLAIMS, claim("b", run="2"))
    claims.patch_namespaced_custom_object(*CLAIMS, "a", {"metadata": {"labels": {"run": "2"}}})
    claims.delete_namespaced_custom_object(*CLAIMS, "b")
    cluster.store.bump()

    def seen(**selection: str) -> list[tuple[str, str]]:
        stream = watch.Watch().stream(
            claims.list_namespaced_custom_object, *CLAIMS, resource_version=version, timeout_seconds=1,
            allow_watch_bookmarks=True, **selection,
        )  # fmt: skip
        return [(e["type"], e["object"]["metadata"].get("name", "")) for e in stream]

    everything = [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]
    assert [e for e in seen() if e[0] != "BOOKMARK"] == everything
    # Who watches a selection sees things enter and leave it.
    assert [e for e in seen(label_selector="run=1") if e[0] != "BOOKMARK"] == [("ADDED", "a"), ("DELETED", "a")]
    assert [e for e in seen(label_selector="run=2") if e[0] != "BOOKMARK"] == [
        ("ADDED", "b"), ("ADDED", "a"), ("DELETED", "b"),
    ]  # fmt: skip
    raw = claims.api_client.call_api(
        f"/apis/{GROUP}/{VERSION}/namespaces/ns/{PLURAL}", "GET", auth_settings=["BearerToken"], _preload_content=False,
        query_params=[("watch", "1"), ("resourceVersion", version), ("allowWatchBookmarks", "true"),
                      ("labelSelector", "run=9"), ("timeoutSeconds", "1")], _return_http_data_only=True,
    )  # fmt: skip
    events = [json.loads(line) for line in raw.data.splitlines()]
    assert events and {event["type"] for event in events} == {"BOOKMARK"}
    assert events[-1]["object"]["metadata"]["resourceVersion"] == str(cluster.store.version)


def test_a_watch_from_before_a_compaction_is_gone(cluster: FakeKubernetes, claims: Any) -> None:
    version = claims.list_namespaced_custom_object(*CLAIMS)["metadata"]["resourceVersion"]
    claims.create_namespaced_custom_object(*CLAIMS, claim("a"))
    cluster.store.compact()
    stream = watch.Watch().stream(
        claims.list_namespaced_custom_object, *CLAIMS, resource_version=version, timeout_seconds=2
    )
    assert code_of(lambda: list(stream)) == 410


def test_watches_can_be_cut_and_requests_can_fail_in_every_way(cluster: FakeKubernetes, claims: Any) -> None:
    broken: list[BaseException] = []

    def look() -> None:
        try:
            raw = claims.api_client.call_api(
                f"/apis/{GROUP}/{VERSION}/namespaces/ns/{PLURAL}", "GET", query_params=[("watch", "1")],
                auth_settings=["BearerToken"], _preload_content=False, _return_http_data_only=True,
            )  # fmt: skip
            for _ in raw.stream():
                pass
        except HTTPError as error:
            broken.append(error)

    thread = threading.Thread(target=look)
    thread.start()
    assert wait_for(lambda: cluster.watching == 1)
    cluster.drop_watches()
    thread.join(10)
    assert not thread.is_alive() and len(broken) == 1
    for status in (429, 500, 410, 401):
        cluster.faults.add("GET", PLURAL, status=status, retry_after=1 if status == 429 else None)
        assert code_of(lambda: claims.list_namespaced_custom_object(*CLAIMS)) == status
    cluster.faults.add("POST", PLURAL, drop="after")
    with pytest.raises(HTTPError):
        claims.create_namespaced_custom_object(*CLAIMS, claim("a"))
    assert claims.get_namespaced_custom_object(*CLAIMS, "a")  # it was carried out all the same
    cluster.faults.add("POST", PLURAL, drop="before")
    with pytest.raises(HTTPError):
        claims.create_namespaced_custom_object(*CLAIMS, claim("b"))
    assert code_of(lambda: claims.get_namespaced_custom_object(*CLAIMS, "b")) == 404
    cluster.faults.add("GET", PLURAL, delay=0.3)
    start = time.monotonic()
    claims.list_namespaced_custom_object(*CLAIMS)
    assert time.monotonic() - start >= 0.3
    assert code_of(lambda: client.CustomObjectsApi(cluster.client("old")).list_namespaced_custom_object(*CLAIMS)) == 401


def test_a_controller_sees_every_change_and_may_answer_it(cluster: FakeKubernetes, claims: Any) -> None:
    seen: list[str] = []
    kind = Kind(GROUP, VERSION, PLURAL)

    def bind(cluster: FakeKubernetes, change: str, thing: dict[str, Any]) -> None:
        seen.append(change)
        if change == "ADDED":
            name = thing["metadata"]["name"]
            cluster.store.patch(kind, "ns", name, {"status": {"sandbox": {"name": name}}}, "merge", "status")

    cluster.control(PLURAL, bind)
    claims.create_namespaced_custom_object(*CLAIMS, claim("a"))
    assert wait_for(lambda: "status" in claims.get_namespaced_custom_object(*CLAIMS, "a"))
    claims.delete_namespaced_custom_object(*CLAIMS, "a")
    assert wait_for(lambda: seen == ["ADDED", "MODIFIED", "DELETED"])
