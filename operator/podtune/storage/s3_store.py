"""The store in production: a bucket of AWS S3, or of a server that speaks its protocol."""

from __future__ import annotations

import base64
import hashlib
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from email.message import Message
from http import HTTPStatus
from itertools import islice
from typing import Any
from urllib.parse import unquote_plus
from xml.sax.saxutils import escape

from podtune.storage.address import StoreAddress
from podtune.storage.content import PIECE, Content, Held
from podtune.storage.errors import AccessDenied, RequestRejected, Unreachable
from podtune.storage.object_store import PartialUpload, Reader, StoredPart
from podtune.storage.s3_connection import S3Connection, read_pieces, read_whole
from podtune.storage.s3_credentials import CredentialSource
from podtune.storage.s3_errors import Refusal

PART = 8 << 20
"""Up to this size a source is sent in one request, and larger ones in parts of it."""
MAX_PARTS = 9_000
"""S3 takes 10,000."""
KEYS_A_DELETION = 1000
_Sent = tuple[Message, bytes]
_CHECKSUM = "x-amz-checksum-sha256"


class S3Store:
    """A bucket, by the few operations of S3 that Podtune needs.

    Credentials are found where the AWS SDKs find them in a pod, and looked for again after they were refused.
    """

    def __init__(self, address: StoreAddress) -> None:
        """Connects to nothing yet.

        Args:
            address: The bucket and its server.
        """
        self._address = address
        self._connection = S3Connection(address, CredentialSource(address.region))
        self._sends_checksums = address.wire_checksums == "whenSupported"

    def check(self) -> None:
        """See `ObjectStore.check`."""
        # HEAD would do, but its answer has no body, and so no reason where it is a refusal.
        query = {"list-type": "2", "prefix": self._address.prefix, "max-keys": "1"}
        self._ask("listing the bucket", "GET", query=query)

    def put(self, key: str, source: Reader, size: int) -> None:
        """See `ObjectStore.put`."""
        part = max(PART, -(-size // MAX_PARTS))
        first = _read(source, part)
        if len(first) < part:
            self.put_bytes(key, first)
            return
        upload = self.start_upload(key)
        try:
            parts, data = [self.put_part(upload, 1, Held(first))], _read(source, part)
            while data:
                parts.append(self.put_part(upload, len(parts) + 1, Held(data)))
                data = _read(source, part)
            self.complete_upload(upload, parts)
        except BaseException:
            self.abort_upload(upload)
            raise

    def put_bytes(self, key: str, data: bytes) -> None:
        """See `ObjectStore.put_bytes`."""
        self.put_content(key, Held(data))

    def put_content(self, key: str, content: Content) -> None:
        """See `ObjectStore.put_content`."""
        self._store(
            f"storing {key}",
            {_CHECKSUM: _base64(content.sha256)},
            lambda extra: self._send("PUT", key, headers={**self._encryption, **extra}, content=content),
        )

    def start_upload(self, key: str) -> PartialUpload:
        """See `ObjectStore.start_upload`."""
        _, body = self._store(
            f"storing {key}",
            {"x-amz-checksum-algorithm": "SHA256"},
            lambda extra: self._send("POST", key, query={"uploads": ""}, headers={**self._encryption, **extra}),
        )
        return PartialUpload(key, _text(self._xml(body), "UploadId"))

    def put_part(self, upload: PartialUpload, number: int, content: Content) -> StoredPart:
        """See `ObjectStore.put_part`."""
        query = {"partNumber": str(number), "uploadId": upload.upload_id}
        headers, _ = self._store(
            f"storing {upload.key}",
            {_CHECKSUM: _base64(content.sha256)},
            lambda extra: self._send("PUT", upload.key, query=query, headers=extra, content=content),
        )
        return StoredPart(number, headers.get("ETag", ""), content.sha256)

    def complete_upload(self, upload: PartialUpload, parts: Sequence[StoredPart]) -> None:
        """See `ObjectStore.complete_upload`."""
        items = "".join(
            f"<Part><PartNumber>{part.number}</PartNumber><ETag>{escape(part.etag)}</ETag>"
            + (f"<ChecksumSHA256>{_base64(part.sha256)}</ChecksumSHA256>" if self._sends_checksums else "")
            + "</Part>"
            for part in parts
        )
        body = Held(f"<CompleteMultipartUpload>{items}</CompleteMultipartUpload>".encode())
        with self._connection.answered(f"storing {upload.key}"):
            try:
                _, said = self._send("POST", upload.key, query={"uploadId": upload.upload_id}, content=body)
            except Refusal as refusal:
                # The answer to an earlier try may have been lost.
                if refusal.code != "NoSuchUpload" or upload.key not in islice(self.list(upload.key), 1):
                    raise
                return
            if b"<Error>" in said:  # S3 answers 200 before it knows
                raise Refusal.from_answer(HTTPStatus.INTERNAL_SERVER_ERROR, said)

    def abort_upload(self, upload: PartialUpload) -> None:
        """See `ObjectStore.abort_upload`."""
        with self._connection.answered(f"giving up {upload.key}"):
            try:
                self._send("DELETE", upload.key, query={"uploadId": upload.upload_id})
            except Refusal as refusal:
                if refusal.status != HTTPStatus.NOT_FOUND or refusal.code == "NoSuchBucket":
                    raise

    def list_uploads(self, prefix: str) -> Iterator[PartialUpload]:
        """See `ObjectStore.list_uploads`."""
        query = {"uploads": "", "prefix": prefix, "encoding-type": "url"}
        while True:
            page = self._xml(self._ask(f"listing uploads below {prefix}", "GET", query=query))
            decoded = _decoder(page)
            for item in _all(page, "Upload"):
                key = decoded(_text(item, "Key"))
                if key.startswith(prefix):
                    yield PartialUpload(key, _text(item, "UploadId"))
            if _text(page, "IsTruncated") != "true":
                return
            query["key-marker"] = decoded(_text(page, "NextKeyMarker"))
            query["upload-id-marker"] = _text(page, "NextUploadIdMarker")

    def get(self, key: str, start: int = 0, size: int | None = None) -> Iterator[bytes]:
        """See `ObjectStore.get`."""
        whole = start == 0 and size is None
        headers = {} if whole else {"range": f"bytes={start}-{'' if size is None else start + size - 1}"}
        with (
            self._connection.answered(f"reading {key}"),
            self._connection.request("GET", key, headers=headers) as answer,
        ):
            if whole or answer.status == HTTPStatus.PARTIAL_CONTENT:
                yield from read_pieces(answer)
            else:  # a server that knows no ranges
                yield from _cut(read_pieces(answer), start, size)

    def get_bytes(self, key: str, limit: int) -> bytes:
        """See `ObjectStore.get_bytes`."""
        with self._connection.answered(f"reading {key}"), self._connection.request("GET", key) as answer:
            return read_whole(answer, limit + 1)

    def list(self, prefix: str) -> Iterator[str]:
        """See `ObjectStore.list`."""
        query = {"list-type": "2", "prefix": prefix, "encoding-type": "url"}
        while True:
            page = self._xml(self._ask(f"listing {prefix}", "GET", query=query))
            decoded = _decoder(page)
            for item in _all(page, "Contents"):
                yield decoded(_text(item, "Key"))
            if _text(page, "IsTruncated") != "true":
                return
            query["continuation-token"] = _text(page, "NextContinuationToken")

    def delete(self, keys: Iterable[str]) -> None:
        """See `ObjectStore.delete`."""
        rest = iter(keys)
        while batch := list(islice(rest, KEYS_A_DELETION)):
            items = "".join(f"<Object><Key>{escape(key)}</Key></Object>" for key in batch)
            body = f"<Delete><Quiet>true</Quiet>{items}</Delete>".encode()
            md5 = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
            said = self._ask(
                f"deleting {batch[0]}", "POST", query={"delete": ""}, headers={"content-md5": md5}, content=Held(body)
            )
            for error in _all(self._xml(said), "Error"):
                code = _text(error, "Code")
                refused = AccessDenied if code == "AccessDenied" else RequestRejected
                raise refused(
                    f"{self._address.where} refuses deleting {_text(error, 'Key')} ({code}: "
                    f"{_text(error, 'Message')}); allow the credentials s3:DeleteObject"
                )

    @property
    def _encryption(self) -> dict[str, str]:
        if not self._address.kms_key:
            return {}
        return {
            "x-amz-server-side-encryption": "aws:kms",
            "x-amz-server-side-encryption-aws-kms-key-id": self._address.kms_key,
        }

    def _store(self, doing: str, checksum: Mapping[str, str], send: Callable[[Mapping[str, str]], _Sent]) -> _Sent:
        """Sends something with its checksum, and without it from then on if the server knows no checksums."""
        with self._connection.answered(doing):
            if not self._sends_checksums:
                return send({})
            try:
                return send(checksum)
            except Refusal as refusal:
                if refusal.status not in (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_IMPLEMENTED):
                    raise
                sent = send({})
            self._sends_checksums = False
            return sent

    def _ask(self, doing: str, method: str, key: str = "", **options: Any) -> bytes:
        """The body of a good answer."""
        with self._connection.answered(doing):
            return self._send(method, key, **options)[1]

    def _xml(self, body: bytes) -> ET.Element:
        try:
            return ET.fromstring(body)
        except ET.ParseError as error:
            raise Unreachable(f"{self._address.where} answers what is not XML: {error}; is there a proxy?") from error

    def _send(self, method: str, key: str = "", **options: Any) -> _Sent:
        """Headers and body of a good answer; a refusal is left to the caller."""
        with self._connection.request(method, key, **options) as answer:
            return answer.headers, read_whole(answer)


def _read(source: Reader, size: int) -> bytes:
    """The next `size` bytes of a source, or as many as there are."""
    pieces: list[bytes] = []
    while size > 0 and (piece := source.read(min(PIECE, size))):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _cut(pieces: Iterator[bytes], start: int, size: int | None) -> Iterator[bytes]:
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


def _all(element: ET.Element, name: str) -> list[ET.Element]:
    return [child for child in element if child.tag.rpartition("}")[2] == name]


def _text(element: ET.Element, name: str) -> str:
    found = _all(element, name)
    return (found[0].text or "") if found else ""


def _decoder(page: ET.Element) -> Callable[[str], str]:
    """How the keys of a listing are to be read: not every server quotes them when it is asked to."""
    return unquote_plus if _text(page, "EncodingType") == "url" else str


def _base64(digest: str) -> str:
    return base64.b64encode(bytes.fromhex(digest)).decode()
