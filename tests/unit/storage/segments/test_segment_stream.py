"""A stream on its way to a bucket."""

import threading

import pytest

from podtune.storage.errors import Unreachable
from podtune.storage.segments.segment import SegmentHeader, SegmentName, encode_header
from podtune.storage.segments.segment_log import SMALLEST_SEGMENT
from podtune.storage.segments.segment_stream import SegmentStream
from tests.unit.storage.memory_store import MemoryStore

PREFIX = "demo/uid/digits-7/pod-1/results/0/"
HEADER = SegmentHeader("ml", "digits", "digits-7", "pod-1", 1)


def make_stream(store: MemoryStore, keep: int = 1 << 20) -> SegmentStream:
    return SegmentStream(store, PREFIX, HEADER, keep)


def never() -> bool:
    return False


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def test_one_request_stores_what_has_changed_and_none_is_made_where_nothing_has(store: MemoryStore) -> None:
    stream = make_stream(store)
    stream.store_changes(never)
    for number in (1, 2):
        stream.append(number, 5.0, b"{}\n")
    stream.store_changes(never)
    stream.store_changes(never)
    key = f"{PREFIX}{SegmentName(1, 5000).format()}"
    assert store.operations == [f"put {key}"]
    assert store.objects[key] == encode_header(HEADER) + b"{}\n{}\n"


def test_a_store_that_fails_is_told_and_gets_all_later(store: MemoryStore) -> None:
    stream = make_stream(store)
    stream.append(1, 5.0, b"{}\n")
    store.failure = Unreachable("no answer")
    with pytest.raises(Unreachable):
        stream.store_changes(never)
    assert not stream.is_stored
    store.failure = None
    stream.store_changes(never)
    assert stream.is_stored
    assert len(store.objects) == 1


def test_what_is_too_much_is_deleted(store: MemoryStore) -> None:
    stream = make_stream(store, keep=4 * SMALLEST_SEGMENT)
    for number in range(1, 9):
        stream.append(number, float(number), b"x" * SMALLEST_SEGMENT + b"\n")
        stream.store_changes(never)
    assert [key.removeprefix(PREFIX)[:10] for key in store.objects] == ["0000000001", "0000000007", "0000000008"]


def test_nothing_is_stored_any_more_when_it_is_over(store: MemoryStore) -> None:
    stream = make_stream(store)
    stream.append(1, 5.0, b"{}\n")
    stream.store_changes(lambda: True)
    assert store.objects == {}


def test_a_process_that_is_started_again_goes_on_in_the_last_segment(store: MemoryStore) -> None:
    record = b"x" * (SMALLEST_SEGMENT // 2) + b"\n"
    first = make_stream(store, keep=4 * SMALLEST_SEGMENT)
    for number in (1, 2, 3):
        first.append(number, float(number), record)
    first.store_changes(never)
    store.operations.clear()
    again = make_stream(store, keep=4 * SMALLEST_SEGMENT)
    again.resume()
    for number in (1, 2, 3, 4):
        again.append(number, float(number), record)
    again.store_changes(never)
    assert [operation[-30:-20] for operation in store.operations] == ["0000000003", "0000000004"]


def test_a_listing_that_fails_is_asked_for_again(store: MemoryStore) -> None:
    record = b"x" * SMALLEST_SEGMENT + b"\n"
    stream = make_stream(store, keep=4 * SMALLEST_SEGMENT)
    stream.resume()
    store.failure = Unreachable("no answer")
    with pytest.raises(Unreachable):
        stream.store_changes(never)
    store.failure = None
    store.objects[f"{PREFIX}{SegmentName(1, 1000).format()}"] = b"of an earlier process"
    store.objects[f"{PREFIX}{SegmentName(2, 2000).format()}"] = b"of an earlier process, too"
    stream.append(1, 1.0, record)
    stream.append(2, 2.0, record)
    stream.store_changes(never)
    assert store.operations == [f"put {PREFIX}{SegmentName(2, 2000).format()}"]


def test_who_adds_does_not_wait_for_the_store(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = make_stream(store)
    stream.append(1, 1.0, b"first\n")
    is_storing, may_go_on = threading.Event(), threading.Event()
    put_bytes = store.put_bytes

    def put_slowly(key: str, data: bytes) -> None:
        is_storing.set()
        assert may_go_on.wait(30)
        put_bytes(key, data)

    monkeypatch.setattr(store, "put_bytes", put_slowly)
    thread = threading.Thread(target=stream.store_changes, args=(never,))
    thread.start()
    assert is_storing.wait(30)
    stream.append(2, 2.0, b"second\n")
    may_go_on.set()
    thread.join(30)
    assert not stream.is_stored
    stream.store_changes(never)
    assert [content.count(b"\n") for content in store.objects.values()] == [3]
