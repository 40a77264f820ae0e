"""A slot's own process: one desktop, one line to its host. Killing this process is what ends everything in the slot.

Setups and verifiers run here too, so one that hangs or eats memory costs its slot and nothing else.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from components.contracts.errors import SandboxError, VerifierError
from components.contracts.task import Task
from components.sandbox.pool.backends import SlotDesktop, SlotSetup, named
from components.sandbox.pool.protocol import CALLS, encode_error, encode_seen
from components.sandbox.pool.starts import StartGate
from components.sandbox.x11.guest import wire

WHERE = "slot"
Answer = tuple[Any, bytes]


class Slot:
    """Answers calls until the host says `close` or is gone. Calls are the methods named `do_*`.

    `fixed`: what `open` may not decide. `first`: a request that was read already.
    """

    def __init__(
        self, sock: socket.socket, fixed: dict[str, Any] | None = None, first: dict[str, Any] | None = None
    ) -> None:
        self._sock, self._fixed, self._first = sock, fixed or {}, first
        self._held: SlotDesktop | None = None

    def serve(self) -> None:
        self._sock.settimeout(None)
        with suppress(wire.Closed):
            while True:
                request, self._first = self._first or wire.receive(self._sock)[0], None
                name = str(request.get("call"))
                answer: dict[str, Any] = {"id": request.get("id")}
                blob = b""
                try:
                    method: Callable[[dict[str, Any]], Answer] | None = getattr(self, f"do_{name}", None)
                    if method is None:
                        raise SandboxError(f"a slot has no call {name!r}", where=WHERE)
                    answer["result"], blob = method(request.get("args") or {})
                except wire.Closed:
                    raise
                except Exception as error:
                    answer["error"] = encode_error(error)
                wire.send(self._sock, answer, blob)
                if name == "close":
                    return

    def close(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.close()

    # -- calls --------------------------------------------------------------------------------------------------

    def do_open(self, args: dict[str, Any]) -> Answer:
        """Makes the desktop of `backend` with `options`; its sandbox is ready afterwards."""
        args = {**args, **self._fixed}
        screen = args.get("screen")
        setup = SlotSetup(
            Path(args["folder"]), StartGate(self._ask_start, lambda: wire.send(self._sock, {"ask": "started"})),
            (int(screen[0]), int(screen[1])) if screen else None, dict(args["limits"]), dict(args["options"]),
        )  # fmt: skip
        self._held = named(str(args["backend"]))(setup)
        self._held.warm()
        return {"size": self._held.desktop.size, "processes": self._held.processes()}, b""

    def do_fit(self, args: dict[str, Any]) -> Answer:
        return self._slot().fit(), b""

    def do_reset(self, args: dict[str, Any]) -> Answer:
        slot = self._slot()
        meta, png = encode_seen(slot.desktop.reset(Task.model_validate(args["task"])))
        return {**meta, "size": slot.desktop.size, "processes": slot.processes()}, png

    def do_observe(self, args: dict[str, Any]) -> Answer:
        return encode_seen(self._slot().desktop.observe())

    def do_act(self, args: dict[str, Any]) -> Answer:
        done = self._slot().desktop.act(CALLS.validate_python(args["call"]))
        return {"effect": done.effect, "output": done.output, "exit_code": done.exit_code,
                "timed_out": done.timed_out}, b""  # fmt: skip

    def do_grade(self, args: dict[str, Any]) -> Answer:
        """A verifier that breaks is its own kind of error, never a success."""
        try:
            return self._slot().desktop.grade().model_dump(mode="json"), b""
        except (SandboxError, VerifierError):
            raise
        except Exception as error:
            raise VerifierError(f"the verifier broke: {error!r}", where=WHERE, remedy="mend its checks") from error

    def do_state(self, args: dict[str, Any]) -> Answer:
        return self._slot().desktop.state(), b""

    def do_close(self, args: dict[str, Any]) -> Answer:
        self.close()
        return {}, b""

    def _slot(self) -> SlotDesktop:
        if self._held is None:
            raise SandboxError("this slot has no desktop", where=WHERE, remedy="open it first")
        return self._held

    def _ask_start(self) -> None:
        """Returns when the host has a place for an application start."""
        wire.send(self._sock, {"ask": "start"})
        answer, _ = wire.receive(self._sock)
        if not answer.get("granted"):
            raise wire.Closed("no leave to start an application")


def run(sock: socket.socket) -> int:
    """Serve one host to the end. The exit code of the process."""
    slot = Slot(sock)
    try:
        slot.serve()
        return 0
    except Exception as error:
        print(f"slot {os.getpid()}: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    finally:
        with suppress(Exception):
            slot.close()
