"""What is read of an experiment that was restored: each result once, with those of its earlier lives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from podtune.protocol.messages import Result, encode_result
from podtune.storage.address import FileAddress
from podtune.storage.object_store import ObjectStore
from podtune.storage.segments.former import FormerFolder, read_all_logs, read_all_results
from podtune.storage.segments.segment import LOG_STREAM, SegmentHeader
from podtune.storage.segments.segment_stream import SegmentStream
from podtune.storage.stores import make_store

LOST = FormerFolder("demo/lost/", "digits", "digits")
NOW = "demo/now/"


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return make_store(FileAddress(str(tmp_path)))


def report(
    store: ObjectStore, folder: str, steps: Sequence[int], *, number: int, time: float, trial: str = "digits-0"
) -> None:
    """Results of one attempt, one a second."""
    attempt = f"pod-{folder.split('/')[1]}-{number}"
    header = SegmentHeader("ml", "digits", trial, attempt, number)
    stream = SegmentStream(store, f"{folder}{trial}/{attempt}/results/0/", header, 1 << 20)
    for seq, step in enumerate(steps, 1):
        stream.append(seq, time + seq, f"{encode_result(Result(seq, time + seq, {}, step))}\n".encode())
    stream.store_changes(lambda: False)


def tell(
    store: ObjectStore, former: Sequence[FormerFolder] = (LOST,), folder: str = NOW, trial: str = "digits-0"
) -> list[tuple[int, int]]:
    """Attempt and iteration of each result of a trial."""
    found = list(read_all_results(store, folder, former, trial=trial))
    assert {stored.trial for stored in found} <= {trial}
    assert [stored.result.time for stored in found] == sorted(stored.result.time for stored in found)
    return [(stored.number, stored.result.step) for stored in found]


def test_what_a_later_life_runs_again_is_told_once(store: ObjectStore) -> None:
    report(store, LOST.prefix, [1, 2, 3, 4, 5], number=1, time=0)
    assert tell(store) == [(1, 1), (1, 2), (1, 3), (1, 4), (1, 5)]
    report(store, NOW, [4, 5, 6], number=2, time=100)
    assert tell(store) == [(1, 1), (1, 2), (1, 3), (2, 4), (2, 5), (2, 6)]


def test_an_attempt_that_a_later_life_knew_nothing_of_is_left_out(store: ObjectStore) -> None:
    """After the snapshot of attempt 1, the lost life went back and further than the restored one has come."""
    report(store, LOST.prefix, [1, 2, 3, 4], number=1, time=0)
    report(store, LOST.prefix, [4, 5], number=2, time=50)
    report(store, LOST.prefix, [2, 3, 9], number=3, time=60)
    report(store, NOW, [4], number=2, time=100)
    assert tell(store) == [(1, 1), (1, 2), (1, 3), (2, 4)]


def test_an_attempt_that_ran_at_the_snapshot_is_told_up_to_where_the_next_of_its_number_went_on(
    store: ObjectStore,
) -> None:
    """A restored trial counts the attempts that had ended: its first one has the number of the one that was lost."""
    report(store, LOST.prefix, [1, 2, 3], number=1, time=0)
    report(store, LOST.prefix, [3, 4, 5, 6], number=2, time=50)
    report(store, NOW, [6, 7], number=2, time=100)
    assert tell(store) == [(1, 1), (1, 2), (1, 3), (2, 3), (2, 4), (2, 5), (2, 6), (2, 7)]


def test_what_ran_again_in_a_former_life_stays_two_results(store: ObjectStore) -> None:
    report(store, LOST.prefix, [1, 2, 3], number=1, time=0)
    report(store, LOST.prefix, [3, 4, 5], number=2, time=50)
    report(store, NOW, [5], number=3, time=100)
    assert tell(store) == [(1, 1), (1, 2), (1, 3), (2, 3), (2, 4), (3, 5)]


def test_a_trial_that_began_anew_has_only_its_new_results(store: ObjectStore) -> None:
    report(store, LOST.prefix, [1, 2], number=1, time=0)
    report(store, NOW, [1], number=1, time=100)
    assert tell(store) == [(1, 1)]


def test_after_two_losses_the_last_life_has_the_last_word(store: ObjectStore) -> None:
    first = FormerFolder("demo/first/", "digits", "numbers")
    second = FormerFolder("demo/second/", "images", "numbers")
    report(store, first.prefix, [1, 2, 3, 4], number=1, time=0)
    report(store, second.prefix, [4, 5], number=2, time=50, trial="images-0")
    report(store, first.prefix, [1], number=1, time=60, trial="digits-10")
    former = (first, second)
    assert tell(store, former, trial="numbers-0") == [(1, 1), (1, 2), (1, 3), (2, 4), (2, 5)]
    report(store, NOW, [3], number=3, time=100, trial="numbers-0")
    assert tell(store, former, trial="numbers-0") == [(1, 1), (1, 2), (3, 3)]
    whole = [(stored.trial, stored.result.step) for stored in read_all_results(store, NOW, former)]
    assert whole == [("numbers-0", 1), ("numbers-0", 2), ("numbers-10", 1), ("numbers-0", 3)]


def test_logs_of_former_lives_come_first_and_whole(store: ObjectStore) -> None:
    lost = FormerFolder(LOST.prefix, "images", "digits")
    for folder, trial, text in ((LOST.prefix, "images-0", "before"), (NOW, "digits-0", "after")):
        header = SegmentHeader("ml", "digits", trial, f"pod-{text}", 1)
        stream = SegmentStream(store, f"{folder}{trial}/pod-{text}/logs/0/", header, 1 << 20, LOG_STREAM)
        stream.append(1, 1.0, f"2026-01-01T00:00:00Z {text}\n".encode())
        stream.store_changes(lambda: False)
    found = list(read_all_logs(store, NOW, (lost,), "digits-0"))
    assert [(line.trial, line.attempt, line.text) for line in found] == [
        ("digits-0", "pod-before", "before"),
        ("digits-0", "pod-after", "after"),
    ]
