"""The store in production: a bucket of AWS S3, or of a server that speaks its protocol."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from http import HTTPStatus
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from podtune.storage.address import S3Address
from podtune.storage.content import PIECE, BytesContent, Content
from podtune.storage.errors import (
    AccessDenied,
    InvalidCredentials,
    NotFound,
    RequestRejected,
    StoreError,
    Unreachable,
)
from podtune.storage.object_store import PartialUpload, Reader, StoredPart, compute_part_size
from podtune.storage.patience import Patience

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

BUFFERED = 8 << 20
"""How much of a source that can be read only once is held in memory and sent at a time."""
KEYS_A_DELETION = 1000
T = TypeVar("T")


class S3Store:
    """A bucket, by way of boto3, which is imported and set up only when it is first needed.

    Credentials are those of the mounted Secret, where one was named, as it is when a request is made. Else they are
    found as the SDK does it: environment, files, service account, node. Either are looked for again after they were
    refused.
    """

    def __init__(self, address: S3Address, patience: Patience | None = None) -> None:
        self._address = address
        self._patience = patience
        self._bucket = address.bucket
        self._client: S3Client | None = None
        self._lock = threading.Lock()
        self._sends_checksums = address.wire_checksums == "whenSupported"

    @property
    def is_in_use(self) -> bool:
        """Whether it has been asked for anything yet."""
        return self._client is not None

    def check(self) -> None:
        """See `ObjectStore.check`."""
        # HEAD would do, but its answer has no body, and so no reason where it is a refusal.
        # Policies name what lies below the prefix: without the slash, this would be a request for more.
        prefix = f"{self._address.prefix}/" if self._address.prefix else ""
        with self._ask("listing the bucket") as client:
            client.list_objects_v2(Bucket=self._bucket, Prefix=prefix, MaxKeys=1)

    def put(self, key: str, source: Reader, size: int) -> None:
        """See `ObjectStore.put`."""
        part = compute_part_size(size, BUFFERED)
        first = _read(source, part)
        if len(first) < part:
            self.put_bytes(key, first)
            return
        upload = self.start_upload(key, part)
        try:
            parts, data = [self.put_part(upload, 1, BytesContent(first))], _read(source, part)
            while data:
                parts.append(self.put_part(upload, len(parts) + 1, BytesContent(data)))
                data = _read(source, part)
            self.complete_upload(upload, parts)
        except BaseException:
            self.abort_upload(upload)
            raise

    def put_bytes(self, key: str, data: bytes) -> None:
        """See `ObjectStore.put_bytes`."""
        self.put_content(key, BytesContent(data))

    def put_content(self, key: str, content: Content) -> None:
        """See `ObjectStore.put_content`."""
        self._store(
            f"storing {key}",
            {"ChecksumSHA256": _encode_base64(content.sha256)},
            lambda client, checksum: client.put_object(
                Bucket=self._bucket, Key=key, Body=_build_body(content), **self._encryption, **checksum
            ),
        )

    def start_upload(self, key: str, part_size: int) -> PartialUpload:
        """See `ObjectStore.start_upload`."""
        answer = self._store(
            f"storing {key}",
            {"ChecksumAlgorithm": "SHA256"},
            lambda client, checksum: client.create_multipart_upload(
                Bucket=self._bucket, Key=key, **self._encryption, **checksum
            ),
        )
        return PartialUpload(key, answer["UploadId"], part_size)

    def put_part(self, upload: PartialUpload, number: int, content: Content) -> StoredPart:
        """See `ObjectStore.put_part`."""
        answer = self._store(
            f"storing {upload.key}",
            {"ChecksumSHA256": _encode_base64(content.sha256)},
            lambda client, checksum: client.upload_part(
                Bucket=self._bucket,
                Key=upload.key,
                UploadId=upload.upload_id,
                PartNumber=number,
                Body=_build_body(content),
                **checksum,
            ),
        )
        return StoredPart(number, answer.get("ETag", ""), content.sha256)

    def complete_upload(self, upload: PartialUpload, parts: Sequence[StoredPart]) -> None:
        """See `ObjectStore.complete_upload`."""
        from botocore.exceptions import ClientError  # noqa: PLC0415 - slow to import

        items: list[Any] = [
            {
                "PartNumber": part.number,
                "ETag": part.etag,
                **({"ChecksumSHA256": _encode_base64(part.sha256)} if self._sends_checksums else {}),
            }
            for part in parts
        ]
        with self._ask(f"storing {upload.key}") as client:
            try:
                client.complete_multipart_upload(
                    Bucket=self._bucket, Key=upload.key, UploadId=upload.upload_id, MultipartUpload={"Parts": items}
                )
            except ClientError as error:
                # The answer to an earlier try may have been lost.
                if _read_code(error) != "NoSuchUpload" or not self.exists(upload.key):
                    raise

    def abort_upload(self, upload: PartialUpload) -> None:
        """See `ObjectStore.abort_upload`."""
        from botocore.exceptions import ClientError  # noqa: PLC0415

        with self._ask(f"giving up {upload.key}") as client:
            try:
                client.abort_multipart_upload(Bucket=self._bucket, Key=upload.key, UploadId=upload.upload_id)
            except ClientError as error:
                if _read_status(error) != HTTPStatus.NOT_FOUND or _read_code(error) == "NoSuchBucket":
                    raise

    def list_uploads(self, prefix: str) -> Iterator[PartialUpload]:
        """See `ObjectStore.list_uploads`."""
        for page in self._list_pages("list_multipart_uploads", prefix):
            for item in page.get("Uploads", []):
                key, upload_id = item.get("Key", ""), item.get("UploadId", "")
                if upload_id and key.startswith(prefix):
                    yield PartialUpload(key, upload_id)

    def get(self, key: str, start: int = 0, size: int | None = None) -> Iterator[bytes]:
        """See `ObjectStore.get`."""
        whole = start == 0 and size is None
        wanted: Any = {} if whole else {"Range": f"bytes={start}-{'' if size is None else start + size - 1}"}
        with self._ask_for(key) as client:
            answer = client.get_object(Bucket=self._bucket, Key=key, **wanted)
            status = answer["ResponseMetadata"]["HTTPStatusCode"]
            with closing(answer["Body"]) as body:
                if whole or status == HTTPStatus.PARTIAL_CONTENT:
                    yield from body.iter_chunks(PIECE)
                else:  # a server that knows no ranges
                    yield from _cut(body.iter_chunks(PIECE), start, size)

    def get_bytes(self, key: str, limit: int) -> bytes:
        """See `ObjectStore.get_bytes`."""
        with self._ask_for(key) as client:
            answer = client.get_object(Bucket=self._bucket, Key=key)
            with closing(answer["Body"]) as body:
                return _read(body, limit + 1)

    def exists(self, key: str) -> bool:
        """See `ObjectStore.exists`."""
        # HEAD would do, but its answer has no body, and so no reason where it is a refusal.
        return key in islice(self.list(key), 1)

    def list(self, prefix: str) -> Iterator[str]:
        """See `ObjectStore.list`."""
        for page in self._list_pages("list_objects_v2", prefix):
            for item in page.get("Contents", []):
                # What is listed may be deleted next: a server that knows no prefixes must not have us delete more.
                if (key := item.get("Key", "")).startswith(prefix):
                    yield key

    def copy(self, source: str, key: str) -> None:
        """See `ObjectStore.copy`."""
        with self._ask(f"copying {source}") as client:
            client.copy_object(
                Bucket=self._bucket, Key=key, CopySource={"Bucket": self._bucket, "Key": source}, **self._encryption
            )

    def delete(self, keys: Iterable[str]) -> None:
        """See `ObjectStore.delete`."""
        rest = iter(keys)
        while batch := list(islice(rest, KEYS_A_DELETION)):
            with self._ask(f"deleting {batch[0]}") as client:
                answer = client.delete_objects(
                    Bucket=self._bucket, Delete={"Objects": [{"Key": key} for key in batch], "Quiet": True}
                )
            for error in answer.get("Errors", []):
                if error.get("Code") == "NoSuchKey":
                    continue  # S3 has no such answer; versitygw gives it where somebody else deletes the same object
                message = f"{self._address.where} refuses deleting {error.get('Key')} ({error.get('Code')}: "
                refused = AccessDenied if error.get("Code") == "AccessDenied" else RequestRejected
                raise refused(message + f"{error.get('Message')}); allow the credentials s3:DeleteObject")

    def _list_pages(
        self, operation: Literal["list_objects_v2", "list_multipart_uploads"], prefix: str
    ) -> Iterator[Mapping[str, Any]]:
        """The answers to a listing."""
        with self._ask(f"listing {prefix}") as client:
            try:
                yield from client.get_paginator(operation).paginate(Bucket=self._bucket, Prefix=prefix)
            except (ValueError, TypeError, LookupError, AttributeError) as error:  # of the SDK, which has read nonsense
                raise Unreachable(
                    f"{self._address.where} sends something other than a listing: {error}; check that the endpoint is "
                    "that of an S3 server"
                ) from error

    @property
    def _encryption(self) -> dict[str, Any]:
        key = self._address.kms_key
        return {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key} if key else {}

    def _store(self, doing: str, checksum: dict[str, Any], send: Callable[[S3Client, dict[str, Any]], T]) -> T:
        """Sends something with its checksum, and without it from then on if the server knows no checksums."""
        from botocore.exceptions import ClientError  # noqa: PLC0415

        with self._ask(doing) as client:
            if not self._sends_checksums:
                return send(client, {})
            try:
                return send(client, checksum)
            except ClientError as error:
                if _read_status(error) not in (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_IMPLEMENTED):
                    raise
                sent = send(client, {})
            self._sends_checksums = False
            return sent

    @contextmanager
    def _ask(self, doing: str) -> Iterator[S3Client]:
        """The client, with its errors translated."""
        from podtune.storage.s3.errors import translate_errors  # noqa: PLC0415 - imports botocore

        try:
            with translate_errors(self._address, doing):
                yield self._connect()
        except InvalidCredentials:
            self._client = None  # the next call looks for them anew
            raise

    @contextmanager
    def _ask_for(self, key: str) -> Iterator[S3Client]:
        """The client, to read an object, with its errors translated.

        Of one that is not there, S3 says so to those alone who may list the whole bucket. All others it refuses; those
        who may list below a prefix can find out all the same.
        """
        try:
            with self._ask(f"reading {key}") as client:
                yield client
        except AccessDenied as error:
            if self._is_missing(key):
                raise NotFound(f"{self._address.where} has no object {key}") from error
            raise

    def _is_missing(self, key: str) -> bool:
        """Whether a listing says that there is no such object; not where it is refused, too."""
        try:
            return not self.exists(key)
        except StoreError:
            return False

    def _connect(self) -> S3Client:
        from podtune.storage.s3.client import make_client  # noqa: PLC0415 - imports boto3

        with self._lock:
            if self._client is None:
                self._client = make_client(self._address, self._patience)
            return self._client


def _build_body(content: Content) -> Any:
    from podtune.storage.s3.client import ContentStream  # noqa: PLC0415 - imports boto3

    return ContentStream(content)


def _read(source: Reader, size: int) -> bytes:
    """The next `size` bytes of a source, or as many as there are."""
    pieces: list[bytes] = []
    while size > 0 and (piece := source.read(min(PIECE, size))):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _cut(pieces: Iterable[bytes], start: int, size: int | None) -> Iterator[bytes]:
    """A range of what comes whole."""
    for piece in pieces:
        skipped = min(start, len(piece))
        start -= skipped
        wanted = piece[skipped:] if size is None else piece[skipped : skipped + size]
        size = None if size is None else size - len(wanted)
        if wanted:
            yield wanted
        if size == 0:
            return


def _read_code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _read_status(error: Any) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _encode_base64(digest: str) -> str:
    return base64.b64encode(bytes.fromhex(digest)).decode()
