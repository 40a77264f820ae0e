"""A line between client and host that fails on order: real sockets, whole HTTP messages."""

from __future__ import annotations

import re
import socket
import threading
from contextlib import suppress
from types import TracebackType

Message = tuple[bytes, bytes]


class Proxy:
    """`cut`: the next request that matches is carried out and its answer thrown away with the connection. `hold`: its
    answer never comes, the connection stays. `down`, `up`: connections are refused meanwhile. `seen`: requests so far.
    """

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        self._target = (host, int(port))
        self._faults: list[tuple[str, str]] = []
        self.seen: list[str] = []
        self._listener = self._listen(0)
        self._port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def cut(self, pattern: str) -> None:
        self._faults.append((pattern, "cut"))

    def hold(self, pattern: str) -> None:
        self._faults.append((pattern, "hold"))

    def down(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def up(self) -> None:
        self._listener = self._listen(self._port)

    def _listen(self, port: int) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        return listener

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                line, _ = listener.accept()
                threading.Thread(target=self._serve, args=(line,), daemon=True).start()

    def _serve(self, line: socket.socket) -> None:
        with suppress(OSError, EOFError), line, socket.create_connection(self._target) as target:
            while True:
                request = _message(line)
                first = request[0].split(b"\r\n")[0].decode()
                self.seen.append(first)
                fault = next((f for f in self._faults if re.search(f[0], first)), None)
                if fault is not None:
                    self._faults.remove(fault)
                target.sendall(b"".join(request))
                answer = _message(target)
                if fault is None:
                    line.sendall(b"".join(answer))
                elif fault[1] == "cut":
                    return
                else:
                    line.recv(1)  # until the client gives up
                    return


def _message(sock: socket.socket) -> Message:
    data = b""
    while b"\r\n\r\n" not in data:
        data += _some(sock)
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"(?im)^content-length: *(\d+)", head)
    while length and len(body) < int(length[1]):
        body += _some(sock)
    return head + b"\r\n\r\n", body


def _some(sock: socket.socket) -> bytes:
    data = sock.recv(1 << 16)
    if not data:
        raise EOFError
    return data
