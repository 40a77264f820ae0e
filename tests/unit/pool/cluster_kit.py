"""A fake cluster whose pods are real: each an agent process on an address of loopback of its own."""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.fakes.kubernetes_api import ApiError, FakeKubernetes, Kind
from tests.unit.pool.kit import ROOT, environment, wait_for

CLAIMS = Kind("extensions.agents.x-k8s.io", "v1beta1", "sandboxclaims")
PODS = Kind("", "v1", "pods")
READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Ready",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
AGENT_TOKEN = "agent-token-0123456789"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


class Kubelet:
    """Runs a pod as a process: `run` gives its address. All end with `close`."""

    _numbers = itertools.count(2)

    def __init__(self, port: int) -> None:
        self.port = port
        self._pods: dict[str, subprocess.Popen[str]] = {}
        self._lock = threading.Lock()
        self._closed = False

    def run(self, uid: str) -> str:
        number = next(self._numbers)
        ip = f"127.1.{number // 250}.{number % 250 + 1}"
        argv = [sys.executable, "-m", "components.sandbox.pool.agent", "--listen", f"{ip}:{self.port}"]
        argv += ["--prepare", "tests.unit.pool.kit:prepare", "--grade", "tests.unit.pool.kit:grade"]
        env = environment(COWORK_AGENT_TOKEN=AGENT_TOKEN)
        with self._lock:
            if self._closed:
                raise ApiError(503, "ServiceUnavailable", "the node is gone")
            process = subprocess.Popen(argv, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)
            self._pods[uid] = process
        assert process.stdout is not None
        if "agent" not in process.stdout.readline():
            raise ApiError(503, "ServiceUnavailable", "the pod ended while it started")
        return ip

    def stop(self, uid: str) -> None:
        with self._lock:
            process = self._pods.pop(uid, None)
        if process is not None:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    @property
    def running(self) -> list[int]:
        with self._lock:
            return [process.pid for process in self._pods.values() if process.poll() is None]

    def close(self) -> None:
        with self._lock:
            self._closed = True
        for uid in list(self._pods):
            self.stop(uid)


def claim_controller(kubelet: Kubelet) -> Any:
    """Binds each claim to a pod of its own, as agent-sandbox does; ends the pod with the claim."""

    def control(cluster: FakeKubernetes, change: str, claim: dict[str, Any]) -> None:
        meta = claim["metadata"]
        if change == "ADDED":
            ip = kubelet.run(meta["uid"])
            status = {"conditions": [READY], "sandbox": {"name": f"sandbox-{meta['name']}", "podIPs": [ip]}}
            cluster.store.patch(CLAIMS, meta["namespace"], meta["name"], {"status": status}, "merge", "status")
        elif change == "DELETED":
            kubelet.stop(meta["uid"])

    return control


def stateful_set(kubelet: Kubelet, name: str, replicas: int, namespace: str) -> tuple[Any, Any]:
    """(start, controller): makes the pods of a StatefulSet, and each deleted one anew."""

    def make(cluster: FakeKubernetes, pod: str) -> None:
        thing = {"metadata": {"name": pod, "labels": {"app": name}}, "spec": {"containers": []}}
        made = cluster.store.create(PODS, namespace, thing)
        ip = kubelet.run(made["metadata"]["uid"])
        status = {"phase": "Running", "podIP": ip, "conditions": [READY]}
        cluster.store.patch(PODS, namespace, pod, {"status": status}, "merge", "status")

    def start(cluster: FakeKubernetes) -> None:
        for ordinal in range(replicas):
            make(cluster, f"{name}-{ordinal}")

    def control(cluster: FakeKubernetes, change: str, pod: dict[str, Any]) -> None:
        if change == "DELETED":
            kubelet.stop(pod["metadata"]["uid"])
            make(cluster, pod["metadata"]["name"])

    return start, control


def all_claims(cluster: FakeKubernetes) -> list[dict[str, Any]]:
    return cluster.store.list(CLAIMS, "")[0]


__all__ = [
    "AGENT_TOKEN",
    "ApiError",
    "Kubelet",
    "Path",
    "all_claims",
    "claim_controller",
    "free_port",
    "stateful_set",
    "wait_for",
]
