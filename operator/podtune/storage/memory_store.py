"""A store in memory, for tests: the fake beside `S3Store`, held to the same conformance suite."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

from podtune.storage.errors import BucketNotFound, NotFound, StoreError
from podtune.storage.object_store import Reader

PIECE = 1 << 16


class MemoryStore:
    """Keeps objects in a dictionary.

    Attributes:
        objects: What is stored, by key.
        operations: What was done, in order: `put <key>` and `delete <key>`.
        failure: Raised by every operation while it is set.
    """

    def __init__(self, bucket_exists: bool = True) -> None:
        self.objects: dict[str, bytes] = {}
        self.operations: list[str] = []
        self.failure: StoreError | None = None
        self._bucket_exists = bucket_exists
        self._lock = threading.Lock()

    def check(self) -> None:
        """See `ObjectStore.check`."""
        if self.failure is not None:
            raise self.failure
        if not self._bucket_exists:
            raise BucketNotFound("there is no bucket in memory; make one")

    def put(self, key: str, source: Reader, size: int) -> None:  # noqa: ARG002 - one way of sending fits all sizes
        """See `ObjectStore.put`."""
        self.check()
        self.put_bytes(key, b"".join(iter(lambda: source.read(PIECE), b"")))

    def put_bytes(self, key: str, data: bytes) -> None:
        """See `ObjectStore.put_bytes`."""
        self.check()
        with self._lock:
            self.objects[key] = data
            self.operations.append(f"put {key}")

    def get(self, key: str) -> Iterator[bytes]:
        """See `ObjectStore.get`."""
        data = self.get_bytes(key, limit=1 << 62)
        for start in range(0, len(data), PIECE):
            yield data[start : start + PIECE]

    def get_bytes(self, key: str, limit: int) -> bytes:
        """See `ObjectStore.get_bytes`."""
        self.check()
        with self._lock:
            if key not in self.objects:
                raise NotFound(f"there is no object {key!r} in memory")
            return self.objects[key][: limit + 1]

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
