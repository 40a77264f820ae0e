"""A real chat endpoint on loopback that counts what it serves, as a provider's bill would, and fails when told to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.loopback import serving


@dataclass
class Provider:
    """`faults` are taken in order, one a call: a status to answer with, "break" or "no usage"; then none is left."""

    faults: list[int | str] = field(default_factory=list)
    bill: list[dict[str, int]] = field(default_factory=list)
    """Usage of every answer that was sent."""
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    free: int = 1 << 30
    """Requests that are answered at once; later ones wait for the gate."""
    gate: threading.Event = field(default_factory=threading.Event)
    base: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def total(self, name: str) -> int:
        return sum(usage[name] for usage in self.bill)


def usage_of(body: dict[str, Any]) -> dict[str, int]:
    """Tokens by rule: a word a token, 50 for an image; every answer has 5."""
    parts = [part for message in body["messages"] for part in message["content"]]
    words = sum(len(part["text"].split()) if part["type"] == "text" else 50 for part in parts)
    return {"prompt_tokens": words, "completion_tokens": 5}


@contextmanager
def provider(faults: list[int | str] | None = None) -> Iterator[Provider]:
    told = Provider(list(faults or []))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with told.lock:
                told.requests.append(body)
                told.keys.append(self.headers.get("Authorization", ""))
                fault = told.faults.pop(0) if told.faults else None
                held = len(told.requests) > told.free
            if held and not told.gate.wait(60):
                return
            if fault == "break":
                self.connection.shutdown(2)
                return
            if isinstance(fault, int):
                self._send(fault, {"error": {"message": "try later"}})
                return
            usage = usage_of(body)
            text = f"answer {len(body['messages'])} to {body['messages'][-1]['content'][-1].get('text', '')}"
            answer: dict[str, Any] = {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
            if fault != "no usage":
                answer["usage"] = usage | {"prompt_tokens_details": {"cached_tokens": 2}}
            with told.lock:
                told.bill.append(usage)
            self._send(200, answer)

        def _send(self, status: int, answer: dict[str, Any]) -> None:
            data = json.dumps(answer).encode()
            self.send_response(status)
            if status == 429:
                self.send_header("Retry-After", "0")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            return None

    with serving(Handler) as address:
        told.base = f"{address}/v1"
        try:
            yield told
        finally:
            told.gate.set()
