"""Two ways to a pod of one's own: an agent-sandbox claim, or a free ordinal of a StatefulSet."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from components.contracts.errors import ClusterError
from components.sandbox.pool.errors import DeadlineError
from components.sandbox.pool.kubernetes.api import CLAIMS, PODS, ClusterApi, ConflictError, Object

HOST, SLOT, RUN, LEASE = (f"cowork.dev/{name}" for name in ("host", "slot", "run", "lease"))
BACKSTOP_SECONDS = 7200.0
"""After this a claim ends by itself, whoever has died meanwhile. Longer than any episode with its setup and grading."""


@dataclass(frozen=True)
class Pod:
    """Where a slot's agent listens, and what names the pod to its source after a restart."""

    ip: str
    handle: dict[str, Any]


class PodSource(Protocol):
    def plan(self, slot_id: str) -> dict[str, Any]:
        """What will have to be removed, known before anything is made."""
        ...

    def acquire(self, slot_id: str, seconds: float) -> Pod:
        """A pod that is ready and used by nobody else. Raises `DeadlineError("create")`, `ClusterError`."""
        ...

    def release(self, slot_id: str, handle: dict[str, Any]) -> bool:
        """Removes it; True when it is gone. May be called again."""
        ...

    def mark(self, handle: dict[str, Any], labels: dict[str, str]) -> None:
        """Labels for people and policies: run and lease."""
        ...

    def leftovers(self, known: Iterable[str]) -> dict[str, dict[str, Any]]:
        """What carries this host's label and belongs to no known slot."""
        ...


def label(text: str) -> str:
    """As a label's value: at most 63 of letters, digits, `-_.`, with a letter or digit at both ends."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)[:63].strip("-_.")


class ClaimSource:
    """Each slot is a `SandboxClaim` on a warm pool. `backstop`: seconds until a forgotten claim ends by itself."""

    def __init__(self, api: ClusterApi, host: str, warm_pool: str, *, backstop: float = BACKSTOP_SECONDS) -> None:
        self._api, self._host, self._pool, self._backstop = api, label(host), warm_pool, backstop

    def plan(self, slot_id: str) -> dict[str, Any]:
        return {"claim": f"cowork-{slot_id}"}

    def manifest(self, slot_id: str) -> Object:
        """The claim. No `env`: that would start a pod from cold."""
        labels = {HOST: self._host, SLOT: slot_id}
        return {
            "apiVersion": CLAIMS.api_version, "kind": "SandboxClaim",
            "metadata": {"name": f"cowork-{slot_id}", "namespace": self._api.namespace, "labels": labels},
            "spec": {
                "warmPoolRef": {"name": self._pool},
                "lifecycle": {"shutdownPolicy": "Delete", "shutdownTime": _time_in(self._backstop)},
            },
        }  # fmt: skip

    def acquire(self, slot_id: str, seconds: float) -> Pod:
        deadline, name = time.monotonic() + seconds, f"cowork-{slot_id}"
        try:
            self._api.create(CLAIMS, self.manifest(slot_id), deadline)
        except ConflictError:
            # Our own, when the answer to an earlier try was lost; else somebody's with our name.
            there = self._api.get(CLAIMS, name, deadline)
            if there is None or (there["metadata"].get("labels") or {}).get(SLOT) != slot_id:
                raise
        try:
            ip = self._api.wait(CLAIMS, lambda held: _bound(held.get(name)), deadline, fields=f"metadata.name={name}")
        except TimeoutError:
            raise DeadlineError("create", seconds, where=f"claim {name}") from None
        return Pod(ip, self.plan(slot_id))

    def release(self, slot_id: str, handle: dict[str, Any]) -> bool:
        name = str(handle.get("claim", ""))
        there = self._api.get(CLAIMS, name) if name else None
        if there is None:
            return True
        if (there["metadata"].get("labels") or {}).get(HOST) != self._host:
            return True  # not ours, whatever the table says
        self._api.delete(CLAIMS, name, uid=there["metadata"]["uid"])
        return self._api.get(CLAIMS, name) is None

    def mark(self, handle: dict[str, Any], labels: dict[str, str]) -> None:
        """Also begins the backstop's time anew: an episode gets the whole of it."""
        patch: Object = {
            "metadata": {"labels": {name: label(value) for name, value in labels.items()}},
            "spec": {"lifecycle": {"shutdownTime": _time_in(self._backstop)}},
        }
        if self._api.patch(CLAIMS, str(handle["claim"]), patch) is None:
            raise ClusterError(f"claim {handle['claim']} is gone", where="kubernetes", remedy="lease again")

    def leftovers(self, known: Iterable[str]) -> dict[str, dict[str, Any]]:
        names = set(known)
        items, _ = self._api.listing(CLAIMS, labels=f"{HOST}={self._host},{SLOT}")
        slots = [item["metadata"]["labels"][SLOT] for item in items if "deletionTimestamp" not in item["metadata"]]
        return {slot: self.plan(slot) for slot in slots if slot not in names}


class StatefulSetSource:
    """Each slot is a pod of a StatefulSet (`podManagementPolicy: Parallel`), used once.

    A free pod is taken by writing our labels on the version that was read: of two hosts that want it one gets a
    conflict. It is given back by deleting it; the StatefulSet makes a fresh one of the same ordinal.
    """

    def __init__(self, api: ClusterApi, host: str, selector: str, *, grace: int = 5) -> None:
        self._api, self._host, self._selector, self._grace = api, label(host), selector, grace

    def plan(self, slot_id: str) -> dict[str, Any]:
        return {"pod": "", "uid": ""}

    def acquire(self, slot_id: str, seconds: float) -> Pod:
        deadline = time.monotonic() + seconds
        while True:
            try:
                free = self._api.wait(PODS, _free_pod, deadline, labels=self._selector)
            except TimeoutError:
                raise DeadlineError("create", seconds, where="statefulset") from None
            meta = free["metadata"]
            labels = {HOST: self._host, SLOT: slot_id}
            try:
                patch = {"metadata": {"resourceVersion": meta["resourceVersion"], "uid": meta["uid"], "labels": labels}}
                taken = self._api.patch(PODS, meta["name"], patch, deadline)
            except ConflictError:
                now = self._api.get(PODS, meta["name"], deadline)
                if now is None or (now["metadata"].get("labels") or {}).get(SLOT) != slot_id:
                    continue  # another was quicker
                taken = now
            if taken is not None:
                return Pod(taken["status"]["podIP"], {"pod": meta["name"], "uid": meta["uid"]})

    def release(self, slot_id: str, handle: dict[str, Any]) -> bool:
        name, uid = str(handle.get("pod", "")), str(handle.get("uid", ""))
        if not name:  # taken perhaps, but not noted: found by its label
            return all(self._end(*found) for found in self._of(f"{SLOT}={slot_id}"))
        return self._end(name, uid)

    def mark(self, handle: dict[str, Any], labels: dict[str, str]) -> None:
        patch = {"metadata": {"labels": {name: label(value) for name, value in labels.items()}}}
        if self._api.patch(PODS, str(handle["pod"]), patch) is None:
            raise ClusterError(f"pod {handle['pod']} is gone", where="kubernetes", remedy="lease again")

    def leftovers(self, known: Iterable[str]) -> dict[str, dict[str, Any]]:
        names = set(known)
        items, _ = self._api.listing(PODS, labels=f"{self._selector},{HOST}={self._host},{SLOT}")
        return {
            item["metadata"]["labels"][SLOT]: {"pod": item["metadata"]["name"], "uid": item["metadata"]["uid"]}
            for item in items
            if item["metadata"]["labels"][SLOT] not in names and "deletionTimestamp" not in item["metadata"]
        }

    def _end(self, name: str, uid: str) -> bool:
        self._api.delete(PODS, name, uid=uid, grace=self._grace)
        there = self._api.get(PODS, name)
        return there is None or there["metadata"]["uid"] != uid

    def _of(self, selector: str) -> list[tuple[str, str]]:
        items, _ = self._api.listing(PODS, labels=f"{self._selector},{HOST}={self._host},{selector}")
        return [(item["metadata"]["name"], item["metadata"]["uid"]) for item in items]


def _bound(claim: Object | None) -> str | None:
    """The address of a claim's sandbox once it is ready. Raises `ClusterError` when it will never be."""
    if claim is None or "deletionTimestamp" in claim["metadata"]:
        return None
    status = claim.get("status") or {}
    ready = [c for c in status.get("conditions") or [] if c.get("type") == "Ready"]
    addresses = (status.get("sandbox") or {}).get("podIPs") or []
    return str(addresses[0]) if addresses and ready and ready[0].get("status") == "True" else None


def _free_pod(held: dict[str, Object]) -> Object | None:
    """The ready pod of the lowest ordinal that nobody has taken."""
    free = [
        pod for pod in held.values()
        if SLOT not in (pod["metadata"].get("labels") or {}) and "deletionTimestamp" not in pod["metadata"]
        and (pod.get("status") or {}).get("podIP")
        and any(c.get("type") == "Ready" and c.get("status") == "True" for c in pod["status"].get("conditions") or [])
    ]  # fmt: skip
    return min(free, key=lambda pod: _ordinal(pod["metadata"]["name"]), default=None)


def _ordinal(name: str) -> int:
    number = name.rpartition("-")[2]
    return int(number) if number.isdigit() else 0


def _time_in(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
