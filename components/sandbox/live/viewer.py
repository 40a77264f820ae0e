"""One open page: sends what is new as fast as the page takes it, and carries out what its person does."""

from __future__ import annotations

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from components.sandbox.live.hub import Hub
from components.sandbox.live.slot import LiveSlot

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

RATE = 8.0
"""Pictures a second at most, for each viewer."""
_SEND_SECONDS = 20.0
"""A viewer that takes nothing for so long is let go."""
_WAITING = 32
"""Actions of a person that may wait for their turn; more are dropped, and the person is told."""


class Viewer:
    """A picture is sent only after the page has said that it drew the last one: nothing piles up on a slow way."""

    def __init__(self, websocket: WebSocket, hub: Hub, slot: LiveSlot, hands: ThreadPoolExecutor) -> None:
        self._socket, self._hub, self._slot, self._hands = websocket, hub, slot, hands
        self._wake = asyncio.Event()
        self._drawn = True
        self._notices: list[str] = []
        self._actions: asyncio.Queue[dict[str, Any]] = asyncio.Queue(_WAITING)

    async def run(self) -> None:
        """Until the page is closed, from either end."""
        loop = asyncio.get_running_loop()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._wake.set)

        unsubscribe = self._hub.subscribe(wake)
        tasks = [asyncio.create_task(part) for part in (self._write(), self._read(), self._act())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            unsubscribe()
            self._slot.give_back(self)
            self._hub.set_state(self._hub.state["text"], self._hub.state["kind"])  # others see that control is free
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            with suppress(Exception):
                await self._socket.close()

    async def _write(self) -> None:
        place, sent, earliest = 0, 0, 0.0
        told: dict[str, Any] = {}
        await self._send({"type": "about", **self._hub.about})
        while True:
            self._wake.clear()
            entries, place = self._hub.log_since(place)
            if entries:
                await self._send({"type": "log", "entries": entries})
            while self._notices:
                await self._send({"type": "notice", "text": self._notices.pop(0)})
            state = {"type": "state", **self._hub.state, "control": self._control()}
            if state != told:
                await self._send(state)
                told = state
            picture, left = self._hub.picture, None
            if picture is not None and picture.number != sent and self._drawn:
                left = earliest - time.monotonic()
                if left <= 0:
                    sent, self._drawn, left = picture.number, False, None
                    earliest = time.monotonic() + 1 / RATE
                    await self._send({"type": "pointer", "at": picture.pointer})
                    await asyncio.wait_for(self._socket.send_bytes(picture.data), _SEND_SECONDS)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), left)

    def _control(self) -> str:
        person = self._slot.person
        return "mine" if person is self else "other" if person is not None else "free"

    async def _send(self, message: dict[str, Any]) -> None:
        await asyncio.wait_for(self._socket.send_text(json.dumps(message)), _SEND_SECONDS)

    async def _read(self) -> None:
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            try:
                told = json.loads(message.get("text") or "")
                do = told["do"]
            except (ValueError, TypeError, KeyError):
                self._notice("that was no message")
                continue
            if do == "drawn":
                self._drawn = True
                self._wake.set()
            elif do == "control":
                self._control_wish(told.get("on") is True)
            elif do == "act" and isinstance(told.get("arguments"), dict):
                try:
                    self._actions.put_nowait(told["arguments"])
                except asyncio.QueueFull:
                    self._notice("too many actions wait; this one was dropped")
            else:
                self._notice("that was no message")

    def _control_wish(self, on: bool) -> None:
        if on and not self._slot.take(self):
            self._notice("somebody else is in control")
        if not on:
            self._slot.give_back(self)
        state = self._hub.state
        self._hub.set_state(state["text"], state["kind"])  # all viewers look again

    def _notice(self, text: str) -> None:
        self._notices.append(text)
        self._wake.set()

    async def _act(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            arguments = await self._actions.get()
            problem = await loop.run_in_executor(self._hands, self._slot.person_act, self, arguments)
            if problem:
                self._notice(problem)
