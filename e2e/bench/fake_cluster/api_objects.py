"""The objects of an API server in memory: versions, watches, owners of a version; as much of it as an operator meets.

What etcd and a real API server add to a request is no part of what is measured with it.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import orjson

from e2e.chaos.pods.pod_status import now

Object = dict[str, Any]
Matches = Callable[[Object], bool]

REMEMBERED = 50_000
"""Events of a collection that a watch may still begin with."""


class Refused(Exception):
    """A request can't be served; the status and the reason are those of Kubernetes."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class Collection:
    """All objects of one kind."""

    def __init__(self, next_version: Callable[[], int]) -> None:
        self._next_version = next_version
        self._objects: dict[tuple[str, str], Object] = {}
        self._encoded: dict[tuple[str, str], bytes] = {}
        self._events: deque[tuple[int, Object, bytes]] = deque(maxlen=REMEMBERED)
        self._watches: dict[asyncio.Queue[bytes | None], Matches] = {}
        self._forgotten = 0
        self.listeners: list[Callable[[str, Object], None]] = []
        """Called with the type of each event and its object, in the process of the server itself."""

    def __iter__(self) -> Iterator[Object]:
        return iter(list(self._objects.values()))

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, namespace: str, name: str) -> Object:
        """An object.

        Raises:
            Refused: There is none.
        """
        try:
            return self._objects[namespace, name]
        except KeyError:
            raise Refused(404, "NotFound", f"{name} is not there") from None

    def encoded(self, matches: Matches) -> list[bytes]:
        """All that match, as JSON."""
        return [self._encoded[key] for key, body in self._objects.items() if matches(body)]

    def create(self, namespace: str, body: Object) -> Object:
        """Adds an object.

        Raises:
            Refused: Its name is taken.
        """
        name = body["metadata"].get("name") or f"{body['metadata']['generateName']}{uuid.uuid4().hex[:8]}"
        if (namespace, name) in self._objects:
            raise Refused(409, "AlreadyExists", f"{name} is there already")
        given = {"name": name, "namespace": namespace, "uid": str(uuid.uuid4()), "generation": 1}
        body["metadata"] |= {**given, "creationTimestamp": now()}
        return self._put("ADDED", body)

    def replace(self, namespace: str, body: Object, *, only: str | None = None) -> Object:
        """Puts an object, or one field of it, in the place of the one that it was made from.

        Raises:
            Refused: It has another version by now, or is gone.
        """
        present = self.get(namespace, body["metadata"]["name"])
        version = body["metadata"].get("resourceVersion")
        if version and version != present["metadata"]["resourceVersion"]:
            raise Refused(409, "Conflict", "the object has been modified")
        changed = {**present, only: body[only]} if only else {**present, **body, "metadata": present["metadata"]}
        return self._put("MODIFIED", changed)

    def change(self, namespace: str, name: str, changes: Mapping[str, Any]) -> Object:
        """Puts other fields in the place of those that it has."""
        return self._put("MODIFIED", {**self.get(namespace, name), **changes})

    def set_deleting(self, namespace: str, name: str, uid: str = "") -> None:
        """Marks an object as being deleted, as the API server does with a pod that runs.

        Raises:
            Refused: It is gone, or another one has its name.
        """
        body = self.get(namespace, name)
        if uid and body["metadata"]["uid"] != uid:
            raise Refused(409, "Conflict", "another one has this name")
        if "deletionTimestamp" not in body["metadata"]:
            deletion = {"deletionTimestamp": now(), "deletionGracePeriodSeconds": 0}
            self._put("MODIFIED", {**body, "metadata": {**body["metadata"], **deletion}})

    def remove(self, namespace: str, name: str) -> None:
        """Takes an object away."""
        body = self._objects.pop((namespace, name), None)
        self._encoded.pop((namespace, name), None)
        if body is not None:
            self._tell("DELETED", self._with_version(body))

    def watch(self, version: int, matches: Matches) -> asyncio.Queue[bytes | None]:
        """A queue of all events from a version on, None at its end; end it with `unwatch`.

        Raises:
            Refused: The version is too long ago.
        """
        if version < self._forgotten or (len(self._events) == REMEMBERED and version < self._events[0][0]):
            raise Refused(410, "Expired", "too old resource version")
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        for at, body, line in self._events:
            if at > version and matches(body):
                queue.put_nowait(line)
        self._watches[queue] = matches
        return queue

    def unwatch(self, queue: asyncio.Queue[bytes | None]) -> None:
        """Nobody takes from a queue any more."""
        del self._watches[queue]

    def expire(self) -> None:
        """Ends all watches and forgets all events, as after a compaction: who watched has to list everything anew."""
        self._forgotten = self._next_version()
        self._events.clear()
        for queue in self._watches:
            queue.put_nowait(None)

    def _put(self, kind: str, body: Object) -> Object:
        body = self._with_version(body)
        key = (body["metadata"]["namespace"], body["metadata"]["name"])
        self._objects[key] = body
        self._encoded[key] = self._tell(kind, body)
        return body

    def _with_version(self, body: Object) -> Object:
        return {**body, "metadata": {**body["metadata"], "resourceVersion": str(self._next_version())}}

    def _tell(self, kind: str, body: Object) -> bytes:
        encoded = orjson.dumps(body)
        line = b'{"type":"%s","object":%s}\n' % (kind.encode(), encoded)
        self._events.append((int(body["metadata"]["resourceVersion"]), body, line))
        for queue, matches in self._watches.items():
            if matches(body):
                queue.put_nowait(line)
        for listener in self.listeners:
            listener(kind, body)
        return encoded


class Objects:
    """All collections, with one count of versions."""

    def __init__(self) -> None:
        self.version = 0
        self._collections: dict[str, Collection] = {}

    def of(self, plural: str) -> Collection:
        """The collection of a kind, by its plural."""
        if plural not in self._collections:
            self._collections[plural] = Collection(self._next_version)
        return self._collections[plural]

    def _next_version(self) -> int:
        self.version += 1
        return self.version


def selecting(selector: str) -> Matches:
    """Whether an object has the labels that a selector asks for: `a=b`, `a in (b,c)` and `a`."""
    conditions = [_condition(part.strip()) for part in re.split(r",(?![^(]*\))", selector) if part.strip()]
    return lambda body: all(holds(body["metadata"].get("labels") or {}) for holds in conditions)


def _condition(part: str) -> Callable[[Mapping[str, str]], bool]:
    if found := re.fullmatch(r"(\S+) in \((.*)\)", part):
        key, values = found[1], _words(found[2].split(","))
        return lambda labels: labels.get(key) in values
    key, equals, value = part.partition("=")
    return (lambda labels: labels.get(key) == value) if equals else (lambda labels: key in labels)


def _words(parts: Iterable[str]) -> frozenset[str]:
    return frozenset(part.strip() for part in parts)
