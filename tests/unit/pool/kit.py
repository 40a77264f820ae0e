"""Slot hosts as processes of their own, tasks, setups and verifiers for them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from components.contracts.task import CheckResult, Task, Verdict
from components.sandbox.pool.app import build_app
from components.sandbox.pool.backends import options_of
from components.sandbox.pool.client import PooledDesktop
from components.sandbox.pool.host import SlotHost
from components.sandbox.pool.serve import build_host, listen, local_backend
from pipelines.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]
TOKEN = "test-token-0123456789abcdef"


def environment(**more: str) -> dict[str, str]:
    """Of a process that imports what this one can."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, **more}


def make_task(name: str = "task", **spec: Any) -> Task:
    """`spec["do"]` tells the setup and the verifier below what to do."""
    return Task.build(
        skill="s", workflow="w", apps=(), channels=(), instruction=name, wording="w", spec=spec, setup=(), verifier=(),
        split="train",
    )  # fmt: skip


def prepare(task: Task, root: Path) -> None:
    (root / "home" / "name.txt").write_text(task.instruction)
    (root / "home" / "log.txt").write_text("")
    if task.spec.get("setup") == "hang":
        threading.Event().wait()
    if task.spec.get("setup") == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if task.spec.get("setup") == "fail":
        raise RuntimeError("no such preparer")
    if "wait_for" in task.spec:
        assert wait_for(Path(task.spec["wait_for"]).exists, 30)


def grade(task: Task, root: Path) -> Verdict:
    if task.spec.get("grading") == "hang":
        threading.Event().wait()
    if task.spec.get("grading") == "break":
        raise KeyError("cell")
    lines = (root / "home" / "log.txt").read_text()
    return Verdict(
        success=lines == "done\n", results=(CheckResult(check="log", passed=lines == "done\n", reason=lines),)
    )


def options() -> dict[str, Any]:
    return options_of(prepare=prepare, grade=grade)


def wait_for(condition: Callable[[], bool], seconds: float = 15.0) -> bool:
    """Look until the condition holds; False when it did not in time."""
    return wait_until(condition, seconds, 0.02)


def descendants(pid: int) -> set[int]:
    """All processes below `pid`."""
    children: dict[int, list[int]] = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = Path(f"/proc/{entry}/stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if stat[0] != "Z":
            children.setdefault(int(stat[1]), []).append(int(entry))
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), []):
            found.add(child)
            waiting.append(child)
    return found


def marked(mark: str) -> set[int]:
    """Processes whose command line holds `mark`, wherever they are in the tree."""
    found = set()
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark.encode() in Path(f"/proc/{entry}/cmdline").read_bytes():
                found.add(int(entry))
        except OSError:
            continue
    return found


def minidesk_host(state: Path, **settings: Any) -> SlotHost:
    """In this process, not started."""
    backends = {"minidesk": local_backend("minidesk", options())}
    return build_host(state, "test-host", backends, **{"tick": 0.05, **settings})


@dataclass
class Service:
    """A slot host as a process. `url` is known when it listens."""

    process: subprocess.Popen[str]
    url: str
    state: Path

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def desktop(self, **terms: Any) -> PooledDesktop:
        return PooledDesktop(self.url, TOKEN, terms.pop("backend", "minidesk"), **terms)


def start_service(state: Path, *arguments: str, port: int = 0) -> Service:
    """The command itself, as its users start it."""
    code = "import typer; from pipelines.desktop_serve import serve; typer.run(serve)"
    setup = ["--prepare", "tests.unit.pool.kit:prepare", "--grade", "tests.unit.pool.kit:grade"]
    argv = [sys.executable, "-c", code, "--port", str(port), "--state", str(state), "--name", "test-host"]
    env = environment(COWORK_POOL_TOKEN=TOKEN)
    process = subprocess.Popen(
        [*argv, *(() if "--prepare" in arguments else setup), *arguments], cwd=ROOT, env=env, stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "http://" in line, (line, process.poll())
    return Service(process, line.split(": ", 1)[1].split(" ")[0], state)


@contextmanager
def service(state: Path, *arguments: str) -> Iterator[Service]:
    running = start_service(state, *arguments)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.process.kill()
        running.process.wait()
        assert running.process.stdout is not None
        running.process.stdout.close()


@contextmanager
def serving(host: SlotHost) -> Iterator[str]:
    """A host of this process behind real HTTP, so that a test can look into it. Gives the address."""
    import uvicorn

    sock = listen("127.0.0.1", 0)
    config = uvicorn.Config(build_app(host, TOKEN), log_level=50, access_log=False, lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
    thread.start()
    try:
        assert wait_for(lambda: server.started or not thread.is_alive())
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(60)
        sock.close()


def http(url: str, token: str = TOKEN) -> httpx.Client:
    return httpx.Client(base_url=url, headers={"authorization": f"Bearer {token}"}, trust_env=False, timeout=60)
