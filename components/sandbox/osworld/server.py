"""OSWorld's guest API over one slot of ours: what its clients and agents speak, on loopback.

The API knows no password, as OSWorld's does not: whoever reaches the port drives the desktop. It is therefore bound to
loopback alone and answers only requests that name a loopback host and do not come from a web page: a page in a browser
of this machine reaches loopback too, and its requests say where they come from. A client of OSWorld sends a request
again when the answer is not 200; here such an answer means that nothing was done, or that the slot is lost and nothing
more will be.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from components.contracts.errors import CoworkError
from components.sandbox.osworld.cache import Cache
from components.sandbox.osworld.forms import BadRequest, multipart
from components.sandbox.osworld.guest import EXECUTE_SECONDS, Executed, Guest
from components.sandbox.osworld.setup_steps import Setup
from components.sandbox.osworld.slot import Slot
from components.sandbox.osworld.sources import Sources
from components.sandbox.osworld.task import Step

MAX_BODY, MAX_UPLOAD = 16 << 20, 256 << 20
REQUEST_ID = "x-request-id"
"""A request that carries an id seen before is not carried out again: it gets the first one's answer."""
_REMEMBERED = 256
_SCRIPT_SECONDS = 600.0

Body = dict[str, Any]
Handler = Callable[[Guest, Body], Response]


def build_app(slot: Slot, sources: Sources | None = None) -> Starlette:
    """The API over a slot. `sources`: the only files that `/setup/download_file` gives."""
    allowed, once = sources or Sources(), _Once()

    def route(path: str, handler: Handler, *methods: str) -> Route:
        async def endpoint(request: Request) -> Response:
            try:
                body = await _body(request)
            except BadRequest as error:
                return _failure(400, str(error))
            except ClientDisconnect:
                return _failure(400, "the request broke off")
            number = request.headers.get(REQUEST_ID, "")
            # In a thread that ends by itself: a client that goes away does not leave half an action behind.
            return await run_in_threadpool(once.answer, number, lambda: _answer(lambda: handler(slot.guest(), body)))

        return Route(path, endpoint, methods=list(methods) or ["POST"])

    async def reset(request: Request) -> Response:
        def work() -> Response:
            slot.reset()
            return _ok()

        number = request.headers.get(REQUEST_ID, "")
        return await run_in_threadpool(once.answer, number, lambda: _answer(work))

    def download(guest: Guest, body: Body) -> Response:
        guest.write_file(_text(body, "path"), allowed.read(_text(body, "url")))
        return PlainTextResponse("File downloaded successfully")

    both = ("GET", "POST")
    return Starlette(
        routes=[
            route("/screenshot", lambda guest, body: Response(guest.screenshot(), media_type="image/png"), "GET"),
            route("/platform", lambda guest, body: PlainTextResponse(guest.platform()), "GET"),
            route("/cursor_position", lambda guest, body: JSONResponse(list(guest.cursor_position())), "GET"),
            route("/terminal", lambda guest, body: _ok(output=guest.terminal()), "GET"),
            route("/accessibility", lambda guest, body: JSONResponse({"AT": guest.accessibility()}), "GET"),
            route("/screen_size", lambda guest, body: JSONResponse(guest.screen_size()), *both),
            route("/window_size", _window_size, *both),
            route("/wallpaper", lambda guest, body: Response(guest.wallpaper(), media_type="image/png"), *both),
            route("/desktop_path", lambda guest, body: JSONResponse({"desktop_path": guest.desktop_path()}), *both),
            route("/list_directory", lambda g, body: JSONResponse({"directory_tree": g.tree(_text(body, "path"))})),
            route("/file", _file),
            route("/execute", _execute),
            route("/setup/execute", _execute),
            route("/execute_with_verification", _verified),
            route("/setup/execute_with_verification", _verified),
            route("/run_python", _run_python),
            route("/run_bash_script", _run_bash),
            route("/start_recording", _does(lambda guest, body: guest.start_recording())),
            route("/end_recording", lambda guest, body: Response(guest.end_recording(), media_type="video/mp4")),
            route("/setup/launch", _launch),
            route("/setup/upload", _upload),
            route("/upload", _upload),
            route("/setup/download_file", download),
            route("/setup/open_file", _does(lambda guest, body: guest.open_file(_text(body, "path")))),
            route("/setup/activate_window", _does(lambda guest, body: guest.activate_window(**_window(body)))),
            route("/setup/close_window", _does(lambda guest, body: guest.close_window(**_window(body)))),
            route("/setup/change_wallpaper", _does(lambda guest, body: guest.change_wallpaper(_text(body, "path")))),
            Route("/slot/reset", reset, methods=["POST"]),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"]), Middleware(_NoPages)],
    )


class _NoPages:
    """Refuses what a browser sends for a page. No client of the API sets these headers, no page can leave them out."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else {}
        if "origin" in headers or "sec-fetch-site" in headers:
            await _failure(403, "a web page may not drive this desktop")(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _answer(work: Callable[[], Response]) -> Response:
    try:
        return work()
    except FileNotFoundError as error:
        return _failure(404, f"not found: {error}")
    except (BadRequest, TypeError, ValueError) as error:
        return _failure(400, str(error))
    except CoworkError as error:
        return _failure(400 if error.border in ("task", "policy") else 500, str(error))


class _Once:
    """Answers by request id, so that an action sent twice runs once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: OrderedDict[str, Response | None] = OrderedDict()

    def answer(self, number: str, work: Callable[[], Response]) -> Response:
        if not number:
            return work()
        with self._lock:
            if number in self._answers:
                return self._answers[number] or _failure(409, "this request is being carried out")
            self._answers[number] = None
            while len(self._answers) > _REMEMBERED:
                self._answers.popitem(last=False)
        response = work()
        with self._lock:
            self._answers[number] = response
        return response


# -- what requests hold -----------------------------------------------------------------------------------------------


async def _body(request: Request) -> Body:
    """JSON, a form, or a form with a file (`file_data`: bytes). Raises `BadRequest`."""
    kind = request.headers.get("content-type", "")
    limit = MAX_UPLOAD if kind.startswith("multipart/") else MAX_BODY
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > limit:
            raise BadRequest(f"the body is larger than {limit} bytes")
    if kind.startswith("multipart/"):
        return multipart(kind, bytes(data))
    if not data:
        return {}
    if kind.startswith("application/x-www-form-urlencoded"):
        return {key: values[-1] for key, values in parse_qs(data.decode("utf-8", "replace")).items()}
    try:
        body = json.loads(data)
    except ValueError as error:
        raise BadRequest(f"no JSON: {error}") from error
    if not isinstance(body, dict):
        raise BadRequest("no JSON object")
    return body


def _text(body: Body, name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise BadRequest(f"`{name}` is missing or no text")
    return value


def _command(body: Body) -> tuple[Any, bool]:
    command = body.get("command")
    listed = isinstance(command, list) and all(isinstance(word, str) for word in command)
    if not command or not (listed or isinstance(command, str)):
        raise BadRequest("`command` is missing, or neither a text nor a list of texts")
    return command, bool(body.get("shell", False))


def _window(body: Body) -> Body:
    flags = {name: bool(body.get(name, False)) for name in ("strict", "by_class")}
    return {"name": _text(body, "window_name"), **flags}


# -- what is done -----------------------------------------------------------------------------------------------------


def _executed(done: Executed, **more: Any) -> Response:
    return _ok(output=done.output, error=done.error, returncode=done.returncode, **more)


def _execute(guest: Guest, body: Body) -> Response:
    command, shell = _command(body)
    return _executed(guest.execute(command, shell=shell, timeout=EXECUTE_SECONDS))


def _verified(guest: Guest, body: Body) -> Response:
    names = ("command", "shell", "verification", "max_wait_time", "check_interval")
    _command(body)
    step = Step(type="execute_with_verification", parameters={k: body[k] for k in names if k in body})
    Setup(guest, Sources(), Cache(Path("."))).run([step])  # writes no file
    return _ok(output="", error="", returncode=0)


def _run_python(guest: Guest, body: Body) -> Response:
    done = guest.run_python(_text(body, "code"))
    status = "success" if done.returncode == 0 else "error"
    return JSONResponse({
        "status": status, "message": done.output + done.error, "output": done.output, "error": done.error,
        "return_code": done.returncode,
    })  # fmt: skip


def _run_bash(guest: Guest, body: Body) -> Response:
    timeout = body.get("timeout", 30)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= _SCRIPT_SECONDS:
        raise BadRequest(f"`timeout` is no number of seconds up to {_SCRIPT_SECONDS:g}")
    done = guest.bash_script(
        _text(body, "script"), timeout=float(timeout), directory=str(body.get("working_dir") or "")
    )
    return JSONResponse({
        "status": "success" if done.returncode == 0 else "error", "output": done.output, "error": done.error,
        "returncode": done.returncode,
    })  # fmt: skip


def _launch(guest: Guest, body: Body) -> Response:
    command, shell = _command(body)
    guest.launch(command, shell=shell)
    return PlainTextResponse("launched successfully")


def _file(guest: Guest, body: Body) -> Response:
    return Response(guest.read_file(_text(body, "file_path")), media_type="application/octet-stream")


def _upload(guest: Guest, body: Body) -> Response:
    data = body.get("file_data")
    if not isinstance(data, bytes):
        raise BadRequest("`file_data` is missing")
    guest.write_file(_text(body, "file_path"), data)
    return PlainTextResponse("File Uploaded")


def _window_size(guest: Guest, body: Body) -> Response:
    size = guest.window_size(_text(body, "app_class_name"))
    return JSONResponse(size) if size else _failure(404, "there is no such window")


def _does(work: Callable[[Guest, Body], None]) -> Handler:
    def handler(guest: Guest, body: Body) -> Response:
        work(guest, body)
        return _ok(message="done")

    return handler


def _ok(**fields: Any) -> Response:
    return JSONResponse({"status": "success", **fields})


def _failure(code: int, message: str) -> Response:
    return JSONResponse({"status": "error", "message": message}, status_code=code)
