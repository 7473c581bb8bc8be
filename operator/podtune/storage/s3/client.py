"""The AWS SDK, set up for one bucket. It is slow to import, so nobody imports this module before it is needed."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from boto3.session import Session
from botocore.auth import AUTH_TYPE_MAPS, S3SigV4Auth
from botocore.awsrequest import AWSPreparedRequest, AWSRequest
from botocore.config import Config
from botocore.credentials import CredentialResolver
from botocore.session import get_session

from podtune.storage.address import S3Address
from podtune.storage.content import Bytes, Content
from podtune.storage.patience import Patience
from podtune.storage.s3.mounted_credentials import MountedSecret

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

S3_PATIENCE = Patience(connect=5, silence=30, tries=4)
"""Of agents, which nobody waits for; the SDK's standard mode waits between tries with jitter."""
_HASHED = "podtune-s3v4"
_STYLES: dict[str, Literal["auto", "path", "virtual"]] = {"Path": "path", "VirtualHost": "virtual"}


def make_client(address: S3Address, patience: Patience | None = None) -> S3Client:
    """A client that connects to nothing yet."""
    patience = patience or S3_PATIENCE
    config = Config(
        connect_timeout=patience.connect,
        read_timeout=patience.silence,
        retries={"mode": "standard", "total_max_attempts": patience.tries},
        max_pool_connections=16,
        tcp_keepalive=True,
        user_agent="podtune",  # the SDK's own takes an eighth of a small request's time to put together
        # Content is sent with the hash that it has been given already, see `_HashedContentAuth`.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3={"addressing_style": _STYLES.get(address.addressing, "path" if address.endpoint else "auto")},
    )
    client: S3Client = _build_session(address).client(
        "s3",
        region_name=address.region,
        endpoint_url=address.endpoint,
        verify=address.ca_file or None,
        config=config,
    )
    AUTH_TYPE_MAPS[_HASHED] = _HashedContentAuth
    client.meta.events.register("choose-signer.s3", _choose_signer)  # type: ignore[arg-type]  # its answer is used
    client.meta.events.register("before-send.s3", _send_in_pieces)
    return client


def _build_session(address: S3Address) -> Session:
    """The SDK's session. Times in answers stay text: nobody needs them, and reading them is slow."""
    core = get_session()
    if address.credentials:
        core.register_component("credential_provider", CredentialResolver([MountedSecret(Path(address.credentials))]))
    core.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=str)
    return Session(botocore_session=core)


class ContentStream(io.RawIOBase):
    """Content as the SDK wants to read it: from the front, and again from the front for each try."""

    def __init__(self, content: Content) -> None:
        super().__init__()
        self._content = content
        self._pieces: Iterator[Bytes] = content.read_pieces()
        self._rest = memoryview(b"")
        self._position = 0

    def __len__(self) -> int:
        return self._content.size

    @property
    def content(self) -> Content:
        """What is read."""
        return self._content

    def readable(self) -> bool:
        """It can be read."""
        return True

    def seekable(self) -> bool:
        """It can be wound back."""
        return True

    def tell(self) -> int:
        """How many bytes were read."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Winds back to the front, or on to the end, which is how the SDK finds out the size.

        Raises:
            io.UnsupportedOperation: It is neither.
        """
        target = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: len(self)}[whence]
        if target == 0:
            self._rewind()
        elif target == len(self):
            self._pieces, self._rest, self._position = iter(()), memoryview(b""), target
        elif target != self._position:
            raise io.UnsupportedOperation(f"seek to {target}")
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        """The next bytes, at most `size` unless it is negative; none at the end."""
        if size is None or size < 0:
            data = bytes(self._rest) + b"".join(bytes(piece) for piece in self._pieces)  # a piece holds until the next
            self._rest = memoryview(b"")
        else:
            if not self._rest:
                self._rest = memoryview(next(self._pieces, b""))
            data, self._rest = bytes(self._rest[:size]), self._rest[size:]
        self._position += len(data)
        return data

    def _rewind(self) -> None:
        self._pieces, self._rest, self._position = self._content.read_pieces(), memoryview(b""), 0


class _Pieces:
    """Content as it is sent: anew from the front each time, by larger pieces than a stream is read."""

    def __init__(self, content: Content) -> None:
        self._content = content

    def __iter__(self) -> Iterator[Bytes]:
        return self._content.read_pieces()

    def seek(self, _: int) -> None:
        """What the SDK calls before it tries again; it then asks for the pieces anew."""


class _HashedContentAuth(S3SigV4Auth):
    """Signs content with the SHA-256 that is known of it: the SDK would read and hash all of it once more."""

    def payload(self, request: AWSRequest) -> str:
        """What is signed of a request's body."""
        if isinstance(request.data, ContentStream):
            return request.data.content.sha256
        return str(super().payload(request))


def _choose_signer(signature_version: str, **_: Any) -> str | None:
    return _HASHED if signature_version in ("v4", "s3v4") else None


def _send_in_pieces(request: AWSPreparedRequest, **_: Any) -> None:
    """Has content sent by the piece, where the SDK reads a stream by 16 KiB.

    With several threads at once the interpreter's lock would otherwise change hands more often than anything else
    happens. Nor is the server asked for leave first, which takes a round trip for each part of a file.
    """
    body: Any = request.body
    if isinstance(body, ContentStream):
        request.body = _Pieces(body.content)  # type: ignore[assignment]  # the SDK passes on whatever can be sent
        del request.headers["Expect"]
