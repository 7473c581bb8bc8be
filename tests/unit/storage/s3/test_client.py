"""What the AWS SDK sends of content, without a server."""

import hashlib
import io
import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, cast

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders

from podtune.storage.address import S3Address
from podtune.storage.content import PIECE, BytesContent, Content, FileSlice
from podtune.storage.s3.client import ContentStream, make_client
from podtune.storage.s3.store import S3Store
from tests.unit.storage.web_server import WebServer

DATA = bytes(range(256)) * (3 * PIECE // 256)


class Raw(io.BytesIO):
    def stream(self, **_: object) -> Iterator[bytes]:
        yield from self


class Wire:
    """Takes requests, and answers the first ones with the statuses that are given."""

    def __init__(self, *statuses: int) -> None:
        self.requests: list[AWSPreparedRequest] = []
        self.bodies: list[list[bytes]] = []
        self._statuses = list(statuses)

    def __call__(self, request: AWSPreparedRequest, **_: object) -> AWSResponse:
        self.requests.append(request)
        self.bodies.append([bytes(piece) for piece in cast("Iterable[bytes]", request.body)])
        return AWSResponse(request.url, self._statuses.pop(0) if self._statuses else 200, HTTPHeaders(), Raw())


def put(wire: Wire, content: Content, endpoint: str = "http://s3.example") -> None:
    client = make_client(S3Address("bucket", endpoint=endpoint))
    client.meta.events.register_last("before-send.s3", cast("Callable[..., None]", wire))
    client.put_object(Bucket="bucket", Key="key", Body=cast("IO[bytes]", ContentStream(content)))


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "file").write_bytes(DATA)
    with (tmp_path / "file").open("rb") as file:
        yield file.fileno()


@pytest.mark.parametrize("endpoint", ["http://s3.example", "https://s3.example"])
def test_content_is_signed_with_its_hash_and_read_once_to_be_sent(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, reads, wire = BytesContent(DATA), [], Wire()

    def pieces() -> Iterator[bytes]:
        reads.append(len(DATA))
        yield DATA

    monkeypatch.setattr(content, "read_pieces", pieces)
    put(wire, content, endpoint)
    (request,) = wire.requests
    assert request.headers["X-Amz-Content-SHA256"] == hashlib.sha256(DATA).hexdigest().encode()
    authorization: object = request.headers["Authorization"]
    assert isinstance(authorization, bytes)
    assert authorization.startswith(b"AWS4-HMAC-SHA256 Credential=key/")
    assert reads == [len(DATA)]


def test_content_is_sent_by_the_piece_and_without_asking_first(file: int) -> None:
    wire = Wire()
    put(wire, FileSlice(file, 0, len(DATA)))
    assert [len(piece) for piece in wire.bodies[0]] == [PIECE] * 3
    assert wire.requests[0].headers["Content-Length"] == str(len(DATA))
    assert "Expect" not in wire.requests[0].headers


def test_each_try_sends_the_content_from_the_front(file: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    wire = Wire(503, 503)
    put(wire, FileSlice(file, 0, len(DATA)))
    assert [b"".join(body) == DATA for body in wire.bodies] == [True] * 3


ASSUMED = b"""<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>of-the-role</AccessKeyId>
<SecretAccessKey>secret</SecretAccessKey><SessionToken>session</SessionToken>
<Expiration>2999-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>"""


@pytest.fixture
def server() -> Iterator[WebServer]:
    server = WebServer()
    yield server
    server.close()


def test_times_in_answers_are_not_read(server: WebServer) -> None:
    server.answer = lambda _: (200, {"Last-Modified": "never"}, b"content")
    assert b"".join(S3Store(S3Address("bucket", endpoint=server.url)).get("key")) == b"content"


def test_the_role_of_a_pods_service_account_is_used_until_it_expires(
    server: WebServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("token")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/trials")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
    server.answer = lambda asked: (200, {}, ASSUMED if b"AssumeRoleWithWebIdentity" in asked.body else b"")
    store = S3Store(S3Address("bucket", endpoint=server.url))
    for key in ("a", "b"):
        store.put_bytes(key, b"content")
    assert [asked.method for asked in server.asked] == ["POST", "PUT", "PUT"]
    for put in server.asked[1:]:
        assert "Credential=of-the-role/" in put.headers["authorization"]
        assert put.headers["x-amz-security-token"] == "session"


def test_credentials_of_eks_pod_identity_are_used_with_the_token_that_is_there_now(
    server: WebServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    token, expires = tmp_path / "eks-pod-identity-token", datetime.now(UTC) + timedelta(minutes=5)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{server.url}/v1/credentials")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(token))
    given = {"AccessKeyId": "of-the-pod", "SecretAccessKey": "secret", "Token": "session"}
    body = json.dumps({**given, "Expiration": expires.strftime("%Y-%m-%dT%H:%M:%SZ")}).encode()
    server.answer = lambda asked: (200, {}, body if asked.target == "/v1/credentials" else b"")
    store = S3Store(S3Address("bucket", endpoint=server.url))
    for present in ("first", "second"):
        token.write_text(present)
        store.put_bytes("a", b"content")
    puts = [asked for asked in server.asked if asked.method == "PUT"]
    assert [put.headers["x-amz-security-token"] for put in puts] == ["session"] * 2
    assert all("Credential=of-the-pod/" in put.headers["authorization"] for put in puts)
    shown = [asked.headers["authorization"] for asked in server.asked if asked.method == "GET"]
    assert (shown[0], shown[-1]) == ("first", "second")
