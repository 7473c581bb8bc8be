"""Credentials that expire, as a pod with the role of its service account gets them; versitygw takes what STS hands out.

versitygw has no STS, so a small server stands for it. Nor does it take session tokens, so that one gives none.
tests/unit/storage/s3/test_client.py shows that they are sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from e2e.bench.sync.sync_server import ACCESS_KEY, SECRET_KEY
from podtune.storage.address import S3Address
from podtune.storage.errors import InvalidCredentials, Unreachable
from podtune.storage.s3.store import S3Store
from tests.unit.storage.web_server import RecordedRequest, WebServer

ROLE = "arn:aws:iam::123456789012:role/trials"
SOON = timedelta(minutes=5)
"""The SDK asks for new credentials before each request once they have less than ten minutes left."""
_ASSUMED = """<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>{key}</AccessKeyId>
<SecretAccessKey>{secret}</SecretAccessKey><SessionToken></SessionToken>
<Expiration>{until}</Expiration></Credentials></AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>"""
_REFUSED = """<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>
<Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>"""


class TokenService:
    """Gives the credentials of the S3 server to whoever has the service account's present token."""

    def __init__(self) -> None:
        self.token = "first"
        self.lasts = SOON
        self.refusal: tuple[int, str, str] | None = None
        self.server = WebServer(self._answer)

    @property
    def tokens(self) -> list[str]:
        """Those that it was shown."""
        return [parse_qs(asked.body.decode())["WebIdentityToken"][0] for asked in self.server.asked]

    def _answer(self, asked: RecordedRequest) -> tuple[int, dict[str, str], bytes]:
        form = parse_qs(asked.body.decode())
        assert (form["Action"], form["RoleArn"]) == (["AssumeRoleWithWebIdentity"], [ROLE])
        if self.refusal is not None:
            status, code, message = self.refusal
            return status, {}, _REFUSED.format(code=code, message=message).encode()
        if form["WebIdentityToken"] != [self.token]:
            return 400, {}, _REFUSED.format(code="ExpiredTokenException", message="Token expired").encode()
        until = (datetime.now(UTC) + self.lasts).strftime("%Y-%m-%dT%H:%M:%SZ")
        return 200, {}, _ASSUMED.format(key=ACCESS_KEY, secret=SECRET_KEY, until=until).encode()


@pytest.fixture
def sts() -> Iterator[TokenService]:
    service = TokenService()
    yield service
    service.server.close()


@pytest.fixture
def token(tmp_path: Path) -> Path:
    """The file that the kubelet keeps up to date."""
    file = tmp_path / "token"
    file.write_text("first")
    return file


@pytest.fixture
def store(
    s3_server: tuple[str, Path], bucket: str, sts: TokenService, token: Path, monkeypatch: pytest.MonkeyPatch
) -> S3Store:
    """The bucket as an agent sees it that the webhook of EKS has given a role, and no Secret."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ROLE_ARN", ROLE)
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token))
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", sts.server.url)
    return S3Store(S3Address(bucket, "trials", s3_server[0]))


def test_a_role_is_taken_anew_before_it_expires_with_the_token_that_is_there_then(
    store: S3Store, sts: TokenService, token: Path
) -> None:
    store.put_bytes("trials/a", b"one")
    assert sts.tokens == ["first"]
    sts.token, sts.lasts = "second", timedelta(hours=1)
    token.write_text("second")
    for _ in range(3):
        assert store.get_bytes("trials/a", 10) == b"one"
    assert sts.tokens == ["first", "second"], "it is asked again once, and not for each request"


def test_who_gets_no_role_is_told_of_the_role_and_not_of_the_bucket(store: S3Store, sts: TokenService) -> None:
    sts.refusal = (403, "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity")
    with pytest.raises(InvalidCredentials) as caught:
        store.put_bytes("trials/a", b"one")
    assert "AWS STS does not give the pod's service account its role" in str(caught.value)
    assert "trust policy" in str(caught.value)
    sts.refusal = None
    store.put_bytes("trials/a", b"one")


def test_a_service_that_is_away_is_waited_for(store: S3Store, sts: TokenService) -> None:
    sts.refusal = (400, "IDPCommunicationError", "the identity provider does not answer")
    with pytest.raises(Unreachable, match="AWS STS is unavailable while"):
        store.put_bytes("trials/a", b"one")
