"""Where credentials are found."""

import json
from datetime import UTC, datetime

import pytest
from web_server import WebServer

from podtune.storage.s3_credentials import CredentialSource, NoCredentials
from podtune.storage.s3_signature import Credentials

END = "2026-03-01T12:00:00Z"
SECONDS = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()
JSON = json.dumps({"AccessKeyId": "AKID", "SecretAccessKey": "secret", "Token": "token", "Expiration": END}).encode()
XML = f"""<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>AKID</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>
<SessionToken>token</SessionToken><Expiration>{END}</Expiration></Credentials></AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>""".encode()
TEMPORARY = Credentials("AKID", "secret", "token", SECONDS)


@pytest.fixture
def server():
    server = WebServer()
    yield server
    server.close()


def source(environ, now=SECONDS - 3600):
    return CredentialSource("eu-1", {"AWS_EC2_METADATA_DISABLED": "true", **environ}, lambda: now)


def test_a_secret_comes_first(tmp_path):
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_ROLE_ARN": "x"}
    assert source(keys).get() == Credentials("a", "b")
    assert source(keys | {"AWS_SESSION_TOKEN": "t"}).get() == Credentials("a", "b", "t")


def test_the_service_accounts_role_is_assumed_with_its_token(server, tmp_path):
    (tmp_path / "token").write_text("jwt\n")
    server.answer = lambda asked: (200, {}, XML)
    found = source({
        "AWS_ROLE_ARN": "arn:aws:iam::1:role/tuning", "AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token"),
        "AWS_ENDPOINT_URL_STS": server.url,
    }).get()  # fmt: skip
    assert found == TEMPORARY
    (asked,) = server.asked
    assert asked.method == "POST"
    assert b"Action=AssumeRoleWithWebIdentity" in asked.body
    assert b"RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Ftuning" in asked.body
    assert b"WebIdentityToken=jwt" in asked.body


def test_pod_identity_is_asked_with_its_token(server, tmp_path):
    (tmp_path / "token").write_text("jwt")
    server.answer = lambda asked: (200, {}, JSON)
    found = source({
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{server.url}/v1/credentials",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(tmp_path / "token"),
    }).get()  # fmt: skip
    assert found == TEMPORARY
    assert (server.asked[0].target, server.asked[0].headers["authorization"]) == ("/v1/credentials", "jwt")


def test_the_nodes_role_is_the_last_resort(server):
    answers = {"/latest/api/token": b"session", "/latest/meta-data/iam/security-credentials/": b"node-role\n"}
    server.answer = lambda asked: (200, {}, answers.get(asked.target, JSON))
    environ = {"AWS_EC2_METADATA_DISABLED": "false", "AWS_EC2_METADATA_SERVICE_ENDPOINT": server.url}
    assert source(environ).get() == TEMPORARY
    assert server.asked[-1].target.endswith("/node-role")
    assert server.asked[-1].headers["x-aws-ec2-metadata-token"] == "session"


def test_temporary_credentials_are_renewed_before_they_end_and_after_a_refusal(server):
    server.answer = lambda asked: (200, {}, JSON)
    now = [SECONDS - 3600]
    found = CredentialSource("eu-1", {"AWS_CONTAINER_CREDENTIALS_FULL_URI": server.url}, lambda: now[0])
    found.get()
    found.get()
    assert len(server.asked) == 1
    now[0] = SECONDS - 200
    found.get()
    assert len(server.asked) == 2
    now[0] = SECONDS - 3600
    found.forget()
    found.get()
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    "answer", [(403, {}, b"no"), (200, {}, b"[]"), (200, {}, b"{}"), (200, {}, b"<"), (0, {}, b"")]
)
def test_a_service_that_gives_none_is_named(server, answer):
    server.answer = lambda asked: answer
    with pytest.raises(NoCredentials, match="has failed"):
        source({"AWS_CONTAINER_CREDENTIALS_FULL_URI": server.url}).get()


def test_none_at_all_is_told():
    with pytest.raises(NoCredentials, match="neither a Secret"):
        source({}).get()
