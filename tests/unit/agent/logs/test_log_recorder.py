"""What of a program's output is put into segments."""

import pytest

from podtune.agent.logs import log_recorder
from podtune.agent.logs.log_recorder import LogRecorder
from podtune.storage.errors import Unreachable
from podtune.storage.segments.reader import StoredLine, read_logs
from podtune.storage.segments.segment import LOG_STREAM, SegmentHeader
from podtune.storage.segments.segment_stream import SegmentStream
from tests.unit.agent.printed_log import stamped
from tests.unit.storage.memory_store import MemoryStore

PREFIX = "demo/uid/"
HEADER = SegmentHeader("ml", "digits", "digits-7", "pod-1", 1)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def make_recorder(store: MemoryStore, clock: Clock | None = None, keep: int = 1 << 20) -> LogRecorder:
    clock = clock or Clock()
    return LogRecorder(SegmentStream(store, f"{PREFIX}digits-7/pod-1/logs/0/", HEADER, keep, LOG_STREAM), clock)


def take(recorder: LogRecorder, *lines: bytes) -> None:
    for line in lines:
        recorder.take(line.removesuffix(b"\n"))


def store_all(recorder: LogRecorder) -> None:
    recorder.store_changes(lambda: False)


def read(store: MemoryStore) -> list[StoredLine]:
    return list(read_logs(store, PREFIX, "digits-7"))


def texts(store: MemoryStore) -> list[str]:
    return [line.text for line in read(store)]


def test_lines_are_stored_with_the_time_of_their_print(store: MemoryStore) -> None:
    recorder = make_recorder(store)
    take(recorder, stamped(1, "starting"), stamped(2, ""), stamped(3, "caf\xe9 "))
    store_all(recorder)
    assert read(store) == [
        StoredLine("digits-7", "pod-1", 1, 0, "2026-01-01T00:00:01.000000001Z", "starting", 0),
        StoredLine("digits-7", "pod-1", 1, 0, "2026-01-01T00:00:02.000000002Z", "", 0),
        StoredLine("digits-7", "pod-1", 1, 0, "2026-01-01T00:00:03.000000003Z", "caf\xe9 ", 0),
    ]
    (key,) = store.objects
    assert key == f"{PREFIX}digits-7/pod-1/logs/0/0000000001-1767225601000.log"


def test_what_is_too_much_for_the_time_is_dropped_and_said_so(
    store: MemoryStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_recorder, "BURST", 3 * 40)
    monkeypatch.setattr(log_recorder, "RESUMES_AT", 2 * 40)
    monkeypatch.setattr(log_recorder, "KEPT_BYTES_A_SECOND", 40)
    recorder = make_recorder(store, clock)
    assert len(stamped(1, "one two s")) == 41
    take(recorder, *(stamped(number, "one two ") for number in range(1, 7)))  # three of them are too many
    assert recorder.compute_wait() == 2.0
    clock.now = 1.0
    take(recorder, stamped(8, "one two "))
    clock.now = 2.0
    assert recorder.compute_wait() == 0.0
    take(recorder, stamped(9, "again"))
    store_all(recorder)
    assert [text.strip() for text in texts(store)] == [
        "one two",
        "one two",
        "one two",
        "[podtune: what was printed since 2026-01-01T00:00:04.000000004Z is not kept, because it is more than 0 KiB "
        "a second]",
        "again",
    ]


def test_of_a_program_that_prints_too_much_to_its_end_the_last_lines_are_kept(
    store: MemoryStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_recorder, "BURST", 3 * 40)
    monkeypatch.setattr(log_recorder, "KEPT_AT_END", 2 * 40)
    recorder = make_recorder(store, clock)
    take(recorder, *(stamped(number, f"line {number}") for number in range(1, 9)))
    recorder.finish()
    recorder.finish()
    store_all(recorder)
    assert texts(store) == [
        "line 1",
        "line 2",
        "line 3",
        "[podtune: what was printed since 2026-01-01T00:00:04.000000004Z is not kept, because it is more than 256 KiB "
        "a second]",
        "line 7",
        "line 8",
    ]


def test_where_all_was_recorded_the_end_adds_nothing(store: MemoryStore) -> None:
    recorder = make_recorder(store)
    take(recorder, stamped(1, "one"))
    recorder.finish()
    store_all(recorder)
    assert texts(store) == ["one"]


def test_a_burst_of_a_whole_file_is_kept(store: MemoryStore) -> None:
    recorder = make_recorder(store, keep=64 << 20)
    line = b"2026-01-01T00:00:00Z " + b"x" * (1 << 16)
    for _ in range(10 * 16):
        recorder.take(line)
    assert recorder.compute_wait() == 0.0
    store_all(recorder)
    assert len(read(store)) == 160


def test_a_process_that_is_started_again_goes_on_after_the_last_line(store: MemoryStore) -> None:
    """It reads from the beginning, or from the first line after the file was changed for a new one."""
    lines = [stamped(number, f"line {number}", nanos) for number, nanos in ((1, 1), (2, 5), (2, 5), (2, 5), (2, 6))]
    first = make_recorder(store)
    take(first, *lines[:3])
    store_all(first)
    for begin in (0, 1):
        again = make_recorder(store)
        again.resume()
        take(again, *lines[begin:4])
        store_all(again)
        take(again, *lines[4:])
    store_all(again)
    assert texts(store) == ["line 1", "line 2", "line 2", "line 2", "line 2"]
    assert not any(line.missed for line in read(store))


def test_a_process_that_is_started_again_waits_for_the_store(store: MemoryStore) -> None:
    first = make_recorder(store)
    take(first, stamped(1, "one"))
    store_all(first)
    again = make_recorder(store)
    again.resume()
    take(again, stamped(1, "one"), stamped(2, "two"))
    store.failure = Unreachable("no answer")
    with pytest.raises(Unreachable):
        store_all(again)
    take(again, stamped(3, "three"))
    store.failure = None
    store_all(again)
    assert texts(store) == ["one", "two", "three"]


def test_a_process_that_is_started_again_before_anything_was_stored_begins_anew(store: MemoryStore) -> None:
    recorder = make_recorder(store)
    recorder.resume()
    take(recorder, stamped(1, "one"))
    store_all(recorder)
    assert texts(store) == ["one"]
