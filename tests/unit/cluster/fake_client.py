"""A cluster in memory behind the `ClusterClient` protocol, with the manners of a real API server.

It keeps objects by path, counts resource versions, refuses stale writes, pages lists, ends pods with a grace period,
and can be told to fail. It knows no schemas, defaults or admission.
"""

from __future__ import annotations

import copy
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

from podtune.cluster.client import JSON, MERGE, STRATEGIC_MERGE, Method
from podtune.kube.errors import ApiError, ApiRefusal, Unanswered, make_refusal
from podtune.kube.manifests import Manifest

EventType = Literal["ADDED", "MODIFIED", "DELETED"]
Watcher = Callable[[EventType, str, Manifest], None]

_PATH = re.compile(
    r"(?P<api>/api/v1|/apis/[^/]+/[^/]+)(/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<plural>[a-z]+)(/(?P<name>[^/]+))?(/(?P<sub>status|log))?"
)
START = "2024-05-01T12:00:00Z"


@dataclass(frozen=True)
class Call:
    """A request that was made."""

    method: Method
    path: str
    params: Mapping[str, str]
    body: Manifest | None


@dataclass
class Failure:
    """What is to happen to requests instead of, or after, their being carried out.

    Attributes:
        method: Only requests with this method.
        path: Only requests to paths that this regular expression is found in.
        error: Is raised.
        carried_out: Whether the request is carried out before that: its answer is lost.
        times: How many requests it happens to.
    """

    method: Method
    path: str
    error: ApiError
    carried_out: bool = False
    times: int = 1


@dataclass
class FakeCluster:
    """The `ClusterClient`.

    Attributes:
        calls: All requests so far.
        failures: What goes wrong next; used up in their order.
        watchers: Told of every change.
        logs: Texts by `<pod>/<container>`.
        streams: Chunks by `<pod>/<container>`; an exception among them is raised.
        before: Called before each request is carried out.
    """

    calls: list[Call] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    watchers: list[Watcher] = field(default_factory=list)
    logs: dict[str, str] = field(default_factory=dict)
    streams: dict[str, list[bytes | Exception]] = field(default_factory=dict)
    before: Callable[[Call], None] = lambda call: None
    page: int = 500
    _objects: dict[tuple[str, str, str], Manifest] = field(default_factory=dict)
    _version: int = 0
    _uids: int = 0

    # The protocol

    async def request(
        self,
        method: Method,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Manifest | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        idempotent: bool = False,
    ) -> Manifest:
        call = Call(method, path, dict(params or {}), copy.deepcopy(body))
        self.calls.append(call)
        self.before(call)
        failure = self._failure(call)
        if failure is not None and not failure.carried_out:
            raise failure.error
        answer = self._carry_out(call, content_type)
        if failure is not None:
            raise failure.error
        return copy.deepcopy(answer)

    async def get_text(self, path: str, *, params: Mapping[str, str] | None = None) -> str:
        call = Call("GET", path, dict(params or {}), None)
        self.calls.append(call)
        failure = self._failure(call)
        if failure is not None:
            raise failure.error
        match = self._match(path)
        self._get(match)
        text = self.logs.get(f"{match['name']}/{call.params['container']}", "")
        return "".join(text.splitlines(keepends=True)[-int(call.params["tailLines"]) :])

    async def stream(self, path: str, *, params: Mapping[str, str] | None = None) -> AsyncGenerator[bytes]:
        call = Call("GET", path, dict(params or {}), None)
        self.calls.append(call)
        failure = self._failure(call)
        if failure is not None:
            raise failure.error
        yield b""
        for chunk in self.streams.get(f"{self._match(path)['name']}/{call.params['container']}", []):
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk

    # For tests

    def put(self, path: str, body: Manifest) -> Manifest:
        """Makes an object, below a collection's path, as somebody else would."""
        return self._carry_out(Call("POST", path, {}, body), JSON)

    def change(self, path: str, change: Callable[[Manifest], None]) -> Manifest:
        """Changes an object as somebody else would: a kubelet its pod, a user her Experiment."""
        key = self._key(self._match(path))
        body = copy.deepcopy(self._objects[key])
        change(body)
        return self._store(key, body, "MODIFIED")

    def remove(self, path: str) -> Manifest:
        """Removes an object, as a kubelet or the garbage collector would."""
        key = self._key(self._match(path))
        body = self._objects.pop(key) | {}
        body["metadata"] = body["metadata"] | {"resourceVersion": self._next_version()}
        self._tell("DELETED", key, body)
        return body

    def get(self, path: str) -> Manifest | None:
        """An object as it is now."""
        found = self._objects.get(self._key(self._match(path)))
        return copy.deepcopy(found)

    def all(self, plural: str) -> list[Manifest]:
        """All objects of a kind."""
        return [copy.deepcopy(body) for (_, kind, _), body in sorted(self._objects.items()) if kind == plural]

    def fail(self, method: Method, path: str, error: ApiError, *, carried_out: bool = False, times: int = 1) -> None:
        """Has the next requests like this fail."""
        self.failures.append(Failure(method, path, error, carried_out, times))

    def writes(self, plural: str = "") -> list[Call]:
        """The requests that wrote something."""
        return [call for call in self.calls if call.method != "GET" and plural in call.path]

    # How it works

    def _failure(self, call: Call) -> Failure | None:
        for failure in self.failures:
            if failure.times and failure.method == call.method and re.search(failure.path, call.path):
                failure.times -= 1
                return failure
        return None

    def _carry_out(self, call: Call, content_type: str) -> Manifest:
        match = self._match(call.path)
        match call.method:
            case "POST":
                return self._create(match, call.body or {}, dry=call.params.get("dryRun") == "All")
            case "GET" if match["name"]:
                return self._get(match)
            case "GET":
                return self._list(match, call.params)
            case "PUT" | "PATCH":
                return self._write(match, call.body or {}, content_type)
            case "DELETE" if match["name"]:
                return self._delete(match, call.body or {})
            case _:
                for key in list(self._selected(match, call.params)):
                    self._end(key)
                return {}

    def _create(self, match: re.Match[str], body: Manifest, *, dry: bool) -> Manifest:
        metadata = dict(body.get("metadata") or {})
        if "name" not in metadata:
            metadata["name"] = f"{metadata['generateName']}{self._version + 1:05}"
        key = (match["namespace"] or "", match["plural"], metadata["name"])
        if key in self._objects:
            raise make_refusal(409, "AlreadyExists", f'{match["plural"]} "{metadata["name"]}" already exists')
        self._uids += 1
        metadata |= {"namespace": key[0], "generation": 1, "creationTimestamp": START}
        metadata.setdefault("uid", str(UUID(int=self._uids)))
        made = body | {"metadata": metadata}
        if match["plural"] == "pods":
            made.setdefault("status", {"phase": "Pending"})
        if dry:
            return made
        return self._store(key, made, "ADDED")

    def _get(self, match: re.Match[str]) -> Manifest:
        found = self._objects.get(self._key(match))
        if found is None:
            raise make_refusal(404, "NotFound", f'{match["plural"]} "{match["name"]}" not found')
        return found

    def _list(self, match: re.Match[str], params: Mapping[str, str]) -> Manifest:
        keys = sorted(self._selected(match, params))
        start = int(params.get("continue", 0))
        end = start + min(self.page, int(params.get("limit", self.page)))
        metadata = {"resourceVersion": str(self._version)}
        if end < len(keys):
            metadata["continue"] = str(end)
        return {"metadata": metadata, "items": [self._objects[key] for key in keys[start:end]]}

    def _write(self, match: re.Match[str], body: Manifest, content_type: str) -> Manifest:
        found = self._get(match)
        asked = body.get("metadata", {}).get("resourceVersion")
        if asked is not None and asked != found["metadata"]["resourceVersion"]:
            raise make_refusal(409, "Conflict", f"the object has been modified; it is not {asked} any more")
        if body.get("metadata", {}).get("uid", found["metadata"]["uid"]) != found["metadata"]["uid"]:
            raise make_refusal(409, "Conflict", "the UID in the precondition is not that of the object")
        if content_type == MERGE:
            written = _merged(found, body)
        elif content_type == STRATEGIC_MERGE:
            written = found | {"spec": _strategically_merged(found["spec"], body["spec"])}
        elif match["sub"] == "status":
            written = found | {"status": body["status"]}
        else:
            written = body | {"metadata": found["metadata"] | body["metadata"]}
        if written == found:
            return found
        return self._store(self._key(match), written, "MODIFIED")

    def _delete(self, match: re.Match[str], options: Manifest) -> Manifest:
        found = self._get(match)
        uid = options.get("preconditions", {}).get("uid", found["metadata"]["uid"])
        if uid != found["metadata"]["uid"]:
            raise make_refusal(409, "Conflict", f"the UID in the precondition ({uid}) is another one")
        return self._end(self._key(match))

    def _end(self, key: tuple[str, str, str]) -> Manifest:
        """Removes an object; a pod that runs gets its grace period, and is removed by its kubelet."""
        body = self._objects[key]
        if key[1] == "pods" and body["status"].get("phase") == "Running":
            if "deletionTimestamp" in body["metadata"]:
                return body
            marked = {"deletionTimestamp": "2024-05-01T12:10:30Z", "deletionGracePeriodSeconds": 30}
            return self._store(key, body | {"metadata": body["metadata"] | marked}, "MODIFIED")
        return self.remove(f"/api/v1/namespaces/{key[0]}/{key[1]}/{key[2]}")

    def _selected(self, match: re.Match[str], params: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
        for key, body in self._objects.items():
            is_in = key[1] == match["plural"] and match["namespace"] in (None, key[0])
            labels = body["metadata"].get("labels") or {}
            if (
                is_in
                and _selects(params.get("labelSelector", ""), labels)
                and _is_of(params.get("fieldSelector"), body)
            ):
                yield key

    def _store(self, key: tuple[str, str, str], body: Manifest, event: EventType) -> Manifest:
        known = self._objects.get(key)
        metadata = dict(body["metadata"])
        metadata["resourceVersion"] = self._next_version()
        if known is not None and known.get("spec") != body.get("spec"):
            metadata["generation"] = known["metadata"]["generation"] + 1
        stored = self._objects[key] = body | {"metadata": metadata}
        self._tell(event, key, stored)
        return stored

    def _tell(self, event: EventType, key: tuple[str, str, str], body: Manifest) -> None:
        for watcher in self.watchers:
            watcher(event, key[1], copy.deepcopy(body))

    def _next_version(self) -> str:
        self._version += 1
        return str(self._version)

    def _key(self, match: re.Match[str]) -> tuple[str, str, str]:
        return (match["namespace"] or "", match["plural"], match["name"])

    def _match(self, path: str) -> re.Match[str]:
        match = _PATH.fullmatch(path)
        assert match is not None, f"no API server has a path {path}"
        return match


def refusal(status: int, message: str, reason: str = "", retry_after: float | None = None) -> ApiRefusal:
    """An answer of the API server's with an error."""
    return make_refusal(status, reason, message, retry_after)


def no_answer() -> Unanswered:
    """No answer."""
    return Unanswered("connection reset by peer")


def _strategically_merged(target: Manifest, patch: Manifest) -> Manifest:
    """Lists whose entries have names, merged by these; `$patch: delete` takes an entry away."""
    result = dict(target)
    for key, entries in patch.items():
        deleted = {entry["name"] for entry in entries if entry.get("$patch") == "delete"}
        result[key] = [entry for entry in target.get(key, ()) if entry["name"] not in deleted]
    return result


def _merged(target: Manifest, patch: Manifest) -> Manifest:
    """JSON merge patch (RFC 7386)."""
    result = dict(target)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            below = result.get(key)
            result[key] = _merged(below if isinstance(below, dict) else {}, value)
        else:
            result[key] = value
    return result


def _is_of(selector: str | None, body: Manifest) -> bool:
    """Whether a field selector lets an object through; the phases that it rules out are all that is known."""
    phases = [term.removeprefix("status.phase!=") for term in selector.split(",")] if selector else []
    return body.get("status", {}).get("phase") not in phases


def _selects(selector: str, labels: Mapping[str, Any]) -> bool:
    for term in re.split(r",(?![^(]*\))", selector) if selector else []:
        if (found := re.fullmatch(r"(\S+) in \((.*)\)", term)) is not None:
            if labels.get(found[1]) not in found[2].split(","):
                return False
        elif "=" in term:
            key, _, value = term.partition("=")
            if labels.get(key) != value:
                return False
        elif term not in labels:
            return False
    return True
