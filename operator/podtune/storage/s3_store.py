"""The store in production: a bucket of AWS S3, or of a server that speaks its protocol."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import IO, TYPE_CHECKING, cast

from podtune.storage.address import StoreAddress
from podtune.storage.errors import AccessDenied, InvalidCredentials, RequestRejected
from podtune.storage.object_store import Reader

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

CONNECT_TIMEOUT = 5
READ_TIMEOUT = 30
ATTEMPTS = 4
"""Tries of one request within one call; the SDK's standard mode waits between them with jitter."""
ONE_REQUEST = 8 << 20
"""Up to this size an object is sent in one request, and held in memory for it."""
PART = 8 << 20
PARTS_IN_MEMORY = 4
MAX_PARTS = 9_000
"""S3 takes 10,000."""
PIECE = 1 << 20
KEYS_A_DELETION = 1000


class S3Store:
    """A bucket, by way of boto3, which is imported and set up only when it is first needed.

    Credentials are found as the SDK does it: environment, files, service account, node. They are looked for again
    after they were refused.
    """

    def __init__(self, address: StoreAddress) -> None:
        self._address = address
        self._client: S3Client | None = None
        self._lock = threading.Lock()

    def check(self) -> None:
        """See `ObjectStore.check`."""
        # HEAD would do, but its answer has no body, and so no reason where it is a refusal.
        with self._asked("listing the bucket") as client:
            client.list_objects_v2(Bucket=self._address.bucket, Prefix=self._address.prefix, MaxKeys=1)

    def put(self, key: str, source: Reader, size: int) -> None:
        """See `ObjectStore.put`."""
        if size <= ONE_REQUEST:
            self.put_bytes(key, _read_all(source))
            return
        from boto3.s3.transfer import TransferConfig  # noqa: PLC0415 - boto3 is slow to import

        config = TransferConfig(
            multipart_threshold=PART,
            multipart_chunksize=max(PART, -(-size // MAX_PARTS)),
            max_concurrency=PARTS_IN_MEMORY,
        )
        config.max_in_memory_upload_chunks = PARTS_IN_MEMORY
        with self._asked(f"storing {key}") as client:
            client.upload_fileobj(cast("IO[bytes]", _OnlyRead(source)), self._address.bucket, key, Config=config)

    def put_bytes(self, key: str, data: bytes) -> None:
        """See `ObjectStore.put_bytes`."""
        with self._asked(f"storing {key}") as client:
            client.put_object(Bucket=self._address.bucket, Key=key, Body=data)

    def get(self, key: str) -> Iterator[bytes]:
        """See `ObjectStore.get`."""
        with self._asked(f"reading {key}") as client:
            body = client.get_object(Bucket=self._address.bucket, Key=key)["Body"]
            with body:
                yield from body.iter_chunks(PIECE)

    def get_bytes(self, key: str, limit: int) -> bytes:
        """See `ObjectStore.get_bytes`."""
        with self._asked(f"reading {key}") as client:
            answer = client.get_object(Bucket=self._address.bucket, Key=key)
            with answer["Body"] as body:
                return bytes(body.read(limit + 1))

    def list(self, prefix: str) -> Iterator[str]:
        """See `ObjectStore.list`."""
        with self._asked(f"listing {prefix}") as client:
            pages = client.get_paginator("list_objects_v2").paginate(Bucket=self._address.bucket, Prefix=prefix)
            for page in pages:
                for item in page.get("Contents", []):
                    yield item["Key"]

    def delete(self, keys: Iterable[str]) -> None:
        """See `ObjectStore.delete`."""
        rest = iter(keys)
        while batch := list(islice(rest, KEYS_A_DELETION)):
            with self._asked(f"deleting {batch[0]}") as client:
                answer = client.delete_objects(
                    Bucket=self._address.bucket, Delete={"Objects": [{"Key": key} for key in batch], "Quiet": True}
                )
            for error in answer.get("Errors", []):
                message = f"{self._address.where} refuses deleting {error.get('Key')} ({error.get('Code')}: "
                refused = AccessDenied if error.get("Code") == "AccessDenied" else RequestRejected
                raise refused(message + f"{error.get('Message')}); allow the credentials s3:DeleteObject")

    @contextmanager
    def _asked(self, doing: str) -> Iterator[S3Client]:
        """The client, with its errors translated."""
        from podtune.storage.s3_errors import translated  # noqa: PLC0415 - imports botocore

        try:
            with translated(self._address, doing):
                yield self._connect()
        except InvalidCredentials:
            self._client = None  # the next call looks for them anew
            raise

    def _connect(self) -> S3Client:
        with self._lock:
            if self._client is None:
                self._client = _make_client(self._address)
            return self._client


def _make_client(address: StoreAddress) -> S3Client:
    from boto3.session import Session  # noqa: PLC0415 - slow to import
    from botocore.config import Config  # noqa: PLC0415

    config = Config(
        connect_timeout=CONNECT_TIMEOUT,
        read_timeout=READ_TIMEOUT,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        max_pool_connections=16,
        tcp_keepalive=True,
        # Most servers other than AWS don't know the newer checksums; the manifest holds SHA-256 of every file.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3={"addressing_style": "path" if address.endpoint else "auto"},
    )
    client: S3Client = Session().client("s3", region_name=address.region, endpoint_url=address.endpoint, config=config)
    return client


def _read_all(source: Reader) -> bytes:
    return b"".join(iter(lambda: source.read(PIECE), b""))


class _OnlyRead:
    """Hides that a source could be wound back: so the SDK reads it once, front to back."""

    def __init__(self, source: Reader) -> None:
        self._source = source

    def read(self, size: int = -1, /) -> bytes:
        return self._source.read(size)
