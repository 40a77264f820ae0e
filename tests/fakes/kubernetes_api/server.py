"""The HTTP side: paths, verbs, watches, credentials, faults and controllers."""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.fakes.kubernetes_api.faults import Fault, Faults
from tests.fakes.kubernetes_api.store import ApiError, Change, Kind, Object, Store, matches

_PATH = re.compile(
    r"/(?:api/(?P<core>v\w+)|apis/(?P<group>[^/]+)/(?P<version>v\w+))"
    r"(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<part>status|scale))?"
)
_BOOKMARK_SECONDS = 0.2
Controller = Callable[["FakeKubernetes", str, Object], None]
log = logging.getLogger(__name__)


class FakeKubernetes:
    """A server on a free port of loopback, from `with` to the end of the block.

    `token`: what a client must present; change it and the old one gets 401. `drop_watches()` breaks all open watches.
    `requests`: (method, path) of every request, in order.
    """

    def __init__(self, token: str = "cluster-token") -> None:
        self.store, self.faults, self.token = Store(), Faults(), token
        self.requests: list[tuple[str, str]] = []
        self.watching = 0
        self.errors: list[BaseException] = []
        self._epoch = 0
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> FakeKubernetes:
        thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        self._threads.append(thread)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self.drop_watches()
        self._http.shutdown()
        self._http.server_close()
        for thread in self._threads:
            thread.join(10)
        if kind is None and self.errors:
            raise AssertionError(f"a controller failed: {self.errors!r}")

    def client(self, token: str | None = None) -> Any:
        """A `kubernetes.client.ApiClient` that is signed in."""
        from kubernetes.client import ApiClient, Configuration

        configuration = Configuration()
        configuration.host = self.url
        configuration.api_key = {"authorization": self.token if token is None else token}
        configuration.api_key_prefix = {"authorization": "Bearer"}
        configuration.retries = False
        configuration.proxy = None
        return ApiClient(configuration)

    def control(self, plural: str, controller: Controller) -> None:
        """`controller(cluster, "ADDED" | "MODIFIED" | "DELETED", object)` for every change from now on, in a thread."""
        start = self.store.version

        def work() -> None:
            seen = start
            while not self._stopping.is_set():
                with self.store.condition:
                    self._await_news(seen, 0.2)
                    changes = [c for c in self.store._log if c.version > seen and c.kind.plural == plural]
                    seen = max(seen, self.store.version)
                for change in changes:
                    try:
                        controller(self, change.type, change.object)
                    except ApiError as error:
                        log.debug("a controller was late: %s", error)  # it will see the next change
                    except Exception as error:
                        self.errors.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        self._threads.append(thread)

    def drop_watches(self) -> None:
        with self.store.condition:
            self._epoch += 1
            self.store.condition.notify_all()

    def _await_news(self, version: int, seconds: float, epoch: int | None = None) -> None:
        """Until something changed after `version`, watches are cut, or all ends. Called with the store's condition."""
        self.store.condition.wait_for(
            lambda: self.store.version > version or self._stopping.is_set() or epoch not in (None, self._epoch), seconds
        )

    def count(self, method: str, pattern: str) -> int:
        return sum(m == method and re.search(pattern, p) is not None for m, p in list(self.requests))

    # -- one request ------------------------------------------------------------------------------------------------

    def _answer(self, handler: Any, method: str) -> None:
        url = urlsplit(handler.path)
        self.requests.append((method, handler.path))
        length = int(handler.headers.get("content-length") or 0)
        body = json.loads(handler.rfile.read(length) or b"null")
        fault = self.faults.next(method, handler.path)
        if fault is not None and fault.delay:
            self._stopping.wait(fault.delay)
        if fault is not None and fault.drop == "before":
            handler.close_connection = True
            return
        try:
            if fault is not None and fault.status:
                return self._send_fault(handler, fault)
            if handler.headers.get("authorization") != f"Bearer {self.token}":
                raise ApiError(401, "Unauthorized", "Unauthorized")
            result = self._do(handler, method, url.path, {k: v[-1] for k, v in parse_qs(url.query).items()}, body)
        except ApiError as error:
            result = (error.code, _status(error.code, error.reason, str(error)))
        if fault is not None and fault.drop == "after":
            handler.close_connection = True
        elif result is not None:
            handler.reply(*result)

    def _do(self, handler: Any, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Object] | None:
        match = _PATH.fullmatch(path)
        if match is None:
            raise ApiError(404, "NotFound", f"no such path: {path}")
        kind = Kind(match["group"] or "", match["core"] or match["version"], match["plural"])
        namespace, name, part = match["namespace"] or "", match["name"], match["part"] or ""
        labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
        if method == "GET" and name:
            return 200, self.store.get(kind, namespace, name)
        if method == "GET" and query.get("watch") in ("1", "true", "True"):
            self._watch(handler, kind, namespace, query)
            return None
        if method == "GET":
            items, version = self.store.list(kind, namespace, labels, fields)
            api = "/".join(filter(None, (kind.group, kind.version)))
            meta = {"resourceVersion": str(version)}
            return 200, {"kind": "List", "apiVersion": api, "metadata": meta, "items": items}
        if method == "POST" and not name:
            return 201, self.store.create(kind, namespace, body)
        if method == "PUT" and name:
            return 200, self.store.replace(kind, namespace, name, body, part)
        if method == "PATCH" and name:
            how = re.search(r"application/(?:strategic-)?(merge|json)", handler.headers.get("content-type", ""))
            if how is None:
                raise ApiError(415, "UnsupportedMediaType", "no patch of that type")
            strategic_patch = "strategic" in handler.headers["content-type"]
            return 200, self.store.patch(
                kind, namespace, name, body, "strategic" if strategic_patch else _patch_kind(handler, body), part
            )
        if method == "DELETE" and name:
            options = body or {}
            uid = (options.get("preconditions") or {}).get("uid", "")
            grace = options.get("gracePeriodSeconds")
            return 200, self.store.delete(kind, namespace, name, uid, grace)
        raise ApiError(405, "MethodNotAllowed", f"{method} {path}")

    def _watch(self, handler: Any, kind: Kind, namespace: str, query: dict[str, str]) -> None:
        epoch = self._epoch
        labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
        ends = time.monotonic() + float(query.get("timeoutSeconds", 60))
        bookmarks = query.get("allowWatchBookmarks") in ("1", "true", "True")
        given = query.get("resourceVersion", "")
        seen = int(given) if given not in ("", "0") else self.store.version
        handler.begin_stream()
        self.watching += 1
        try:
            if given in ("", "0"):
                items, seen = self.store.list(kind, namespace, labels, fields)
                for item in items:
                    handler.chunk({"type": "ADDED", "object": item})
            told = seen
            while time.monotonic() < ends and self._epoch == epoch and not self._stopping.is_set():
                with self.store.condition:
                    self._await_news(seen, min(_BOOKMARK_SECONDS, max(0.0, ends - time.monotonic())), epoch)
                    try:
                        changes = self.store.changes(kind, seen)
                    except ApiError as error:
                        handler.chunk({"type": "ERROR", "object": _status(error.code, error.reason, str(error))})
                        return
                    seen = self.store.version
                for change in changes:
                    if self._epoch != epoch:
                        break
                    if namespace in ("", change.object["metadata"]["namespace"]):
                        event = _event(change, labels, fields)
                        if event is not None:
                            handler.chunk(event)
                            told = change.version
                if bookmarks and seen > told and self._epoch == epoch:
                    meta = {"resourceVersion": str(seen)}
                    handler.chunk({"type": "BOOKMARK", "object": {"metadata": meta}})
                    told = seen
            if self._epoch == epoch:
                handler.end_stream()
            else:
                handler.close_connection = True  # as when a load balancer cuts it
        except OSError:
            handler.close_connection = True
        finally:
            self.watching -= 1

    def _send_fault(self, handler: Any, fault: Fault) -> None:
        reasons = {401: "Unauthorized", 409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError"}
        headers = {} if fault.retry_after is None else {"retry-after": str(fault.retry_after)}
        handler.reply(fault.status, _status(fault.status, reasons.get(fault.status, "Unknown"), "on order"), headers)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        cluster = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, format: str, *arguments: Any) -> None: ...

            def reply(self, code: int, thing: Object, headers: dict[str, str] | None = None) -> None:
                data = json.dumps(thing).encode()
                self.send_response(code)
                for name, value in {"content-type": "application/json", **(headers or {})}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def begin_stream(self) -> None:
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()

            def chunk(self, thing: Object) -> None:
                data = json.dumps(thing).encode() + b"\n"
                self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
                self.wfile.flush()

            def end_stream(self) -> None:
                self.wfile.write(b"0\r\n\r\n")

        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            setattr(Handler, f"do_{method}", lambda self, method=method: cluster._answer(self, method))
        return Handler


def _patch_kind(handler: Any, body: Any) -> str:
    """The Python client sends a merge patch under the JSON patch's content type; a list is a JSON patch."""
    return "json" if isinstance(body, list) else "merge"


def _event(change: Change, labels: str, fields: str) -> Object | None:
    """What a watch with these selectors sees: what enters the selection is added, what leaves it deleted."""
    now = change.type != "DELETED" and matches(change.object, labels, fields)
    before = change.before is not None and matches(change.before, labels, fields)
    if not now and not before:
        return None
    return {"type": "MODIFIED" if now and before else "ADDED" if now else "DELETED", "object": change.object}


def _status(code: int, reason: str, message: str) -> Object:
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": reason,
        "message": message,
    }  # fmt: skip
