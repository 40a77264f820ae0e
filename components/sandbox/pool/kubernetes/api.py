"""A cluster's API as the providers need it: few verbs, any resource, and every fault of a busy API server survived."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

from components.contracts.errors import ClusterError

log = logging.getLogger("cowork.pool")
Object = dict[str, Any]
T = TypeVar("T")
_BUSY = (429, 500, 502, 503, 504)
_CONNECT_SECONDS = 5.0
_WATCH_SECONDS = 30
_LONGEST_PAUSE = 5.0


class Resource(NamedTuple):
    """`group` "" is the core."""

    group: str
    version: str
    plural: str

    def path(self, namespace: str, name: str = "") -> str:
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{root}/namespaces/{namespace}/{self.plural}" + (f"/{name}" if name else "")

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


PODS = Resource("", "v1", "pods")
CLAIMS = Resource("extensions.agents.x-k8s.io", "v1beta1", "sandboxclaims")


class ConflictError(ClusterError):
    """409: it exists already, or was changed by another meanwhile. The caller reads again."""


class _Expired(Exception):
    """410: the place in the history is too old. List again."""


class ClusterApi:
    """`connect` makes a signed-in `kubernetes.client.ApiClient`; it is called again when the credentials have run out.

    Requests are repeated while the server is busy or cannot be reached, until the deadline; then `ClusterError`.
    Repeating is safe: creations have fixed names, deletions name one object, patches set values.
    """

    def __init__(self, connect: Callable[[], Any], namespace: str, *, seconds: float = 20.0) -> None:
        self._connect, self.namespace, self._seconds = connect, namespace, seconds
        self._client: Any = None
        self._lock = threading.Lock()
        self._pause = threading.Event()

    # -- verbs ------------------------------------------------------------------------------------------------------

    def get(self, kind: Resource, name: str, deadline: float | None = None) -> Object | None:
        """None when there is none."""
        try:
            return self._request("GET", kind.path(self.namespace, name), deadline=deadline)
        except _NotFound:
            return None

    def listing(
        self, kind: Resource, labels: str = "", fields: str = "", deadline: float | None = None
    ) -> tuple[list[Object], str]:
        """(objects, resource version to watch from)."""
        query = [("labelSelector", labels), ("fieldSelector", fields)]
        found = self._request("GET", kind.path(self.namespace), [q for q in query if q[1]], deadline=deadline)
        return list(found.get("items") or []), str(found["metadata"]["resourceVersion"])

    def create(self, kind: Resource, thing: Object, deadline: float | None = None) -> Object:
        """Raises `ConflictError` when the name is taken: perhaps by an earlier try whose answer was lost."""
        return self._request("POST", kind.path(self.namespace), body=thing, deadline=deadline)

    def patch(self, kind: Resource, name: str, patch: Object, deadline: float | None = None) -> Object | None:
        """A merge patch; with `metadata.resourceVersion` in it a `ConflictError` when another was quicker."""
        settled = "resourceVersion" in patch.get("metadata", {})
        path = kind.path(self.namespace, name)
        try:
            # Without a version the server itself read, was overtaken and gave up: the same patch again is right.
            return self._request("PATCH", path, body=patch, deadline=deadline, again=() if settled else (409,))
        except _NotFound:
            return None

    def delete(self, kind: Resource, name: str, *, uid: str = "", grace: int | None = None) -> None:
        """Nothing happens when it is gone, or (with `uid`) when another bears the name."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        try:
            self._request("DELETE", kind.path(self.namespace, name), body=options)
        except (_NotFound, ConflictError):
            return

    def wait(
        self,
        kind: Resource,
        check: Callable[[dict[str, Object]], T | None],
        deadline: float,
        *,
        labels: str = "",
        fields: str = "",
    ) -> T:
        """Lists, then watches, until `check(objects by name)` gives something. Raises `TimeoutError` at the deadline.

        A watch that breaks goes on where it was; one that is too old (410) begins with a new list.
        """
        while True:
            try:
                items, version = self.listing(kind, labels, fields, deadline)
            except _Expired:
                continue
            held = {item["metadata"]["name"]: item for item in items}
            found = check(held)
            if found is not None:
                return found
            try:
                for change, thing in self._changes(kind, labels, fields, version, deadline):
                    name = thing["metadata"]["name"]
                    if change == "DELETED":
                        held.pop(name, None)
                    else:
                        held[name] = thing
                    found = check(held)
                    if found is not None:
                        return found
            except _Expired:
                log.info("the watch of %s was too old; listing again", kind.plural)
                continue
            raise TimeoutError

    # -- parts ------------------------------------------------------------------------------------------------------

    def _changes(
        self, kind: Resource, labels: str, fields: str, version: str, deadline: float
    ) -> Iterator[tuple[str, Object]]:
        """Changes from `version` on, through broken watches, until the deadline."""
        from kubernetes.watch.watch import iter_resp_lines
        from urllib3.exceptions import HTTPError

        tries = 0
        while (left := deadline - time.monotonic()) > 0:
            seconds = max(1, min(_WATCH_SECONDS, int(left) + 1))
            query = [("watch", "1"), ("allowWatchBookmarks", "true"), ("resourceVersion", version)]
            query += [("timeoutSeconds", str(seconds)), ("labelSelector", labels), ("fieldSelector", fields)]
            stream = self._request(
                "GET",
                kind.path(self.namespace),
                [q for q in query if q[1]],
                deadline=deadline,
                stream=min(left, seconds) + 1,
            )
            try:
                for line in iter_resp_lines(stream):
                    event = json.loads(line)
                    thing = event["object"]
                    if event["type"] == "ERROR":
                        if thing.get("code") == 410:
                            raise _Expired
                        raise HTTPError(thing.get("message", "error"))
                    version, tries = str(thing["metadata"]["resourceVersion"]), 0
                    if event["type"] != "BOOKMARK":
                        yield str(event["type"]), thing
                    if time.monotonic() > deadline:
                        return
            except (HTTPError, OSError, ValueError, KeyError) as error:
                log.info("a watch of %s broke: %s", kind.plural, error)
                self._pause.wait(min(_LONGEST_PAUSE, 0.05 * 2**tries, max(0.0, deadline - time.monotonic())))
                tries += 1
            finally:
                stream.close()
                stream.release_conn()

    def _request(
        self,
        method: str,
        path: str,
        query: list[tuple[str, str]] | None = None,
        *,
        body: Any = None,
        deadline: float | None = None,
        stream: float = 0.0,
        again: tuple[int, ...] = (),
    ) -> Any:
        """`again`: statuses that are repeated beside those of a busy server. `stream`: give the raw response, which
        counts as broken after so many seconds without data."""
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        ends = time.monotonic() + self._seconds if deadline is None else deadline
        tries, renewed, why = 0, False, "no time was left"
        while (left := ends - time.monotonic()) > 0:
            client = self._signed_in(renew=False)
            try:
                return client.call_api(
                    path, method, query_params=query or [], body=body, response_type=None if stream else "object",
                    header_params={"Accept": "application/json", "Content-Type": _content_type(method)},
                    auth_settings=["BearerToken"], _return_http_data_only=True, _preload_content=not stream,
                    _request_timeout=(min(_CONNECT_SECONDS, left), stream or left),
                )  # fmt: skip
            except ApiException as error:
                why = f"{error.status} {error.reason}: {_message(error)}"
                if error.status == 401 and not renewed:
                    renewed = True  # a token that has run out: sign in anew, once
                    self._signed_in(renew=True, instead_of=client)
                    continue
                pause = 0.0 if error.status in again else self._told(error, path, why)
            except (HTTPError, OSError) as error:
                why, pause = f"{type(error).__name__}: {error}", 0.0
            pause = pause or min(_LONGEST_PAUSE, 0.1 * 2**tries)
            tries += 1
            self._pause.wait(max(0.0, min(pause, ends - time.monotonic())))
        raise ClusterError(f"{method} {path} did not succeed in time; last: {why}", where="kubernetes",
                           remedy="is the API server reachable and well?")  # fmt: skip

    def _told(self, error: Any, path: str, why: str) -> float:
        """Raises what repeating does not help against; else the seconds that the server asks to wait (0: none)."""
        if error.status == 404:
            raise _NotFound from error
        if error.status == 410:
            raise _Expired from error
        if error.status == 409:
            raise ConflictError(f"{path}: {why}", where="kubernetes") from error
        if error.status in (401, 403):
            remedy = "renew the credentials (kubeconfig, service account)" if error.status == 401 else "grant the role"
            raise ClusterError(f"the cluster refuses us: {why}", where="kubernetes", remedy=remedy) from error
        if error.status not in _BUSY:
            raise ClusterError(f"{path}: {why}", where="kubernetes", remedy="look at the object") from error
        after = (error.headers or {}).get("retry-after", "") if error.headers is not None else ""
        return min(float(after), 30.0) if str(after).isdigit() else 0.0

    def _signed_in(self, *, renew: bool, instead_of: Any = None) -> Any:
        with self._lock:
            if self._client is None or (renew and self._client is instead_of):
                try:
                    self._client = self._connect()
                except Exception as error:
                    raise ClusterError(
                        f"no access to the cluster: {type(error).__name__}: {error}", where="kubernetes",
                        remedy="check kubeconfig or the service account",
                    ) from error  # fmt: skip
            return self._client


class _NotFound(Exception):
    """404."""


def default_client() -> Any:
    """Signed in as the pod's service account, else by kubeconfig."""
    from kubernetes import client, config

    configuration = client.Configuration()
    try:
        config.load_incluster_config(client_configuration=configuration)
    except config.ConfigException:
        config.load_kube_config(client_configuration=configuration)
    configuration.retries = False  # we repeat ourselves, and know when not to
    return client.ApiClient(configuration)


def _content_type(method: str) -> str:
    return "application/merge-patch+json" if method == "PATCH" else "application/json"


def _message(error: Any) -> str:
    try:
        return str(json.loads(error.body)["message"])[:300]
    except (ValueError, KeyError, TypeError):
        return ""
