"""One stream of records on its way to the bucket."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from podtune.storage.object_store import ObjectStore
from podtune.storage.segments.segment import (
    LOG_STREAM,
    RESULT_STREAM,
    SegmentHeader,
    SegmentName,
    encode_header,
    parse_segment_name,
)
from podtune.storage.segments.segment_log import MAX_SEGMENT_BYTES, SegmentLog


class SegmentNaming(Protocol):
    """How the segments of a stream are called: the last part of their keys."""

    def format(self, name: SegmentName) -> str:
        """The last part of a segment's key."""

    def parse(self, text: str) -> SegmentName | None:
        """Reads the last part of a key; None where it is that of something else."""


class ObjectStream:
    """Takes the records of one stream, and stores what has changed when it is told to.

    One thread adds records, another one stores them: storing takes its time, and nobody who adds waits for it.

    Attributes:
        kind: What its records are called in the agent's log.
    """

    def __init__(self, store: ObjectStore, prefix: str, log: SegmentLog, kind: str, names: SegmentNaming) -> None:
        """Begins a stream.

        Args:
            store: The bucket.
            prefix: What the keys of all its segments start with; it ends with a slash.
            log: Splits it into segments.
            kind: What its records are called.
            names: How its segments are called.
        """
        self.kind = kind
        self._store = store
        self._prefix = prefix
        self._log = log
        self._names = names
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

    def list_stored(self) -> list[SegmentName]:
        """The segments that are in the bucket, sorted.

        Raises:
            StoreError: The store can't tell now, or at all.
        """
        keys = self._store.list(self._prefix)
        names = (self._names.parse(key.removeprefix(self._prefix)) for key in keys)
        return sorted(name for name in names if name is not None)

    def read_records(self, name: SegmentName) -> list[bytes]:
        """The records of a segment that is in the bucket, without their line breaks.

        Raises:
            StoreError: The store can't tell now, or at all.
        """
        content = self._store.get_bytes(self._build_key(name), MAX_SEGMENT_BYTES)
        return content.split(b"\n")[1:-1]

    def continue_after(self, stored: Sequence[SegmentName]) -> None:
        """An earlier process has stored these, and what is added comes after them; none of it was added yet."""
        with self._lock:
            self._log.continue_after(stored)

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
            stored = self.list_stored()
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
            self._store.put_content(self._build_key(version.name), version.content)
            with self._lock:
                self._log.mark_stored(version)
        with self._lock:
            doomed = self._log.list_doomed()
        if doomed:
            self._store.delete(map(self._build_key, doomed))
            with self._lock:
                self._log.mark_deleted(doomed)

    def _build_key(self, name: SegmentName) -> str:
        return f"{self._prefix}{self._names.format(name)}"


class SegmentStream(ObjectStream):
    """The results or the log of an attempt, in segments of lines."""

    def __init__(
        self, store: ObjectStore, prefix: str, header: SegmentHeader, keep: int, kind: str = RESULT_STREAM
    ) -> None:
        """Begins a stream.

        Args:
            store: The bucket.
            prefix: What the keys of all its segments start with; it ends with a slash.
            header: What each segment says of the stream.
            keep: How many bytes may stay in the bucket; of a log, half of them are for its begin.
            kind: Which kind of stream it is.
        """
        log = SegmentLog(encode_header(header, kind), keep, head=keep // 2 if kind == LOG_STREAM else 0)
        super().__init__(store, prefix, log, kind, _LineSegmentNaming(kind))


@dataclass(frozen=True, slots=True)
class _LineSegmentNaming:
    """The names of segments of a kind of stream."""

    kind: str

    def format(self, name: SegmentName) -> str:
        return name.format(self.kind)

    def parse(self, text: str) -> SegmentName | None:
        return parse_segment_name(text, self.kind)
