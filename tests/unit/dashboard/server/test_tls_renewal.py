"""TLS files that are renewed while the server runs."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from podtune.dashboard.access.session import ProxyTrust
from podtune.dashboard.server import cluster_server, tls_renewal
from podtune.dashboard.server.settings import TlsFiles, check_settings, open_tls
from podtune.dashboard.server.tls_renewal import CHECK_SECONDS, TlsRenewal
from tests.unit.dashboard.live.live_api import EXPERIMENTS, TRIALS, LiveApi, make_cluster
from tests.unit.dashboard.server.test_proxy_over_tls import OPENSSL, make_certificate

pytestmark = pytest.mark.skipif(not OPENSSL, reason="its certificates are made with openssl")
WAIT = 30


class Minutes:
    """Sleeps for as long as a test lets it."""

    def __init__(self) -> None:
        self.passed: asyncio.Queue[None] = asyncio.Queue()
        self.asleep = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        assert seconds == CHECK_SECONDS
        self.asleep.set()
        await self.passed.get()

    async def pass_one(self) -> None:
        """Returns when the files have been looked at once more."""
        await self.asleep.wait()
        self.asleep.clear()
        self.passed.put_nowait(None)
        await self.asleep.wait()


def make_files(folder: Path) -> TlsFiles:
    own = make_certificate(folder, "own")
    return TlsFiles(own, own.with_suffix(".key"), make_certificate(folder, "authority"))


def replace(old: Path | None, new: Path) -> None:
    assert old is not None
    old.write_bytes(new.read_bytes())


async def is_shown(certificate: Path, server: TestServer) -> bool:
    """Whether a new connection is answered with a certificate."""
    context = ssl.create_default_context(cafile=certificate)
    async with aiohttp.ClientSession() as session:
        try:
            async with session.get(server.make_url("/"), ssl=context) as answer:
                return answer.status == 404
        except aiohttp.ClientSSLError:
            return False


async def test_new_connections_get_a_renewed_certificate_and_one_that_cannot_be_used_is_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files, minutes = make_files(tmp_path), Minutes()
    first, second, third = (make_certificate(tmp_path, name) for name in ("first", "second", "third"))
    replace(files.certificate, first)
    replace(files.key, first.with_suffix(".key"))
    context = open_tls(files)
    assert context is not None
    waiting = asyncio.ensure_future(TlsRenewal(files, context).wait_for_authority(minutes.sleep))
    server = TestServer(web.Application(), scheme="https")
    await server.start_server(ssl=context)
    await minutes.pass_one()
    assert await is_shown(first, server)
    replace(files.certificate, second)  # the key that fits comes later
    await minutes.pass_one()
    assert await is_shown(first, server)
    assert "renewed TLS files are not used" in caplog.text
    replace(files.key, second.with_suffix(".key"))
    await minutes.pass_one()
    assert await is_shown(second, server)
    assert not await is_shown(first, server)
    replace(files.proxy_authority, third)
    await minutes.asleep.wait()
    minutes.passed.put_nowait(None)
    await asyncio.wait_for(waiting, WAIT)
    await server.close()


async def test_where_the_proxy_has_another_authority_the_server_ends_in_good_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tls_renewal, "CHECK_SECONDS", 0.0)
    caplog.set_level("INFO")
    settings = check_settings(
        address="127.0.0.1",
        port=0,
        prefix="",
        namespaces="team",
        title="",
        allowed_hosts="",
        actions=False,
        is_open=False,
        session_hours=1,
        tls=make_files(tmp_path),
        proxy=ProxyTrust("X-User"),
        gpu_price="",
        currency="",
        stores="",
        log_level="info",
    )
    api = LiveApi()
    api.lists(EXPERIMENTS)
    api.lists(TRIALS)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.ensure_future(cluster_server._serve(settings, make_cluster(api), listener))
        async with asyncio.timeout(WAIT):
            while "dashboard is ready" not in caplog.text:
                await asyncio.wait({serving}, timeout=0.01)
                assert not serving.done()
            replace(settings.tls_files.proxy_authority, make_certificate(tmp_path, "other"))
            await serving
    api.ends()
    assert "the proxy has another authority" in caplog.text
    assert "dashboard ends" in caplog.text
