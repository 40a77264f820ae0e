"""What the server holds: objects with resource versions, and the log of changes that watches read."""

from __future__ import annotations

import copy
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from tests.fakes.kubernetes_api.selectors import fields_match, labels_match

Object = dict[str, Any]
Key = tuple[str, str]


class Kind(NamedTuple):
    """`group` "" is the core."""

    group: str
    version: str
    plural: str


class ApiError(Exception):
    """Becomes a `Status` with this code and reason."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason = code, reason


@dataclass(frozen=True)
class Change:
    version: int
    type: str
    kind: Kind
    object: Object
    before: Object | None


def merge(into: Any, patch: Any) -> Any:
    """A JSON merge patch (RFC 7386)."""
    return _by_member(into, patch, merge)


def strategic(into: Any, patch: Any) -> Any:
    """A merge patch in which lists of named things are merged by name, and other lists replaced."""
    if isinstance(into, list) and isinstance(patch, list) and all(_named(x) for x in (*into, *patch)):
        order = [x["name"] for x in into] + [x["name"] for x in patch if x["name"] not in {y["name"] for y in into}]
        old, new = {x["name"]: x for x in into}, {x["name"]: x for x in patch}
        return [strategic(old.get(n), new[n]) if n in new else old[n] for n in order]
    return _by_member(into, patch, strategic)


def _by_member(into: Any, patch: Any, one: Callable[[Any, Any], Any]) -> Any:
    """Members of an object as `one` patches them; null removes, and anything but an object takes the whole place."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(into) if isinstance(into, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = one(result.get(name), value)
    return result


def json_patch(thing: Any, operations: list[Object]) -> Any:
    """add, replace, remove and test of RFC 6902."""
    thing = copy.deepcopy(thing)
    for operation in operations:
        *parents, last = [p.replace("~1", "/").replace("~0", "~") for p in operation["path"].split("/")[1:]]
        place = thing
        for name in parents:
            place = place[int(name)] if isinstance(place, list) else place[name]
        if operation["op"] == "test":
            if place[int(last) if isinstance(place, list) else last] != operation["value"]:
                raise ApiError(422, "Invalid", f"the test of {operation['path']} failed")
        elif isinstance(place, list) and operation["op"] == "add":
            place.insert(len(place) if last == "-" else int(last), operation["value"])
        elif operation["op"] == "remove":
            del place[int(last) if isinstance(place, list) else last]
        else:
            place[int(last) if isinstance(place, list) else last] = operation["value"]
    return thing


def _named(thing: Any) -> bool:
    return isinstance(thing, dict) and "name" in thing


class Store:
    """Safe from several threads. `condition` is notified of every change."""

    def __init__(self) -> None:
        self.condition = threading.Condition(threading.RLock())
        self.version = 1000
        self._objects: dict[Kind, dict[Key, Object]] = {}
        self._log: list[Change] = []
        self._oldest = 1000

    # -- reading ----------------------------------------------------------------------------------------------------

    def get(self, kind: Kind, namespace: str, name: str) -> Object:
        with self.condition:
            try:
                return copy.deepcopy(self._objects[kind][namespace, name])
            except KeyError:
                raise ApiError(404, "NotFound", f'{kind.plural} "{name}" not found') from None

    def list(self, kind: Kind, namespace: str, labels: str = "", fields: str = "") -> tuple[list[Object], int]:
        """(objects, the resource version of this answer). `namespace` "" = all."""
        with self.condition:
            found = [
                copy.deepcopy(thing)
                for (place, _), thing in sorted(self._objects.get(kind, {}).items())
                if namespace in ("", place) and matches(thing, labels, fields)
            ]
            return found, self.version

    def changes(self, kind: Kind, after: int) -> list[Change]:
        """Raises 410 when some of them are no longer known."""
        with self.condition:
            if after < self._oldest:
                raise ApiError(410, "Expired", f"too old resource version: {after} ({self._oldest})")
            return [change for change in self._log if change.kind == kind and change.version > after]

    # -- writing ----------------------------------------------------------------------------------------------------

    def create(self, kind: Kind, namespace: str, thing: Object) -> Object:
        with self.condition:
            thing = copy.deepcopy(thing)
            meta = thing.setdefault("metadata", {})
            if not meta.get("name"):
                if not meta.get("generateName"):
                    raise ApiError(422, "Invalid", "metadata.name: Required value")
                meta["name"] = meta["generateName"] + uuid.uuid4().hex[:5]
            if meta.setdefault("namespace", namespace) != namespace:
                raise ApiError(400, "BadRequest", "the namespace of the object and of the request differ")
            if (namespace, meta["name"]) in self._objects.get(kind, {}):
                raise ApiError(409, "AlreadyExists", f'{kind.plural} "{meta["name"]}" already exists')
            thing.setdefault("apiVersion", "/".join(filter(None, (kind.group, kind.version))))
            thing.pop("status", None) if kind.group else None
            meta.update(uid=str(uuid.uuid4()), creationTimestamp=_now(), generation=1)
            return self._put(kind, thing, "ADDED")

    def replace(self, kind: Kind, namespace: str, name: str, thing: Object, part: str = "") -> Object:
        """`part`: "" or a subresource, `status`. An old resource version is a conflict; none is not."""
        with self.condition:
            old = self.get(kind, namespace, name)
            given = thing.get("metadata", {}).get("resourceVersion")
            if given and given != old["metadata"]["resourceVersion"]:
                raise ApiError(409, "Conflict", f"the object has been modified; {name} is now at another version")
            return self._update(kind, old, thing, part)

    def patch(self, kind: Kind, namespace: str, name: str, patch: Any, how: str, part: str = "") -> Object:
        """`how`: the content type's middle word: merge, strategic or json."""
        with self.condition:
            old = self.get(kind, namespace, name)
            work = {"merge": merge, "strategic": strategic, "json": json_patch}[how]
            return self.replace(kind, namespace, name, work(old, patch), part)

    def delete(self, kind: Kind, namespace: str, name: str, uid: str = "", grace: int | None = None) -> Object:
        """With finalizers it only begins. `uid`: delete this very object or nothing (conflict)."""
        with self.condition:
            old = self.get(kind, namespace, name)
            if uid and uid != old["metadata"]["uid"]:
                raise ApiError(409, "Conflict", f"the UID in the precondition ({uid}) is not that of {name}")
            if old["metadata"].get("finalizers"):
                if "deletionTimestamp" not in old["metadata"]:
                    old["metadata"].update(deletionTimestamp=_now(), deletionGracePeriodSeconds=grace or 0)
                    return self._put(kind, old, "MODIFIED")
                return old
            return self._remove(kind, old)

    def compact(self) -> None:
        """Forget the log: watches from before are too old."""
        with self.condition:
            self._oldest = self.version
            self._log.clear()
            self.condition.notify_all()

    def bump(self) -> None:
        """The version rises without a change of any watched thing, as it does on a busy cluster."""
        with self.condition:
            self.version += 1
            self.condition.notify_all()

    # -- parts ------------------------------------------------------------------------------------------------------

    def _update(self, kind: Kind, old: Object, thing: Object, part: str) -> Object:
        new = copy.deepcopy(old if part == "status" else thing)
        if part == "status":
            new["status"] = copy.deepcopy(thing.get("status", {}))
        elif "status" in old or kind.group:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        for name in ("uid", "creationTimestamp", "name", "namespace", "generation", "deletionTimestamp"):
            if name in old["metadata"]:
                new["metadata"][name] = old["metadata"][name]
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if new == old:
            return old
        if new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = old["metadata"]["generation"] + 1
        if "deletionTimestamp" in new["metadata"] and not new["metadata"].get("finalizers"):
            return self._remove(kind, new)
        return self._put(kind, new, "MODIFIED")

    def _put(self, kind: Kind, thing: Object, change: str) -> Object:
        self.version += 1
        thing["metadata"]["resourceVersion"] = str(self.version)
        held, key = self._objects.setdefault(kind, {}), (thing["metadata"]["namespace"], thing["metadata"]["name"])
        before, held[key] = held.get(key), thing
        self._note(change, kind, thing, before)
        return copy.deepcopy(thing)

    def _remove(self, kind: Kind, thing: Object) -> Object:
        before = self._objects[kind].pop((thing["metadata"]["namespace"], thing["metadata"]["name"]))
        self.version += 1
        thing["metadata"]["resourceVersion"] = str(self.version)
        self._note("DELETED", kind, thing, before)
        return copy.deepcopy(thing)

    def _note(self, change: str, kind: Kind, thing: Object, before: Object | None) -> None:
        self._log.append(Change(self.version, change, kind, copy.deepcopy(thing), copy.deepcopy(before)))
        self.condition.notify_all()

    def __iter__(self) -> Iterator[tuple[Kind, Object]]:
        with self.condition:
            return iter([(kind, copy.deepcopy(t)) for kind, held in self._objects.items() for t in held.values()])


def matches(thing: Object, labels: str, fields: str) -> bool:
    return labels_match(labels, thing["metadata"].get("labels") or {}) and fields_match(fields, thing)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
