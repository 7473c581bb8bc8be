"""How the records of one stream are split into segments, and which of these have to be stored or deleted."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from podtune.storage.content import Content, PiecesContent
from podtune.storage.segments.segment import LATEST, SegmentName

LARGEST_SEGMENT = 1 << 20
SMALLEST_SEGMENT = 4 << 10
MAX_SEGMENT_BYTES = 2 * LARGEST_SEGMENT
"""The last record of a segment may pass its size, but not by as much as that."""
MAX_UNSTORED = 16 << 20
"""Bytes of closed segments that are held while the store does not take them."""
_PIECE = 32 << 10
"""A segment is held, and sent, in pieces of so many bytes."""


@dataclass(frozen=True, slots=True)
class SegmentVersion:
    """A segment as it is to be stored now.

    Attributes:
        records: How many records of it are in there.
    """

    name: SegmentName
    content: Content
    records: int


@dataclass(slots=True)
class _Unstored:
    """A segment that is not in the store, or not all of it.

    Attributes:
        is_head: Whether it stays for good.
        last: Number of its last record.
        count: How many records it has.
        stored: How many of them are in the store.
        size: Its bytes, the header included.
        pieces: What it begins with, and `tail` the rest. A process holds a segment for an hour or more. An object for
            each of thousands of short records would take a quarter more, and one piece that is copied each time that
            it is stored, twice as much.
    """

    name: SegmentName
    is_head: bool
    last: int = 0
    size: int = 0
    count: int = 0
    stored: int = 0
    pieces: list[bytes] = field(default_factory=list)
    tail: bytearray = field(default_factory=bytearray)

    def append(self, record: bytes) -> None:
        """Takes the header, or the next record."""
        self.tail += record
        self.size += len(record)
        if len(self.tail) >= _PIECE:
            self.pieces.append(bytes(self.tail))
            self.tail = bytearray()

    def encode(self) -> SegmentVersion:
        """The segment as it is now."""
        pieces = (*self.pieces, bytes(self.tail)) if self.tail else tuple(self.pieces)
        return SegmentVersion(self.name, PiecesContent(pieces, self.size), self.count)

    @property
    def is_stored(self) -> bool:
        """Whether all of it is in the store."""
        return self.stored == self.count


@dataclass(frozen=True, slots=True)
class _Stored:
    """A closed segment that is in the store.

    Attributes:
        is_head: Whether it stays for good.
    """

    name: SegmentName
    is_head: bool
    size: int


class SegmentLog:
    """Splits a stream into segments, keeps what the store does not have, and says what has to go.

    The same records are always split in the same way. So a process that is started again, and reads them anew, makes
    the same segments; those that an earlier one has dealt with are passed over.

    Records and segments are in the order of their numbers. Not thread-safe.

    Attributes:
        left_out: How many records were given up since the store did not take them for too long.
    """

    def __init__(self, header: bytes, keep: int, *, head: int = 0) -> None:
        """Begins a stream.

        Args:
            header: First line of each segment.
            keep: How many bytes may stay in the store: those of the first segments and of the latest ones.
            head: How many of these are for the first segments; one of them stays in any case.
        """
        self._header = header
        self._keep = keep
        self._head_left = head
        self._segment_size = min(LARGEST_SEGMENT, max(SMALLEST_SEGMENT, keep // 8))
        self._stored: list[_Stored] = []
        self._closed: deque[_Unstored] = deque()
        self._active: _Unstored | None = None
        self._base = 0
        """Records before this one were dealt with by an earlier process."""
        self._has_begun = False
        self.left_out = 0

    def append(self, number: int, time: float, record: bytes) -> None:
        """Takes the next record, which ends with a line break; numbers and times rise."""
        active = self._active
        if active is None or active.size + len(record) > self._segment_size or active.name.first < self._base <= number:
            self._close()
            name = SegmentName(number, min(max(0, int(time * 1000)), LATEST))
            active = self._active = _Unstored(name, self._claim_head())
            active.append(self._header)
        active.append(record)
        active.count += 1
        active.last = number

    def resume(self, stored: Sequence[SegmentName]) -> None:
        """Learns what an earlier process has stored, sorted: all but its last segment is dealt with."""
        if not stored:
            return
        self._base = stored[-1].first
        self._closed = deque(segment for segment in self._closed if segment.last >= self._base)
        ours = {segment.name for segment in self._list_unstored()} | {stored[-1]}
        # A listing does not tell sizes.
        done = [name for name in stored if name not in ours]
        self._stored = [_Stored(name, name == stored[0], self._segment_size) for name in done]

    def continue_after(self, stored: Sequence[SegmentName]) -> None:
        """Learns what an earlier process has stored, sorted: the records that come follow those, none comes again."""
        self._stored = [_Stored(name, self._claim_head(), self._segment_size) for name in stored]

    def list_changed(self) -> list[SegmentName]:
        """The segments that have to be stored, in the order in which they have to be: the active one comes last."""
        unstored = (segment for segment in self._list_unstored() if not segment.is_stored)
        return [segment.name for segment in unstored if segment.last >= self._base]

    def encode(self, name: SegmentName) -> SegmentVersion | None:
        """A segment as it is to be stored now; None where it was given up meanwhile."""
        for segment in self._list_unstored():
            if segment.name == name:
                return segment.encode()
        return None

    def mark_stored(self, version: SegmentVersion) -> None:
        """This version of a segment is in the store."""
        found = next((segment for segment in self._list_unstored() if segment.name == version.name), None)
        if found is not None:
            found.stored = version.records
        elif all(segment.name != version.name for segment in self._stored):
            # It was dropped on its way to the store, where it is now, and has to be deleted from.
            self._stored.append(_Stored(version.name, False, version.content.size))
            self._stored.sort(key=lambda segment: segment.name)
        while self._closed and self._closed[0].is_stored:
            self._move_to_stored(self._closed.popleft())

    def list_doomed(self) -> list[SegmentName]:
        """The stored segments that are too many: the oldest ones but for the first."""
        excess = self._compute_excess()
        doomed: list[SegmentName] = []
        for segment in self._stored:
            if excess <= 0:
                break
            if not segment.is_head:
                doomed.append(segment.name)
                excess -= segment.size
        return doomed

    def mark_deleted(self, names: Collection[SegmentName]) -> None:
        """These are not in the store any more."""
        self._stored = [segment for segment in self._stored if segment.name not in names]

    def _compute_excess(self) -> int:
        """How many bytes too many there are, stored or not."""
        segments: tuple[Sequence[_Stored | _Unstored], ...] = (self._stored, self._list_unstored())
        return sum(segment.size for kind in segments for segment in kind) - self._keep

    def _claim_head(self) -> bool:
        """Whether a segment that is begun stays for good: the first one, and as many as there is room for."""
        is_head = not self._has_begun or self._head_left >= self._segment_size
        self._has_begun = True
        if is_head:
            self._head_left -= self._segment_size
        return is_head

    def _list_unstored(self) -> list[_Unstored]:
        return [*self._closed, *([self._active] if self._active else [])]

    def _close(self) -> None:
        """Nothing is added to the active segment any more."""
        closed, self._active = self._active, None
        if closed is None or closed.last < self._base:
            return
        if closed.is_stored:
            self._move_to_stored(closed)
            return
        self._closed.append(closed)
        unstored = sum(segment.size for segment in self._closed)
        while unstored > MAX_UNSTORED and len(self._closed) > 1:
            given_up = self._closed.popleft()
            unstored -= given_up.size
            self.left_out += given_up.count
        self._drop_excess()

    def _drop_excess(self) -> None:
        """Drops segments that would be deleted as soon as they were stored, so that they are not stored first."""
        excess = self._compute_excess() - sum(segment.size for segment in self._stored if not segment.is_head)
        for segment in list(self._closed):
            if excess <= 0:
                break
            if segment.is_head:
                continue
            self._closed.remove(segment)
            if segment.stored:
                self._move_to_stored(segment)  # from where it is deleted
            excess -= segment.size

    def _move_to_stored(self, segment: _Unstored) -> None:
        self._stored.append(_Stored(segment.name, segment.is_head, segment.size))
