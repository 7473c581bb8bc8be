"""One stream of records on its way to the bucket."""

from __future__ import annotations

import threading
from collections.abc import Callable

from podtune.storage.object_store import ObjectStore
from podtune.storage.segments.segment import SegmentHeader, encode_header, parse_segment_name
from podtune.storage.segments.segment_log import SegmentLog


class SegmentStream:
    """Takes the records of one stream, and stores what has changed when it is told to.

    One thread adds records, another one stores them: storing takes its time, and nobody who adds waits for it.
    """

    def __init__(self, store: ObjectStore, prefix: str, header: SegmentHeader, keep: int) -> None:
        """Begins a stream.

        Args:
            store: The bucket.
            prefix: What the keys of all its segments start with; it ends with a slash.
            header: What each segment says of the stream.
            keep: How many bytes may stay in the bucket.
        """
        self._store = store
        self._prefix = prefix
        self._log = SegmentLog(encode_header(header), keep)
        self._lock = threading.Lock()
        self._resumes = False

    @property
    def left_out(self) -> int:
        """How many records were given up since the store did not take them for too long."""
        return self._log.left_out

    @property
    def is_stored(self) -> bool:
        """Whether the store has all that is to be there."""
        with self._lock:
            return not self._log.list_changed()

    def resume(self) -> None:
        """An earlier process has stored some of it, and the same records are going to be added again."""
        self._resumes = True

    def append(self, number: int, time: float, record: bytes) -> None:
        """Adds the next record, which ends with a line break; numbers and times rise."""
        with self._lock:
            self._log.append(number, time, record)

    def store_changes(self, is_over: Callable[[], bool]) -> None:
        """Stores what has changed, and deletes what is too much, until `is_over`.

        Raises:
            StoreError: The store can't do it now, or at all; the next call goes on.
        """
        if self._resumes:
            names = (parse_segment_name(key.removeprefix(self._prefix)) for key in self._store.list(self._prefix))
            stored = sorted(name for name in names if name is not None)
            with self._lock:
                self._log.resume(stored)
            self._resumes = False
        with self._lock:
            changed = self._log.list_changed()
        for name in changed:
            with self._lock:
                version = self._log.encode(name)
            if is_over():
                return
            if version is None:
                continue
            self._store.put_bytes(f"{self._prefix}{version.name}", version.content)
            with self._lock:
                self._log.mark_stored(version)
        with self._lock:
            doomed = self._log.list_doomed()
        if doomed:
            self._store.delete(f"{self._prefix}{name}" for name in doomed)
            with self._lock:
                self._log.mark_deleted(doomed)
