"""Servers on the loopback interface: versitygw for S3, Azurite for Azure, and what stands for Google."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.credentials import ReadOnlyCredentials

from e2e.bench.sync.sync_server import ACCESS_KEY, SECRET_KEY, running_server
from e2e.stores.azure_server import ACCOUNT, AzureServer, running_azure_server
from e2e.stores.google_server import GoogleServer, running_google_server
from podtune.storage.address import AzureAddress, GcsAddress


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


@pytest.fixture(scope="session")
def google_server(s3_server: tuple[str, Path]) -> Iterator[GoogleServer]:
    with running_google_server(s3_server[0], ReadOnlyCredentials(ACCESS_KEY, SECRET_KEY, None)) as server:
        server.add_account("trials")
        yield server


@pytest.fixture(scope="session")
def azure_server() -> Iterator[AzureServer]:
    with running_azure_server() as server:
        yield server


@pytest.fixture
def google_bucket(google_server: GoogleServer, bucket: str, tmp_path: Path) -> GcsAddress:
    """A fresh bucket, with the key of a service account in a mounted Secret."""
    secret = tmp_path / "models-gcs"
    secret.mkdir()
    (secret / "serviceAccountKey").write_text(google_server.accounts["trials"].key_file)
    return GcsAddress(bucket, "demo", google_server.url, credentials=str(secret))


@pytest.fixture
def azure_container(azure_server: AzureServer, tmp_path: Path) -> AzureAddress:
    """A fresh container, with the account's key in a mounted Secret."""
    name = f"container-{os.urandom(4).hex()}"
    azure_server.create_container(name)
    secret = tmp_path / "models-azure"
    secret.mkdir()
    (secret / "accountKey").write_text(azure_server.key)
    return AzureAddress(name, ACCOUNT, "demo", azure_server.url, credentials=str(secret))
