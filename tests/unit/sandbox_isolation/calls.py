"""Functions that tests have called in confinement: they stand for verifiers that meet a policy's files."""

from __future__ import annotations

import io
import os
import socket
import sys
import time
from collections.abc import Mapping
from typing import Any

Files = Mapping[str, bytes]


def sizes(payload: dict[str, Any], files: Files) -> dict[str, Any]:
    print("printed", file=sys.stderr)
    print("printed")
    return {"sizes": {name: len(data) for name, data in files.items()}, **payload}


def cell(payload: dict[str, Any], files: Files) -> Any:
    import openpyxl

    book = openpyxl.load_workbook(io.BytesIO(files["book.xlsx"]))
    return book.active[payload["cell"]].value  # type: ignore[index]


def loop(payload: dict[str, Any], files: Files) -> None:
    while True:
        pass


def deaf(payload: dict[str, Any], files: Files) -> None:
    """Sleeps, and starts another that holds the output open."""
    if os.fork() == 0:
        time.sleep(1000)
    time.sleep(1000)


def swallow(payload: dict[str, Any], files: Files) -> int:
    return len(bytearray(4 << 30))


def quit_now(payload: dict[str, Any], files: Files) -> None:
    os._exit(0)


def crash(payload: dict[str, Any], files: Files) -> None:
    os.abort()


def chatter(payload: dict[str, Any], files: Files) -> str:
    return "x" * (64 << 20)


def stumble(payload: dict[str, Any], files: Files) -> None:
    raise KeyError("no such sheet")


def odd(payload: dict[str, Any], files: Files) -> Any:
    return object()


def reach(payload: dict[str, Any], files: Files) -> list[str]:
    """What of a list of things that it must not do it could do."""
    done = []
    for place in (
        "/home/user/x",
        "/tmp/x",
        "/dev/shm/x",
        "/x",
        "/opt/guest/components/x",
        "/opt/site/x",
        payload["host"],
    ):
        try:
            with open(place, "w") as file:
                file.write("x" * 100)
                file.flush()
            done.append(f"wrote {place}")
        except OSError:
            pass
    for place in (payload["host"], "/etc/shadow", "/root"):
        if os.path.exists(place):
            done.append(f"saw {place}")
    try:
        socket.create_connection(("127.0.0.1", payload["port"]), 2)
        done.append("connected")
    except OSError:
        pass
    if os.environ.get("COWORK_SECRET"):
        done.append("knew")
    done += [f"child {pid}" for pid in filter(str.isdigit, os.listdir("/proc")) if int(pid) > 20]
    return done
