"""The host's end of the conversation with a guest agent."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import Any

from components.contracts.errors import SandboxError
from components.sandbox.x11.guest import wire

WHERE = "x11"
_GRACE = 15.0
"""Seconds that an agent may take beyond the time its work is allowed: the machine may be short of processors."""


class GuestError(SandboxError):
    """The agent lives and refused a call. `kind`: missing, os, argument, agent."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message, where=WHERE, remedy="the desktop lives on; look at the call")
        self.kind = kind


class Channel:
    """Calls to one agent, one at a time, from any thread.

    After a failure that is no `GuestError` it is closed for good: answers could be out of step, and a desktop of
    unknown state is worth nothing.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._lock = threading.Lock()
        self._number = 0
        self._broken = ""

    @property
    def broken(self) -> str:
        """Why it cannot be used any more; "" as long as it can."""
        return self._broken

    def open(self, settings: dict[str, Any], seconds: float) -> None:
        """First message: waits until the desktop is up. Raises `SandboxError`."""
        with self._lock:
            message, _ = self._exchange(settings, b"", seconds, "start")
        if "error" in message:
            self._broken = str(message["error"].get("message"))
            raise SandboxError(f"the desktop did not start: {self._broken}", where=WHERE, remedy="run .ci/x11")

    def call(
        self,
        call: str,
        args: dict[str, Any] | None = None,
        blob: bytes = b"",
        *,
        seconds: float = 10.0,
        fds: list[int] | None = None,
    ) -> tuple[Any, bytes]:
        """(answer, blob). `seconds`: what the call itself may take. `fds` gets the descriptors the answer came with.

        Raises `GuestError` when the agent refuses it, `SandboxError` when the agent is gone or does not answer.
        """
        with self._lock:
            self._number += 1
            request = {"id": self._number, "call": call, "args": args or {}}
            message, data = self._exchange(request, blob, seconds + _GRACE, call, fds)
            if message.get("id") != self._number:
                self._fail("the agent's answers are out of step")
        error = message.get("error")
        if error is not None:
            raise GuestError(str(error.get("kind")), str(error.get("message")))
        return message.get("result"), data

    def close(self) -> None:
        self._broken = self._broken or "the desktop was closed"
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)  # wakes whoever waits for an answer in another thread
        self._sock.close()

    def _exchange(
        self, message: dict[str, Any], blob: bytes, seconds: float, call: str, fds: list[int] | None = None
    ) -> tuple[dict[str, Any], bytes]:
        if self._broken:
            raise SandboxError(self._broken, where=WHERE, remedy="reset the desktop")
        try:
            self._sock.settimeout(seconds)
            wire.send(self._sock, message, blob)
            return wire.receive(self._sock, time.monotonic() + seconds, fds)
        except wire.Closed as error:
            self._fail(f"the guest agent is gone ({error}) in `{call}`", error)
        except TimeoutError as error:
            self._fail(f"the guest agent did not answer `{call}` within {seconds:g} s", error)
        raise AssertionError("not reached")

    def _fail(self, reason: str, cause: Exception | None = None) -> None:
        self._broken = reason
        self._sock.close()
        raise SandboxError(reason, where=WHERE, remedy="the episode is lost; reset the desktop") from cause
