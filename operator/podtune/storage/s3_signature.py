"""Signature Version 4, by which S3 knows who asks and that nothing was changed on the way.

After "Authenticating Requests (AWS Signature Version 4)" in the Amazon S3 API reference.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from urllib.parse import quote

ALGORITHM = "AWS4-HMAC-SHA256"
EMPTY_SHA256 = hashlib.sha256().hexdigest()


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who asks.

    Attributes:
        access_key: Name of the key.
        secret_key: The key.
        token: Goes along with temporary keys; empty for others.
        expires: When they end, in seconds since the epoch; None for never.
    """

    access_key: str
    secret_key: str
    token: str = ""
    expires: float | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """What is signed.

    Attributes:
        method: HTTP method.
        host: With the port, where it is not the scheme's own.
        path: Not quoted.
        query: Not quoted.
        headers: Names in small letters.
        sha256: Of the body, in hexadecimal.
    """

    method: str
    host: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    sha256: str = EMPTY_SHA256

    @property
    def target(self) -> str:
        """Path and query as they stand in the request."""
        query = self.canonical_query
        return quote(self.path, safe="/~") + (f"?{query}" if query else "")

    @property
    def canonical_query(self) -> str:
        """The query, quoted and sorted."""
        pairs = sorted((quote(name, safe="~"), quote(value, safe="~")) for name, value in self.query.items())
        return "&".join(f"{name}={value}" for name, value in pairs)


def signed(request: Request, credentials: Credentials, region: str, now: datetime) -> dict[str, str]:
    """All headers of the request, the signature among them.

    Args:
        request: What is asked.
        credentials: Who asks.
        region: Region of the bucket.
        now: The time, in UTC.
    """
    stamp = now.strftime("%Y%m%dT%H%M%SZ")
    headers = {**request.headers, "host": request.host, "x-amz-content-sha256": request.sha256, "x-amz-date": stamp}
    if credentials.token:
        headers["x-amz-security-token"] = credentials.token
    names = sorted(headers)
    listed = ";".join(names)
    canonical = "\n".join(
        [
            request.method,
            quote(request.path, safe="/~"),
            request.canonical_query,
            *(f"{name}:{' '.join(headers[name].split())}" for name in names),
            "",
            listed,
            request.sha256,
        ]
    )
    scope = f"{stamp[:8]}/{region}/s3/aws4_request"
    text = f"{ALGORITHM}\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    signature = hmac.digest(_key(credentials.secret_key, scope), text.encode(), "sha256").hex()
    headers["authorization"] = (
        f"{ALGORITHM} Credential={credentials.access_key}/{scope}, SignedHeaders={listed}, Signature={signature}"
    )
    return headers


@lru_cache(maxsize=4)
def _key(secret: str, scope: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key
