"""From an answer of S3 to a sentence that helps, and which answers are asked for again."""

import io
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders

from podtune.storage import errors
from podtune.storage.address import S3Address
from podtune.storage.patience import Patience
from podtune.storage.s3 import client as s3_client
from podtune.storage.s3.store import S3Store
from tests.unit.storage.web_server import Answer, RecordedRequest, WebServer


class Streamed(io.BytesIO):
    def stream(self) -> Iterator[bytes]:
        yield self.read()


@pytest.fixture
def server() -> Iterator[WebServer]:
    server = WebServer()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda self, context: 0.0)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


def store(server: WebServer, **options: Any) -> S3Store:
    return S3Store(S3Address("models", endpoint=server.url, **options))


def list_requests(server: WebServer) -> list[str]:
    """What the bucket was asked: an agent of another test may look for its operator at a port that it had before."""
    return [asked.target for asked in server.asked if asked.target.startswith("/models")]


def refusal(code: str, status: int = 400) -> tuple[int, dict[str, str], bytes]:
    return status, {}, f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()


@pytest.mark.parametrize(
    ("code", "status", "kind", "remedy"),
    [
        ("NoSuchBucket", 404, errors.BucketNotFound, "create it, or correct checkpoints.store.bucket"),
        ("NoSuchKey", 404, errors.NotFound, "has no such object"),
        ("InvalidAccessKeyId", 403, errors.InvalidCredentials, "name a Secret in checkpoints.store.credentialsSecret"),
        ("SignatureDoesNotMatch", 403, errors.InvalidCredentials, "Secret"),
        ("ExpiredToken", 400, errors.InvalidCredentials, "Secret"),
        ("AccessDenied", 403, errors.AccessDenied, "s3:PutObject"),
        ("PermanentRedirect", 301, errors.StoreSettingsError, "checkpoints.store.region"),
        ("RequestTimeTooSkewed", 403, errors.ClockSkewed, "set up NTP on this node"),
        ("SlowDown", 503, errors.Unreachable, "is unavailable"),
        ("InternalError", 500, errors.Unreachable, "is unavailable"),
        ("XAmzContentSHA256Mismatch", 400, errors.Unreachable, "is unavailable"),
        ("QuotaExceeded", 400, errors.RequestRejected, "QuotaExceeded"),
    ],
)
def test_a_refusal_becomes_a_sentence_with_bucket_server_and_remedy(
    server: WebServer, code: str, status: int, kind: type[errors.StoreError], remedy: str
) -> None:
    server.answer = lambda asked: refusal(code, status)
    with pytest.raises(kind) as caught:
        store(server).put_bytes("x", b"")
    assert remedy in str(caught.value)
    assert f"'models' at {server.url}" in str(caught.value)
    assert caught.value.permanent is not issubclass(kind, errors.Unreachable)
    assert caught.value.reason == kind.__name__
    assert len(list_requests(server)) == (s3_client.S3_PATIENCE.tries if status >= 500 else 1)


def test_whoever_has_little_patience_is_told_soon(server: WebServer) -> None:
    address = S3Address("models", endpoint=server.url)
    server.answer = lambda asked: refusal("SlowDown", 503)
    with pytest.raises(errors.Unreachable):
        S3Store(address, Patience(connect=5, silence=60, tries=2)).check()
    assert len(list_requests(server)) == 2
    silence = threading.Event()
    server.answer = lambda asked: (200 if silence.wait(60) else 500, {}, b"")
    with pytest.raises(errors.Unreachable, match="does not answer"):
        S3Store(address, Patience(connect=5, silence=0.05, tries=2)).check()
    silence.set()


@pytest.mark.parametrize("answer", [(0, {}, b""), (503, {}, b"<html>down"), refusal("SlowDown", 503)])
def test_trouble_that_passes_is_not_noticed(server: WebServer, answer: Answer) -> None:
    answers = [answer, answer]
    server.answer = lambda asked: answers.pop() if answers else (200, {}, b"")
    store(server).put_bytes("x", b"content")
    assert [asked.body for asked in server.asked if answer[0]][-1:] in ([], [b"content"])
    assert server.asked[-1].body == b"content"


def test_an_answer_that_is_cut_off_is_no_answer(server: WebServer) -> None:
    server.answer = lambda asked: (200, {"Content-Length": "100"}, b"half")
    with pytest.raises(errors.Unreachable, match="does not answer"):
        b"".join(store(server).get("x"))
    with pytest.raises(errors.Unreachable, match="does not answer"):
        store(server).get_bytes("x", 1000)


def test_a_name_that_does_not_resolve_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> object:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    with pytest.raises(errors.Unreachable) as caught:
        S3Store(S3Address("models", endpoint="http://minio.nowhere:9000")).check()
    assert "the name minio.nowhere does not resolve; correct checkpoints.store.endpoint, or look at" in str(
        caught.value
    )


def test_a_listing_that_is_no_xml_is_no_answer(server: WebServer) -> None:
    server.answer = lambda asked: (200, {}, b"<html>")
    with pytest.raises(errors.Unreachable, match="is unavailable"):
        list(store(server).list(""))


def test_credentials_that_were_refused_are_looked_for_again(server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answer = lambda asked: refusal("InvalidAccessKeyId", 403)
    bucket = store(server)
    with pytest.raises(errors.InvalidCredentials):
        bucket.check()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "NEW")
    with pytest.raises(errors.InvalidCredentials):
        bucket.check()
    assert "Credential=NEW/" in server.asked[-1].headers["authorization"]


@pytest.mark.parametrize(("listed", "kind"), [("", errors.NotFound), ("a/manifest.json", errors.AccessDenied)])
def test_what_is_not_there_is_told_from_what_may_not_be_read(
    server: WebServer, listed: str, kind: type[errors.StoreError]
) -> None:
    """S3 refuses both to somebody who may list below a prefix alone."""

    def answer(asked: RecordedRequest) -> Answer:
        if "list-type=2" not in asked.target:
            return refusal("AccessDenied", 403)
        content = f"<Contents><Key>{listed}</Key></Contents>" if listed else ""
        return 200, {}, f"<ListBucketResult>{content}</ListBucketResult>".encode()

    server.answer = answer
    with pytest.raises(kind):
        store(server).get_bytes("a/manifest.json", 100)
    with pytest.raises(kind):
        list(store(server).get("a/manifest.json"))


def test_where_neither_reading_nor_listing_is_allowed_the_refusal_of_reading_is_told(server: WebServer) -> None:
    server.answer = lambda asked: refusal("AccessDenied", 403)
    with pytest.raises(errors.AccessDenied, match="does not allow reading a"):
        store(server).get_bytes("a", 100)


def test_a_range_is_cut_out_where_the_server_sends_everything(server: WebServer) -> None:
    server.answer = lambda asked: (200, {}, bytes(range(100)))
    assert b"".join(store(server).get("x", 10, 20)) == bytes(range(10, 30))


def test_an_object_is_encrypted_with_the_key_that_was_named(server: WebServer) -> None:
    server.answer = lambda asked: (200, {}, b"<x><UploadId>1</UploadId></x>")
    bucket = store(server, kms_key="key-1")
    bucket.put_bytes("x", b"")
    bucket.start_upload("x", 5 << 20)
    for asked in server.asked:
        assert asked.headers["x-amz-server-side-encryption"] == "aws:kms"
        assert asked.headers["x-amz-server-side-encryption-aws-kms-key-id"] == "key-1"


class TestChecksums:
    @pytest.mark.parametrize("setting", ["whenRequired", "whenSupported"])
    def test_are_sent_when_they_are_asked_for(self, server: WebServer, setting: str) -> None:
        store(server, wire_checksums=setting).put_bytes("x", b"")
        sent = server.asked[0].headers.get("x-amz-checksum-sha256")
        assert sent == ("47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=" if setting == "whenSupported" else None)

    def test_are_left_out_for_a_store_that_does_not_know_them(self, server: WebServer) -> None:
        server.answer = lambda asked: (
            refusal("NotImplemented", 501) if "x-amz-checksum-sha256" in asked.headers else (200, {}, b"")
        )
        bucket = store(server, wire_checksums="whenSupported")
        bucket.put_bytes("x", b"1")
        bucket.put_bytes("y", b"2")
        assert [(asked.target, "x-amz-checksum-sha256" in asked.headers) for asked in server.asked] == [
            ("/models/x", True), ("/models/x", False), ("/models/y", False),
        ]  # fmt: skip

    def test_are_not_given_up_for_another_reason(self, server: WebServer) -> None:
        server.answer = lambda asked: refusal("QuotaExceeded")
        bucket = store(server, wire_checksums="whenSupported")
        with pytest.raises(errors.RequestRejected, match="QuotaExceeded"):
            bucket.put_bytes("x", b"1")
        server.answer = lambda asked: (200, {}, b"")
        bucket.put_bytes("x", b"1")
        assert "x-amz-checksum-sha256" in server.asked[-1].headers


class TestCompletion:
    def test_an_error_that_comes_with_200_is_one(self, server: WebServer) -> None:
        server.answer = lambda asked: (200, {}, b"<x><UploadId>1</UploadId></x>")
        bucket = store(server)
        upload = bucket.start_upload("x", 5 << 20)
        server.answer = lambda asked: (200, {}, b"<?xml version='1.0'?><Error><Code>InternalError</Code></Error>")
        with pytest.raises(errors.Unreachable):
            bucket.complete_upload(upload, [])

    def test_is_believed_where_only_its_answer_was_lost(self, server: WebServer) -> None:
        listing = b"<r><Contents><Key>x</Key></Contents></r>"
        server.answer = lambda asked: (200, {}, b"<x><UploadId>1</UploadId></x>")
        bucket = store(server)
        upload = bucket.start_upload("x", 5 << 20)
        answers = [(0, {}, b""), refusal("NoSuchUpload", 404), (200, {}, listing)]
        server.answer = lambda asked: answers.pop(0)
        bucket.complete_upload(upload, [])
        assert answers == []


class TestDeletion:
    def test_of_what_somebody_else_has_just_deleted_succeeds(self, server: WebServer) -> None:
        gone = b"<DeleteResult><Error><Key>x</Key><Code>NoSuchKey</Code></Error></DeleteResult>"
        server.answer = lambda asked: (200, {}, gone)
        store(server).delete(["x"])
        assert len(list_requests(server)) == 1

    def test_that_is_refused_for_one_object_names_it(self, server: WebServer) -> None:
        refused = b"<DeleteResult><Error><Key>y</Key><Code>AccessDenied</Code></Error></DeleteResult>"
        server.answer = lambda asked: (200, {}, refused)
        with pytest.raises(errors.AccessDenied, match=r"deleting y .AccessDenied.*s3:DeleteObject"):
            store(server).delete(["x", "y"])


@pytest.mark.parametrize(
    ("address", "url"),
    [
        (S3Address("models", region="eu-1"), "https://models.s3.eu-1.amazonaws.com/x"),
        (S3Address("my.models", region="eu-1"), "https://s3.eu-1.amazonaws.com/my.models/x"),
        (S3Address("models", region="eu-1", addressing="Path"), "https://s3.eu-1.amazonaws.com/models/x"),
        (S3Address("models", endpoint="http://s3:9000"), "http://s3:9000/models/x"),
        (S3Address("models", endpoint="http://s3:9000", addressing="VirtualHost"), "http://models.s3:9000/x"),
    ],
)
def test_the_bucket_is_named_in_the_host_or_in_the_path(address: S3Address, url: str) -> None:
    asked = []

    def answer(request: AWSPreparedRequest, **_: object) -> AWSResponse:
        asked.append(request.url)
        return AWSResponse(request.url, 200, HTTPHeaders(), Streamed())

    client = s3_client.make_client(address)
    client.meta.events.register("before-send.s3", cast("Callable[..., None]", answer))
    client.put_object(Bucket=address.bucket, Key="x")
    assert asked == [url]
