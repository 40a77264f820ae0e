"""First process of a desktop pod: waits for a host on TCP and gives each session a fresh desktop, one at a time.

The pod is the isolation, and it outlives its episodes: between two sessions every process but this one is killed, and
the home and all other writable places are made anew from the image's template. A host shows that it knows the token by
answering a challenge with it, so that the token itself is never sent. It comes from a file that the applications' user
cannot read. The connection is not encrypted: the network policy must keep all others out.
"""

from __future__ import annotations

import hmac
import os
import secrets
import shutil
import socket
import subprocess
import sys
from contextlib import suppress

CHALLENGE, ANSWER = 32, 32
"""Bytes."""
WELCOME = b"\x01"
_HANDSHAKE_SECONDS = 5.0
_WRITABLE = ("/home", "/tmp", "/run", "/dev/shm", "/var/tmp")


def answer_to(challenge: bytes, token: bytes) -> bytes:
    """What only those who know the token can say."""
    return hmac.digest(token, challenge, "sha256")


def keep_alive(sock: socket.socket) -> None:
    """A host or pod that vanishes without a word is noticed within half a minute."""
    for level, name, value in (
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5), (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    ):  # fmt: skip
        sock.setsockopt(level, name, value)


def receive_exactly(sock: socket.socket, size: int) -> bytes:
    """Raises OSError when the other end closes first."""
    data = b""
    while len(data) < size:
        chunk = sock.recv(size - len(data))
        if not chunk:
            raise ConnectionError("the other end closed")
        data += chunk
    return data


def welcome(sock: socket.socket, token: bytes) -> bool:
    """Whether the other end knows the token."""
    challenge = secrets.token_bytes(CHALLENGE)
    try:
        sock.settimeout(_HANDSHAKE_SECONDS)
        sock.sendall(challenge)
        said = receive_exactly(sock, ANSWER)
        if not hmac.compare_digest(said, answer_to(challenge, token)):
            return False
        sock.sendall(WELCOME)
        sock.settimeout(None)
        keep_alive(sock)
    except OSError:
        return False
    return True


def clean() -> None:
    """Ends every process but this one and the first, and empties all that can be written."""
    from components.sandbox.x11.guest.processes import kill_all

    kill_all(())
    with suppress(ChildProcessError):
        while os.waitpid(-1, 0)[0]:
            pass
    with suppress(OSError):
        subprocess.run(["/usr/bin/ipcrm", "--all"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=False)  # fmt: skip
    for place in _WRITABLE:
        if not os.path.isdir(place):
            continue
        with os.scandir(place) as entries:
            for entry in list(entries):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                else:
                    with suppress(OSError):
                        os.unlink(entry.path)


def main(argv: list[str]) -> int:
    """`serve PORT TOKEN_FILE TEMPLATE`: never returns. TEMPLATE is a tar as `drivers/layout.py` makes it."""
    from components.sandbox.x11.guest.agent import main as agent
    from components.sandbox.x11.guest.boot import keep, unpack

    port, token_file, template = int(argv[1]), argv[2], argv[3]
    with open(token_file, "rb") as file:
        token = file.read().strip()
    if len(token) < 16:
        print("serve: the token has fewer than 16 bytes", file=sys.stderr)
        return 2
    listener = socket.create_server(("", port), backlog=8)
    while True:
        sock, _ = listener.accept()
        if not welcome(sock, token):
            sock.close()
            continue
        clean()
        unpack(os.open(template, os.O_RDONLY))
        child = os.fork()
        if child == 0:
            listener.close()
            return agent(["agent", str(sock.detach())])
        sock.close()
        keep(child)
        clean()


if __name__ == "__main__":
    sys.exit(main(sys.argv))
