"""Putting a slot host together from plain settings, and running it until it is told to stop."""

from __future__ import annotations

import logging
import os
import re
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from components.contracts.errors import ParamsError, SandboxError
from components.sandbox.pool.auth import check_bind, make_token_file, token_for
from components.sandbox.pool.backends import MINIDESK, X11
from components.sandbox.pool.host import HostConfig, SlotHost
from components.sandbox.pool.models import Deadlines, SlotSpec
from components.sandbox.pool.providers import LocalProvider, SlotProvider
from components.sandbox.pool.starts import StartLimiter

if TYPE_CHECKING:
    from components.sandbox.pool.kubernetes.sources import PodSource

TOKEN_FILE = "token"
_OWNER_FILE = "owner-id"
_STOP_SECONDS = 10


@dataclass(frozen=True)
class LocalBackend:
    """A backend of this machine: `module:function`, and its options (see `backends.options_of`)."""

    backend: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PodBackend:
    """Pods of a cluster as slots: where they come from, the port of their agents, and what the agents expect."""

    source: PodSource
    port: int = 8000
    token: str = ""


def cluster_backend(kind: str, name: str, host: str, namespace: str) -> PodBackend:
    """`claims` on the warm pool `name`, or pods of the `statefulset` whose labels `name` selects (`app=desktop`).

    Signs in as the service account of its pod, else by kubeconfig. COWORK_AGENT_TOKEN is what the agents expect.
    """
    from components.sandbox.pool.kubernetes.api import ClusterApi, default_client
    from components.sandbox.pool.kubernetes.sources import ClaimSource, StatefulSetSource

    api = ClusterApi(default_client, namespace)
    source: PodSource = ClaimSource(api, host, name) if kind == "claims" else StatefulSetSource(api, host, name)
    return PodBackend(source, token=os.environ.get("COWORK_AGENT_TOKEN", ""))


def parse_backend(text: str, options: Mapping[str, Any], host: str, namespace: str) -> tuple[str, AnyBackend]:
    """(name, backend) of `minidesk`, `x11`, `claims:WARMPOOL` or `statefulset:SELECTOR`. Raises `ParamsError`."""
    kind, _, name = text.partition(":")
    if kind in ("claims", "statefulset"):
        if not name:
            example = "claims:desktop" if kind == "claims" else "statefulset:app=desktop"
            raise ParamsError(f"{kind} of what?", where="--backend", remedy=f"write e.g. {example}")
        return kind, cluster_backend(kind, name, host, namespace)
    return text, local_backend(text, options)


def local_backend(name: str, options: Mapping[str, Any]) -> LocalBackend:
    """`minidesk` or `x11`. Raises `ParamsError`."""
    known = {"minidesk": MINIDESK, "x11": X11}
    if name not in known:
        remedy = "one of minidesk, x11, claims:WARMPOOL, statefulset:SELECTOR"
        raise ParamsError(f"no backend {name!r}", where="--backend", remedy=remedy)
    return LocalBackend(known[name], options)


AnyBackend: TypeAlias = "LocalBackend | PodBackend | SlotProvider"


def build_host(
    state: Path,
    host: str,
    backends: Mapping[str, AnyBackend],
    *,
    slots: int = 4,
    standby: Mapping[str, int] | None = None,
    starts: int = 2,
    making: int = 2,
    deadlines: Deadlines | None = None,
    tick: float = 0.5,
    longest_queue: int = 256,
) -> SlotHost:
    """A slot host over `backends`, not yet started. `standby`: backend -> sandboxes kept ready."""
    limiter = StartLimiter(starts)
    providers: dict[str, SlotProvider] = {}
    for name, backend in backends.items():
        if isinstance(backend, LocalBackend):
            runs = state.absolute() / "slots" / name
            providers[name] = LocalProvider(
                name,
                backend.backend,
                runs,
                options=dict(backend.options),
                starts=limiter,
                sweep=_sweep(backend.backend),
            )
        elif isinstance(backend, PodBackend):
            from components.sandbox.pool.kubernetes.provider import PodProvider

            providers[name] = PodProvider(name, backend.source, port=backend.port, token=backend.token, starts=limiter)
        else:
            providers[name] = backend
    config = HostConfig(
        host=host, state=state, capacity=slots, making=making, tick=tick, longest_queue=longest_queue,
        standby={SlotSpec(backend=name): count for name, count in (standby or {}).items()},
        deadlines=deadlines or Deadlines(),
    )  # fmt: skip
    return SlotHost(config, providers, limiter)


def token_of(state: Path, bind: str, token_file: Path | None) -> tuple[str, Path | None]:
    """(token, the file that holds it). On loopback one is made in the state folder when none is given."""
    check_bind(bind, token_file)
    token = token_for(token_file)
    if token:
        return token, token_file
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = state / TOKEN_FILE
    return make_token_file(made), made


def owner_id(state: Path, host: str) -> str:
    """What marks this host's pods in a cluster: its name and a number of its state folder's own.

    So that two hosts of one name never take each other's pods for leftovers. Raises `SandboxError`.
    """
    path = state / _OWNER_FILE
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError), open(path, "x", encoding="ascii") as file:
            file.write(secrets.token_hex(6))
        number = path.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise SandboxError(f"no {_OWNER_FILE}: {error}", where=state.name, remedy="name a folder of its own") from error
    if not re.fullmatch(r"[0-9a-f]{12}", number):
        raise SandboxError(
            f"{_OWNER_FILE} is damaged", where=state.name, remedy="delete it; forgotten claims end by time"
        )
    return f"{host[:40]}.{number}"


def listen(bind: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises `SandboxError`."""
    try:
        family = socket.getaddrinfo(bind, port, type=socket.SOCK_STREAM)[0][0]
        # The protocol must be named: without it asyncio leaves the answers to wait 40 ms for an acknowledgement.
        sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((bind, port))
        sock.listen(512)
        return sock
    except OSError as error:
        raise SandboxError(f"cannot listen on {bind}:{port}: {error}", where="--port", remedy="name another") from error


def run_server(host: SlotHost, token: str, sock: socket.socket, on_ready: Callable[[str], None]) -> None:
    """Serves until SIGTERM or SIGINT; then every sandbox is ended. `on_ready` gets the address."""
    import uvicorn

    from components.sandbox.pool.app import build_app

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                address = sock.getsockname()
                on_ready(f"http://{'[' + address[0] + ']' if ':' in address[0] else address[0]}:{address[1]}")

    # No access log: it would hold lease ids. A client's keep-alive connection outlives the time a model thinks.
    config = uvicorn.Config(
        build_app(host, token), log_level=logging.WARNING, access_log=False, timeout_keep_alive=75,
        timeout_graceful_shutdown=_STOP_SECONDS, lifespan="on",
    )  # fmt: skip
    if threading.current_thread() is threading.main_thread():
        # uvicorn raises the signal again when it is done; by then everything is closed, and that is a success.
        signal.signal(signal.SIGTERM, lambda number, frame: None)
    try:
        Server(config).run(sockets=[sock])
    finally:
        host.close()
        sock.close()


def _sweep(backend: str) -> Callable[[], object] | None:
    if backend != X11:
        return None
    from components.sandbox.x11.drivers.cgroups import sweep

    return sweep
