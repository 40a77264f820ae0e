"""Who may see a slot: those with the token, from this machine, from our own page.

A page of another site can make a browser send requests to loopback, and a name of another site can be made to point
there. Hence three checks of every request: the host it names, the origin it comes from, and the token.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from urllib.parse import urlsplit

HOSTS = ("127.0.0.1", "localhost", "[::1]")
TOKEN_PARAMETER = "token"


class Access:
    """`token` goes into the address that is given to the user; `cookie` is what the browser gets for it."""

    def __init__(self, port: int, token: str = "") -> None:
        self.port = port
        self.token = token or secrets.token_urlsafe(24)
        self.cookie = secrets.token_urlsafe(24)
        # Cookies of one host are shared by all its ports.
        self.cookie_name = f"cowork-live-{port}"

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/?{TOKEN_PARAMETER}={self.token}"

    def wrong_host(self, headers: Mapping[str, str]) -> bool:
        """Whether the request was sent to another name than ours: DNS rebinding looks like this."""
        return headers.get("host", "") not in {f"{host}:{self.port}" for host in HOSTS}

    def wrong_origin(self, headers: Mapping[str, str]) -> bool:
        """Whether it does not come from a page of ours. Browsers send the origin with every websocket."""
        origin = urlsplit(headers.get("origin", ""))
        return origin.scheme != "http" or origin.netloc != headers.get("host", "-")

    def knows(self, given: str) -> bool:
        """Whether this is the token. The time it takes says nothing."""
        return hmac.compare_digest(given.encode(), self.token.encode())

    def admits(self, cookies: Mapping[str, str]) -> bool:
        """Whether the browser has shown the token before."""
        return hmac.compare_digest(cookies.get(self.cookie_name, "").encode(), self.cookie.encode())
