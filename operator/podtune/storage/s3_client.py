"""The AWS SDK, set up for one bucket. It is slow to import, so nobody imports this module before it is needed."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from boto3.session import Session
from botocore.config import Config

from podtune.storage.address import StoreAddress
from podtune.storage.content import Bytes, Content

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

CONNECT_TIMEOUT = 5
READ_TIMEOUT = 30
ATTEMPTS = 4
"""Tries of one request within one call; the SDK's standard mode waits between them with jitter."""
_STYLES: dict[str, Literal["auto", "path", "virtual"]] = {"Path": "path", "VirtualHost": "virtual"}


def make_client(address: StoreAddress, *, sends_checksums: bool) -> S3Client:
    """A client that connects to nothing yet.

    Args:
        address: The bucket and its server.
        sends_checksums: Whether what is stored is sent with its SHA-256 by the caller.
    """
    is_private = (address.endpoint or "https:").startswith("https:")
    config = Config(
        connect_timeout=CONNECT_TIMEOUT,
        read_timeout=READ_TIMEOUT,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        max_pool_connections=16,
        tcp_keepalive=True,
        # The caller has hashed all content already: the SDK is to hash it once more only where nothing else would
        # notice that it was damaged on its way.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3={
            "addressing_style": _STYLES.get(address.addressing, "path" if address.endpoint else "auto"),
            "payload_signing_enabled": not (is_private or sends_checksums),
        },
    )
    client: S3Client = Session().client(
        "s3",
        region_name=address.region,
        endpoint_url=address.endpoint,
        verify=address.ca_file or None,
        config=config,
    )
    return client


class ContentStream(io.RawIOBase):
    """Content as the SDK wants to read it: from the front, and again from the front for each try."""

    def __init__(self, content: Content) -> None:
        super().__init__()
        self._content = content
        self._pieces: Iterator[Bytes] = content.pieces()
        self._rest = memoryview(b"")
        self._position = 0

    def __len__(self) -> int:
        return self._content.size

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
        self._pieces, self._rest, self._position = self._content.pieces(), memoryview(b""), 0
