"""An OpenAI-compatible chat endpoint: `POST <base>/chat/completions`, one request a call, with its usage.

The key is read from an environment variable and goes nowhere but into the request's header.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
from collections.abc import Mapping
from email.message import Message as Headers
from typing import Any
from urllib.parse import urlsplit

from components.contracts.errors import ParamsError
from components.contracts.folding import ImagePart, Message
from components.rollout.metering import Answer, EndpointError, Usage
from components.rollout.policy import Request
from components.rollout.screens import encode_png

TIMEOUT_S = 120.0
PASSING = (408, 409, 425, 429, 500, 502, 503, 504)
"""Answers after which another try may help."""


class ChatEndpoint:
    """`metering.Endpoint` over HTTP. `base` is the address up to `/v1`, `key_variable` the variable with the key."""

    def __init__(
        self, base: str, model: str, *, max_tokens: int, key_variable: str = "", timeout: float = TIMEOUT_S
    ) -> None:
        """Raises ParamsError for an address with a password in it, or a variable that is not set."""
        address = urlsplit(base)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ParamsError("not an http address", where="endpoint", remedy="e.g. http://127.0.0.1:8000/v1")
        if address.username or address.password:
            raise ParamsError("an address must hold no password", where="endpoint", remedy="use key_variable")
        if key_variable and not os.environ.get(key_variable):
            raise ParamsError(f"the variable {key_variable} is not set", where="endpoint", remedy="export the key")
        self.model = model
        self.settings: dict[str, Any] = {"max_tokens": max_tokens}
        self._address, self._key_variable, self._timeout = address, key_variable, timeout

    def call(self, request: Request, temperature: float) -> Answer:
        """See `Endpoint.call`."""
        body = {
            "model": self.model, "temperature": temperature, **self.settings,
            "messages": [_message(message) for message in request.messages],
        }  # fmt: skip
        status, headers, data = self._post(json.dumps(body).encode())
        told = _json(data)
        if status != 200:
            raise EndpointError(
                f"{self.model} answered {status}: {_reason(told, data)}", where=self._where, passing=status in PASSING,
                pause=_pause(headers), billed=_usage(told) or Usage(0, 0),
            )  # fmt: skip
        try:
            choice = told["choices"][0]
            text = choice["message"]["content"] or ""
        except (KeyError, IndexError, TypeError):
            raise EndpointError("the answer has no choice", where=self._where, billed=_usage(told)) from None
        return Answer(str(text), _usage(told), choice.get("finish_reason") == "length")

    @property
    def _where(self) -> str:
        return f"{self._address.hostname}:{self._address.port or ''}".rstrip(":")

    def _post(self, body: bytes) -> tuple[int, Headers, bytes]:
        kind = http.client.HTTPSConnection if self._address.scheme == "https" else http.client.HTTPConnection
        headers = {"Content-Type": "application/json"}
        if self._key_variable:
            headers["Authorization"] = f"Bearer {os.environ[self._key_variable]}"
        connection = kind(str(self._address.hostname), self._address.port, timeout=self._timeout)
        try:
            try:
                connection.connect()
            except OSError as error:  # nothing was sent, so nothing was billed
                raise EndpointError(
                    f"no connection: {error}", where=self._where, passing=True, billed=Usage(0, 0)
                ) from error
            connection.request("POST", f"{self._address.path.rstrip('/')}/chat/completions", body, headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise EndpointError(
                f"the connection broke: {type(error).__name__}: {error}", where=self._where, passing=True
            ) from error
        finally:
            connection.close()


def _message(message: Message) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, ImagePart):
            url = "data:image/png;base64," + base64.b64encode(encode_png(part.image)).decode()
            parts.append({"type": "image_url", "image_url": {"url": url}})
        else:
            parts.append({"type": "text", "text": part.text})
    return {"role": message.role, "content": parts}


def _json(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _usage(told: Mapping[str, Any]) -> Usage | None:
    usage = told.get("usage")
    if not isinstance(usage, Mapping) or "prompt_tokens" not in usage:
        return None
    details = usage.get("prompt_tokens_details") or {}
    return Usage(
        int(usage["prompt_tokens"]), int(usage.get("completion_tokens") or 0), int(details.get("cached_tokens") or 0)
    )


def _reason(told: Mapping[str, Any], data: bytes) -> str:
    error = told.get("error")
    if isinstance(error, Mapping):
        return str(error.get("message", ""))[:200]
    return data[:200].decode(errors="replace")


def _pause(headers: Headers) -> float | None:
    """Seconds that the server asks to wait, at most a minute."""
    try:
        return min(60.0, max(0.0, float(headers.get("Retry-After", ""))))
    except ValueError:
        return None
