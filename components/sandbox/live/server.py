"""The live view's server: one page and one websocket on loopback, in a thread of its own."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from components.contracts.errors import SandboxError
from components.sandbox.live.access import TOKEN_PARAMETER, Access
from components.sandbox.live.hub import Hub
from components.sandbox.live.slot import LiveSlot
from components.sandbox.live.viewer import Viewer

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.websockets import WebSocket

_HERE = Path(__file__).resolve().parent
_START_SECONDS = 15.0
_END_SECONDS = 5.0
_MESSAGE_BYTES = 1 << 16
_REMEDY = "open the address that the command printed"


class LiveServer:
    """Serves one slot until `close`. `address` holds the token: whoever has it may look and take control."""

    def __init__(self, slot: LiveSlot, hub: Hub, *, port: int = 0) -> None:
        """Port 0 = any that is free. Raises `SandboxError` where the port is taken or the packages are missing."""
        try:
            import uvicorn
            import websockets  # noqa: F401  (what uvicorn speaks websockets with)
        except ImportError as error:
            raise SandboxError(
                f"the live view needs {error.name}", where="live view", remedy="pip install 'cowork[desktop]'"
            ) from error
        self._socket = _listen(port)
        self.access = Access(int(self._socket.getsockname()[1]))
        self._hands = ThreadPoolExecutor(1, thread_name_prefix="live-hand")
        self._ready = threading.Event()
        app = _app(slot, hub, self.access, self._hands, self._ready)
        config = uvicorn.Config(
            app, log_level="error", access_log=False, ws="auto", ws_max_size=_MESSAGE_BYTES, lifespan="on",
            timeout_graceful_shutdown=1, server_header=False,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="live-server", daemon=True
        )
        self._thread.start()
        if not self._ready.wait(_START_SECONDS):
            self.close()
            raise SandboxError("the live view did not start", where="live view", remedy="try another --port")

    @property
    def address(self) -> str:
        return self.access.address

    def close(self) -> None:
        """Viewers are told; when this returns nothing listens any more. May be called again."""
        self._server.should_exit = True
        self._thread.join(_END_SECONDS)
        self._hands.shutdown(wait=False, cancel_futures=True)
        self._socket.close()


def _listen(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(("127.0.0.1", port))
        sock.listen(64)
    except (OSError, OverflowError) as error:
        sock.close()
        raise SandboxError(
            f"port {port} cannot be used: {error}", where="live view", remedy="leave --port away for a free one"
        ) from error
    return sock


def _app(
    slot: LiveSlot, hub: Hub, access: Access, hands: ThreadPoolExecutor, ready: threading.Event
) -> Starlette:  # fmt: skip
    from starlette.applications import Starlette
    from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse
    from starlette.routing import Route, WebSocketRoute

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        ready.set()
        yield

    async def page(request: Request) -> Response:
        if access.wrong_host(request.headers):
            return PlainTextResponse("wrong host\n", 421)
        given = request.query_params.get(TOKEN_PARAMETER)
        if given is not None:
            if not access.knows(given):
                return PlainTextResponse(f"wrong token: {_REMEDY}\n", 403)
            answer: Response = RedirectResponse("/", 303)
            answer.set_cookie(access.cookie_name, access.cookie, httponly=True, samesite="lax", path="/")
        elif not access.admits(request.cookies):
            return PlainTextResponse(f"no token: {_REMEDY}\n", 403)
        else:
            nonce = secrets.token_urlsafe(16)
            answer = HTMLResponse(render_page(nonce))
            answer.headers["Content-Security-Policy"] = (
                f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src blob: data:; "
                f"connect-src 'self' ws://{request.headers['host']}; base-uri 'none'; form-action 'none'; "
                "frame-ancestors 'none'"
            )
        answer.headers["Cache-Control"] = "no-store"
        answer.headers["Referrer-Policy"] = "no-referrer"
        answer.headers["X-Content-Type-Options"] = "nosniff"
        answer.headers["Cross-Origin-Resource-Policy"] = "same-origin"
        return answer

    async def live(websocket: WebSocket) -> None:
        headers = websocket.headers
        if access.wrong_host(headers) or access.wrong_origin(headers) or not access.admits(websocket.cookies):
            await websocket.close(4403)  # before `accept`: the browser sees 403
            return
        await websocket.accept()
        await Viewer(websocket, hub, slot, hands).run()

    return Starlette(routes=[Route("/", page), WebSocketRoute("/live", live)], lifespan=lifespan)


def render_page(nonce: str) -> str:
    """The page, whole: nothing is loaded from anywhere."""
    page = (_HERE / "page.html").read_text(encoding="utf-8")
    for name in ("css", "js"):
        page = page.replace(f"/*{name}*/", (_HERE / f"page.{name}").read_text(encoding="utf-8"))
    return page.replace("{nonce}", nonce)
