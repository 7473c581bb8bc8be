"""What a kubelet asks."""

from __future__ import annotations

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from podtune.dashboard.server.cluster_server import ProbeAnswers


async def test_it_is_ready_as_soon_as_it_has_something_to_show() -> None:
    probes = ProbeAnswers()
    app = web.Application(middlewares=[probes.middleware])
    async with TestClient(TestServer(app)) as client:
        assert (await client.get("/healthz")).status == 200
        for path in ("/readyz", "/"):
            answer = await client.get(path)
            assert answer.status == 503
            assert "starting" in await answer.text()
        probes.is_ready = True
        assert (await client.get("/readyz")).status == 200
        assert (await client.get("/")).status == 404
