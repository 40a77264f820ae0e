"""The live view, over real HTTP and websockets on loopback, of a real minidesk."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from components.contracts.calls import ComputerUse
from components.contracts.errors import RefusedCall, SandboxError
from components.sandbox.live.hub import LOG_LIMIT, Hub
from components.sandbox.live.server import LiveServer, render_page
from components.sandbox.live.viewer import RATE
from pipelines.waiting import wait_until
from tests.unit.live.browser import BROWSER, browser
from tests.unit.live.kit import View, view

SECONDS = 60.0


@pytest.fixture
def live(tmp_path: Path) -> Iterator[View]:
    with view(tmp_path) as opened:
        yield opened


def get(live: View, path: str = "/", host: str = "", **headers: str) -> httpx.Response:
    with httpx.Client(trust_env=False) as client:
        return client.get(live.base + path, headers={**({"Host": host} if host else {}), **headers})


def watch(live: View, *, origin: str = "", cookie: bool = True, host: str = "127.0.0.1") -> ClientConnection:
    return connect(
        f"ws://{host}:{live.port}/live", origin=origin or f"http://{host}:{live.port}",  # type: ignore[arg-type]
        additional_headers=live.cookie if cookie else {}, proxy=None, open_timeout=SECONDS,
    )  # fmt: skip


class Eyes:
    """Reads what a page would read."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.pictures = 0
        self.seen: list[dict[str, Any]] = []

    def until(self, wanted: Any, *, draw: bool = True) -> dict[str, Any]:
        """The first message for which `wanted` holds. A picture counts as {"type": "picture"}."""
        while True:
            told = self.socket.recv(timeout=SECONDS)
            if isinstance(told, bytes):
                self.pictures += 1
                message: dict[str, Any] = {"type": "picture", "bytes": len(told)}
                if draw:
                    self.do("drawn")
            else:
                message = json.loads(told)
            self.seen.append(message)
            if wanted(message):
                return message

    def do(self, do: str, **more: Any) -> None:
        self.socket.send(json.dumps({"do": do, **more}))

    def take(self) -> None:
        self.do("control", on=True)
        self.until(lambda m: m.get("control") == "mine")


def step(message: dict[str, Any]) -> bool:
    return message["type"] == "log" and message["entries"][-1]["type"] == "step"


def test_only_the_token_opens_the_page_and_a_cookie_keeps_it_open(live: View) -> None:
    assert get(live).status_code == get(live, "/?token=").status_code == get(live, "/?token=guess").status_code == 403
    assert get(live, "/?token=%C3%A9").status_code == 403
    with httpx.Client(trust_env=False) as browser_like:
        first = browser_like.get(live.server.address)
        assert first.status_code == 303 and first.headers["location"] == "/", "the token leaves the address bar"
        given = first.headers["set-cookie"].lower()
        assert "httponly" in given and "samesite=lax" in given and live.server.access.token not in given
        page = browser_like.get(live.base)
    assert page.status_code == 200 and "Take control" in page.text and live.server.access.token not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store" and page.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1.evil.example:{port}"])
def test_a_name_that_is_not_this_machine_gets_nothing(live: View, host: str) -> None:
    named = host.format(port=live.port)
    assert get(live, f"/?token={live.server.access.token}", named).status_code == 421
    assert get(live, "/", named, **live.cookie).status_code == 421


def test_it_listens_on_loopback_alone(live: View) -> None:
    assert live.server._socket.getsockname()[0] == "127.0.0.1"  # noqa: SLF001


@pytest.mark.parametrize(
    ("origin", "cookie"),
    [("http://evil.example", True), ("null", True), ("https://127.0.0.1:{port}", True), ("http://127.0.0.1:1", True),
     ("http://localhost:{port}", True), ("http://127.0.0.1:{port}", False)],
)  # fmt: skip
def test_a_foreign_page_or_one_without_the_cookie_gets_no_socket(live: View, origin: str, cookie: bool) -> None:
    with pytest.raises(InvalidStatus) as refused:
        watch(live, origin=origin.format(port=live.port), cookie=cookie)
    assert refused.value.response.status_code == 403


def test_a_socket_without_an_origin_is_refused(live: View) -> None:
    with pytest.raises(InvalidStatus):
        connect(f"ws://127.0.0.1:{live.port}/live", additional_headers=live.cookie, proxy=None)


def test_who_looks_on_reaches_nothing(live: View) -> None:
    before = live.slot.inner.observe().screen
    with watch(live) as socket:
        eyes = Eyes(socket)
        eyes.do("act", arguments={"action": "double_click", "coordinate": [20, 40]})
        assert eyes.until(lambda m: m["type"] == "notice")["text"] == "take control first"
    assert np.array_equal(live.slot.inner.observe().screen, before) and live.hub.log_since(0)[0] == []


def test_a_person_in_control_clicks_drags_scrolls_and_types_as_an_agent_would(live: View) -> None:
    with watch(live) as socket:
        eyes = Eyes(socket)
        eyes.take()
        notes = next(e for e in live.slot.inner.observe().elements if e.kind == "icon" and e.label == "notes")
        eyes.do("act", arguments={"action": "double_click", "coordinate": list(notes.center)})
        entry = eyes.until(step)["entries"][-1]
        assert entry["who"] == "person" and entry["mark"]["points"] == [[float(v) for v in notes.center]]
        assert live.slot.inner.state()["active"] == "notes"
        for arguments in (
            {"action": "type", "text": "hello"}, {"action": "key", "keys": ["ctrl", "a"]},
            {"action": "scroll", "pixels": -100, "coordinate": [150, 100]},
            {"action": "left_click_drag", "start_coordinate": [150, 60], "coordinate": [180, 90]},
        ):  # fmt: skip
            eyes.do("act", arguments=arguments)
            assert eyes.until(step)["entries"][-1]["error"] == "", arguments


@pytest.mark.parametrize(
    "arguments",
    [
        {}, {"action": "left_click"}, {"action": "left_click", "coordinate": [9999, 5]},
        {"action": "key", "keys": ["nokey"]}, {"action": "left_click", "coordinate": "1,2"}, {"action": "rm"},
        {"action": "terminate", "status": "success"}, {"action": "type", "text": 5},
    ],
)  # fmt: skip
def test_a_malformed_action_of_a_page_is_told_and_does_no_harm(live: View, arguments: dict[str, Any]) -> None:
    with watch(live) as socket:
        eyes = Eyes(socket)
        eyes.take()
        eyes.do("act", arguments=arguments)
        assert eyes.until(lambda m: m["type"] == "notice")["text"]
        socket.send("no json")
        assert "no message" in eyes.until(lambda m: m["type"] == "notice")["text"]
        eyes.do("act", arguments={"action": "mouse_move", "coordinate": [5, 5]})
        assert eyes.until(lambda m: step(m) and not m["entries"][-1]["error"])


def test_only_one_person_is_in_control_and_a_lost_page_gives_it_back(live: View) -> None:
    with watch(live) as second_socket:
        second = Eyes(second_socket)
        with watch(live) as first_socket:
            Eyes(first_socket).take()
            second.until(lambda m: m.get("control") == "other")
            second.do("control", on=True)
            assert second.until(lambda m: m["type"] == "notice")["text"] == "somebody else is in control"
        second.until(lambda m: m.get("control") == "free")
        second.take()


def test_the_agent_waits_while_a_person_is_in_control_and_looks_again_afterwards(live: View) -> None:
    outcome: list[Any] = []

    def agent() -> None:
        try:
            outcome.append(live.slot.act(ComputerUse(action="mouse_move", coordinate=(9, 9))))
        except RefusedCall as refused:
            outcome.append(refused)

    with watch(live) as socket:
        eyes = Eyes(socket)
        eyes.take()
        live.slot.observe()
        thread = threading.Thread(target=agent, daemon=True)
        thread.start()
        eyes.until(lambda m: m.get("kind") == "waiting")
        eyes.do("act", arguments={"action": "mouse_move", "coordinate": [50, 50]})
        eyes.until(step)
        assert thread.is_alive() and not outcome
        eyes.do("control", on=False)
        thread.join(SECONDS)
    assert isinstance(outcome[0], RefusedCall), "its screen is out of date"
    live.slot.observe()
    agent()
    assert not isinstance(outcome[1], Exception)


def test_closing_ends_an_agent_that_waits_for_control(live: View) -> None:
    live.slot.take(self := object())
    ended: list[BaseException] = []

    def agent() -> None:
        try:
            live.slot.act(ComputerUse(action="mouse_move", coordinate=(9, 9)))
        except SandboxError as error:
            ended.append(error)

    thread = threading.Thread(target=agent, daemon=True)
    thread.start()
    assert wait_until(lambda: live.hub.state["kind"] == "waiting", SECONDS)
    live.slot.close()
    thread.join(SECONDS)
    assert ended and live.slot.person is self


def test_pictures_come_only_when_something_changes(live: View) -> None:
    with watch(live) as socket:
        eyes = Eyes(socket)
        eyes.until(lambda m: m["type"] == "picture")
        for _ in range(5):
            live.hub.show(live.slot.inner.observe())
        live.hub.tell({"type": "info", "text": "mark"})
        eyes.until(lambda m: m["type"] == "log")
        assert eyes.pictures == 1
        live.slot.act(ComputerUse(action="double_click", coordinate=(24, 40)))
        live.slot.observe()
        eyes.until(lambda m: m["type"] == "picture")


def test_a_viewer_that_draws_nothing_holds_up_neither_the_slot_nor_the_others(live: View) -> None:
    with watch(live) as slow_socket, watch(live) as quick_socket:
        slow, quick = Eyes(slow_socket), Eyes(quick_socket)
        slow.until(lambda m: m["type"] == "picture", draw=False)
        quick.until(lambda m: m["type"] == "picture")
        rng = np.random.default_rng(0)
        for number in range(40):
            live.hub.show_encoded(rng.bytes(200_000), (number, number))
            if number % 10 == 9:
                quick.until(lambda m: m["type"] == "picture")
        live.hub.tell({"type": "info", "text": "end"})
        slow.until(lambda m: m["type"] == "log", draw=False)
        assert slow.pictures == 1, "nothing piles up on it"
        slow.do("drawn")
        slow.until(lambda m: m["type"] == "picture")
        assert quick.pictures >= 5


def test_pictures_are_not_sent_more_often_than_the_rate(live: View) -> None:
    stop = threading.Event()

    def paint() -> None:
        number = 0
        while not stop.wait(0.002):
            live.hub.show_encoded(str(number := number + 1).encode(), None)

    painter = threading.Thread(target=paint, daemon=True)
    with watch(live) as socket:
        eyes = Eyes(socket)
        painter.start()
        import time

        start = time.monotonic()
        while eyes.pictures < 9:
            eyes.until(lambda m: m["type"] == "picture")
        took = time.monotonic() - start
        stop.set()
        painter.join()
    assert took >= 7 / RATE


def test_the_log_is_bounded_and_who_comes_late_gets_what_there_is() -> None:
    hub = Hub((8, 8))
    for number in range(LOG_LIMIT + 30):
        hub.tell({"number": number})
    entries, place = hub.log_since(0)
    assert len(entries) == LOG_LIMIT and entries[-1]["number"] == LOG_LIMIT + 29 and place == LOG_LIMIT + 30
    hub.tell({"number": -1})
    assert hub.log_since(place)[0] == [{"number": -1}]


def test_nobody_makes_pictures_for_nobody(live: View) -> None:
    assert not live.hub.watched.is_set()
    with watch(live) as socket:
        Eyes(socket).until(lambda m: m["type"] == "about")
        assert live.hub.watched.is_set()
    assert wait_until(lambda: not live.hub.watched.is_set(), SECONDS)


def test_closing_tells_the_viewers_and_frees_the_port(live: View) -> None:
    with watch(live) as socket:
        Eyes(socket).until(lambda m: m["type"] == "about")
        live.server.close()
        with pytest.raises(ConnectionClosed):
            while True:
                socket.recv(timeout=SECONDS)
    with pytest.raises(OSError):
        socket_to(live.port)
    live.server.close()


def socket_to(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        pass


def test_a_port_that_is_taken_is_said_so(live: View) -> None:
    with pytest.raises(SandboxError, match=str(live.port)):
        LiveServer(live.slot, live.hub, port=live.port)


def test_the_page_is_whole_in_itself() -> None:
    page = render_page("abc")
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "") and "https://" not in page
    assert "src=" not in page and page.count('nonce="abc"') == 2 and "{nonce}" not in page


@pytest.mark.skipif(BROWSER is None, reason="no Chromium to open the page in: apt-get install chromium")
def test_a_real_browser_shows_the_screen_takes_control_by_keyboard_and_acts(live: View) -> None:
    live.hub.tell({"type": "info", "title": "Hello", "text": "<b>plain</b>"})
    with browser() as page:
        page.open(live.server.address)
        assert page.until("Number(document.documentElement.dataset.pictures) >= 1")
        assert page.value("location.pathname + location.search") == "/", "no token in the address"
        assert page.value("document.querySelector('#log b').textContent") == "Hello"
        assert page.value("document.querySelectorAll('#log b b').length") == 0, "text stays text"
        page.value("document.querySelector('#control').focus()")
        page.key("Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
        assert page.until("document.documentElement.classList.contains('driving')")
        assert page.until("document.activeElement.id == 'screen'")
        notes = next(e for e in live.slot.inner.observe().elements if e.kind == "icon" and e.label == "notes")
        x, y, w, h = page.value("(b => [b.x, b.y, b.width, b.height])"
                                "(document.querySelector('#canvas').getBoundingClientRect())")  # fmt: skip
        page.click(x + (notes.center[0] + 0.5) / 288 * w, y + (notes.center[1] + 0.5) / 224 * h, count=2)
        assert page.until("document.querySelectorAll('#log li.person').length == 1")
        assert live.slot.inner.state()["active"] == "notes"
        assert page.value("document.querySelectorAll('#marks .ink').length") == 2, "a double click is two rings"
        page.key("Escape", code="Escape", windowsVirtualKeyCode=27, modifiers=8)
        assert page.until("!document.documentElement.classList.contains('driving')")
        assert live.slot.person is None or wait_until(lambda: live.slot.person is None, SECONDS)
        page.picture("live-view-test")
