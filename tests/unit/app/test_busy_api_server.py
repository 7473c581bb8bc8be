"""The operator's process meets an API server that has no time for it yet, as one that has just been started."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from e2e.bench.fake_cluster.api_server import ApiServer
from e2e.bench.fake_cluster.measured_operator import MeasuredOperator
from e2e.chaos.polling import until

MORE_THAN_ONE_REQUEST_IS_TRIED = 6


@pytest.mark.long
async def test_it_waits_and_starts_as_soon_as_the_server_lets_it(tmp_path: Path) -> None:
    api = ApiServer()
    api.retry_after = 1
    async with api.running() as server:
        operator = MeasuredOperator(server, tmp_path, "podtune.app.entry")
        starting = asyncio.create_task(operator.start())
        try:
            assert await until(lambda: api.turned_away >= MORE_THAN_ONE_REQUEST_IS_TRIED, 120)
            assert not starting.done(), "it has not ended, and does not lead"
            api.retry_after = 0
            await starting
        finally:
            starting.cancel()
            await operator.kill()
    assert "start waits for the API server" in operator.log.read_text()
