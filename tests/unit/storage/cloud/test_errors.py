"""From an answer of Google or Azure to a sentence that helps, and which answers are asked for again."""

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from podtune.storage import errors
from podtune.storage.address import AzureAddress, GcsAddress
from podtune.storage.cloud import client as cloud_client
from podtune.storage.cloud.store import CloudStore
from podtune.storage.patience import Patience
from tests.unit.storage.web_server import WebServer

WITHOUT_TOKENS = '{"disable_oauth": true, "client_email": "", "private_key": "", "private_key_id": ""}'


@pytest.fixture
def server() -> Iterator[WebServer]:
    server = WebServer(answers_head=True)
    yield server
    server.close()


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cloud_client._RETRY, "backoff", {"init_backoff": timedelta(milliseconds=1)})


@pytest.fixture
def google(server: WebServer, tmp_path: Path) -> CloudStore:
    secret = tmp_path / "models-gcs"
    secret.mkdir()
    (secret / "serviceAccountKey").write_text(WITHOUT_TOKENS)
    return CloudStore(GcsAddress("models", endpoint=server.url, credentials=str(secret)))


@pytest.fixture
def azure(server: WebServer, tmp_path: Path) -> CloudStore:
    secret = tmp_path / "models-azure"
    secret.mkdir()
    (secret / "accountKey").write_text("aHVzaA==")
    return CloudStore(AzureAddress("models", "lab", endpoint=server.url, credentials=str(secret)))


def refuse(server: WebServer, status: int, code: str) -> None:
    body = f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()
    server.answer = lambda asked: (status, {}, body)


OPERATIONS: dict[str, Callable[[CloudStore], Any]] = {
    "check": lambda store: store.check(),
    "get": lambda store: next(store.get("a")),
    "get_bytes": lambda store: store.get_bytes("a", 10),
    "put": lambda store: store.put_bytes("a", b"1"),
    "list": lambda store: list(store.list("p/")),
    "delete": lambda store: store.delete(["a"]),
}


Case = tuple[str, int, str, type[errors.StoreError], str]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    "case",
    [
        ("google", 404, "NoSuchBucket", errors.BucketNotFound, "create it, or correct checkpoints.store.gcs.bucket"),
        ("google", 401, "AuthenticationRequired", errors.InvalidCredentials, "key serviceAccountKey in Secret 'models"),
        ("google", 403, "AccessDenied", errors.AccessDenied, "roles/storage.objectUser"),
        ("google", 503, "ServiceUnavailable", errors.Unreachable, "is unavailable"),
        ("google", 429, "SlowDown", errors.Unreachable, "is unavailable"),
        ("google", 400, "InvalidArgument", errors.RequestRejected, "InvalidArgument"),
        ("azure", 404, "ContainerNotFound", errors.BucketNotFound, "correct checkpoints.store.azure.container"),
        ("azure", 403, "AuthenticationFailed", errors.InvalidCredentials, "key accountKey, sasToken, or"),
        ("azure", 401, "InvalidAuthenticationInfo", errors.InvalidCredentials, "in Secret 'models-azure'"),
        ("azure", 403, "AuthorizationPermissionMismatch", errors.AccessDenied, "Storage Blob Data Contributor"),
        ("azure", 409, "LeaseAlreadyPresent", errors.Unreachable, "is unavailable"),
        ("azure", 500, "InternalError", errors.Unreachable, "is unavailable"),
        ("azure", 507, "Full", errors.OutOfSpace, "is full"),
    ],
)
def test_answers_become_sentences(
    request: pytest.FixtureRequest, server: WebServer, operation: str, case: Case
) -> None:
    kind, status, code, raised, said = case
    store = request.getfixturevalue(kind)
    refuse(server, status, code)
    with pytest.raises(raised, match="models") as caught:
        OPERATIONS[operation](store)
    assert said in str(caught.value)
    assert type(caught.value) is raised, "a refusal never passes for a missing object"


@pytest.mark.parametrize("kind", ["google", "azure"])
def test_a_missing_object_is_not_found_and_told_from_a_missing_bucket(
    request: pytest.FixtureRequest, server: WebServer, kind: str
) -> None:
    store = request.getfixturevalue(kind)
    refuse(server, 404, "NoSuchKey")
    with pytest.raises(errors.NotFound):
        next(store.get("a"))
    server.answer = lambda asked: (
        (404, {}, b"") if asked.method == "HEAD" else (404, {}, b"<Code>ContainerNotFound</Code>")
    )
    with pytest.raises(errors.BucketNotFound):
        store.exists("a")


@pytest.mark.parametrize("kind", ["google", "azure"])
def test_what_fails_for_a_while_is_asked_for_again_a_few_times(
    request: pytest.FixtureRequest, server: WebServer, kind: str
) -> None:
    store = request.getfixturevalue(kind)
    server.answer = lambda asked: (503, {}, b"") if len(server.asked) < 3 else (201, {"ETag": '"1"'}, b"")
    store.put_bytes("a", b"1")
    assert len(server.asked) == 3
    refuse(server, 503, "ServiceUnavailable")
    server.asked.clear()
    with pytest.raises(errors.Unreachable):
        store.put_bytes("a", b"1")
    assert len(server.asked) == cloud_client.CLOUD_PATIENCE.tries


@pytest.mark.parametrize("kind", ["google", "azure"])
def test_a_server_that_is_gone_may_come_back(request: pytest.FixtureRequest, server: WebServer, kind: str) -> None:
    store = request.getfixturevalue(kind)
    server.close()
    for ask in OPERATIONS.values():
        with pytest.raises(errors.Unreachable, match="does not answer") as caught:
            ask(store)
        assert not caught.value.permanent
        assert "Debug source" not in str(caught.value)


def test_without_a_secret_or_an_identity_the_remedy_is_named(
    server: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/key.json")
    with pytest.raises(errors.InvalidCredentials, match=r"name a Secret in checkpoints\.store\.credentialsSecret"):
        CloudStore(GcsAddress("models", endpoint=server.url)).check()


def test_whoever_has_little_patience_is_told_soon(server: WebServer, google: CloudStore) -> None:
    hasty = CloudStore(google._address, Patience(connect=5, silence=0.05, tries=2))
    server.answer = lambda asked: (503, {}, b"")
    with pytest.raises(errors.Unreachable):
        hasty.check()
    assert len(server.asked) == 2
    silence = threading.Event()
    server.answer = lambda asked: (200 if silence.wait(60) else 500, {}, b"")
    with pytest.raises(errors.Unreachable, match="does not answer"):
        hasty.check()
    silence.set()
