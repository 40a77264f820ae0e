"""The agent of a pod: one slot over TCP, for one conversation.

    python -m components.sandbox.pool.agent --listen 0.0.0.0:8000 --backend minidesk --prepare M:F --grade M:F

It takes the first line that opens with a well-formed request (and with the token of COWORK_AGENT_TOKEN, when that is
set), then stops listening: what runs in the desktop later finds nobody to talk to. When the line ends, it ends.
What it runs is fixed by its command line; the host says only screen and limits.
"""

from __future__ import annotations

import argparse
import hmac
import os
import select
import socket
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from components.sandbox.pool.serve import local_backend
from components.sandbox.pool.worker import Slot
from components.sandbox.x11.guest import wire

_FIRST_SECONDS = 10.0


def accept(listener: socket.socket, token: str) -> tuple[socket.socket, dict[str, Any]]:
    """(line, its first request). Whoever says nothing or something else is sent away; several may try at once."""
    waiting: dict[socket.socket, float] = {}
    while True:
        ready, _, _ = select.select([listener, *waiting], [], [], 1.0)
        for sock in ready:
            if sock is listener:
                with suppress(OSError):
                    line, _ = listener.accept()
                    waiting[line] = time.monotonic() + _FIRST_SECONDS
                continue
            deadline = waiting.pop(sock)
            with suppress(wire.Closed, TimeoutError):
                # A request of an honest host comes in one piece.
                request, _ = wire.receive(sock, min(deadline, time.monotonic() + 1.0))
                given = str((request.get("args") or {}).get("token", ""))
                if request.get("call") == "open" and hmac.compare_digest(given.encode(), token.encode()):
                    for other in waiting:
                        other.close()
                    return sock, request
            sock.close()
        for sock in [sock for sock, deadline in waiting.items() if deadline < time.monotonic()]:
            del waiting[sock]
            sock.close()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="one slot over TCP")
    parser.add_argument("--listen", default="0.0.0.0:8000")
    parser.add_argument("--backend", default="minidesk")
    parser.add_argument("--folder", default="", help="the slot's own folder; default: a new one in the system's")
    for name in ("prepare", "finish", "grade"):
        parser.add_argument(f"--{name}", default="")
    chosen = parser.parse_args(arguments)
    options = {name: getattr(chosen, name) for name in ("prepare", "finish", "grade") if getattr(chosen, name)}
    backend = local_backend(chosen.backend, options)
    host, _, port = chosen.listen.rpartition(":")
    token = os.environ.pop("COWORK_AGENT_TOKEN", "")
    with socket.create_server((host, int(port)), backlog=16) as listener:
        print(f"agent: {listener.getsockname()}", flush=True)
        line, first = accept(listener, token)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with tempfile.TemporaryDirectory(prefix="cowork-agent-", ignore_cleanup_errors=True) as temporary:
        folder = Path(chosen.folder or temporary)
        fixed = {"backend": backend.backend, "options": dict(backend.options), "folder": str(folder)}
        slot = Slot(line, fixed, first)
        try:
            slot.serve()
        finally:
            slot.close()
            line.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
