"""Messages arrive whole or not at all; what is no message is told, never waited for."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from components.contracts.errors import SandboxError
from components.sandbox.x11.channel import Channel, GuestError
from components.sandbox.x11.guest import wire

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ends = socket.socketpair()
    yield ends
    for end in ends:
        end.close()


@pytest.mark.parametrize("blob", [b"", b"\0", bytes(range(256)) * 10_000])
def test_a_message_arrives_as_it_was_sent(pair: Pair, blob: bytes) -> None:
    message = {"call": "put", "args": {"path": "é 你好", "n": 1.5}}
    sender = threading.Thread(target=wire.send, args=(pair[0], message, blob))
    sender.start()
    assert wire.receive(pair[1], time.monotonic() + 10) == (message, blob)
    sender.join()


@pytest.mark.parametrize("data", [b"", b"\0\0", struct.pack("!II", 5, 0) + b"12", struct.pack("!II", 2, 0) + b"[]",
                                  struct.pack("!II", 2, 0) + b"xx", struct.pack("!II", 1 << 31, 0),
                                  struct.pack("!II", 2, 1 << 31) + b"{}"])  # fmt: skip
def test_half_a_message_or_none_is_the_end(pair: Pair, data: bytes) -> None:
    pair[0].sendall(data)
    pair[0].close()
    with pytest.raises(wire.Closed):
        wire.receive(pair[1], time.monotonic() + 10)


def test_a_silent_end_is_given_up_at_the_deadline(pair: Pair) -> None:
    with pytest.raises(TimeoutError):
        wire.receive(pair[1], time.monotonic() + 0.05)


def test_a_message_that_is_too_large_is_not_sent(pair: Pair) -> None:
    with pytest.raises(ValueError):
        wire.send(pair[0], {"text": "x" * wire.MAX_JSON})


def _answering(end: socket.socket, *answers: dict) -> threading.Thread:
    def serve() -> None:
        for answer in answers:
            request, _ = wire.receive(end, time.monotonic() + 10)
            wire.send(end, {"id": request.get("id"), **answer})

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def test_a_refused_call_leaves_the_channel_open(pair: Pair) -> None:
    channel = Channel(pair[0])
    serving = _answering(pair[1], {"error": {"kind": "missing", "message": "no such file"}}, {"result": 7})
    with pytest.raises(GuestError, match="no such file") as caught:
        channel.call("get")
    assert caught.value.kind == "missing"
    assert channel.call("hello") == (7, b"")
    serving.join()


def test_a_lost_agent_is_told_and_nothing_is_sent_again(pair: Pair) -> None:
    channel = Channel(pair[0])
    pair[1].close()
    for _ in range(2):
        with pytest.raises(SandboxError, match="agent is gone"):
            channel.call("act")
    assert channel.broken


def test_an_answer_to_another_question_closes_the_channel(pair: Pair) -> None:
    channel = Channel(pair[0])
    serving = _answering(pair[1], {"id": 99, "result": 1})
    with pytest.raises(SandboxError, match="out of step"):
        channel.call("windows")
    serving.join()
    with pytest.raises(SandboxError, match="out of step"):
        channel.call("windows")
