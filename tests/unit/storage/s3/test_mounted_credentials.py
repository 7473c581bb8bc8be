"""Credentials of a mounted Secret: those that it holds when a request is made."""

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from podtune.storage.address import S3Address
from podtune.storage.errors import InvalidCredentials
from podtune.storage.s3.mounted_credentials import MountedCredentials
from podtune.storage.s3.store import S3Store
from tests.unit.storage.web_server import RecordedRequest, WebServer

EXPIRED = b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"


class Secret:
    """A Secret as the kubelet mounts it: a link to the directory of its latest version."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._versions = 0
        directory.mkdir()

    def write(self, **keys: str) -> None:
        self._versions += 1
        version = self.directory / f"..{self._versions}"
        version.mkdir()
        for key, value in keys.items():
            (version / key).write_text(value)
            if not (self.directory / key).is_symlink():
                (self.directory / key).symlink_to(f"..data/{key}")
        (self.directory / "..next").symlink_to(version.name)
        (self.directory / "..next").replace(self.directory / "..data")


@pytest.fixture(autouse=True)
def nodes_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the SDK would find by itself, and must not."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-node")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-the-node")


@pytest.fixture
def server() -> Iterator[WebServer]:
    server = WebServer()
    yield server
    server.close()


@pytest.fixture
def secret(tmp_path: Path) -> Secret:
    return Secret(tmp_path / "podtune-s3")


@pytest.fixture
def store(server: WebServer, secret: Secret) -> S3Store:
    return S3Store(S3Address("models", endpoint=server.url, credentials=str(secret.directory)))


def used(asked: RecordedRequest) -> str:
    return asked.headers["authorization"].split("Credential=")[1].split("/")[0]


def test_a_renewed_secret_is_used_by_the_next_request(store: S3Store, secret: Secret, server: WebServer) -> None:
    secret.write(accessKeyID="first", secretAccessKey="a", sessionToken="one")
    store.put_bytes("a", b"")
    secret.write(accessKeyID="second", secretAccessKey="b", sessionToken="two")
    store.put_bytes("b", b"")
    secret.write(accessKeyID="third\n", secretAccessKey="c\n")  # as --from-file leaves them
    store.put_bytes("c", b"")
    assert [used(asked) for asked in server.asked] == ["first", "second", "third"]
    assert [asked.headers.get("x-amz-security-token") for asked in server.asked] == ["one", "two", None]


def test_keys_of_two_versions_are_never_used_together(secret: Secret) -> None:
    secret.write(secretAccessKey="a", sessionToken="one")
    slow = secret.directory / "..1" / "accessKeyID"
    os.mkfifo(slow)
    (secret.directory / "accessKeyID").symlink_to("..data/accessKeyID")

    def renew_meanwhile() -> None:
        with slow.open("w") as pipe:  # from here on the first key is being read
            secret.write(accessKeyID="second", secretAccessKey="b", sessionToken="two")
            pipe.write("first")

    renewal = threading.Thread(target=renew_meanwhile, daemon=True)
    renewal.start()
    credentials = MountedCredentials(secret.directory)
    assert tuple(credentials.get_frozen_credentials())[:3] == ("first", "a", "one")
    renewal.join()
    assert tuple(credentials.get_frozen_credentials())[:3] == ("second", "b", "two")


def test_credentials_that_were_refused_are_read_again(store: S3Store, secret: Secret, server: WebServer) -> None:
    server.answer = lambda asked: (400, {}, EXPIRED) if used(asked) == "old" else (200, {}, b"")
    secret.write(accessKeyID="old", secretAccessKey="a", sessionToken="one")
    with pytest.raises(InvalidCredentials, match="in Secret 'podtune-s3'; running agents will read them") as caught:
        store.put_bytes("a", b"")
    assert "sessionToken" in str(caught.value)
    secret.write(accessKeyID="new", secretAccessKey="b", sessionToken="two")
    store.put_bytes("a", b"")


def test_a_secret_that_is_missing_is_named_and_nobody_elses_credentials_are_used(
    store: S3Store, secret: Secret, server: WebServer
) -> None:
    with pytest.raises(InvalidCredentials, match="Secret 'podtune-s3' is missing or lacks the key accessKeyID; create"):
        store.put_bytes("a", b"")
    secret.write(accessKeyID="key")
    with pytest.raises(InvalidCredentials, match="lacks the key secretAccessKey"):
        store.put_bytes("a", b"")
    # An agent of another test may still look for its operator at this port.
    assert not [asked for asked in server.asked if asked.headers["authorization"].startswith("AWS4")]
    secret.write(accessKeyID="key", secretAccessKey="a")
    store.put_bytes("a", b"")
    assert [used(asked) for asked in server.asked] == ["key"]


def test_what_was_read_before_the_secret_was_deleted_is_used_until_it_is_refused(
    store: S3Store, secret: Secret, server: WebServer
) -> None:
    secret.write(accessKeyID="key", secretAccessKey="a")
    store.put_bytes("a", b"")
    secret.write()
    store.put_bytes("b", b"")
    server.answer = lambda asked: (400, {}, EXPIRED)
    with pytest.raises(InvalidCredentials, match="refuses the credentials"):
        store.put_bytes("c", b"")
    with pytest.raises(InvalidCredentials, match="Secret 'podtune-s3' is missing"):
        store.put_bytes("c", b"")


def test_keys_that_can_not_be_sent_are_named(store: S3Store, secret: Secret) -> None:
    secret.write(accessKeyID="key\nInjected: yes", secretAccessKey="a")
    with pytest.raises(InvalidCredentials, match="the key accessKeyID in Secret 'podtune-s3' contains characters"):
        store.put_bytes("a", b"")


def test_files_that_no_kubelet_has_mounted_are_read_too(store: S3Store, secret: Secret, server: WebServer) -> None:
    shutil.rmtree(secret.directory)
    secret.directory.mkdir()
    (secret.directory / "accessKeyID").write_text("plain")
    (secret.directory / "secretAccessKey").write_text("a")
    store.put_bytes("a", b"")
    assert [used(asked) for asked in server.asked] == ["plain"]
