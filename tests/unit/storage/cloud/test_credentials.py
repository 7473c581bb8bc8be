"""Credentials come from the mounted Secret, as it is when a request is made."""

import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from podtune.storage.address import AzureAddress, GcsAddress
from podtune.storage.cloud.client import add_account, make_cloud_client, read_credentials
from podtune.storage.cloud.store import CloudStore
from podtune.storage.errors import InvalidCredentials, StoreError, StoreSettingsError
from tests.unit.storage.web_server import WebServer


@pytest.fixture
def server() -> Iterator[WebServer]:
    server = WebServer(lambda asked: (201, {"ETag": '"1"'}, b""))
    yield server
    server.close()


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    directory = tmp_path / "models-azure"
    directory.mkdir()
    return directory


def signature(server: WebServer) -> str:
    return server.asked[-1].headers["authorization"]


def test_a_secret_that_was_changed_reaches_a_store_that_is_in_use(server: WebServer, secret: Path) -> None:
    (secret / "accountKey").write_text("b2xk\n")
    store = CloudStore(AzureAddress("models", "lab", endpoint=server.url, credentials=str(secret)))
    store.put_bytes("a", b"1")
    assert signature(server).startswith("SharedKey lab:")
    (secret / "accountKey").unlink()
    store.put_bytes("a", b"1")
    assert signature(server).startswith("SharedKey lab:"), "what was read last is used on while the Secret is gone"
    (secret / "sasToken").write_text("?sv=2025&sig=new")
    store.put_bytes("a", b"1")
    assert "authorization" not in server.asked[-1].headers
    assert "sig=new" in server.asked[-1].target


def test_a_secret_that_lacks_a_key_is_named_until_it_is_there(server: WebServer, secret: Path) -> None:
    store = CloudStore(AzureAddress("models", "lab", endpoint=server.url, credentials=str(secret)))
    (secret / "tenantID").write_text("t")
    (secret / "clientID").write_text("c")
    with pytest.raises(
        InvalidCredentials, match=r"Secret 'models-azure' is missing or lacks the key accountKey, sasToken, or tenantID"
    ):
        store.put_bytes("a", b"1")
    assert server.asked == []
    (secret / "accountKey").write_text("aHVzaA==")
    store.put_bytes("a", b"1")


def test_a_key_that_is_none_is_told_without_the_key(server: WebServer, secret: Path) -> None:
    (secret / "accountKey").write_text("!hush!")
    store = CloudStore(AzureAddress("models", "lab", endpoint=server.url, credentials=str(secret)))
    with pytest.raises(InvalidCredentials, match="correct the key accountKey") as caught:
        store.check()
    assert "hush" not in str(caught.value)
    google = secret.with_name("models-gcs")
    google.mkdir()
    (google / "serviceAccountKey").write_text("{hush")
    with pytest.raises(InvalidCredentials, match="correct the key serviceAccountKey") as caught:
        CloudStore(GcsAddress("models", credentials=str(google))).check()
    assert "hush" not in str(caught.value)


def test_what_a_secret_says_goes_before_what_the_pod_has(
    server: WebServer, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE"):
        monkeypatch.setenv(variable, "/nowhere")
    (secret / "sasToken").write_text("sv=2025&sig=mine")
    CloudStore(AzureAddress("models", "lab", endpoint=server.url, credentials=str(secret))).put_bytes("a", b"1")
    assert "sig=mine" in server.asked[-1].target


def test_the_account_is_in_the_path_unless_it_is_in_the_host(server: WebServer, secret: Path) -> None:
    (secret / "accountKey").write_text("aHVzaA==")
    CloudStore(AzureAddress("models", "lab", endpoint=server.url, credentials=str(secret))).put_bytes("a", b"1")
    assert server.asked[-1].target == "/lab/models/a"
    assert add_account("https://lab.blob.core.usgovcloudapi.net", "lab") == "https://lab.blob.core.usgovcloudapi.net"
    assert add_account("https://stack.example", "lab") == "https://stack.example/lab"


def test_a_token_in_an_address_is_never_told(server: WebServer, secret: Path) -> None:
    (secret / "sasToken").write_text("sv=2025&sig=hush")
    store = CloudStore(AzureAddress("models", "lab", endpoint=server.url, credentials=str(secret)))
    server.answer = lambda asked: (403, {}, b"no")
    for _ in range(2):
        with pytest.raises(StoreError) as caught:
            store.put_bytes("a", b"1")
        assert "hush" not in "".join(traceback.format_exception(caught.value))
        server.answer = lambda asked: (301, {}, b"")


def test_a_service_principal_needs_all_its_keys(secret: Path) -> None:
    address = AzureAddress("models", "lab", credentials=str(secret))
    for key in ("tenantID", "clientID", "clientSecret"):
        with pytest.raises(InvalidCredentials):
            read_credentials(address)
        (secret / key).write_text("x")
    make_cloud_client(address, read_credentials(address))


def test_authorities_that_are_missing_are_told(tmp_path: Path) -> None:
    with pytest.raises(StoreSettingsError, match=r"correct checkpoints.store.caBundle"):
        make_cloud_client(GcsAddress("models", ca_file=str(tmp_path / "ca.crt")), {})
