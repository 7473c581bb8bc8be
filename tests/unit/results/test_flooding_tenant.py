"""One tenant reports as fast as it can, from many addresses; another one's pod is answered as if it were alone.

What is counted is no time, but how many of the flood's requests are let through while one of the other tenant's waits.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientSession, TCPConnector, web
from aiohttp.test_utils import BaseTestServer, TestServer
from aiohttp.typedefs import Handler

from podtune.protocol.messages import Report
from podtune.results.authentication import Authenticator, Caller
from podtune.results.server import ResultsServer
from tests.unit.cluster.fake_client import FakeCluster
from tests.unit.results.test_authentication import review
from tests.unit.results.test_server import ReportHandler

ADDRESSES = 100
OF_ADDRESS = 3
"""Requests that an address has under way at any time."""
REPORTS = 10
OURS = "team-b/p-b"
BOUND = 16
"""Requests let through before one that has come: the rest of the present turn of eight, and less than the next turn."""
BACKLOG = 200
"""Requests of the flood that wait when one of ours comes."""


class Reviews:
    """An API server to which each token `namespace/uid` is that of such a pod, unless it is a wrong one."""

    async def request(self, method: str, path: str, *, body: Any = None, **_: Any) -> dict[str, Any]:
        namespace, _, uid = body["spec"]["token"].partition("/")
        extra = {"authentication.kubernetes.io/pod-name": [uid], "authentication.kubernetes.io/pod-uid": [uid]}
        user = {"username": f"system:serviceaccount:{namespace}:default", "extra": extra}
        return {"status": review(user=user) if namespace != "wrong" else {"authenticated": False}}


class CountedPlaces(Authenticator):
    """Counts who has come, and who was let through: that is who is authenticated."""

    def __init__(self) -> None:
        super().__init__(Reviews(), time.monotonic)  # type: ignore[arg-type]
        self.come = self.let_through = 0
        self.places: list[int] = []
        self._let_through_before = 0
        self._changed = asyncio.Event()

    @web.middleware
    async def count(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Part of the application: a request has come."""
        if OURS in request.headers["Authorization"]:
            self._let_through_before = self.let_through
        else:
            self.come += 1
            self._changed.set()
        return await handler(request)

    async def authenticate(self, header: str) -> Caller:
        if OURS in header:
            self.places.append(self.let_through - self._let_through_before)
        else:
            self.let_through += 1
        return await super().authenticate(header)

    async def wait_for_backlog(self) -> None:
        """Returns while so many wait."""
        async with asyncio.timeout(60):
            while self.come - self.let_through < BACKLOG:
                self._changed.clear()
                await self._changed.wait()


async def post(session: ClientSession, token: str) -> int:
    namespace, _, uid = token.partition("/")
    path = f"/v1/namespaces/{namespace}/trials/digits-0/results"
    headers = {"Authorization": f"Bearer {token}"}
    async with session.post(path, data=Report(uid).to_json(), headers=headers) as answer:
        return answer.status


@asynccontextmanager
async def flooding(server: BaseTestServer, make_token: Callable[[int], str]) -> AsyncIterator[list[int]]:
    """Many addresses report as fast as they can; gives what they were answered."""
    answered: list[int] = []

    async def report_on(session: ClientSession, number: int) -> None:
        while True:
            answered.append(await post(session, make_token(number)))

    async with AsyncExitStack() as stack:
        tasks = []
        for number in range(ADDRESSES):
            connector = TCPConnector(local_addr=(f"127.0.1.{number + 1}", 0), limit=0)
            session = await stack.enter_async_context(ClientSession(server.make_url("/"), connector=connector))
            tasks += [asyncio.create_task(report_on(session, number)) for _ in range(OF_ADDRESS)]
        try:
            yield answered
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(end, asyncio.CancelledError) for end in ends), "the flood has gone on"


_numbers = itertools.count()
FLOODS: dict[str, tuple[Callable[[int], str], int]] = {
    "tokens of their pods": (lambda number: f"team-a/p-{number}", 200),
    "wrong tokens": (lambda number: f"wrong/{next(_numbers)}", 401),
}


@pytest.mark.parametrize(("make_token", "status"), FLOODS.values(), ids=FLOODS)
async def test_a_flood_from_many_addresses_delays_another_namespaces_report_by_two_turns_at_most(
    make_token: Callable[[int], str], status: int
) -> None:
    places = CountedPlaces()
    application = ResultsServer(ReportHandler(), places, FakeCluster()).build_application()
    application.middlewares.append(places.count)
    async with TestServer(application) as server, ClientSession(server.make_url("/")) as session:
        assert await post(session, OURS) == 200, "it has reported before"
        async with flooding(server, make_token) as answered:
            for _ in range(REPORTS):
                await places.wait_for_backlog()
                assert await post(session, OURS) == 200
    assert len(places.places) == 1 + REPORTS
    assert max(places.places) <= BOUND, places.places
    assert set(answered) == {status}, "the flood is answered too"
