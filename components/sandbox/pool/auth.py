"""Who may speak to a slot host: whoever has its token. Where it comes from, and the check of every request."""

from __future__ import annotations

import hmac
import ipaddress
import os
import secrets
import stat
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from components.contracts.errors import ParamsError

TOKEN_VARIABLE = "COWORK_POOL_TOKEN"
_SHORTEST = 16
MAX_BODY = 8 << 20
"""Bytes of a request: a task holds the text of its files."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def read_token_file(path: Path) -> str:
    """The token in a file that nobody else can read. Raises `ParamsError`."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise ParamsError(
            f"no token file: {error.strerror}", where=path.name, remedy="name a file of your own"
        ) from error
    with open(handle, encoding="utf-8") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode) or facts.st_mode & 0o077 or facts.st_uid not in (os.geteuid(), 0):
            raise ParamsError(
                "others can read or write the token file", where=path.name, remedy=f"chmod 600 {path.name}"
            )
        return check_token(file.read(4096).strip(), path.name)


def make_token_file(path: Path) -> str:
    """A new token in a new file of mode 0600, or the one that is there."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        return read_token_file(path)
    token = secrets.token_urlsafe(32)
    with open(handle, "w", encoding="utf-8") as file:
        file.write(token + "\n")
    return token


def token_for(token_file: Path | None, environ: Mapping[str, str] | None = None) -> str:
    """The token of the file, else of the environment; "" when there is none. Raises `ParamsError`."""
    if token_file is not None:
        return read_token_file(token_file)
    value = (os.environ if environ is None else environ).get(TOKEN_VARIABLE, "").strip()
    return check_token(value, TOKEN_VARIABLE) if value else ""


def check_bind(host: str, token_file: Path | None) -> None:
    """Beyond this machine only with a token file: an environment is shared too easily. Raises `ParamsError`."""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if not local and token_file is None:
        raise ParamsError(
            f"{host} can be reached from other machines", where="--host",
            remedy="give --token-file (mode 0600), or stay on 127.0.0.1",
        )  # fmt: skip


def check_token(token: str, where: str) -> str:
    """The token, if it is one that can be sent and is hard to guess. Raises `ParamsError`."""
    if len(token) < _SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise ParamsError(
            f"a token has at least {_SHORTEST} printable ASCII characters and no spaces", where=where,
            remedy='make one: python -c "import secrets; print(secrets.token_urlsafe(32))"',
        )  # fmt: skip
    return token


class Guard:
    """In front of the whole application: no route but /healthz without the token, no large body."""

    def __init__(self, app: App, token: str) -> None:
        self._app, self._token = app, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        if scope["type"] == "websocket":
            return await send({"type": "websocket.close", "code": 1008})
        if scope["path"] != "/healthz" and not self._known(scope):
            return await _refuse(send, 401, "auth", "a valid bearer token is needed")
        length = dict(scope["headers"]).get(b"content-length", b"0")
        chunked = b"transfer-encoding" in dict(scope["headers"])
        if chunked or not length.isdigit() or int(length) > MAX_BODY:
            return await _refuse(send, 413, "request", f"a body has its length in the header, at most {MAX_BODY} bytes")
        return await self._app(scope, receive, send)

    def _known(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(given) != 1:
            return False
        scheme, _, token = given[0].partition(b" ")
        return hmac.compare_digest(token.strip(), self._token) and scheme.lower() == b"bearer"


async def _refuse(send: Send, status: int, kind: str, message: str) -> None:
    body = b'{"failure":{"kind":"%s","message":"%s","where":"pool"}}' % (kind.encode(), message.encode())
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
