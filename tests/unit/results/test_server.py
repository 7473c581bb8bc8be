"""The results server, as an agent meets it: over HTTP."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import count
from typing import Any

import aiohttp
import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from prometheus_client import REGISTRY

from podtune.kube.errors import ApiError
from podtune.protocol.assignment import Assignment
from podtune.protocol.messages import MAX_REPORT_BYTES, FinalCommit, Reply, Report, Result, parse_reply
from podtune.results import relay_places
from podtune.results import server as server_module
from podtune.results.authentication import Caller, Unauthenticated
from podtune.results.server import LogSource, ResultsServer
from podtune.runner.experiment_machine import Unaccepted
from tests.unit.cluster.fake_client import FakeCluster, no_answer, refusal
from tests.unit.cluster.objects import PODS, pod_body

URL = "/v1/namespaces/team/trials/digits-0"
REPORT = Report(attempt="p-1", results=(Result(1, 0.0, {"accuracy": 0.5}, 1),))
RUNNING = {"phase": "Running", "containerStatuses": [{"name": "main", "state": {"running": {}}}]}
LOGS = 40
ENDED = {"phase": "Running", "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 0}}}]}


class ReportHandler:
    """Takes in reports."""

    is_leading = True

    def __init__(self) -> None:
        self.answer: Reply | Unaccepted = Reply(acked_seq=1, durable_seq=0)
        self.taken: list[tuple[str, str, str, Report]] = []
        self.source: LogSource | None = LogSource("main", is_urgent=True)
        self.asked_for: list[tuple[str, str, str]] = []
        self.next: Assignment | None = None
        self.waited_for: list[str] = []

    def report(self, namespace: str, trial: str, pod: str, report: Report) -> Reply | Unaccepted:
        self.taken.append((namespace, trial, pod, report))
        return self.answer

    async def wait_for_next(self, pod_uid: str, seconds: float) -> None:
        self.waited_for.append(pod_uid)
        assert isinstance(self.answer, Reply)
        self.answer = replace(self.answer, next=self.next)

    def find_log_source(self, namespace: str, trial: str, pod: str) -> LogSource | None:
        self.asked_for.append((namespace, trial, pod))
        return self.source


class Gate:
    """Authenticates everybody as the same pod, or nobody."""

    def __init__(self) -> None:
        self.caller = Caller("team", "digits-0-1", "p-1")
        self.error: Exception | None = None

    async def authenticate(self, header: str) -> Caller:
        if self.error is not None:
            raise self.error
        return self.caller

    def recall_namespace(self, header: str) -> str:
        return self.caller.namespace


class Site:
    """A results server at work, and a client of it."""

    def __init__(self, session: ClientSession, server: ResultsServer) -> None:
        self.session = session
        self.server = server

    async def post(self, body: Report | bytes = REPORT, url: str = f"{URL}/results") -> tuple[int, str]:
        data = io.BytesIO(body.to_json() if isinstance(body, Report) else body)
        async with self.session.post(url, data=data) as response:
            if response.status == 503:
                assert response.headers["Retry-After"] == "1"
            return response.status, await response.text()

    async def log(self, query: str = "", url: str = f"{URL}/log") -> tuple[int, str]:
        async with self.session.get(f"{url}{query}") as response:
            return response.status, await response.text()


@pytest.fixture
def handler() -> ReportHandler:
    return ReportHandler()


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = FakeCluster()
    cluster.put(PODS, pod_body(status=ENDED))
    return cluster


@pytest.fixture
async def site(handler: ReportHandler, gate: Gate, cluster: FakeCluster) -> AsyncIterator[Site]:
    server = ResultsServer(handler, gate, cluster)  # type: ignore[arg-type]
    async with (
        TestServer(server.build_application()) as http,
        # As `app.operator` serves it.
        ClientSession(http.make_url("/"), timeout=aiohttp.ClientTimeout(total=60)) as session,
    ):
        yield Site(session, server)


# Results


async def test_a_pod_that_has_nothing_to_do_is_answered_once_there_is_something(
    site: Site, handler: ReportHandler
) -> None:
    handler.next = Assignment("digits-4", 1, "p-1/4.1", {"rate": 0.5})
    ended = Report("p-1/0.1", final=FinalCommit("p-1/0.1", 0, 0))
    status, body = await site.post(ended)
    assert status == 200
    assert parse_reply(body.encode()).next == handler.next
    assert handler.waited_for == ["p-1"]


async def test_nobody_else_is_kept_waiting(site: Site, handler: ReportHandler) -> None:
    await site.post()
    assert handler.waited_for == []


async def test_who_leads_no_more_after_the_wait_acknowledges_nothing(site: Site, handler: ReportHandler) -> None:
    async def lose(pod_uid: str, seconds: float) -> None:
        handler.is_leading = False

    handler.wait_for_next = lose
    status, _ = await site.post(Report("p-1/0.1", final=FinalCommit("p-1/0.1", 0, 0)))
    assert status == 503


async def test_a_report_is_taken_in_and_answered(site: Site, handler: ReportHandler) -> None:
    handler.answer = Reply(acked_seq=7, durable_seq=5, decision="PAUSE")
    status, text = await site.post()
    assert status == 200
    assert json.loads(text) == json.loads(handler.answer.to_json())
    assert handler.taken == [("team", "digits-0", "digits-0-1", REPORT)]


async def test_results_that_are_no_numbers_are_taken_in(site: Site, handler: ReportHandler) -> None:
    values = {"loss": float("nan"), "worst": float("inf")}
    status, _ = await site.post(Report(attempt="p-1", results=(Result(1, 0.0, values, 1),)))
    assert status == 200
    taken = handler.taken[0][3].results[0].metrics
    assert str(taken["loss"]) == "nan"
    assert taken["worst"] == float("inf")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"attempt": 1}', b"[" * 100_000])
async def test_what_is_no_report_is_refused(site: Site, handler: ReportHandler, body: bytes) -> None:
    status, text = await site.post(body)
    assert status == 400
    assert text
    assert handler.taken == []


async def test_a_report_of_any_size_does_not_fill_the_memory(site: Site, handler: ReportHandler) -> None:
    status, _ = await site.post(b" " * (MAX_REPORT_BYTES + 1))
    assert status == 413
    assert handler.taken == []


async def test_who_does_not_lead_takes_nothing_in(site: Site, handler: ReportHandler) -> None:
    handler.is_leading = False
    assert (await site.post())[0] == 503
    assert (await site.log())[0] == 503
    assert handler.taken == []


@pytest.mark.parametrize(
    ("answer", "status"), [(Unaccepted.FENCED, 409), (Unaccepted.TOO_EARLY, 503), (Unaccepted.MISPLACED, 400)]
)
async def test_what_is_not_accepted_is_told_as_the_protocol_says(
    site: Site, handler: ReportHandler, answer: Unaccepted, status: int
) -> None:
    handler.answer = answer
    assert (await site.post())[0] == status


@pytest.mark.parametrize(
    ("error", "status"), [(Unauthenticated("expired"), 401), (no_answer(), 503), (refusal(403, "no rights"), 503)]
)
async def test_who_can_not_be_known_is_not_believed(
    site: Site, gate: Gate, handler: ReportHandler, error: Exception, status: int
) -> None:
    gate.error = error
    assert (await site.post())[0] == status
    assert (await site.log())[0] == status
    assert handler.taken == []


async def test_nobody_reports_for_others(site: Site, gate: Gate, handler: ReportHandler) -> None:
    gate.caller = Caller("other", "digits-0-1", "p-1")
    assert (await site.post())[0] == 403
    gate.caller = Caller("team", "digits-0-1", "p-2")
    assert (await site.post())[0] == 403
    assert handler.taken == []


# Logs


@pytest.mark.parametrize(("attempt", "status"), [("p-1/0.1", 200), ("p-2/0.1", 403), ("p-1x/0.1", 403)])
async def test_a_warm_pod_reports_for_attempts_of_its_own(
    site: Site, handler: ReportHandler, attempt: str, status: int
) -> None:
    assert (await site.post(Report(attempt=attempt)))[0] == status
    assert bool(handler.taken) == (status == 200)


async def test_a_log_is_passed_on_until_the_program_has_ended(site: Site, cluster: FakeCluster) -> None:
    cluster.streams["digits-0-1/main"] = [b"a\n", b"b\n"]
    assert await site.log() == (200, "a\nb\n")
    (call, _) = cluster.calls
    assert call.path == f"{PODS}/digits-0-1/log"
    assert call.params == {"container": "main", "follow": "true", "timestamps": "true"}


async def test_a_log_goes_on_from_where_the_agent_was(site: Site, cluster: FakeCluster) -> None:
    assert (await site.log("?since=2024-05-01T12:00:00.123456789Z"))[0] == 200
    assert cluster.calls[0].params["sinceTime"] == "2024-05-01T12:00:00.123456789Z"


async def test_a_time_that_is_none_is_refused_for_good(site: Site, cluster: FakeCluster) -> None:
    status, text = await site.log("?since=yesterday")
    assert status == 400
    assert "yesterday" in text
    assert cluster.calls == []


@pytest.mark.parametrize(
    "chunks", [[no_answer()], [b"a\n", no_answer()]], ids=["before anything came", "in the middle"]
)
async def test_a_log_that_broke_off_does_not_look_as_if_it_had_ended(
    site: Site, cluster: FakeCluster, chunks: list[Any]
) -> None:
    cluster.streams["digits-0-1/main"] = chunks
    with pytest.raises((aiohttp.ClientPayloadError, aiohttp.ClientConnectionError)):
        await site.log()


async def test_a_log_that_ended_before_its_program_does_not_look_as_if_it_had_ended(
    site: Site, cluster: FakeCluster
) -> None:
    cluster.streams["digits-0-1/main"] = [b"a\n"]
    cluster.change(f"{PODS}/digits-0-1", lambda body: body.update(status=RUNNING))  # its kubelet was restarted
    with pytest.raises((aiohttp.ClientPayloadError, aiohttp.ClientConnectionError)):
        await site.log()


async def test_a_log_of_a_pod_that_is_gone_has_ended(site: Site, cluster: FakeCluster) -> None:
    cluster.remove(f"{PODS}/digits-0-1")
    assert await site.log() == (200, "")


@pytest.mark.parametrize("error", [refusal(400, "container main is waiting to start"), no_answer()])
async def test_a_log_that_can_not_be_had_yet_is_asked_for_again(
    site: Site, cluster: FakeCluster, error: ApiError
) -> None:
    cluster.fail("GET", "/log$", error)
    assert await site.log() == (503, getattr(error, "message", str(error)))


async def test_nobody_reads_the_logs_of_others(site: Site, handler: ReportHandler, cluster: FakeCluster) -> None:
    handler.source = None
    assert (await site.log(url="/v1/namespaces/team/trials/digits-1/log"))[0] == 403
    assert handler.asked_for == [("team", "digits-1", "digits-0-1")]
    assert cluster.calls == []
    assert (await site.log(url="/v1/namespaces/other/trials/digits-0/log"))[0] == 403


async def test_the_rest_of_a_log_is_what_there_is_now(site: Site, cluster: FakeCluster) -> None:
    cluster.change(f"{PODS}/digits-0-1", lambda body: body.update(status=RUNNING))  # in a pod that is reused
    cluster.streams["digits-0-1/main"] = [b"a\n"]
    assert await site.log("?follow=false&since=2024-05-01T12:00:00Z") == (200, "a\n")
    (call,) = cluster.calls
    assert call.params == {
        "container": "main",
        "follow": "false",
        "timestamps": "true",
        "sinceTime": "2024-05-01T12:00:00Z",
    }


async def test_a_log_goes_on_with_the_latest_lines(site: Site, cluster: FakeCluster) -> None:
    assert (await site.log("?tail=100"))[0] == 200
    assert cluster.calls[0].params["tailLines"] == "100"
    for wrong in ("0", "-1", "10000", "x"):
        assert (await site.log(f"?tail={wrong}"))[0] == 400


class Chatty(FakeCluster):
    """A log of which a line comes whenever it is looked at, and at most as much as fits into a buffer at a time."""

    def __init__(self, chunks: list[bytes]) -> None:
        super().__init__()
        self.chunks = chunks

    async def stream(self, path: str, *, params: Any = None) -> AsyncGenerator[bytes]:
        yield b""
        for chunk in self.chunks:
            yield chunk


@pytest.mark.parametrize(
    ("query", "is_urgent", "pauses"),
    [
        ("", False, [1.0, 1.0, (1 << 17) / (2 << 20)]),
        ("", True, []),
        ("?follow=false", False, []),
    ],
    ids=["kept", "with results", "the rest"],
)
async def test_lines_that_nobody_waits_for_come_together(
    handler: ReportHandler,
    monkeypatch: pytest.MonkeyPatch,
    query: str,
    is_urgent: bool,
    pauses: list[float],
) -> None:
    cluster, slept = Chatty([b"a\n", b"b\n", b"x" * (1 << 17)]), list[float]()
    cluster.put(PODS, pod_body(status=ENDED))
    handler.source = LogSource("main", is_urgent=is_urgent)

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("podtune.results.server.asyncio.sleep", sleep)
    server = ResultsServer(handler, Gate(), cluster)  # type: ignore[arg-type]
    async with (
        TestServer(server.build_application()) as http,
        ClientSession(http.make_url("/")) as session,
        session.get(f"{URL}/log{query}") as response,
    ):
        assert len(await response.read()) == 4 + (1 << 17)
    assert [seconds for seconds in slept if seconds] == pauses


class ManyPods(Gate):
    """Each request is another pod's."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = count()

    async def authenticate(self, header: str) -> Caller:
        return replace(self.caller, uid=f"p-{next(self._numbers)}")


class Burst(FakeCluster):
    """Logs in which a lot comes, in all of them at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.passed_on = 0
        self.printed = asyncio.Barrier(LOGS)

    async def stream(self, path: str, *, params: Any = None) -> AsyncGenerator[bytes]:
        yield b""
        await self.printed.wait()
        yield b"x" * (1 << 16)
        self.passed_on += 1

    async def count_at_once(self) -> int:
        """Until all are passed on: how many at most were so in one turn of the event loop."""
        at_once = 0
        while (before := self.passed_on) < LOGS:
            await asyncio.sleep(0)
            at_once = max(at_once, self.passed_on - before)
        return at_once


async def test_a_burst_in_many_logs_lets_others_in_between(handler: ReportHandler) -> None:
    cluster = Burst()
    cluster.put(PODS, pod_body(status=ENDED))
    server = ResultsServer(handler, ManyPods(), cluster)  # type: ignore[arg-type]
    async with (
        asyncio.timeout(30),
        TestServer(server.build_application()) as http,
        ClientSession(http.make_url("/")) as session,
    ):

        async def read_log() -> int:
            async with session.get(f"{URL}/log") as response:
                return len(await response.read())

        at_once, *sizes = await asyncio.gather(cluster.count_at_once(), *(read_log() for _ in range(LOGS)))
    assert sizes == [1 << 16] * LOGS
    assert at_once == server_module._CHUNKS_AT_A_TIME


class Silent(FakeCluster):
    """Logs in which nothing comes."""

    def __init__(self) -> None:
        super().__init__()
        self.open = 0
        self.changed = asyncio.Event()

    async def stream(self, path: str, *, params: Any = None) -> AsyncGenerator[bytes]:
        self.open += 1
        self.changed.set()
        try:
            yield b""
            await asyncio.Event().wait()
        finally:
            self.open -= 1
            self.changed.set()


@pytest.fixture
async def silent(handler: ReportHandler, gate: Gate) -> AsyncIterator[tuple[Silent, ClientSession]]:
    cluster = Silent()
    application = ResultsServer(handler, gate, cluster).build_application()  # type: ignore[arg-type]
    runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    async with ClientSession(f"http://127.0.0.1:{runner.addresses[0][1]}") as session:
        yield cluster, session
    await runner.cleanup()


async def test_a_log_begins_at_once_even_if_nothing_comes(silent: tuple[Silent, ClientSession]) -> None:
    _, session = silent
    async with asyncio.timeout(30), session.get(f"{URL}/log") as response:
        assert response.status == 200


async def test_a_client_that_goes_away_leaves_no_stream_behind(silent: tuple[Silent, ClientSession]) -> None:
    cluster, session = silent
    async with session.get(f"{URL}/log"):
        assert cluster.open == 1
    async with asyncio.timeout(30):
        while cluster.open:
            cluster.changed.clear()
            await cluster.changed.wait()


class Endless(Silent):
    """Logs in which lines come all the time."""

    async def stream(self, path: str, *, params: Any = None) -> AsyncGenerator[bytes]:
        try:
            while True:
                yield b"line\n"
                await asyncio.sleep(0)
        finally:
            self.changed.set()


async def test_a_client_that_goes_away_between_two_lines_is_no_error(
    handler: ReportHandler, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Endless()
    handler.source = LogSource("main", is_urgent=True)  # so that there is no pause between lines
    application = ResultsServer(handler, gate, cluster).build_application()  # type: ignore[arg-type]
    # By TLS, a connection may end at a line before its handler is cancelled; without cancelling, it always does.
    runner = web.AppRunner(application, handler_cancellation=False)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    async with asyncio.timeout(30):
        async with ClientSession(f"http://127.0.0.1:{runner.addresses[0][1]}") as session, session.get(f"{URL}/log"):
            pass
        await cluster.changed.wait()
        await runner.cleanup()
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_no_more_logs_are_passed_on_than_there_is_room_for(
    silent: tuple[Silent, ClientSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, session = silent
    monkeypatch.setattr(relay_places, "MAX_RELAYS", 1)
    async with session.get(f"{URL}/log"), session.get(f"{URL}/log") as second:
        assert (second.status, second.headers["Retry-After"]) == (503, "1")
    async with asyncio.timeout(30):
        while cluster.open:
            cluster.changed.clear()
            await cluster.changed.wait()
    async with session.get(f"{URL}/log") as third:
        assert third.status == 200


async def test_a_pod_that_asks_again_and_again_keeps_no_other_waiting(
    silent: tuple[Silent, ClientSession], gate: Gate
) -> None:
    cluster, session = silent
    async with AsyncExitStack() as held:

        async def ask() -> aiohttp.ClientResponse:
            return await held.enter_async_context(session.get(f"{URL}/log"))

        answers = [await ask() for _ in range(relay_places.RELAYS_OF_POD)]
        assert {answer.status for answer in answers} == {200}
        refused = await ask()
        assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
        assert "passed on already to pod digits-0-1" in await refused.text()
        gate.caller = Caller("team", "digits-1-1", "p-2")
        assert (await ask()).status == 200, "another pod of the same namespace has its own places"
        gate.caller = Caller("team", "digits-0-1", "p-1")
        answers.pop().close()
        async with asyncio.timeout(30):
            while cluster.open > relay_places.RELAYS_OF_POD:
                cluster.changed.clear()
                await cluster.changed.wait()
        assert (await ask()).status == 200, "an agent that has closed one gets the next"


async def test_reports_are_counted_by_how_they_were_answered(site: Site, gate: Gate) -> None:
    def count(code: str) -> float:
        return REGISTRY.get_sample_value("podtune_reports_total", {"code": code}) or 0.0

    before = {code: count(code) for code in ("200", "400", "401")}
    await site.post()
    await site.post(b"{}")
    gate.error = Unauthenticated("no")
    await site.post()
    assert {code: count(code) - known for code, known in before.items()} == {"200": 1, "400": 1, "401": 1}
