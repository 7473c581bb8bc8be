"""What stands for Google Cloud Storage: it checks Google's signatures, and passes requests on to an S3 server.

Google's XML protocol, which obstore speaks, is that of S3 with other signatures and names of headers; the emulators of
it that registries have (fake-gcs-server, for one) know Google's JSON protocol alone. The keys of service accounts sign
a token for each client, which is checked here as Google does it: with the public half of the key.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials

_REGION = "us-east-1"
_RENAMED = {"x-goog-copy-source": "x-amz-copy-source"}
_PASSED_ON = ("content-type", "range", "if-match", "if-none-match")
_SHA256_PREFIX = bytes.fromhex("3031300d060960864801650304020105000420")
"""Before the hash in what PKCS #1 signs; see RFC 8017, section 9.2."""


@dataclass
class ServiceAccount:
    """A service account: the key file that its owner has, and the public half."""

    email: str
    key_file: str
    modulus: int
    exponent: int = 65537

    def verify(self, signed: bytes, signature: bytes) -> bool:
        """Whether the signature, of RSA with PKCS #1 1.5 and SHA-256, is that of this account."""
        size = (self.modulus.bit_length() + 7) // 8
        found = pow(int.from_bytes(signature), self.exponent, self.modulus).to_bytes(size)
        expected = _SHA256_PREFIX + hashlib.sha256(signed).digest()
        return found == b"\0\1" + b"\xff" * (size - len(expected) - 3) + b"\0" + expected


def make_service_account(name: str) -> ServiceAccount:
    """Makes one with a key of its own."""
    email = f"{name}@podtune.iam.gserviceaccount.com"
    key = subprocess.run(["openssl", "genrsa", "2048"], check=True, capture_output=True, text=True).stdout
    modulus = subprocess.run(
        ["openssl", "rsa", "-noout", "-modulus"], input=key, check=True, capture_output=True, text=True
    ).stdout
    key_file = {"type": "service_account", "client_email": email, "private_key": key, "private_key_id": name}
    return ServiceAccount(email, json.dumps(key_file), int(modulus.strip().removeprefix("Modulus="), 16))


@dataclass
class GoogleServer:
    """A server that runs, and the service accounts that it knows.

    Attributes:
        accounts: By the ids of their keys.
        readers: E-mail addresses of those that may read only.
    """

    url: str = ""
    accounts: dict[str, ServiceAccount] = field(default_factory=dict)
    readers: set[str] = field(default_factory=set)

    def add_account(self, name: str) -> ServiceAccount:
        """Makes a service account that is known here."""
        self.accounts[name] = make_service_account(name)
        return self.accounts[name]

    def authenticate(self, header: str) -> str | None:
        """The account whose token a request has; None where it has none that holds."""
        try:
            signed, _, signature = header.removeprefix("Bearer ").rpartition(".")
            head, claims = (json.loads(_decode(part)) for part in signed.split("."))
            account = self.accounts[head["kid"]]
            holds = account.verify(signed.encode(), _decode(signature))
        except (ValueError, KeyError):
            return None
        return account.email if holds and claims["iss"] == account.email and claims["exp"] > time.time() else None


@contextmanager
def running_google_server(
    s3_url: str, credentials: ReadOnlyCredentials, host: str = "127.0.0.1"
) -> Iterator[GoogleServer]:
    """Runs a server before an S3 server, at an address of this machine."""
    known = GoogleServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # head and body are written one after the other

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            account = known.authenticate(self.headers.get("Authorization", ""))
            if account is None:
                self._answer(401, {}, _refuse("AuthenticationRequired"))
            elif account in known.readers and self.command not in ("GET", "HEAD"):
                self._answer(403, {}, _refuse("AccessDenied"))
            else:
                self._answer(*self._pass_on(body))

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any

        def _pass_on(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
            given = {name.lower(): value for name, value in self.headers.items()}
            headers = {_RENAMED.get(name, name): given[name] for name in (*_PASSED_ON, *_RENAMED) if name in given}
            path, mark, query = self.path.partition(
                "?"
            )  # obstore encodes what S3 signs as it is, and the other way round
            values = urlencode(parse_qsl(query, keep_blank_values=True), safe="~", quote_via=quote)
            target = quote(unquote(path)) + mark + values
            request = AWSRequest(self.command, s3_url + target, headers, body)
            S3SigV4Auth(credentials, "s3", _REGION).add_auth(request)
            connection = http.client.HTTPConnection(urlsplit(s3_url).netloc, timeout=30)
            try:
                connection.request(self.command, target, body, dict(request.headers.items()))
                answer = connection.getresponse()
                return answer.status, dict(answer.getheaders()), answer.read()
            finally:
                connection.close()

        def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response_only(status)
            for name, value in headers.items():
                if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                    self.send_header(name, value)
            length = headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(body))
            self.send_header("Content-Length", length)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((host, 0), Handler)
    server.daemon_threads = True
    known.url = f"http://{host}:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield known
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _refuse(code: str) -> bytes:
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>refused</Message></Error>".encode()


def _decode(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
