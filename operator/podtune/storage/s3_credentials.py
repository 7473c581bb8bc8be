"""Where the credentials of a bucket come from, in the order in which a pod may have them.

A Secret (environment variables), IAM roles for service accounts (a web identity token that STS takes), EKS Pod
Identity or ECS (a server beside the pod), and the node's own role (the EC2 metadata service). The names of variables
are those of every AWS SDK; see "Standardized credential providers" in the AWS SDKs and Tools reference guide.
"""

from __future__ import annotations

import http.client
import json
import os
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from podtune.storage.s3_signature import Credentials

EARLY = 300.0
"""Seconds before their end that temporary credentials are renewed."""
TIMEOUT = 5.0
METADATA_TIMEOUT = 1.0
"""There is nothing at this address outside of AWS."""
MAX_ANSWER = 1 << 20
ECS = "http://169.254.170.2"
METADATA = "http://169.254.169.254"
ROLES = "/latest/meta-data/iam/security-credentials/"


class NoCredentials(Exception):
    """There are none; the message says where they were looked for."""


class CredentialSource:
    """Finds credentials, and renews them before they end. May be used by several threads."""

    def __init__(
        self,
        region: str,
        environ: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Looks for nothing yet.

        Args:
            region: Where STS is asked.
            environ: Environment variables.
            clock: Seconds since the epoch.
        """
        self._region = region
        self._environ = environ
        self._clock = clock
        self._lock = threading.Lock()
        self._found: Credentials | None = None

    def get(self) -> Credentials:
        """The credentials, as they are now.

        Raises:
            NoCredentials: There are none.
        """
        with self._lock:
            found = self._found
            if found is None or (found.expires is not None and found.expires - EARLY < self._clock()):
                self._found = found = self._find()
            return found

    def forget(self) -> None:
        """They were refused: the next call looks for them anew."""
        with self._lock:
            self._found = None

    def _find(self) -> Credentials:
        env = self._environ
        if env.get("AWS_ACCESS_KEY_ID") and env.get("AWS_SECRET_ACCESS_KEY"):
            token = env.get("AWS_SESSION_TOKEN", "")
            return Credentials(env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"], token)
        try:
            if env.get("AWS_WEB_IDENTITY_TOKEN_FILE") and env.get("AWS_ROLE_ARN"):
                return self._from_web_identity()
            if env.get("AWS_CONTAINER_CREDENTIALS_FULL_URI") or env.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
                return self._from_container()
            if env.get("AWS_EC2_METADATA_DISABLED", "").lower() != "true":
                return self._from_node()
        except (OSError, http.client.HTTPException, ValueError, KeyError, ET.ParseError) as error:
            raise NoCredentials(f"the service that gives them has failed: {error or type(error).__name__}") from error
        raise NoCredentials("neither a Secret, nor a role of the service account or the node gives any")

    def _from_web_identity(self) -> Credentials:
        domain = "amazonaws.com.cn" if self._region.startswith("cn-") else "amazonaws.com"
        endpoint = self._environ.get("AWS_ENDPOINT_URL_STS") or f"https://sts.{self._region}.{domain}"
        form = {
            "Action": "AssumeRoleWithWebIdentity",
            "Version": "2011-06-15",
            "RoleArn": self._environ["AWS_ROLE_ARN"],
            "RoleSessionName": self._environ.get("AWS_ROLE_SESSION_NAME") or "podtune",
            "WebIdentityToken": _read(self._environ["AWS_WEB_IDENTITY_TOKEN_FILE"]),
        }
        body = _ask("POST", f"{endpoint.rstrip('/')}/", urlencode(form), _FORM)
        found = {element.tag.rpartition("}")[2]: element.text or "" for element in ET.fromstring(body).iter()}
        return Credentials(
            found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"], _seconds(found["Expiration"])
        )

    def _from_container(self) -> Credentials:
        env = self._environ
        relative = env.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
        token_file = env.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
        token = _read(token_file) if token_file else env.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", "")
        url = f"{ECS}{relative}" if relative else env["AWS_CONTAINER_CREDENTIALS_FULL_URI"]
        return _from_json(_ask("GET", url, headers={"Authorization": token} if token else {}))

    def _from_node(self) -> Credentials:
        base = (self._environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or METADATA).rstrip("/")
        lifetime = {"x-aws-ec2-metadata-token-ttl-seconds": "21600"}
        token = _ask("PUT", f"{base}/latest/api/token", headers=lifetime, timeout=METADATA_TIMEOUT)
        headers = {"x-aws-ec2-metadata-token": token}
        role = _ask("GET", base + ROLES, headers=headers, timeout=METADATA_TIMEOUT).split("\n")[0].strip()
        return _from_json(_ask("GET", f"{base}{ROLES}{role}", headers=headers, timeout=METADATA_TIMEOUT))


_FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def _from_json(text: str) -> Credentials:
    body = json.loads(text)
    if not isinstance(body, dict):
        raise ValueError("its answer is not a JSON object")
    expires = body.get("Expiration")
    return Credentials(
        str(body["AccessKeyId"]),
        str(body["SecretAccessKey"]),
        str(body.get("Token") or ""),
        _seconds(str(expires)) if expires else None,
    )


def _ask(
    method: str, url: str, body: str | None = None, headers: Mapping[str, str] | None = None, timeout: float = TIMEOUT
) -> str:
    """The body of a good answer."""
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    with closing(kind(parts.hostname or "", parts.port, timeout=timeout)) as connection:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request(method, target, body, dict(headers or {}))
        response = connection.getresponse()
        text = response.read(MAX_ANSWER).decode(errors="replace")
    if response.status != http.client.OK:
        raise OSError(f"{parts.hostname} answers {response.status}: {text[:200]}")
    return text


def _read(path: str) -> str:
    return Path(path).read_text(encoding="utf-8").strip()


def _seconds(written: str) -> float:
    return datetime.fromisoformat(written.replace("Z", "+00:00")).timestamp()
