"""An authenticating proxy in front of the server: believed with a certificate of its authority, and not without one."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest
from aiohttp.test_utils import TestServer

from podtune.dashboard.access.gate import Access
from podtune.dashboard.access.reviews import Reviewer
from podtune.dashboard.access.session import ProxyTrust
from podtune.dashboard.app import AppSettings, make_app
from podtune.dashboard.live.cluster_source import ClusterSource
from podtune.dashboard.server.settings import TlsFiles, open_tls
from tests.unit.dashboard.access.reviewing_api import ALICE, Clock, ReviewingApi, bearer, grant_sight, open_source
from tests.unit.dashboard.archives import BASE

OPENSSL = shutil.which("openssl") or ""
pytestmark = pytest.mark.skipif(not OPENSSL, reason="its certificates are made with openssl")
NAMED = {"Sec-User": "alice", "X-Groups": "admins"}


def make_certificate(folder: Path, name: str) -> Path:
    """A certificate that is its own authority, and its key beside it."""
    certificate = folder / f"{name}.crt"
    options = "-x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -addext subjectAltName=IP:127.0.0.1"
    files = ["-keyout", str(certificate.with_suffix(".key")), "-out", str(certificate)]
    command = [OPENSSL, "req", *options.split(), "-subj", f"/CN={name}", *files]
    subprocess.run(command, check=True, capture_output=True)
    return certificate


@pytest.fixture
def api() -> ReviewingApi:
    api = ReviewingApi()
    api.grants |= {("alice", "patch", "experiments", "team", "")} | grant_sight("carol", "team")
    return api


@pytest.fixture
def source(api: ReviewingApi) -> Iterator[ClusterSource]:
    yield from open_source(api)


@pytest.fixture
async def address(api: ReviewingApi, source: ClusterSource, tmp_path: Path) -> AsyncIterator[str]:
    own, proxy = make_certificate(tmp_path, "dashboard"), make_certificate(tmp_path, "proxy")
    make_certificate(tmp_path, "stranger")
    reviewer = Reviewer(lambda: api, Clock())
    access = Access(reviewer, timedelta(hours=1), ProxyTrust("Sec-User", "X-Groups"), offers_actions=True)
    settings = AppSettings(allows_host=lambda _: True, access=access, connect_as=lambda token: api)
    server = TestServer(make_app(source, settings), scheme="https")
    await server.start_server(ssl=open_tls(TlsFiles(own, own.with_suffix(".key"), proxy)))
    yield str(server.make_url("/")).rstrip("/")
    await server.close()
    reviewer.close()


async def read(url: str, folder: Path, certificate: str, headers: dict[str, str]) -> tuple[int, str]:
    """Gets a page as somebody who shows a certificate, or none."""
    context = ssl.create_default_context(cafile=folder / "dashboard.crt")
    if certificate:
        context.load_cert_chain(folder / f"{certificate}.crt", folder / f"{certificate}.key")
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers, ssl=context) as answer:
        return answer.status, await answer.text()


async def test_the_proxy_says_who_the_viewer_is(api: ReviewingApi, address: str, tmp_path: Path) -> None:
    status, page = await read(f"{address}{BASE}/", tmp_path, "proxy", NAMED)
    assert status == 200
    assert "Logged in as <strong>alice</strong>" in page
    assert api.specs[0]["groups"] == ["admins", "system:authenticated"]
    assert not api.reviewed["TokenReview"]


async def test_whom_the_proxy_names_is_shown_a_page_of_their_own(address: str, tmp_path: Path) -> None:
    for name in ("alice", "carol"):
        _, page = await read(f"{address}{BASE}/", tmp_path, "proxy", NAMED | {"Sec-User": name})
        assert f"Logged in as <strong>{name}</strong>" in page


async def test_actions_take_more_than_a_proxys_word(address: str, tmp_path: Path) -> None:
    _, page = await read(f"{address}{BASE}/", tmp_path, "proxy", NAMED)
    assert "actions/pause" not in page
    status, page = await read(f"{address}{BASE}/actions/pause", tmp_path, "proxy", NAMED)
    assert status == 403
    assert "Actions take your own token: log in with it." in page


async def test_without_a_certificate_a_header_says_nothing_and_a_token_does(address: str, tmp_path: Path) -> None:
    assert (await read(f"{address}{BASE}/", tmp_path, "", NAMED))[0] == 401
    assert (await read(f"{address}{BASE}/", tmp_path, "", bearer(ALICE)))[0] == 200


async def test_a_stranger_with_a_certificate_is_turned_away(address: str, tmp_path: Path) -> None:
    with pytest.raises(aiohttp.ClientError):
        await read(f"{address}{BASE}/", tmp_path, "stranger", NAMED)
