"""A real S3 server, versitygw, on the loopback interface."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.bench.sync.sync_server import ACCESS_KEY, SECRET_KEY, running_server


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """URL of the server, and the directory whose subdirectories are its buckets."""
    directory = tmp_path_factory.mktemp("s3")
    with running_server(directory) as server:
        yield server.url, directory / "buckets"


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)


@pytest.fixture
def bucket(s3_server: tuple[str, Path], request: pytest.FixtureRequest) -> Iterator[str]:
    """A fresh bucket."""
    _, directory = s3_server
    name = f"bucket-{os.urandom(4).hex()}"
    (directory / name).mkdir()
    yield name
    shutil.rmtree(directory / name)
