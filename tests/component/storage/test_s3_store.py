"""`S3Store` against a real S3 server."""

import socket
from datetime import timedelta
from pathlib import Path

import pytest
from botocore.compat import get_current_datetime

from e2e.bench.sync.sync_server import ACCESS_KEY, SECRET_KEY
from podtune.agent.checkpoints.lazy_store import check_elsewhere
from podtune.storage.address import S3Address
from podtune.storage.errors import BucketNotFound, ClockSkewed, InvalidCredentials, Unreachable
from podtune.storage.patience import Patience
from podtune.storage.s3.store import S3Store
from podtune.testing.stores import MultipartStoreConformance


class TestS3Store(MultipartStoreConformance):
    @pytest.fixture
    def store(self, s3_server: tuple[str, Path], bucket: str) -> S3Store:
        return S3Store(S3Address(bucket, endpoint=s3_server[0]))


class TestS3StoreWithChecksums(MultipartStoreConformance):
    @pytest.fixture
    def store(self, s3_server: tuple[str, Path], bucket: str) -> S3Store:
        return S3Store(S3Address(bucket, endpoint=s3_server[0], wire_checksums="whenSupported"))


def test_a_missing_bucket_is_named_with_the_server_and_the_remedy(s3_server: tuple[str, Path]) -> None:
    store = S3Store(S3Address("no-such-bucket", endpoint=s3_server[0]))
    with pytest.raises(
        BucketNotFound, match=rf"'no-such-bucket' at {s3_server[0]} does not exist; create it"
    ) as caught:
        store.check()
    assert caught.value.permanent
    with pytest.raises(BucketNotFound):
        store.put_bytes("a", b"")


@pytest.mark.parametrize(
    ("variable", "value"), [("AWS_ACCESS_KEY_ID", "nobody"), ("AWS_SECRET_ACCESS_KEY", "wrong"), (None, None)]
)
def test_wrong_and_missing_credentials_are_told(
    s3_server: tuple[str, Path], bucket: str, monkeypatch: pytest.MonkeyPatch, variable: str | None, value: str | None
) -> None:
    if variable is not None and value is not None:
        monkeypatch.setenv(variable, value)
    else:
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    store = S3Store(S3Address(bucket, endpoint=s3_server[0]))
    with pytest.raises(InvalidCredentials, match="credentials") as caught:
        store.check()
    assert caught.value.permanent
    with pytest.raises(InvalidCredentials):
        store.put_bytes("a", b"")


def test_a_wrong_clock_is_told_from_wrong_credentials(
    s3_server: tuple[str, Path], bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK signs its requests as on a machine whose clock is an hour behind."""
    behind = get_current_datetime() - timedelta(hours=1)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: behind)
    with pytest.raises(ClockSkewed, match=f"'{bucket}' at .* finds that the clock here is wrong .* set up NTP"):
        S3Store(S3Address(bucket, endpoint=s3_server[0])).check()


def test_credentials_that_were_mended_are_used(
    s3_server: tuple[str, Path], bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    store = S3Store(S3Address(bucket, endpoint=s3_server[0]))
    with pytest.raises(InvalidCredentials):
        store.put_bytes("a", b"")
    monkeypatch.undo()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    store.put_bytes("a", b"")
    assert list(store.list("")) == ["a"]


def test_a_secret_that_was_corrected_reaches_an_agent_that_runs(
    s3_server: tuple[str, Path], bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")  # nothing but the mounted Secret may help
    secret = tmp_path / "podtune-s3"
    secret.mkdir()
    (secret / "accessKeyID").write_text(ACCESS_KEY)
    (secret / "secretAccessKey").write_text("wrong")
    address = S3Address(bucket, endpoint=s3_server[0], credentials=str(secret))
    store = S3Store(address)
    with pytest.raises(InvalidCredentials, match=r"correct the keys .* in Secret 'podtune-s3'"):
        store.check()
    with pytest.raises(InvalidCredentials):
        check_elsewhere(address)
    (secret / "secretAccessKey").write_text(SECRET_KEY)
    store.put_bytes("a", b"")
    check_elsewhere(address)
    (secret / "secretAccessKey").unlink()  # deleted meanwhile: what was read before is good still
    assert list(store.list("")) == ["a"]


def test_a_server_that_is_not_there_is_unreachable() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # nobody else is given the port meanwhile, and nobody listens there
        port = silent.getsockname()[1]
        store = S3Store(
            S3Address("bucket", endpoint=f"http://127.0.0.1:{port}"), Patience(connect=5, silence=5, tries=1)
        )
        with pytest.raises(Unreachable, match=f"127.0.0.1:{port} does not answer") as caught:
            store.check()
    assert not caught.value.permanent
