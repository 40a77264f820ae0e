"""Messages between host and agent: two lengths, JSON, then raw bytes. Both ends use this module.

Where both are on one machine a message can carry descriptors too: they travel with its first byte.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

_LENGTHS = struct.Struct("!II")
MAX_JSON = 8 << 20
MAX_BLOB = 256 << 20
_CHUNK = 1 << 20


class Closed(Exception):
    """The other end is gone, or sent what is no message."""


def send(sock: socket.socket, message: dict[str, Any], blob: bytes = b"", fds: Sequence[int] = ()) -> None:
    """Send one message. Raises `Closed`, or `TimeoutError` by the socket's own timeout."""
    text = json.dumps(message, separators=(",", ":")).encode()
    if len(text) > MAX_JSON or len(blob) > MAX_BLOB:
        raise ValueError(f"a message of {len(text)} + {len(blob)} bytes is too large")
    try:
        data = _LENGTHS.pack(len(text), len(blob)) + text
        if fds:
            data = data[socket.send_fds(sock, [data], list(fds)) :]
        sock.sendall(data)
        if blob:
            sock.sendall(blob)
    except TimeoutError:
        raise
    except OSError as error:
        raise Closed(str(error)) from error


def receive(
    sock: socket.socket, deadline: float | None = None, fds: list[int] | None = None
) -> tuple[dict[str, Any], bytes]:
    """The next message. `deadline` is a time of `time.monotonic()`; past it `TimeoutError`. Raises `Closed`.

    Descriptors that came with it are appended to `fds`; without a list the kernel drops them.
    """
    size, blob_size = _LENGTHS.unpack(_exactly(sock, _LENGTHS.size, deadline, fds))
    if size > MAX_JSON or blob_size > MAX_BLOB:
        raise Closed(f"a message of {size} + {blob_size} bytes was announced")
    try:
        message = json.loads(_exactly(sock, size, deadline))
    except ValueError as error:
        raise Closed(f"not a message: {error}") from error
    if not isinstance(message, dict):
        raise Closed("not a message: no JSON object")
    return message, _exactly(sock, blob_size, deadline)


def _exactly(sock: socket.socket, size: int, deadline: float | None, fds: list[int] | None = None) -> bytes:
    data = bytearray()
    while len(data) < size:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            sock.settimeout(left)
        try:
            if fds is None:
                chunk = sock.recv(min(size - len(data), _CHUNK))
            else:
                chunk, came, _, _ = socket.recv_fds(sock, size - len(data), 4)
                fds += came
        except TimeoutError:
            raise
        except OSError as error:
            raise Closed(str(error)) from error
        if not chunk:
            raise Closed("end of stream")
        data += chunk
    return bytes(data)
