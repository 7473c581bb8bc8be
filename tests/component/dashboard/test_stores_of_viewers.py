"""What viewers of an installed dashboard see of a store: a real S3 server, and a Secret as the kubelet mounts it."""

from __future__ import annotations

import html
import json
import os
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from e2e.bench.sync.sync_server import ACCESS_KEY, BUCKET, SECRET_KEY, running_server
from podtune.dashboard.access.gate import Access
from podtune.dashboard.access.reviews import Reviewer
from podtune.dashboard.access.session import ProxyTrust
from podtune.dashboard.server.store_settings import read_stores
from podtune.dashboard.stores.access import MountedStores
from podtune.storage.address import S3Address
from tests.unit.dashboard.access.reviewing_api import ALICE, BOB, ReviewingApi, bearer, open_source, serve_app
from tests.unit.dashboard.archives import BASE, Client
from tests.unit.dashboard.live.live_api import team_experiment, team_trial
from tests.unit.dashboard.stores.stored_trial import StoredTrial, make_file

RESULTS, CHECKPOINTS = f"{BASE}/trials/digits-1/results", f"{BASE}/trials/digits-1/checkpoints"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_server(tmp_path_factory.mktemp("s3")) as server:
        yield server.url


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    directory = tmp_path / "team-read"
    directory.mkdir()
    (directory / "accessKeyID").write_text(ACCESS_KEY)
    (directory / "secretAccessKey").write_text(f"{SECRET_KEY}\n")
    return directory


@pytest.fixture
async def client(server: str, secret: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    prefix = os.urandom(4).hex()
    stored = StoredTrial(S3Address(BUCKET, prefix, server, credentials=str(secret)))
    stored.report(120, trial="digits-1")
    kept = stored.store_checkpoint(9, make_file("model", 5 << 20))
    trial = team_trial(1, state="RUNNING", attempt=1, checkpoints=[kept.model_dump(by_alias=True)])
    spec = stored.describe(bucket=BUCKET, prefix=prefix, endpoint=server)["spec"]
    entry = {"namespace": "team", "directory": str(secret), "store": {"bucket": BUCKET, "endpoint": server}}
    api = ReviewingApi()
    for source in open_source(api, team_experiment() | {"spec": spec}, trial):
        access = Access(Reviewer(lambda: api), timedelta(hours=1), ProxyTrust())
        async with serve_app(source, access, stores=MountedStores(read_stores(json.dumps([entry])))) as client:
            yield client


async def read(client: Client, path: str, token: str = ALICE) -> tuple[int, str]:
    answer = await client.get(path, headers=bearer(token) if token else {})
    return answer.status, html.unescape(await answer.text())


async def test_who_may_see_the_experiment_reads_its_store(client: Client) -> None:
    status, page = await read(client, RESULTS)
    assert status == 200
    assert "120 results in the store at" in page
    _, page = await read(client, CHECKPOINTS)
    assert "5 MiB" in page


async def test_nobody_else_does(client: Client) -> None:
    for path in (RESULTS, f"{RESULTS}.csv", f"{RESULTS}.json", f"{RESULTS}.svg", CHECKPOINTS):
        assert [(await read(client, path, token))[0] for token in (BOB, "")] == [403, 401]


async def test_a_wrong_secret_is_explained_and_its_correction_is_used_at_once(client: Client, secret: Path) -> None:
    (secret / "secretAccessKey").write_text("wrong")
    status, page = await read(client, RESULTS)
    assert status == 200
    assert 'role="alert">' in page
    assert "team-read" in page
    (secret / "secretAccessKey").unlink()
    assert "Secret 'team-read' is missing or lacks the key secretAccessKey" in (await read(client, RESULTS))[1]
    (secret / "secretAccessKey").write_text(SECRET_KEY)
    assert "120 results in the store at" in (await read(client, RESULTS))[1]
