"""A bucket of Google Cloud Storage, or a container of Azure Blob Storage."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from podtune.storage.address import AzureAddress, GcsAddress
from podtune.storage.content import PIECE, Bytes, Content
from podtune.storage.errors import (
    AccessDenied,
    BucketNotFound,
    InvalidCredentials,
    NotFound,
    RequestRejected,
    StoreSettingsError,
)
from podtune.storage.object_store import Reader, compute_part_size
from podtune.storage.parallel import run_all
from podtune.storage.patience import Patience

if TYPE_CHECKING:
    from podtune.storage.cloud.client import CloudClient

SMALLEST_PART = 8 << 20
"""Larger content goes in parts of at least this size, and so much is in memory of each that is on its way."""
BATCH_OF_DELETIONS = 250
"""Azure takes 256 in one request."""


class CloudStore:
    """A bucket, by way of obstore, which is imported only when it is first needed.

    Credentials are those of the mounted Secret, where one was named, as it is when a request is made. Else they are
    found as obstore does it: environment, files, the pod's identity. Either are looked for again after they were
    refused.

    obstore sends the parts of large content side by side by itself, and has no call for one part. What it has sent of
    an object when its process is killed, Azure drops after a week; Google's bucket needs a lifecycle rule for it.
    """

    def __init__(self, address: GcsAddress | AzureAddress, patience: Patience | None = None) -> None:
        self._address = address
        self._patience = patience
        self._client: CloudClient | None = None
        self._credentials: dict[str, str] = {}
        self._lock = threading.Lock()

    def check(self) -> None:
        """See `ObjectStore.check`."""
        next(self._list(self._address.prefix, "listing the bucket"), None)

    def put(self, key: str, source: Reader, size: int) -> None:
        """See `ObjectStore.put`."""
        self._put(key, iter(partial(source.read, PIECE), b""), size)

    def put_bytes(self, key: str, data: bytes) -> None:
        """See `ObjectStore.put_bytes`."""
        self._put(key, iter([data]), len(data))

    def put_content(self, key: str, content: Content) -> None:
        """See `ObjectStore.put_content`."""
        self._put(key, content.read_pieces(), content.size)

    def get(self, key: str, start: int = 0, size: int | None = None) -> Iterator[bytes]:
        """See `ObjectStore.get`."""
        with self._ask(f"reading {key}") as client:
            yield from client.get(key, start, size)

    def get_bytes(self, key: str, limit: int) -> bytes:
        """See `ObjectStore.get_bytes`."""
        found = bytearray()
        for piece in self.get(key):
            found += piece
            if len(found) > limit:
                break
        return bytes(found[: limit + 1])

    def exists(self, key: str) -> bool:
        """See `ObjectStore.exists`."""
        try:
            with self._ask(f"looking for {key}") as client:
                client.head(key)
        except NotFound:
            self.check()  # the answer to HEAD has no body: it may be the bucket that is missing
            return False
        except AccessDenied:
            self.check()  # and it may be the credentials that are unknown
            raise
        return True

    def list(self, prefix: str) -> Iterator[str]:
        """See `ObjectStore.list`."""
        return self._list(prefix, f"listing {prefix}")

    def delete(self, keys: Iterable[str]) -> None:
        """See `ObjectStore.delete`."""
        rest = iter(keys)
        while batch := list(islice(rest, BATCH_OF_DELETIONS)):
            try:
                with self._ask(f"deleting {batch[0]}") as client:
                    client.delete(batch)
            except NotFound:  # one of them; what became of the others isn't said
                run_all(partial(self._delete_one, key) for key in batch)

    def copy(self, source: str, key: str) -> None:
        """See `ObjectStore.copy`; Azure may copy later than it answers, so it isn't asked to."""
        if isinstance(self._address, AzureAddress):
            raise RequestRejected(f"{self._address.where} does not say when it has copied {source}")
        with self._ask(f"copying {source}") as client:
            client.copy(source, key)

    def _delete_one(self, key: str) -> None:
        with suppress(NotFound), self._ask(f"deleting {key}") as client:
            client.delete([key])

    def _list(self, prefix: str, doing: str) -> Iterator[str]:
        try:
            with self._ask(doing) as client:
                for key in client.list(prefix):
                    # What is listed may be deleted next: whatever a server sends, we delete no more than is meant.
                    if key.startswith(prefix):
                        yield key
        except NotFound as error:
            raise BucketNotFound(f"{self._address.where} can't be listed, since it is not there; create it") from error

    def _put(self, key: str, pieces: Iterator[Bytes], size: int) -> None:
        """Stores what comes piece by piece: in one request where it is small, else in parts.

        obstore would take an iterator, too. But it asks it from within its own event loop, where content that is read
        from obstore itself can't be waited for.
        """
        doing, part = f"storing {key}", compute_part_size(size, SMALLEST_PART)
        first = _take(pieces, part + 1)
        with self._ask(doing) as client:
            if len(first) <= part:
                client.put(key, first)
                return
            writer = client.open_writer(key, part)
        piece: Bytes | None = first
        while piece is not None:  # what goes wrong in reading the next one says nothing of the store
            with self._ask(doing):
                writer.write(piece)
            piece = next(pieces, None)
        with self._ask(doing):
            writer.close()

    @contextmanager
    def _ask(self, doing: str) -> Iterator[CloudClient]:
        """The client, with its errors translated."""
        try:
            from podtune.storage.cloud.errors import translate_cloud_errors  # noqa: PLC0415 - imports obstore
        except ModuleNotFoundError as error:
            raise StoreSettingsError(
                f"{self._address.where} is reached by obstore, which is not installed here; in a cluster, use the "
                "agent's image of this release; on a workstation, pip install 'podtune[store]'"
            ) from error
        try:
            with translate_cloud_errors(self._address, doing):
                yield self._connect()
        except InvalidCredentials:
            self._client = None  # the next call looks for them anew
            raise

    def _connect(self) -> CloudClient:
        """The client, a new one where the Secret has changed.

        Credentials that were read last are used on while the Secret is gone: they may be good still.
        """
        from podtune.storage.cloud.client import make_cloud_client, read_credentials  # noqa: PLC0415 - imports obstore

        with self._lock:
            try:
                credentials = read_credentials(self._address)
            except InvalidCredentials:
                if self._client is None:
                    raise
                return self._client
            if self._client is None or credentials != self._credentials:
                self._client = make_cloud_client(self._address, credentials, self._patience)
                self._credentials = credentials
            return self._client


def _take(pieces: Iterator[Bytes], size: int) -> bytes:
    """The next `size` bytes or a few more, or all that there are."""
    taken = bytearray()
    while len(taken) < size and (piece := next(pieces, None)) is not None:
        taken += piece
    return bytes(taken)
