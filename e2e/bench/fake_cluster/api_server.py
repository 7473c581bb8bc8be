"""HTTP to the objects of `api_objects`: what the operator and kopf ask of an API server."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from http import HTTPStatus
from itertools import count

import orjson
from aiohttp import web

from e2e.bench.fake_cluster.api_objects import Collection, Object, Objects, Refused, selecting
from e2e.bench.fake_cluster.pod_log import PodLog
from podtune.api.names import (
    EXPERIMENT_KIND,
    EXPERIMENT_PLURAL,
    GROUP,
    TOKEN_AUDIENCE,
    TRIAL_KIND,
    TRIAL_PLURAL,
    VERSION,
)
from podtune.cluster.client import METADATA
from podtune.results.authentication import POD_NAME, POD_UID_CLAIM, SERVICE_ACCOUNT_PREFIX

NAMESPACE = "bench"
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_KINDS = {
    "v1": (("namespaces", "Namespace"), ("pods", "Pod"), ("configmaps", "ConfigMap")),
    f"{GROUP}/{VERSION}": ((EXPERIMENT_PLURAL, EXPERIMENT_KIND), (TRIAL_PLURAL, TRIAL_KIND)),
}


class ApiServer:
    """An API server on the loopback interface.

    Attributes:
        objects: What is there.
        writes: Requests that wrote, by resource and name, which is empty where they were for many objects; Leases and
            reviews of tokens aside.
        conflicts: Creations of what was there already.
        write_seconds: How long a request that writes takes at least.
        retry_after: Where it is not 0, requests are refused, those for Leases aside, until so many seconds later.
        turned_away: How many were.
        print_log: What every container prints, for each reader anew; that of `logs` where it is None.
        refused: When those that create Trials were, by the clock of `time.monotonic`.
        logs: By pod, what its program has printed.
    """

    def __init__(self) -> None:
        self.objects = Objects()
        self.writes: Counter[tuple[str, str]] = Counter()
        self.conflicts = 0
        self.write_seconds = 0.0
        self.retry_after = 0
        self.turned_away = 0
        self.print_log: Callable[[], AsyncIterator[bytes]] | None = None
        self.refused: list[float] = []
        self.logs: dict[str, PodLog] = {}
        self._lists: dict[str, list[bytes]] = {}
        self._tokens = count()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Serves while the context lasts; yields the URL."""
        application = web.Application(client_max_size=1 << 24)
        application.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            host, port = runner.addresses[0][:2]
            yield f"http://{host}:{port}"
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        words = request.path.strip("/").split("/")
        if self.retry_after and "leases" not in words:
            self.turned_away += 1
            if request.method == "POST" and words[-1] == "trials":
                self.refused.append(time.monotonic())
            refused = Refused(HTTPStatus.TOO_MANY_REQUESTS, "TooManyRequests", "too many requests")
            return _json(_status(refused), refused.status, {"Retry-After": str(self.retry_after)})
        try:
            if "namespaces" not in words:
                return await self._answer_without_namespace(request, words)
            place = words.index("namespaces")
            namespace, rest = words[place + 1], words[place + 2 :]
            if not rest:
                return _json({"metadata": {"name": namespace}})
            return await self._answer_in(request, namespace, *rest)
        except Refused as refused:
            self.conflicts += refused.reason == "AlreadyExists"
            return _json(_status(refused), refused.status)

    async def _answer_without_namespace(self, request: web.Request, words: list[str]) -> web.Response:
        if words[-1] == "tokenreviews":
            return _json({"status": _review(orjson.loads(await request.read())["spec"]["token"])})
        match words:
            case ["version"]:
                return _json({"major": "1", "minor": "34"})
            case ["api"]:
                return _json({"versions": ["v1"]})
            case ["apis"]:
                version = {"groupVersion": f"{GROUP}/{VERSION}", "version": VERSION}
                return _json({"groups": [{"name": GROUP, "versions": [version], "preferredVersion": version}]})
            case ["api", *version] | ["apis", *version] if "/".join(version) in _KINDS:
                return _json({"resources": [_resource(*names) for names in _KINDS["/".join(version)]]})
        raise Refused(404, "NotFound", f"{request.path} is not served")

    async def _answer_in(
        self, request: web.Request, namespace: str, plural: str, name: str = "", part: str = ""
    ) -> web.StreamResponse:
        found = self.objects.of(plural)
        if part == "log":
            return await self._stream_log(request, name)
        if request.method == "GET":
            if name:
                return _json(found.get(namespace, name))
            if "watch" in request.query:
                return await self._watch(request, found)
            return self._list(request, found)
        body: Object = orjson.loads(await request.read() or b"{}")
        if plural != "leases":
            self.writes[plural, name or (body.get("metadata") or {}).get("name", "")] += 1
        if self.write_seconds:
            await asyncio.sleep(self.write_seconds)
        match request.method:
            case "POST":
                # Events are for people: none of them looks on.
                made = found.create(namespace, body) if plural != "events" else body
            case "PUT":
                made = found.replace(namespace, body, only=part or ("spec" if plural == "leases" else None))
            case "PATCH":
                present = found.get(namespace, name)["metadata"]
                made = found.change(namespace, name, {"metadata": {**present, "labels": body["metadata"]["labels"]}})
            case "DELETE":
                self._delete(request, found, namespace, name, body)
                return _json({"kind": "Status", "status": "Success"})
            case _:
                raise Refused(405, "MethodNotAllowed", f"{request.method} is not served")
        return _json({"metadata": made["metadata"]} if request.headers.get("Accept") == METADATA else made)

    async def _stream_log(self, request: web.Request, pod: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        if self.print_log is not None:
            async for lines in self.print_log():
                await response.write(lines)
        elif (log := self.logs.get(pod)) is not None:
            since, follow = request.query.get("sinceTime", ""), request.query.get("follow") == "true"
            async for lines in log.read(since, follow=follow):
                await response.write(lines)
        return response

    def _delete(self, request: web.Request, found: Collection, namespace: str, name: str, body: Object) -> None:
        matches = selecting(request.query.get("labelSelector", ""))
        names = [name] if name else [each["metadata"]["name"] for each in found if matches(each)]
        for each in names:
            found.set_deleting(namespace, each, (body.get("preconditions") or {}).get("uid", "") if name else "")

    def _list(self, request: web.Request, found: Collection) -> web.Response:
        """A page; what a list began with is what its later pages go on with."""
        limit, token = int(request.query.get("limit", "0")), request.query.get("continue", "")
        matching = self._lists.pop(token, None)
        if matching is None:
            matching = found.encoded(selecting(request.query.get("labelSelector", "")))
        page, rest = (matching[:limit], matching[limit:]) if limit else (matching, [])
        following = str(next(self._tokens)) if rest else ""
        if rest:
            self._lists[following] = rest
        metadata = orjson.dumps({"resourceVersion": str(self.objects.version), "continue": following})
        body = b'{"metadata":%s,"items":[%s]}' % (metadata, b",".join(page))
        return web.Response(body=body, content_type="application/json")

    async def _watch(self, request: web.Request, found: Collection) -> web.StreamResponse:
        version = int(request.query.get("resourceVersion") or self.objects.version)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        try:
            queue = found.watch(version, selecting(request.query.get("labelSelector", "")))
        except Refused as refused:  # a watch has begun by then, so it is told in an event
            await response.write(orjson.dumps({"type": "ERROR", "object": _status(refused)}) + b"\n")
            return response
        try:
            is_over = False
            while not is_over:
                lines = [await queue.get()]
                while not queue.empty():
                    lines.append(queue.get_nowait())
                is_over = None in lines
                await response.write(b"".join(filter(None, lines)))
        finally:
            found.unwatch(queue)
        return response


def token_of(pod: Object) -> str:
    """The token that a pod's agent shows."""
    metadata = pod["metadata"]
    return f"{metadata['namespace']}.{metadata['name']}.{metadata['uid']}"


def _review(token: str) -> Object:
    namespace, pod, uid = token.split(".")
    extra = {POD_NAME: [pod], POD_UID_CLAIM: [uid]}
    user = {"username": f"{SERVICE_ACCOUNT_PREFIX}{namespace}:default", "extra": extra}
    return {"authenticated": True, "audiences": [TOKEN_AUDIENCE], "user": user}


def _status(refused: Refused) -> Object:
    body = {"kind": "Status", "status": "Failure", "reason": refused.reason, "message": str(refused)}
    return {**body, "code": refused.status}


def _resource(plural: str, kind: str) -> Object:
    return {
        "name": plural,
        "singularName": kind.lower(),
        "kind": kind,
        "namespaced": plural != "namespaces",
        "verbs": _VERBS,
    }


def _json(body: Object, status: int = HTTPStatus.OK, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(body=orjson.dumps(body), status=status, content_type="application/json", headers=headers)
