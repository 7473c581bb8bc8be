"""The soak reads the operator's metrics by HTTPS and with a token, from the endpoint that the operator has."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from aiohttp import web

from e2e.soak.operator_metrics import METRICS_SERVER_NAME, OperatorMetrics
from podtune.app.servers import MetricsEndpoint
from podtune.results.tls.authorities import issue_leaf, make_authority
from podtune.results.tls.chain import load_chain, make_server_context

TASKS = "podtune_event_loop_tasks"


@web.middleware
async def let_prometheus_in(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    if request.headers.get("Authorization") != "Bearer right":
        raise web.HTTPUnauthorized
    return await handler(request)


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[int, ssl.SSLContext]]:
    """Where the operator's metrics are, and what trusts its authority."""
    authority = make_authority(datetime.now(UTC))
    leaf = issue_leaf(authority, METRICS_SERVER_NAME, datetime.now(UTC))
    context = make_server_context()
    load_chain(context, leaf.certificate, leaf.key)
    application = MetricsEndpoint(None).build_application()
    application.middlewares.append(let_prometheus_in)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    try:
        yield runner.addresses[0][1], ssl.create_default_context(cadata=authority.certificate)
    finally:
        await runner.cleanup()


async def test_the_tasks_of_the_operators_event_loop_are_read() -> None:
    async with serving() as (port, trusting):
        metrics = OperatorMetrics("127.0.0.1", "right", trusting, port)
        before = await asyncio.to_thread(metrics.read, TASKS)
        left = [asyncio.create_task(asyncio.Event().wait()) for _ in range(5)]
        after = await asyncio.to_thread(metrics.read, TASKS)
        for task in left:
            task.cancel()
        assert before is not None
        assert after == before + 5


async def test_who_may_not_read_them_or_finds_nobody_reads_nothing() -> None:
    async with serving() as (port, trusting):
        assert await asyncio.to_thread(OperatorMetrics("127.0.0.1", "wrong", trusting, port).read, TASKS) is None
        right = OperatorMetrics("127.0.0.1", "right", trusting, port)
        assert await asyncio.to_thread(right.read, "podtune_no_such_metric") is None
        strange = OperatorMetrics("127.0.0.1", "right", ssl.create_default_context(cadata=other_authority()), port)
        assert await asyncio.to_thread(strange.read, TASKS) is None
    assert await asyncio.to_thread(right.read, TASKS) is None


def other_authority() -> str:
    return make_authority(datetime.now(UTC)).certificate
