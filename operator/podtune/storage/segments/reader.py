"""Reads what attempts have stored in segments."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from podtune.protocol.fields import ProtocolError, read_json
from podtune.protocol.messages import Result, parse_result
from podtune.storage.errors import NotFound
from podtune.storage.object_store import ReadableStore
from podtune.storage.segments.segment import (
    LOG_STREAM,
    RESULT_STREAM,
    SegmentHeader,
    SegmentName,
    parse_header,
    parse_segment_name,
)
from podtune.storage.segments.segment_log import MAX_SEGMENT_BYTES


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A result that an attempt has stored.

    Attributes:
        attempt: The attempt's id.
        number: Number of the attempt among the trial's.
        rank: Rank of the pod in its gang; 0 where it is alone.
        missed: How many of the attempt's results are missing before this one: deleted, or never stored.
    """

    trial: str
    attempt: str
    number: int
    rank: int
    result: Result
    missed: int


@dataclass(frozen=True, slots=True)
class StoredLine:
    """A line of output that an attempt has stored.

    Attributes:
        attempt: The attempt's id.
        number: Number of the attempt among the trial's.
        rank: Rank of the pod in its gang; 0 where it is alone.
        time: When it was printed, in RFC 3339, as the kubelet has it.
        missed: How many lines of the attempt and rank are missing before this one: dropped, or never stored.
    """

    trial: str
    attempt: str
    number: int
    rank: int
    time: str
    text: str
    missed: int


def read_logs(
    store: ReadableStore, experiment_prefix: str, trial: str, *, rank: int | None = None
) -> Iterator[StoredLine]:
    """Reads the stored log of a trial: attempt by attempt, and in each rank by rank.

    At no time more than one segment is held in memory. What is no segment, or can't be read, is passed over.

    Args:
        store: The bucket.
        experiment_prefix: What all keys of the experiment start with; it ends with a slash.
        trial: The trial whose log is wanted.
        rank: Of a gang: the rank whose log is wanted; all when None.

    Raises:
        StoreError: The store can't be read now, or at all.
    """
    listed = store.list(f"{experiment_prefix}{trial}/")
    attempts: defaultdict[str, list[tuple[int, str, list[SegmentName]]]] = defaultdict(list)
    for prefix, names in group_segments(listed, experiment_prefix, LOG_STREAM, rank).items():
        _, folder, _, found_rank, _ = prefix.removeprefix(experiment_prefix).split("/")
        attempts[folder].append((int(found_rank), prefix, sorted(names)))
    # Attempts follow one another in time.
    for ranks in sorted(attempts.values(), key=lambda ranks: min(names[0].time_ms for _, _, names in ranks)):
        for _, prefix, names in sorted(ranks):
            yield from _read_lines(store, prefix, names)


def _read_lines(store: ReadableStore, prefix: str, names: list[SegmentName]) -> Iterator[StoredLine]:
    """The lines of one attempt and rank."""
    last = 0
    for name in names:
        content = read_segment(store, f"{prefix}{name.format(LOG_STREAM)}", LOG_STREAM)
        if content is None:
            continue
        header, lines = content
        for number, line in enumerate(lines[:-1], name.first):
            if number <= last:
                continue
            time, _, text = line.decode("utf-8", "replace").partition(" ")
            missed, last = number - last - 1, number
            yield StoredLine(header.trial, header.attempt, header.number, header.rank, time, text, missed)


def read_segment(store: ReadableStore, key: str, stream: str) -> tuple[SegmentHeader, list[bytes]] | None:
    """A segment's header, and what follows it, split at line breaks; None where there is none, or no longer one."""
    try:
        first, *lines = store.get_bytes(key, MAX_SEGMENT_BYTES).split(b"\n")
        return parse_header(first, stream), lines
    except (NotFound, ProtocolError):
        return None  # it was deleted since the listing, or is something else


def read_results(
    store: ReadableStore, experiment_prefix: str, *, trial: str = "", rank: int = 0
) -> Iterator[StoredResult]:
    """Reads all results of an experiment in order of time, each once.

    At no time more segments are held in memory than trials have run at once. An iteration that ran again in a later
    attempt is two results. What is no segment, or can't be read, is passed over.

    Args:
        store: The bucket.
        experiment_prefix: What all keys of the experiment start with; it ends with a slash.
        trial: The only trial whose results are wanted; all trials' when empty.
        rank: Of a gang: the rank whose results are wanted.

    Raises:
        StoreError: The store can't be read now, or at all.
    """
    listed = store.list(experiment_prefix + (f"{trial}/" if trial else ""))
    found = group_segments(listed, experiment_prefix, RESULT_STREAM, rank)
    for _, stored in merge_results(store, found.items()):
        yield stored


def merge_results(
    store: ReadableStore, segments: Iterable[tuple[str, Sequence[SegmentName]]]
) -> Iterator[tuple[int, StoredResult]]:
    """Reads the results of several streams in order of time, each with the place of its stream among them.

    Args:
        store: The bucket.
        segments: Of each stream what its keys start with, and its segments, as `group_segments` finds them.

    Raises:
        StoreError: The store can't be read now, or at all.
    """
    streams = [_Stream(store, prefix, sorted(names)) for prefix, names in segments]
    waiting: list[tuple[float, int]] = []

    def wait(place: int) -> None:
        if (time := streams[place].next_time) is not None:
            heapq.heappush(waiting, (time, place))

    for place in range(len(streams)):
        wait(place)
    while waiting:
        _, place = heapq.heappop(waiting)
        if (result := streams[place].take()) is not None:
            yield place, result
        wait(place)


def parse_results(lines: Iterable[bytes]) -> Iterator[Result]:
    """The results in a segment's lines; a line that is none is passed over, such as one that was cut off."""
    for line in lines:
        try:
            yield parse_result(read_json(line))
        except ProtocolError:
            continue


def group_segments(
    keys: Iterator[str], experiment_prefix: str, stream: str, rank: int | None
) -> dict[str, list[SegmentName]]:
    """The segments among the keys of an experiment, by what the keys of a stream start with."""
    found: defaultdict[str, list[SegmentName]] = defaultdict(list)
    for key in keys:
        parts = key.removeprefix(experiment_prefix).split("/")
        if len(parts) != 5 or parts[2] != stream or not _is_rank(parts[3], rank):
            continue
        if name := parse_segment_name(parts[4], stream):
            found[key.removesuffix(parts[4])].append(name)
    return found


def _is_rank(text: str, wanted: int | None) -> bool:
    """Whether part of a key is the rank that is wanted, or any where that is None."""
    return text == str(wanted) if wanted is not None else text.isascii() and text.isdecimal()


class _Stream:
    """The results of one attempt and rank, segment by segment."""

    def __init__(self, store: ReadableStore, prefix: str, names: list[SegmentName]) -> None:
        self._store = store
        self._prefix = prefix
        self._names = iter(names)
        self._name = next(self._names, None)
        self._records: Iterator[StoredResult] = iter(())
        self._next: StoredResult | None = None
        self._last_seq = 0

    @property
    def next_time(self) -> float | None:
        """When the next result was read, or a time not later than that; None where nothing is left."""
        if self._next is not None:
            return self._next.result.time
        return None if self._name is None else self._name.time_ms / 1000

    def take(self) -> StoredResult | None:
        """The next result; None where a segment had to be opened first, and its first result's time be known."""
        taken = self._next
        if taken is None and self._name is not None:
            self._records = self._open(self._name)
            self._name = next(self._names, None)
        self._next = next(self._records, None)
        return taken

    def _open(self, name: SegmentName) -> Iterator[StoredResult]:
        """The results of a segment that come after those that were read before."""
        content = read_segment(self._store, f"{self._prefix}{name.format()}", RESULT_STREAM)
        if content is None:
            return
        header, lines = content
        for result in parse_results(lines):
            if result.seq > self._last_seq:
                yield self._tell(header, result)

    def _tell(self, header: SegmentHeader, result: Result) -> StoredResult:
        missed, self._last_seq = result.seq - self._last_seq - 1, result.seq
        return StoredResult(header.trial, header.attempt, header.number, header.rank, result, missed)
