"""A store in memory, for tests: the fake beside `S3Store`, held to the same conformance suite."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any

from podtune.storage.content import Content
from podtune.storage.errors import BucketNotFound, NotFound, StoreError
from podtune.storage.object_store import PartialUpload, Reader, StoredPart

_PIECE = 1 << 16


class Objects(dict[str, bytes]):
    """What is stored, as it is when one begins to go through it: another thread may store something meanwhile."""

    def __iter__(self) -> Iterator[str]:
        return iter(list(super().keys()))

    def keys(self) -> Any:
        """The keys that there are now."""
        return list(super().keys())

    def values(self) -> Any:
        """What they stand for."""
        return list(super().values())

    def items(self) -> Any:
        """Both."""
        return list(super().items())


class MemoryStore:
    """Keeps objects in a dictionary.

    Attributes:
        objects: What is stored, by key.
        operations: What was done, in order: `put <key>` and `delete <key>`.
        uploads: What is being stored in parts: content by the parts' numbers.
        failure: Raised by every operation while it is set.
    """

    def __init__(self, bucket_exists: bool = True) -> None:
        self.objects: dict[str, bytes] = Objects()
        self.operations: list[str] = []
        self.uploads: dict[PartialUpload, dict[int, bytes]] = {}
        self.failure: StoreError | None = None
        self._numbers = count(1)
        self._bucket_exists = bucket_exists
        self._lock = threading.Lock()

    def check(self) -> None:
        """See `ObjectStore.check`."""
        if self.failure is not None:
            raise self.failure
        if not self._bucket_exists:
            raise BucketNotFound("there is no bucket in memory; make one")

    def put(self, key: str, source: Reader, size: int) -> None:
        """See `ObjectStore.put`."""
        self.check()
        self.put_bytes(key, b"".join(iter(lambda: source.read(_PIECE), b"")))

    def put_bytes(self, key: str, data: bytes) -> None:
        """See `ObjectStore.put_bytes`."""
        self.check()
        with self._lock:
            self.objects[key] = data
            self.operations.append(f"put {key}")

    def put_content(self, key: str, content: Content) -> None:
        """See `ObjectStore.put_content`."""
        self.put_bytes(key, b"".join(map(bytes, content.read_pieces())))

    def start_upload(self, key: str, part_size: int) -> PartialUpload:
        """See `ObjectStore.start_upload`."""
        self.check()
        with self._lock:
            upload = PartialUpload(key, f"upload-{next(self._numbers)}", part_size)
            self.uploads[upload] = {}
        return upload

    def put_part(self, upload: PartialUpload, number: int, content: Content) -> StoredPart:
        """See `ObjectStore.put_part`."""
        self.check()
        data = b"".join(map(bytes, content.read_pieces()))
        with self._lock:
            if upload not in self.uploads:
                raise NotFound(f"there is no upload {upload.upload_id} in memory")
            self.uploads[upload][number] = data
        return StoredPart(number, f"etag-{number}", content.sha256)

    def complete_upload(self, upload: PartialUpload, parts: Sequence[StoredPart]) -> None:
        """See `ObjectStore.complete_upload`."""
        self.check()
        with self._lock:
            held = self.uploads.pop(upload, None)
        if held is None:
            raise NotFound(f"there is no upload {upload.upload_id} in memory")
        self.put_bytes(upload.key, b"".join(held[part.number] for part in parts))

    def abort_upload(self, upload: PartialUpload) -> None:
        """See `ObjectStore.abort_upload`."""
        self.check()
        with self._lock:
            self.uploads.pop(upload, None)

    def list_uploads(self, prefix: str) -> Iterator[PartialUpload]:
        """See `ObjectStore.list_uploads`."""
        self.check()
        with self._lock:
            return iter([upload for upload in self.uploads if upload.key.startswith(prefix)])

    def get(self, key: str, start: int = 0, size: int | None = None) -> Iterator[bytes]:
        """See `ObjectStore.get`."""
        data = self.get_bytes(key, limit=1 << 62)[start:]
        if start and not data:
            raise NotFound(f"object {key!r} in memory ends before byte {start}")
        data = data if size is None else data[:size]
        for position in range(0, len(data), _PIECE):
            yield data[position : position + _PIECE]

    def get_bytes(self, key: str, limit: int) -> bytes:
        """See `ObjectStore.get_bytes`."""
        self.check()
        with self._lock:
            if key not in self.objects:
                raise NotFound(f"there is no object {key!r} in memory")
            return self.objects[key][: limit + 1]

    def exists(self, key: str) -> bool:
        """See `ObjectStore.exists`."""
        self.check()
        with self._lock:
            return key in self.objects

    def list(self, prefix: str) -> Iterator[str]:
        """See `ObjectStore.list`."""
        self.check()
        with self._lock:
            return iter(sorted(key for key in self.objects if key.startswith(prefix)))

    def delete(self, keys: Iterable[str]) -> None:
        """See `ObjectStore.delete`."""
        self.check()
        with self._lock:
            for key in keys:
                self.objects.pop(key, None)
                self.operations.append(f"delete {key}")

    def copy(self, source: str, key: str) -> None:
        """See `ObjectStore.copy`."""
        self.put_bytes(key, self.get_bytes(source, limit=1 << 62))
        self.operations[-1] = f"copy {source} {key}"
