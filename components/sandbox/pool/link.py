"""The host's end of the line to one slot."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from components.contracts.errors import CoworkError
from components.sandbox.pool.errors import SlotGoneError
from components.sandbox.pool.protocol import decode_error
from components.sandbox.pool.starts import StartLimiter
from components.sandbox.x11.guest import wire


class SlotLink:
    """Calls to one slot, one at a time, from any thread.

    After a timeout or a broken line it is closed for good: what the slot does is not known any more.
    """

    def __init__(self, sock: socket.socket, starts: StartLimiter | None = None) -> None:
        self._sock = sock
        self._starts = starts
        self._lock = threading.Lock()
        self._number = 0
        self._broken: CoworkError | None = None

    @property
    def broken(self) -> CoworkError | None:
        return self._broken

    def call(
        self, call: str, args: dict[str, Any] | None = None, *, seconds: float, late: Callable[[], CoworkError]
    ) -> tuple[Any, bytes]:
        """(answer, blob). Raises `late()` after `seconds`, `SlotGoneError` when the slot ends, else its own error."""
        deadline = time.monotonic() + seconds
        if not self._lock.acquire(timeout=max(0.0, seconds)):
            raise self._fail(late())
        try:
            if self._broken is not None:
                raise self._broken
            return self._exchange(call, args or {}, deadline, late)
        finally:
            self._lock.release()

    def doom(self, reason: CoworkError) -> None:
        """Say why the slot is about to be killed: a call that is waiting raises this."""
        self._broken = self._broken or reason

    def try_close(self, seconds: float) -> bool:
        """Ask an idle slot to end by itself. False when it is busy or does not answer."""
        if self._broken is not None or not self._lock.acquire(blocking=False):
            return False
        try:
            self._exchange("close", {}, time.monotonic() + seconds, lambda: SlotGoneError("it did not close"))
            return True
        except CoworkError:
            return False
        finally:
            self._lock.release()

    def close(self) -> None:
        self._broken = self._broken or SlotGoneError("it was closed")
        # A thread that waits for an answer wakes up by this, not by `close` alone.
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def _exchange(
        self, call: str, args: dict[str, Any], deadline: float, late: Callable[[], CoworkError]
    ) -> tuple[Any, bytes]:
        self._number += 1
        held = 0
        try:
            self._sock.settimeout(max(0.001, deadline - time.monotonic()))
            wire.send(self._sock, {"id": self._number, "call": call, "args": args})
            while True:
                message, blob = wire.receive(self._sock, deadline)
                asked = message.get("ask")
                if asked is None:
                    break
                held += self._start(str(asked), held, deadline)
            if message.get("id") != self._number:
                raise wire.Closed("its answers are out of step")
        except TimeoutError:
            raise self._fail(self._broken or late()) from None
        except (wire.Closed, OSError) as error:
            raise self._fail(self._broken or SlotGoneError(f"{error} in `{call}`")) from error
        finally:
            for _ in range(held):
                assert self._starts is not None
                self._starts.release()
        if "error" in message:
            raise decode_error(message["error"])
        return message.get("result"), blob

    def _start(self, asked: str, held: int, deadline: float) -> int:
        """The slot wants to start an application, or has: +1, -1 or 0 places held."""
        if asked == "start":
            place = self._starts is not None
            if self._starts is not None and not self._starts.acquire(deadline - time.monotonic()):
                raise TimeoutError
            wire.send(self._sock, {"granted": True})
            return int(place)
        if asked == "started" and held and self._starts is not None:
            self._starts.release()
            return -1
        return 0

    def _fail(self, error: CoworkError) -> CoworkError:
        self._broken = self._broken or error
        self.close()
        return error
