"""The real client against a scripted HTTP server on the loopback interface."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from types import SimpleNamespace

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from prometheus_client import REGISTRY

from podtune.cluster import client as client_module
from podtune.cluster import connection as connection_module
from podtune.cluster.client import KubernetesClient, Method, create_owned, list_pages
from podtune.cluster.connection import MAX_CONNECTIONS, Connection, keep_kind
from podtune.kube.errors import (
    AnswerTimeout,
    AnswerTooLarge,
    ApiError,
    ApiRefusal,
    NotLeading,
    NotSent,
    Unanswered,
    WrongObject,
)
from podtune.kube.paths import PathError

Handler = Callable[[web.Request], web.StreamResponse]
PATH = "/api/v1/namespaces/team/pods"


class Script:
    """A server whose answers a test writes down; the last one is given for ever."""

    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.answers: list[Callable[[web.Request], object]] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        made = answer(request)
        return await made if asyncio.iscoroutine(made) else made  # type: ignore[return-value]


def ok(body: object = None) -> Callable[[web.Request], web.Response]:
    return lambda _: web.json_response(body if body is not None else {"kind": "Pod"})


def error(status: int, message: str = "no", reason: str = "", **headers: str) -> Callable[[web.Request], web.Response]:
    body = {"kind": "Status", "message": message, "reason": reason}
    return lambda _: web.json_response(body, status=status, headers=headers)


def broken(request: web.Request) -> web.Response:
    request.transport.abort()
    return web.Response()


def _configuration(host: str) -> SimpleNamespace:
    """What the official client says of a server."""

    async def auth_settings() -> dict[str, dict[str, str]]:
        return {"BearerToken": {"in": "header", "key": "authorization", "value": "bearer secret"}}

    tls = {"ssl_ca_cert": None, "cert_file": None, "key_file": None, "verify_ssl": True}
    return SimpleNamespace(host=host, auth_settings=auth_settings, **tls)


@pytest.fixture
async def script() -> Script:
    return Script()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the client has waited between tries; it does not really wait."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(client_module, "asyncio", SimpleNamespace(sleep=sleep))
    return slept


@pytest.fixture
async def client(script: Script, waits: list[float]) -> AsyncIterator[KubernetesClient]:
    application = web.Application()
    application.router.add_route("*", "/{tail:.*}", script.handle)
    async with TestServer(application) as server:
        configuration = _configuration(str(server.make_url("")).rstrip("/"))
        client = KubernetesClient(Connection(configuration), random.Random(1))
        yield client
        await client.close()


async def test_sends_body_and_credentials_and_returns_the_answer(script: Script, client: KubernetesClient) -> None:
    async def echo(request: web.Request) -> web.Response:
        return web.json_response({"got": await request.json(), "as": request.headers["Authorization"]})

    script.answers = [echo]
    answer = await client.request("POST", PATH, body={"a": 1})
    assert answer == {"got": {"a": 1}, "as": "bearer secret"}


@pytest.mark.parametrize("failure", [error(500), error(503), error(429), broken], ids=["500", "503", "429", "broken"])
@pytest.mark.parametrize("method", ["PATCH", "POST"])
async def test_transient_errors_are_tried_again_with_growing_waits(
    script: Script, client: KubernetesClient, waits: list[float], failure: Handler, method: Method
) -> None:
    """Requests by other methods aiohttp itself repeats once, where a connection breaks that was kept."""
    script.answers = [failure, failure, failure, ok()]
    await client.request(method, PATH, idempotent=method == "POST")
    assert len(script.requests) == 4
    assert len(waits) == 3
    for n, wait in enumerate(waits):
        assert 0.2 * 2**n <= wait <= 0.4 * 2**n


@pytest.mark.parametrize(
    "reply",
    [broken, error(500), error(502), error(503), error(504), lambda _: web.Response(text='{"kind": "Po')],
    ids=["broken", "500", "502", "503", "504", "garbled"],
)
async def test_a_creation_that_may_have_been_carried_out_is_not_repeated(
    script: Script, client: KubernetesClient, waits: list[float], reply: Handler
) -> None:
    """Its pod may have run and gone by then: another pod of the same name would run the attempt once more."""
    made: list[str] = []

    async def make_and_lose(request: web.Request) -> web.StreamResponse:
        made.append((await request.json())["metadata"]["name"])
        return reply(request)

    script.answers = [make_and_lose]
    owner = {"kind": "Trial", "uid": "t-1"}
    with pytest.raises(ApiError):
        await create_owned(client, PATH, {"metadata": {"name": "digits-0-1", "ownerReferences": [owner]}})
    assert made == ["digits-0-1"]
    assert waits == []


async def test_a_creation_that_the_server_turns_away_is_tried_again(script: Script, client: KubernetesClient) -> None:
    script.answers = [error(429), error(429), ok()]
    await client.request("POST", PATH, body={})
    assert len(script.requests) == 3


async def test_a_creation_that_nobody_takes_is_tried_again(waits: list[float]) -> None:
    client = KubernetesClient(Connection(_configuration("http://127.0.0.1:1")), random.Random(1))
    with pytest.raises(NotSent):
        await client.request("POST", PATH, body={})
    assert len(waits) == 3
    await client.close()


async def test_the_time_that_a_server_asks_for_is_waited_out_where_the_caller_tries_again(
    script: Script, client: KubernetesClient, waits: list[float]
) -> None:
    script.answers = [error(503, **{"Retry-After": "3"})]
    with pytest.raises(ApiRefusal):
        await client.request("POST", PATH, body={})
    assert len(script.requests) == 1
    assert waits == [3.0]


async def test_it_gives_up_after_a_few_tries(script: Script, client: KubernetesClient) -> None:
    script.answers = [error(500, "etcd is down")]
    with pytest.raises(ApiRefusal, match="etcd is down"):
        await client.request("GET", PATH)
    assert len(script.requests) == 4


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 422])
async def test_what_would_fail_again_is_not_tried_again(script: Script, client: KubernetesClient, status: int) -> None:
    script.answers = [error(status, "so it is", "Because")]
    with pytest.raises(ApiRefusal) as caught:
        await client.request("POST", PATH, body={})
    assert (caught.value.status, caught.value.reason, caught.value.message) == (status, "Because", "so it is")
    assert len(script.requests) == 1


async def test_retry_after_is_the_least_that_is_waited(
    script: Script, client: KubernetesClient, waits: list[float]
) -> None:
    script.answers = [error(429, **{"Retry-After": "3"}), ok()]
    await client.request("GET", PATH)
    assert 3 <= waits[0] <= 6


async def test_the_last_refusal_is_told_when_its_time_is_over(
    script: Script, client: KubernetesClient, waits: list[float]
) -> None:
    """Else whoever asks again asks before its time."""
    script.answers = [error(429, **{"Retry-After": "3"})]
    with pytest.raises(ApiRefusal):
        await client.request("POST", PATH)
    assert len(waits) == len(script.requests) == 4
    assert min(waits) >= 3


async def test_who_asks_for_an_hour_is_not_waited_for(
    script: Script, client: KubernetesClient, waits: list[float]
) -> None:
    script.answers = [error(429, **{"Retry-After": "3600"})]
    with pytest.raises(ApiRefusal) as caught:
        await client.request("GET", PATH)
    assert caught.value.retry_after == 3600
    assert waits == []


@pytest.mark.parametrize("asked", ["Wed, 21 Oct 2026 07:28:00 GMT", "²", "-1", "1e9"])
async def test_a_retry_after_that_is_no_number_of_seconds_is_passed_over(
    script: Script, client: KubernetesClient, waits: list[float], asked: str
) -> None:
    script.answers = [lambda _: web.json_response({}, status=503, headers={"Retry-After": asked}), ok()]
    await client.request("GET", PATH)
    assert waits[0] < 1


@pytest.mark.parametrize("text", ["<html>gateway</html>", "[]", ""])
async def test_an_answer_that_is_no_object_is_no_answer(script: Script, client: KubernetesClient, text: str) -> None:
    script.answers = [lambda _: web.Response(text=text)]
    with pytest.raises(Unanswered):
        await client.request("GET", PATH)


async def test_a_proxys_error_page_is_told_as_it_is(script: Script, client: KubernetesClient) -> None:
    script.answers = [lambda _: web.Response(status=403, text="<h1>blocked by policy</h1>")]
    with pytest.raises(ApiRefusal, match="blocked by policy"):
        await client.request("GET", PATH)


async def test_who_no_longer_leads_reads_but_writes_nothing(script: Script, client: KubernetesClient) -> None:
    leads = True
    guarded = client.guard_writes(lambda: leads)
    script.answers = [ok()]
    await guarded.request("POST", PATH, body={})
    leads = False
    await guarded.request("GET", PATH)
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        with pytest.raises(NotLeading):
            await guarded.request(method, PATH, body={})
    assert [request.method for request in script.requests] == ["POST", "GET"]


async def test_the_lead_is_looked_at_again_before_each_try(script: Script, client: KubernetesClient) -> None:
    leads = iter([True, False])
    script.answers = [error(503)]
    with pytest.raises(NotLeading):
        await client.guard_writes(lambda: next(leads)).request("PUT", PATH, body={})
    assert len(script.requests) == 1


async def test_a_list_is_read_page_by_page(script: Script, client: KubernetesClient) -> None:
    script.answers = [
        ok({"metadata": {"continue": "abc"}, "items": [1]}),
        ok({"metadata": {"continue": ""}, "items": [2]}),
    ]
    pages = [page["items"] async for page in list_pages(client, PATH, {"labelSelector": "a=b"})]
    assert pages == [[1], [2]]
    assert [request.query.get("continue") for request in script.requests] == [None, "abc"]
    assert {request.query["labelSelector"] for request in script.requests} == {"a=b"}


async def test_a_stream_says_that_it_has_begun_before_there_is_anything_in_it(
    script: Script, client: KubernetesClient
) -> None:
    more = asyncio.Event()

    async def log(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await more.wait()
        await response.write(b"line\n")
        return response

    script.answers = [log]
    async with aclosing(client.stream(f"{PATH}/a/log")) as chunks:
        assert await anext(chunks) == b""
        more.set()
        assert [chunk async for chunk in chunks] == [b"line\n"]


async def test_a_stream_that_breaks_off_does_not_just_end(script: Script, client: KubernetesClient) -> None:
    async def log(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"line\n")
        return broken(request)

    script.answers = [log]
    async with aclosing(client.stream(f"{PATH}/a/log")) as chunks:
        with pytest.raises(Unanswered):
            [chunk async for chunk in chunks]


async def test_streams_that_stand_still_hold_up_no_request(script: Script, client: KubernetesClient) -> None:
    over = asyncio.Event()

    async def log(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await over.wait()
        return response

    script.answers = [log]
    streams = [client.stream(f"{PATH}/a/log") for _ in range(MAX_CONNECTIONS + 1)]
    for stream in streams:
        await anext(stream)
    script.answers = [ok()]
    async with asyncio.timeout(30):
        assert await client.request("GET", PATH) == {"kind": "Pod"}
    over.set()
    for stream in streams:
        await stream.aclose()


@pytest.mark.parametrize("tail", ["/../../other/secrets/s3", "/..", "/.", "?watch=1", "/a#b", "//a"])
async def test_a_path_that_leads_elsewhere_is_not_sent(script: Script, client: KubernetesClient, tail: str) -> None:
    path = f"{PATH}{tail}"
    script.answers = [ok()]
    with pytest.raises(PathError):
        await client.request("GET", path)
    with pytest.raises(PathError):
        await client.get_text(path)
    with pytest.raises(PathError):
        await anext(client.stream(path))
    assert script.requests == []


async def test_an_object_that_was_not_asked_for_is_not_taken_for_it(script: Script, client: KubernetesClient) -> None:
    script.answers = [ok({"kind": "Pod", "metadata": {"namespace": "other", "name": "a"}})]
    with pytest.raises(WrongObject, match="Pod team/a was asked for, and 'Pod' 'other' 'a' was answered"):
        await client.request("GET", f"{PATH}/a")
    assert len(script.requests) == 1


async def test_an_answer_that_is_too_long_is_not_read_to_its_end(
    script: Script, client: KubernetesClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "MAX_ANSWER_BYTES", 1 << 20)

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" " * 65536)

    script.answers = [endless]
    async with asyncio.timeout(30):
        with pytest.raises(AnswerTooLarge, match="more than 1 MiB"):
            await client.request("GET", PATH)
    assert len(script.requests) == 1


async def test_pages_of_large_objects_get_smaller(
    script: Script, client: KubernetesClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "MAX_ANSWER_BYTES", 10_000)

    def page(request: web.Request) -> web.Response:
        start, limit = int(request.query.get("continue", 0)), int(request.query["limit"])
        items = [{"number": number, "text": "x" * 900} for number in range(start, min(start + limit, 30))]
        end = start + len(items)
        return web.json_response({"items": items, "metadata": {"continue": str(end)} if end < 30 else {}})

    script.answers = [page]
    numbers = [item["number"] async for found in list_pages(client, PATH) for item in found["items"]]
    assert numbers == list(range(30))


async def test_a_request_that_nobody_takes_was_not_sent(waits: list[float]) -> None:
    client = KubernetesClient(Connection(_configuration("http://127.0.0.1:1")), random.Random(1))
    with pytest.raises(NotSent, match="GET /api/v1/namespaces/team/pods: not sent: Cannot connect"):
        await client.request("GET", PATH)
    assert len(waits) == 3, "it is tried again, as all that may pass"
    await client.close()


async def test_an_answer_that_does_not_come_may_be_that_of_a_request_that_was_carried_out(
    script: Script, client: KubernetesClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "REQUEST_SECONDS", 0.05)

    async def silent(_: web.Request) -> web.Response:
        await asyncio.sleep(5)
        return web.Response()

    script.answers = [silent]
    with pytest.raises(AnswerTimeout, match="no answer in time"):
        await client.request("POST", PATH, body={})


async def test_an_answer_that_breaks_off_is_neither(script: Script, client: KubernetesClient) -> None:
    script.answers = [broken]
    with pytest.raises(Unanswered) as caught:
        await client.request("POST", PATH, body={})
    assert type(caught.value) is Unanswered


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (aiohttp.ConnectionTimeoutError("no connection"), NotSent),
        (aiohttp.SocketTimeoutError("no byte"), AnswerTimeout),
        (TimeoutError(), AnswerTimeout),
        (aiohttp.ServerDisconnectedError(), Unanswered),
        (aiohttp.ClientPayloadError("cut off"), Unanswered),
        (ConnectionResetError("reset"), Unanswered),
    ],
)
def test_what_the_library_raises_keeps_its_kind(raised: Exception, kind: type[Unanswered]) -> None:
    with pytest.raises(Unanswered, match=r"GET /a: .+") as caught, keep_kind("GET /a"):
        raise raised
    assert type(caught.value) is kind


async def test_each_try_is_counted_by_what_the_server_answered(script: Script, client: KubernetesClient) -> None:
    def count(code: str) -> float:
        labels = {"method": "PATCH", "code": code}
        return REGISTRY.get_sample_value("podtune_api_requests_total", labels) or 0.0

    before = {code: count(code) for code in ("none", "503", "200")}
    script.answers = [broken, error(503), ok()]
    await client.request("PATCH", PATH)
    assert {code: count(code) - known for code, known in before.items()} == {"none": 1, "503": 1, "200": 1}
