"""Which segments a stream becomes, and what is to be done about them."""

import hashlib
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtune.storage.segments import segment_log
from podtune.storage.segments.segment import SegmentName
from podtune.storage.segments.segment_log import SMALLEST_SEGMENT, SegmentLog

HEADER = b"header\n"
A_SEGMENT = 3
"""So many records fill one."""
RECORD = b"x" * ((SMALLEST_SEGMENT - len(HEADER)) // A_SEGMENT - 1) + b"\n"


class Stored:
    """A bucket, as the log sees it: what it was told to put and to delete."""

    def __init__(self) -> None:
        self.objects: dict[SegmentName, bytes] = {}
        self.puts: list[int] = []

    def store(self, log: SegmentLog) -> None:
        for name in log.list_changed():
            version = log.encode(name)
            assert version is not None
            self.objects[name] = b"".join(version.content.read_pieces())
            self.puts.append(name.first)
            log.mark_stored(version)
        doomed = log.list_doomed()
        for name in doomed:
            del self.objects[name]
        log.mark_deleted(doomed)

    def read(self) -> list[bytes]:
        """The records in there."""
        lines = [line for name in sorted(self.objects) for line in self.objects[name].splitlines(keepends=True)]
        return [line for line in lines if line != HEADER]


def make_record(number: int) -> bytes:
    return str(number).encode().rjust(len(RECORD) - 1, b".") + b"\n"


def append(log: SegmentLog, numbers: range) -> None:
    for number in numbers:
        log.append(number, float(number), make_record(number))


@pytest.fixture
def log() -> SegmentLog:
    """One whose segments are as small as can be, and of which four stay."""
    return SegmentLog(HEADER, keep=4 * SMALLEST_SEGMENT)


def test_the_active_segment_is_stored_again_only_when_it_has_grown(log: SegmentLog) -> None:
    stored = Stored()
    append(log, range(1, 3))
    stored.store(log)
    stored.store(log)
    append(log, range(3, 4))
    stored.store(log)
    assert stored.puts == [1, 1]
    assert stored.objects == {SegmentName(1, 1000): HEADER + b"".join(map(make_record, (1, 2, 3)))}


def test_a_full_segment_is_closed_and_never_stored_again(log: SegmentLog) -> None:
    stored = Stored()
    append(log, range(1, A_SEGMENT + 1))
    stored.store(log)
    append(log, range(A_SEGMENT + 1, A_SEGMENT + 2))
    stored.store(log)
    assert stored.puts == [1, A_SEGMENT + 1]
    assert all(len(content) <= SMALLEST_SEGMENT for content in stored.objects.values())


def test_a_segment_is_closed_at_a_mebibyte_however_much_is_kept() -> None:
    log, stored, record = SegmentLog(HEADER, keep=256 << 20), Stored(), b"x" * ((1 << 18) - 1) + b"\n"
    for number in range(1, 11):
        log.append(number, float(number), record)
    stored.store(log)
    assert stored.puts == [1, 4, 7, 10], "four records and the header are more than a mebibyte"
    assert max(map(len, stored.objects.values())) <= 1 << 20


def test_a_closed_segment_is_stored_before_the_active_one(log: SegmentLog) -> None:
    append(log, range(1, 3 * A_SEGMENT))
    assert [name.first for name in log.list_changed()] == [1, A_SEGMENT + 1, 2 * A_SEGMENT + 1]


def test_a_record_larger_than_a_segment_has_one_for_itself(log: SegmentLog) -> None:
    log.append(1, 1.0, b"x" * 2 * SMALLEST_SEGMENT + b"\n")
    log.append(2, 2.0, RECORD)
    assert [name.first for name in log.list_changed()] == [1, 2]


def test_the_first_segment_and_the_latest_stay(log: SegmentLog) -> None:
    stored = Stored()
    for number in range(1, 10 * A_SEGMENT + 1):
        append(log, range(number, number + 1))
        stored.store(log)
        size = sum(map(len, stored.objects.values()))
        assert size <= 4 * SMALLEST_SEGMENT
    firsts = [name.first for name in sorted(stored.objects)]
    assert firsts == [1, *(n * A_SEGMENT + 1 for n in (7, 8, 9))]


def test_what_would_be_deleted_at_once_is_not_stored_first(log: SegmentLog) -> None:
    stored = Stored()
    append(log, range(1, 10 * A_SEGMENT + 1))
    stored.store(log)
    assert stored.puts == [n * A_SEGMENT + 1 for n in (0, 6, 7, 8, 9)]
    assert [name.first for name in sorted(stored.objects)] == [n * A_SEGMENT + 1 for n in (0, 7, 8, 9)]
    assert log.left_out == 0


def test_a_segment_that_is_dropped_on_its_way_to_the_store_is_deleted_from_it(log: SegmentLog) -> None:
    append(log, range(1, 3 * A_SEGMENT))
    versions = [log.encode(name) for name in log.list_changed()]
    append(log, range(3 * A_SEGMENT, 10 * A_SEGMENT + 1))
    for version in versions:
        assert version is not None
        log.mark_stored(version)
    second = versions[1]
    assert second is not None
    assert second.name in log.list_doomed()


@given(
    keep=st.integers(1, 20 * SMALLEST_SEGMENT),
    sizes=st.lists(st.integers(1, SMALLEST_SEGMENT - len(HEADER)), max_size=120),
    stores=st.sets(st.integers(0, 119)),
    restarts=st.sets(st.integers(0, 119), max_size=3),
)
def test_a_log_keeps_its_head_and_its_tail_exactly_and_misses_what_is_between(
    keep: int, sizes: list[int], stores: set[int], restarts: set[int]
) -> None:
    """However often it is stored, and whoever stores it: a process that is started again goes on after the last."""
    stored, log = Stored(), SegmentLog(HEADER, keep, head=keep // 2)
    records = [str(number).encode().rjust(size - 1, b".")[: size - 1] + b"\n" for number, size in enumerate(sizes, 1)]
    for place, record in enumerate(records):
        log.append(place + 1, float(place), record)
        if place in stores | restarts:
            stored.store(log)
        if place in restarts:
            log = SegmentLog(HEADER, keep, head=keep // 2)
            log.continue_after(sorted(stored.objects))
    stored.store(log)

    found: dict[int, bytes] = {}
    for name, content in stored.objects.items():
        lines = content.removeprefix(HEADER).splitlines(keepends=True)
        found |= dict(enumerate(lines, name.first))
    assert all(records[number - 1] == line for number, line in found.items())
    numbers = sorted(found)
    kept = len(numbers)
    head = next((n for n in range(kept) if numbers[n] != n + 1), kept)
    tail = numbers[head:]
    assert tail == list(range(len(records) - len(tail) + 1, len(records) + 1)), "one gap, between head and tail"
    size = sum(map(len, stored.objects.values()))
    segment = max(SMALLEST_SEGMENT, keep // 8)
    if not restarts:
        assert size <= max(keep, 2 * segment) + segment
        assert kept == len(records) or size >= keep - 2 * segment


def test_half_of_a_log_is_for_its_head() -> None:
    keep = 64 * SMALLEST_SEGMENT
    stored, log = Stored(), SegmentLog(HEADER, keep, head=keep // 2)
    for number in range(1, 1001):
        append(log, range(number, number + 1))
        stored.store(log)
    numbers = sorted(
        int(line.strip(b".\n")) for content in stored.objects.values() for line in content.splitlines()[1:]
    )
    head = [number for place, number in enumerate(numbers, 1) if number == place]
    tail = numbers[len(head) :]
    assert tail == list(range(1001 - len(tail), 1001))
    assert keep // 2 - 4 * len(RECORD) <= len(head) * len(RECORD) <= keep // 2
    assert keep * 3 // 8 - len(RECORD) <= len(tail) * len(RECORD) <= keep // 2


def test_what_the_store_does_not_take_is_given_up_from_the_front_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_log, "MAX_UNSTORED", 2 * SMALLEST_SEGMENT)
    log, stored = SegmentLog(HEADER, keep=4 * SMALLEST_SEGMENT), Stored()
    append(log, range(1, 6 * A_SEGMENT + 1))
    stored.store(log)
    assert [name.first for name in sorted(stored.objects)] == [n * A_SEGMENT + 1 for n in (3, 4, 5)]
    assert log.left_out == 3 * A_SEGMENT


@given(
    cuts=st.lists(st.integers(1, 60), min_size=1, max_size=4),
    records=st.integers(1, 60),
    late=st.booleans(),
)
def test_processes_that_are_killed_and_read_all_anew_leave_each_record_once(
    cuts: list[int], records: int, late: bool
) -> None:
    """Each stores what it has read up to some record, and is killed; the last one comes to the end."""
    stored = Stored()
    for end in [*cuts, records]:
        log = SegmentLog(HEADER, keep=1 << 20)
        if late:  # the listing takes its time
            append(log, range(1, min(end, records) + 1))
            log.resume(sorted(stored.objects))
        else:
            log.resume(sorted(stored.objects))
            append(log, range(1, min(end, records) + 1))
        before = dict(stored.objects)
        stored.store(log)
        for name in sorted(before)[:-1]:
            assert stored.objects[name] is before[name], "stored anew though an earlier process was done with it"
    last = max(min(cut, records) for cut in [*cuts, records])
    assert stored.read() == [make_record(number) for number in range(1, last + 1)]


@pytest.mark.parametrize("is_listing_late", [False, True])
def test_a_process_that_is_started_again_does_not_bring_back_what_was_deleted(
    log: SegmentLog, is_listing_late: bool
) -> None:
    stored = Stored()
    for number in range(1, 10 * A_SEGMENT):
        append(log, range(number, number + 1))
        stored.store(log)
    names = sorted(stored.objects)
    again = SegmentLog(HEADER, keep=4 * SMALLEST_SEGMENT)
    if is_listing_late:
        append(again, range(1, 11 * A_SEGMENT))
    again.resume(names)
    if not is_listing_late:
        append(again, range(1, 11 * A_SEGMENT))
    stored.store(again)
    firsts = [name.first for name in sorted(stored.objects)]
    assert firsts == [1, *(n * A_SEGMENT + 1 for n in (8, 9, 10))]


def test_records_that_are_numbered_otherwise_than_before_are_all_stored(log: SegmentLog) -> None:
    """Of a program whose output was rotated meanwhile, other lines are the first."""
    log.resume([SegmentName(1, 1000), SegmentName(6, 6000)])
    append(log, range(2, 8))
    assert [name.first for name in log.list_changed()] == [6]


def test_a_segment_takes_little_more_memory_than_its_records_and_none_to_be_stored() -> None:
    log = SegmentLog(HEADER, keep=256 << 20)
    tracemalloc.start()
    try:
        for number in range(4000):
            log.append(number, float(number), b"%0199d\n" % number)
        held, _ = tracemalloc.get_traced_memory()
        (name,) = log.list_changed()
        version = log.encode(name)
        encoded, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert version is not None
    content = b"".join(version.content.read_pieces())
    assert content == HEADER + b"".join(b"%0199d\n" % number for number in range(4000))
    assert (version.content.size, version.content.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    assert held < 1.1 * len(content)
    assert encoded - held < 0.1 * len(content)
