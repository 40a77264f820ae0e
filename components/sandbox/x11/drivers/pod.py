"""Driver `pod`: a desktop that already runs elsewhere, reached over TCP; the pod around it is the isolation.

`guest/serve.py` is the other end. Opening a session is the reset: the pod kills what the last one left and starts a
fresh desktop. Pods, their limits and the network policy are made by whoever deploys, see manifests.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from components.contracts.errors import SandboxError
from components.sandbox.x11.channel import Channel
from components.sandbox.x11.drivers import layout
from components.sandbox.x11.drivers.base import Limits, Screen
from components.sandbox.x11.guest.serve import CHALLENGE, WELCOME, answer_to, keep_alive, receive_exactly

_CONNECT_SECONDS = 10.0
_SESSION_SECONDS = 60.0
"""How long the pod may take to end another session before ours begins."""
_START_SECONDS = 60.0


class Pod:
    """One pod, so one desktop at a time: a second session waits until the first has ended."""

    name = "pod"

    def __init__(self, host: str, port: int, token: str, *, connect: Callable[[], socket.socket] | None = None) -> None:
        """`token`: the pod's, from a secret. `connect`: another way to the same port, a tunnel say."""
        self._where, self._token = f"{host}:{port}", token.encode()
        self._connect = connect or (lambda: socket.create_connection((host, port), _CONNECT_SECONDS))

    def problem(self) -> str:
        return "" if len(self._token) >= 16 else "the pod's token has fewer than 16 bytes"

    def start(self, screen: Screen, limits: Limits) -> PodSandbox:
        """`limits` are the pod's own: nothing here can change them."""
        problem = self.problem()
        if problem:
            raise SandboxError(problem, where=self._where, remedy="read it from the pod's secret")
        try:
            sock = self._connect()
        except OSError as error:
            raise SandboxError(f"no pod answers: {error}", where=self._where,
                               remedy="look at the pod and the network policy") from error  # fmt: skip
        try:
            sock.settimeout(_SESSION_SECONDS)
            sock.sendall(answer_to(receive_exactly(sock, CHALLENGE), self._token))
            if receive_exactly(sock, 1) != WELCOME:
                raise ConnectionError("no welcome")
            keep_alive(sock)
        except OSError as error:
            sock.close()
            raise SandboxError(f"the pod refused the session: {error}", where=self._where,
                               remedy="is the token the pod's? is another session open?") from error  # fmt: skip
        return PodSandbox(sock, screen)


class PodSandbox:
    def __init__(self, sock: socket.socket, screen: Screen) -> None:
        self._channel = Channel(sock)
        self._screen = screen
        self._opened = False

    def connect(self) -> Channel:
        if not self._opened:
            self._channel.open(layout.settings(self._screen), _START_SECONDS)
            self._opened = True
        return self._channel

    def stop(self) -> None:
        """Ends the session; the pod then clears up by itself, at the latest before the next begins."""
        self._channel.close()

    def limits(self) -> dict[str, str]:
        return {"processes": "the pod's", "memory": "the pod's", "files": "the pod's volumes"}
