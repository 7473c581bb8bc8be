"""Our signatures against those of the AWS SDK."""

from datetime import UTC, datetime
from urllib.parse import quote

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as SdkCredentials
from hypothesis import given, settings
from hypothesis import strategies as st

from podtune.storage.s3_signature import Credentials, Request, signed

NOW = datetime(2026, 3, 1, 12, 30, 15, tzinfo=UTC)
SHA256 = "a" * 64


def sign_by_sdk(request, credentials, region, monkeypatch):
    frozen = type("Frozen", (datetime,), {"utcnow": classmethod(lambda cls: NOW.replace(tzinfo=None))})
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda remove_tzinfo=True: frozen.utcnow(), raising=False)
    asked = AWSRequest(
        request.method, f"https://{request.host}{quote(request.path, safe='/~')}", dict(request.headers),
        params=dict(request.query),
    )  # fmt: skip
    asked.context = {"timestamp": "20260301T123015Z", "client_config": None}
    asked.headers["X-Amz-Content-SHA256"] = request.sha256
    asked.headers["X-Amz-Date"] = "20260301T123015Z"
    if credentials.token:
        asked.headers["X-Amz-Security-Token"] = credentials.token
    auth = S3SigV4Auth(SdkCredentials(credentials.access_key, credentials.secret_key, credentials.token), "s3", region)
    canonical = auth.canonical_request(asked)
    string = auth.string_to_sign(asked, canonical)
    return auth.signature(string, asked)


keys = st.text(st.characters(min_codepoint=33, blacklist_categories=("Cs",)), min_size=1, max_size=20)


@given(
    method=st.sampled_from(["GET", "PUT", "POST", "DELETE"]),
    key=keys.filter(lambda key: ".." not in key and "//" not in f"/{key}" and key not in (".",) and "/./" not in key),
    query=st.dictionaries(st.sampled_from(["prefix", "list-type", "uploadId", "a b"]), keys, max_size=3),
    token=st.sampled_from(["", "session/token+=="]),
)
@settings(max_examples=200, deadline=None)
def test_the_sdk_signs_alike(method, key, query, token):
    request = Request(
        method, "bucket.s3.eu-1.amazonaws.com", f"/{key}", query, {"content-md5": "abc=", "range": "bytes=0-1"}, SHA256
    )
    credentials = Credentials("AKID", "secret", token)
    ours = signed(request, credentials, "eu-1", NOW)["authorization"]
    with pytest.MonkeyPatch.context() as patch:
        theirs = sign_by_sdk(request, credentials, "eu-1", patch)
    assert ours.rpartition("=")[2] == theirs


def test_the_header_says_what_was_signed_and_by_whom():
    request = Request("GET", "s3:9000", "/bucket/key", {}, {})
    headers = signed(request, Credentials("AKID", "secret", "token"), "eu-1", NOW)
    assert headers["x-amz-security-token"] == "token"
    assert headers["authorization"].startswith(
        "AWS4-HMAC-SHA256 Credential=AKID/20260301/eu-1/s3/aws4_request, "
        "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token, Signature="
    )
