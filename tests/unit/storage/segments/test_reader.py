"""What is read of the results that attempts have stored."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtune.protocol.messages import Result, encode_result
from podtune.storage.segments.reader import StoredLine, StoredResult, read_logs, read_results
from podtune.storage.segments.segment import LOG_STREAM, SegmentHeader
from podtune.storage.segments.segment_log import SMALLEST_SEGMENT
from podtune.storage.segments.segment_stream import SegmentStream
from tests.unit.storage.memory_store import MemoryStore

PREFIX = "demo/uid/"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


class Attempt:
    """One that stores its results, each of about a quarter of a segment."""

    def __init__(self, store: MemoryStore, trial: str, number: int = 1, rank: int = 0, *, keep: int = 1 << 14) -> None:
        self.id = f"pod-{trial}-{number}"
        self._stream = SegmentStream(
            store,
            f"{PREFIX}{trial}/{self.id}/results/{rank}/",
            SegmentHeader("ml", "digits", trial, self.id, number, rank),
            keep,
        )
        self._seq = 0

    def report(self, time: float, *, text: str = "x" * 1000) -> None:
        self._seq += 1
        metrics = {f"m{n}": text[n * 250 : n * 250 + 250] for n in range(4)}
        result = Result(self._seq, time, metrics, self._seq)
        self._stream.append(self._seq, time, f"{encode_result(result)}\n".encode())

    def store(self) -> None:
        self._stream.store_changes(lambda: False)


def tell(found: Iterator[StoredResult]) -> list[tuple[str, int, int, float]]:
    return [(stored.trial, stored.number, stored.result.seq, stored.result.time) for stored in found]


def test_results_of_all_trials_and_attempts_come_in_order_of_time(store: MemoryStore) -> None:
    first, other, second = Attempt(store, "digits-0"), Attempt(store, "digits-1"), Attempt(store, "digits-0", 2)
    for attempt, time in ((first, 1.0), (other, 2.0), (first, 3.0), (second, 5.0), (other, 6.0), (second, 6.5)):
        attempt.report(time)
        attempt.store()
    assert tell(read_results(store, PREFIX)) == [
        ("digits-0", 1, 1, 1.0),
        ("digits-1", 1, 1, 2.0),
        ("digits-0", 1, 2, 3.0),
        ("digits-0", 2, 1, 5.0),
        ("digits-1", 1, 2, 6.0),
        ("digits-0", 2, 2, 6.5),
    ]


def test_of_one_trial_only_its_own_are_read(store: MemoryStore) -> None:
    for trial in ("digits-1", "digits-10"):
        attempt = Attempt(store, trial)
        attempt.report(1.0)
        attempt.store()
    assert tell(read_results(store, PREFIX, trial="digits-1")) == [("digits-1", 1, 1, 1.0)]
    assert tell(read_results(store, PREFIX, trial="digits-2")) == []


def test_each_rank_of_a_gang_has_its_own(store: MemoryStore) -> None:
    for rank in (0, 1):
        attempt = Attempt(store, "digits-0", rank=rank)
        for n in range(rank + 1):
            attempt.report(float(n))
        attempt.store()
    assert [stored.rank for stored in read_results(store, PREFIX)] == [0]
    assert [stored.rank for stored in read_results(store, PREFIX, rank=1)] == [1, 1]


def test_what_was_not_kept_is_missed_and_said_so(store: MemoryStore) -> None:
    attempt = Attempt(store, "digits-0", keep=4 * SMALLEST_SEGMENT)
    for n in range(40):
        attempt.report(float(n))
        attempt.store()
    found = list(read_results(store, PREFIX))
    (after_the_gap,) = [stored for stored in found if stored.missed]
    assert after_the_gap.missed == 40 - len(found)
    assert (found[0].result.seq, found[-1].result.seq) == (1, 40)


def test_results_that_stand_in_two_segments_are_read_once(store: MemoryStore) -> None:
    """As where an agent was started again and did not know what it had stored."""
    one, other = Attempt(store, "digits-0", keep=1 << 14), Attempt(store, "digits-0", keep=1 << 16)
    for n in range(20):
        one.report(float(n))
        other.report(float(n))
    one.store()
    other.store()
    assert [stored.result.seq for stored in read_results(store, PREFIX)] == list(range(1, 21))


def test_what_is_no_segment_of_results_is_passed_over(store: MemoryStore) -> None:
    attempt = Attempt(store, "digits-0")
    attempt.report(1.0)
    attempt.store()
    ((key, content),) = store.objects.items()
    store.objects[key] = content + b"no JSON\n" + b'{"seq": 0}\n'
    name, folder = key.rpartition("/")[2], f"{PREFIX}digits-0/{attempt.id}"
    for other in (
        f"{folder}/artifacts/results/0/{name}",
        f"{folder}/3/data/results/0/{name}",
        f"{PREFIX}digits-0/results/0/{name}",
        f"{folder}/results/0/{name}.tmp",
        f"{folder}/results/0/{name.replace('0000000001-', '0000000002-')}",
    ):
        store.objects[other] = content.partition(b"\n")[2]
    assert tell(read_results(store, PREFIX)) == [("digits-0", 1, 1, 1.0)]


def test_a_segment_that_is_deleted_while_one_reads_is_missed(store: MemoryStore) -> None:
    attempt = Attempt(store, "digits-0")
    for n in range(40):
        attempt.report(float(n))
    attempt.store()
    found = read_results(store, PREFIX)
    first = next(found)
    del store.objects[sorted(store.objects)[1]]
    rest = list(found)
    assert first.result.seq == 1
    assert sum(stored.missed for stored in rest) > 0
    assert rest[-1].result.seq == 40


def test_a_trials_segments_are_opened_when_it_is_their_turn(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 20 trials, one after the other, one segment is read at a time."""
    for trial in range(20):
        attempt = Attempt(store, f"digits-{trial}")
        for n in range(8):
            attempt.report(trial * 100.0 + n)
        attempt.store()
    opened: list[str] = []
    get_bytes = store.get_bytes

    def open_segment(key: str, limit: int) -> bytes:
        opened.append(key)
        return get_bytes(key, limit)

    monkeypatch.setattr(store, "get_bytes", open_segment)
    seen: list[str] = []
    for stored in read_results(store, PREFIX):
        if stored.trial not in seen:
            seen.append(stored.trial)
        assert len({key.split("/")[2] for key in opened}) <= len(seen)
    assert len(seen) == 20


class Printing:
    """One that stores its output, a line of a quarter of a segment each time."""

    def __init__(self, store: MemoryStore, trial: str, number: int = 1, rank: int = 0, *, keep: int = 1 << 20) -> None:
        attempt = f"pod-{trial}-{number}"
        header = SegmentHeader("ml", "digits", trial, attempt, number, rank)
        prefix = f"{PREFIX}{trial}/{attempt}/logs/{rank}/"
        self._stream = SegmentStream(store, prefix, header, keep, LOG_STREAM)
        self._lines = 0

    def print(self, time: int, text: str) -> None:
        self._lines += 1
        self._stream.append(self._lines, time, f"2026-01-01T00:00:{time:02d}Z {text:1000}\n".encode())
        self._stream.store_changes(lambda: False)


def tell_lines(found: Iterator[StoredLine]) -> list[tuple[int, int, str]]:
    return [(line.number, line.rank, line.text.rstrip()) for line in found]


def test_a_log_comes_attempt_by_attempt_and_rank_by_rank(store: MemoryStore) -> None:
    second = [Printing(store, "digits-0", 2, rank) for rank in (0, 1)]  # their names sort before those of the first
    for number in (1, 10):
        for rank in (0, 1, 10):
            attempt = Printing(store, "digits-0", number, rank)
            attempt.print(number, f"attempt {number} rank {rank}")
    second[1].print(5, "attempt 2 rank 1")
    second[0].print(6, "attempt 2 rank 0")
    assert [(number, rank) for number, rank, _ in tell_lines(read_logs(store, PREFIX, "digits-0"))] == [
        (1, 0),
        (1, 1),
        (1, 10),
        (2, 0),
        (2, 1),
        (10, 0),
        (10, 1),
        (10, 10),
    ]
    assert tell_lines(read_logs(store, PREFIX, "digits-0", rank=1)) == [
        (1, 1, "attempt 1 rank 1"),
        (2, 1, "attempt 2 rank 1"),
        (10, 1, "attempt 10 rank 1"),
    ]


def test_a_log_is_that_of_one_trial_and_holds_no_results(store: MemoryStore) -> None:
    Printing(store, "digits-1").print(1, "one")
    Printing(store, "digits-10").print(2, "ten")
    attempt = Attempt(store, "digits-1")
    attempt.report(1.0)
    attempt.store()
    assert tell_lines(read_logs(store, PREFIX, "digits-1")) == [(1, 0, "one")]
    assert tell(read_results(store, PREFIX)) == [("digits-1", 1, 1, 1.0)]


def test_lines_that_were_not_kept_are_counted(store: MemoryStore) -> None:
    attempt = Printing(store, "digits-0", keep=8 * SMALLEST_SEGMENT)
    for n in range(60):
        attempt.print(n, f"line {n}")
    found = list(read_logs(store, PREFIX, "digits-0"))
    (after_the_gap,) = [line for line in found if line.missed]
    assert after_the_gap.missed == 60 - len(found)
    assert [line.text.rstrip() for line in (found[0], found[-1])] == ["line 0", "line 59"]
    assert after_the_gap.text.rstrip() == f"line {60 - (len(found) - found.index(after_the_gap))}"


def test_what_is_no_segment_of_a_log_is_passed_over(store: MemoryStore) -> None:
    Printing(store, "digits-0").print(1, "one")
    ((key, content),) = store.objects.items()
    folder, _, name = key.rpartition("/")
    for other in (
        f"{folder.removesuffix('0')}x/{name}",
        f"{folder}/{name}.gz",
        f"{folder}/{name.replace('.log', '.jsonl')}",
        f"{folder}/{name.replace('0000000001-', '0000000002-')}",
    ):
        store.objects[other] = content.partition(b"\n")[2]
    assert tell_lines(read_logs(store, PREFIX, "digits-0")) == [(1, 0, "one")]


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0.0, 50.0)), max_size=60))
def test_all_are_read_once_and_in_order_however_trials_overlap(steps: list[tuple[int, float]]) -> None:
    store = MemoryStore()
    attempts = [Attempt(store, f"digits-{n}") for n in range(4)]
    times = [0.0] * 4
    for place, seconds in steps:
        times[place] += seconds
        attempts[place].report(times[place])
        attempts[place].store()
    found = list(read_results(store, PREFIX))
    assert len(found) == len(steps)
    assert len({(stored.trial, stored.result.seq) for stored in found}) == len(steps)
    assert all(one.result.time <= next_.result.time for one, next_ in pairwise(found))
    assert not any(stored.missed for stored in found)
