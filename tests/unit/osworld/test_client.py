"""A remote host over a network that fails: reading is repeated, and nothing that may have been done is sent again."""

from __future__ import annotations

import io
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from PIL import Image

from components.contracts.calls import BashCall, ComputerUse
from components.contracts.errors import SandboxError, TaskError
from components.sandbox.osworld.client import TRIES, HttpGuest
from components.sandbox.osworld.desktop import OsworldRemote
from components.sandbox.osworld.forms import BadRequest, multipart
from components.sandbox.osworld.guest import GuestRefusal
from components.sandbox.osworld.sources import Sources
from components.sandbox.osworld.task import as_task, read_task


def picture() -> bytes:
    data = io.BytesIO()
    Image.new("RGB", (1280, 720), (9, 9, 9)).save(data, "PNG")
    return data.getvalue()


PICTURE = picture()


def answer(body: bytes, status: str = "200 OK", kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    return head.encode() + body


class Host:
    """A real listener that answers each request as it is told to, or hangs up. `seen`: the requests' first lines."""

    def __init__(self, reply: Callable[[str, int], bytes | None]) -> None:
        self.seen: list[str] = []
        self._reply = reply
        self._sock = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._sock.getsockname()[1]}"

    def close(self) -> None:
        self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()
        self._thread.join(10)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._sock.accept()
            except OSError:
                return
            with connection:
                data = b""
                while b"\r\n\r\n" not in data and (chunk := connection.recv(65536)):
                    data += chunk
                head, _, body = data.partition(b"\r\n\r\n")
                length = next((int(line.split(b":")[1]) for line in head.lower().split(b"\r\n")
                               if line.startswith(b"content-length")), 0)  # fmt: skip
                while len(body) < length and (chunk := connection.recv(65536)):
                    body += chunk
                path = head.split(b" ")[1].decode()
                self.seen.append(path)
                reply = self._reply(path, self.seen.count(path))
                if reply is not None:
                    connection.sendall(reply)


@contextmanager
def host(reply: Callable[[str, int], bytes | None]) -> Iterator[Host]:
    made = Host(reply)
    try:
        yield made
    finally:
        made.close()


def test_reading_is_repeated_when_the_connection_breaks() -> None:
    with host(lambda path, count: None if count < TRIES else answer(PICTURE, kind="image/png")) as there:
        assert HttpGuest(there.address).screenshot() == PICTURE
        assert there.seen == ["/screenshot"] * TRIES
    with host(lambda path, count: None) as there:
        with pytest.raises(SandboxError, match=f"{TRIES} tries"):
            HttpGuest(there.address).screenshot()


CUT_OFF = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"


@pytest.mark.parametrize("broken", [None, answer(b"{}", "500 Internal Server Error"), CUT_OFF])
def test_an_action_whose_answer_does_not_come_is_sent_once(broken: bytes | None) -> None:
    with host(lambda path, count: broken) as there:
        guest = HttpGuest(there.address)
        actions: list[Callable[[], object]] = [
            lambda: guest.execute(["python", "-c", "import pyautogui; pyautogui.click()"]),
            lambda: guest.bash_script("rm x"), lambda: guest.launch(["xterm"]), lambda: guest.write_file("x", b"y"),
        ]  # fmt: skip
        for number, action in enumerate(actions, start=1):
            with pytest.raises(SandboxError):
                action()
            assert len(there.seen) == number


def test_a_refusal_is_told_from_a_lost_host() -> None:
    replies = {"/setup/open_file": answer(b'{"message": "no window"}', "400 Bad Request"),
               "/file": answer(b'{"message": "gone"}', "404 Not Found")}  # fmt: skip
    with host(lambda path, count: replies[path]) as there:
        guest = HttpGuest(there.address)
        with pytest.raises(GuestRefusal, match="no window"):
            guest.open_file("x")
        with pytest.raises(FileNotFoundError):
            guest.read_file("x")
        assert there.seen == ["/setup/open_file", "/file"]


def test_nobody_there_is_an_error_that_says_that_nothing_was_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(SandboxError, match="was not sent"):
        HttpGuest(address).execute(["true"])


def test_a_screenshot_that_is_no_picture_is_no_screenshot() -> None:
    with host(lambda path, count: answer(b"<html>")) as there:
        with pytest.raises(SandboxError, match="no picture"):
            HttpGuest(there.address).screenshot()


TASK = {
    "id": "t", "instruction": "i",
    "evaluator": {"func": "exact_match", "result": {"type": "vm_command_line", "command": "true"},
                  "expected": {"type": "rule", "rules": {"expected": ""}}},
}  # fmt: skip


def test_a_desktop_whose_host_failed_in_an_action_does_nothing_more_until_it_is_reset() -> None:
    answers = {
        "/slot/reset": answer(b"{}"), "/screen_size": answer(b'{"width": 1280, "height": 720}'),
        "/cursor_position": answer(b"[1, 2]"), "/screenshot": answer(PICTURE, kind="image/png"), "/execute": None,
    }  # fmt: skip
    with host(lambda path, count: answers[path]) as there:
        desktop = OsworldRemote(there.address, Sources())
        assert desktop.reset(as_task(read_task("os/t", TASK))).pointer == (1, 2)
        with pytest.raises(SandboxError, match="may have been done"):
            desktop.act(ComputerUse(action="left_click", coordinate=(5, 5)))
        asked = len(there.seen)
        for call in (ComputerUse(action="left_click", coordinate=(5, 5)), BashCall(command="ls")):
            with pytest.raises(SandboxError):
                desktop.act(call)
        with pytest.raises(SandboxError):
            desktop.grade()
        assert len(there.seen) == asked and there.seen.count("/execute") == 1
        desktop.reset(as_task(read_task("os/t", TASK)))
        desktop.close()


def test_a_host_with_another_screen_or_a_task_of_another_kind_is_refused(tmp_path: Path) -> None:
    answers = {"/slot/reset": answer(b"{}"), "/screen_size": answer(b'{"width": 800, "height": 600}')}
    with host(lambda path, count: answers[path]) as there:
        with pytest.raises(SandboxError, match="800"):
            OsworldRemote(there.address, Sources()).reset(as_task(read_task("os/t", TASK)))
        plain = as_task(read_task("os/t", TASK)).model_copy(update={"spec": {}})
        with pytest.raises(TaskError, match="no OSWorld task"):
            OsworldRemote(there.address, Sources(), size=(800, 600)).reset(plain)


def test_a_form_with_a_file_gives_its_exact_bytes_and_a_damaged_one_is_refused() -> None:
    data = bytes(range(256)) * 40 + b"\r\n--edg\r\n--"
    body = (
        b'--edge\r\ncontent-disposition: form-data; name="file_path"\r\n\r\n/tmp/\xc3\xa4 b\r\n'
        b'--edge\r\nContent-Disposition: form-data; name="file_data"; filename="x"\r\ncontent-type: a/b\r\n\r\n'
        + data + b"\r\n--edge--\r\n"
    )  # fmt: skip
    assert multipart("multipart/form-data; boundary=edge", body) == {"file_path": "/tmp/ä b", "file_data": data}
    for kind, broken in (("multipart/form-data", body), ("multipart/form-data; boundary=edge", body[:-12]),
                         ("multipart/form-data; boundary=edge", b"")):  # fmt: skip
        with pytest.raises(BadRequest):
            multipart(kind, broken)
