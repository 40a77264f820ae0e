"""Who may drive a desktop through the guest API."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from components.sandbox.osworld.server import build_app


class NoSlot:
    """Nobody gets as far as the slot."""

    asked = 0

    def guest(self) -> Any:
        self.asked += 1
        raise AssertionError("a request went through")


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://example.org"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"origin": "http://127.0.0.1", "content-type": "text/plain"},
    ],
)
def test_a_web_page_drives_no_desktop(headers: dict[str, str]) -> None:
    slot = NoSlot()
    client = TestClient(build_app(slot), base_url="http://127.0.0.1")  # type: ignore[arg-type]
    answer = client.post("/execute", content=json.dumps({"command": ["id"]}), headers=headers)
    assert answer.status_code == 403 and slot.asked == 0


def test_a_request_for_another_host_is_refused() -> None:
    slot = NoSlot()
    client = TestClient(build_app(slot), base_url="http://rebound.example")  # type: ignore[arg-type]
    assert client.post("/execute", json={"command": ["id"]}).status_code == 400 and slot.asked == 0
