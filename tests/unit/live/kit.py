"""A real minidesk, live; and a chat endpoint on loopback that says what it is told to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from components.contracts.response import render_response
from components.contracts.task import Task
from components.harness.spec import default_spec
from components.sandbox.live.hub import Hub
from components.sandbox.live.server import LiveServer
from components.sandbox.live.slot import LiveSlot
from pipelines.live_slots import free_task, open_slot
from tests.loopback import serving


@dataclass
class View:
    """An open live view. `headers` are those of a browser that has shown the token."""

    slot: LiveSlot
    hub: Hub
    server: LiveServer

    @property
    def port(self) -> int:
        return self.server.access.port

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def cookie(self) -> dict[str, str]:
        return {"Cookie": f"{self.server.access.cookie_name}={self.server.access.cookie}"}


@contextmanager
def view(work: Path, task: Task | None = None) -> Iterator[View]:
    task = task or free_task("look around", "minidesk", 5)
    with open_slot("minidesk", default_spec("hybrid"), work, size="", apps=(), unconfined=False) as desktop:
        hub = Hub(desktop.size, title="a test", backend="minidesk", task=task.instruction)
        slot = LiveSlot(desktop, hub)
        slot.reset(task)
        server = LiveServer(slot, hub)
        try:
            yield View(slot, hub, server)
        finally:
            server.close()
            slot.close()


def bash(command: str, action: str = "run it") -> str:
    return render_response("so it is", action, "bash", {"command": command})


def gui(action: str, **arguments: Any) -> str:
    return render_response("so it is", f"do {action}", "computer_use", {"action": action, **arguments})


DONE = gui("terminate", status="success")


@dataclass
class Speaker:
    """`answers` are given in turn, the last one again and again; a number is a status to fail with."""

    answers: Sequence[str | int]
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    base: str = ""

    def told(self, request: int) -> str:
        """All text of a request."""
        parts = [part for m in self.requests[request]["messages"] for part in m["content"]]
        return "\n".join(part.get("text", "") for part in parts)


@contextmanager
def speaker(*answers: str | int) -> Iterator[Speaker]:
    """A real HTTP server of the OpenAI shape."""
    told = Speaker(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            said = told.answers[min(len(told.requests), len(told.answers) - 1)]
            told.requests.append(body)
            told.keys.append(self.headers.get("Authorization", ""))
            status = said if isinstance(said, int) else 200
            data = json.dumps(
                {"error": {"message": "no"}}
                if isinstance(said, int)
                else {
                    "choices": [{"message": {"content": said}, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 3, "completion_tokens": 2},
                }
            ).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            return None

    with serving(Handler) as address:
        told.base = f"{address}/v1"
        yield told
