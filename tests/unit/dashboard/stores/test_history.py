"""A trial's results read from its store, and drawn with no more points than can be seen."""

from __future__ import annotations

import math
from array import array
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from podtune.dashboard.charts.learning.frame import CurveAxes, Point
from podtune.dashboard.charts.learning.history import COLUMNS, MOST_HISTORY_POINTS, list_history_points, thin_out
from podtune.dashboard.stores.history import MOST_HISTORIES, HistoryShelf, StoredHistory, read_stored_history
from podtune.dashboard.stores.limits import LimitedStore, LimitReached, ReadLimits
from tests.unit.dashboard.stores.stored_trial import TRIAL, StoredTrial, store_locally
from tests.unit.storage.memory_store import MemoryStore


def read(stored: StoredTrial, *metrics: str, limits: ReadLimits | None = None) -> StoredHistory:
    store = LimitedStore(stored.store, limits or ReadLimits(), lambda: 0.0)
    return read_stored_history(store, stored.prefix, TRIAL, metrics or ("accuracy",), now=7.0)


def test_results_of_all_attempts_follow_one_another(tmp_path: Path) -> None:
    stored = store_locally(tmp_path)
    stored.report(3)
    stored.report(2, attempt=2, first=3)
    stored.report(9, trial="digits-1")
    history = read(stored, "accuracy", "loss")
    assert list(history.steps) == [1, 2, 3, 3, 4]
    assert list(history.attempts) == [1, 1, 1, 2, 2]
    assert list(history.seconds) == [2, 4, 6, 6, 8]
    assert all(map(math.isnan, history.values[1]))
    assert (history.missing, history.cut, history.read) == (0, "", 7.0)


def test_results_without_any_of_the_metrics_are_left_out(tmp_path: Path) -> None:
    stored = store_locally(tmp_path)
    stored.report(3)
    assert len(read(stored, "loss")) == 0
    stored.report(2, attempt=2, loss=0.5)
    assert len(read(stored, "loss")) == 2


def test_what_is_beyond_the_limits_is_left_out_and_said(tmp_path: Path) -> None:
    stored = store_locally(tmp_path)
    for attempt in range(1, 6):
        stored.report(10, attempt=attempt)
    size = len(stored.store.get_bytes(next(stored.store.list(stored.prefix)), 1 << 20))
    history = read(stored, limits=ReadLimits(bytes=3 * size + size // 2))
    assert len(history) == 30
    assert history.cut.startswith("there are more than")


def test_a_limited_store_ends_by_its_clock_its_bytes_or_its_keys() -> None:
    memory, now = MemoryStore(), [0.0]
    for name in "abc":
        memory.put_bytes(name, b"12345")
    store = LimitedStore(memory, ReadLimits(seconds=10, bytes=12, keys=2), lambda: now[0])
    assert store.get_bytes("a", 100) == b"12345"
    assert b"".join(store.get("b")) == b"12345"
    with pytest.raises(LimitReached, match="more than 0 MiB"):
        store.get_bytes("c", 100)
    with pytest.raises(LimitReached, match="more than 2 objects"):
        list(store.list(""))
    now[0] = 10.0
    for ask in (lambda: store.exists("a"), lambda: store.get_bytes("a", 1), lambda: list(store.get("a"))):
        with pytest.raises(LimitReached, match="reading took 10 seconds"):
            ask()


def test_a_shelf_keeps_the_last_histories_for_a_moment(tmp_path: Path) -> None:
    stored, now = store_locally(tmp_path), [0.0]
    shelf, reads = HistoryShelf(lambda: now[0]), []

    def find(key: int) -> StoredHistory:
        return shelf.find((key,), lambda: reads.append(key) or read(stored))  # type: ignore[func-returns-value]

    for key in (1, 1, 2, 1):
        find(key)
    assert reads == [1, 2]
    now[0] = 30.0
    find(1)
    assert reads == [1, 2, 1]
    for key in range(3, 3 + MOST_HISTORIES):
        find(key)
    find(1)
    assert reads[-1] == 1


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        (CurveAxes(), [(1.0, 1.0), (2.0, -1.0), (3.0, 2.0)]),
        (CurveAxes(by_time=True), [(0.0, 1.0), (5.0, -1.0)]),
        (CurveAxes(is_log_y=True), [(1.0, 1.0), (3.0, 2.0)]),
        (CurveAxes(by_time=True, is_log_x=True), [(5.0, -1.0)]),
    ],
)
def test_axes_show_what_they_can(axes: CurveAxes, expected: list[Point]) -> None:
    history = StoredHistory(
        ("accuracy",),
        0.0,
        array("q", [1, 1, 1]),
        array("d", [1, 2, 3]),
        array("d", [0, 5, math.nan]),
        (array("d", [1, -1, 2]),),
    )
    assert list_history_points(history, axes) == expected


def test_what_no_scale_can_hold_is_left_out() -> None:
    wild = [math.inf, -1e308, 1e308, math.nan] * 2000 + [1.0, 2.0]
    steps = array("d", range(len(wild)))
    history = StoredHistory(
        ("accuracy",), 0.0, array("q", [1] * len(wild)), steps, array("d", wild), (array("d", wild),)
    )
    for axes in (CurveAxes(), CurveAxes(by_time=True), CurveAxes(is_log_x=True, is_log_y=True)):
        assert [value for _, value in list_history_points(history, axes)] == [1.0, 2.0]


def test_few_points_stay_as_they_are() -> None:
    points = [(float(at), math.sin(at)) for at in range(4 * COLUMNS)]
    assert thin_out(points) == points


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("is_log", [False, True])
def test_thinned_out_no_extreme_and_no_end_is_lost(seed: int, is_log: bool) -> None:
    random = Random(seed)
    values = [random.gauss(0, 1) for _ in range(random.randrange(4 * COLUMNS + 1, 40 * COLUMNS))]
    points = [(float(at + 1), value) for at, value in enumerate(values)]
    kept = thin_out(points, is_log=is_log)
    assert len(kept) <= MOST_HISTORY_POINTS
    assert set(kept) <= set(points)
    assert all(a[0] < b[0] for a, b in pairwise(kept))
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    assert min(value for _, value in kept) == min(values)
    assert max(value for _, value in kept) == max(values)


def test_a_spike_in_a_hundred_thousand_points_is_kept() -> None:
    points = [(float(at), 0.0) for at in range(100_000)]
    points[54_321] = (54_321.0, 1.0)
    kept = thin_out(points)
    assert (54_321.0, 1.0) in kept
    assert len(kept) <= 4 * COLUMNS


def test_a_trial_that_went_back_keeps_its_turns() -> None:
    points = [*((float(at), 1.0) for at in range(3000)), *((float(at), 2.0) for at in range(1000, 4000))]
    kept = thin_out(points)
    falls = [(a, b) for a, b in pairwise(kept) if b[0] < a[0]]
    assert falls == [((2999.0, 1.0), (1000.0, 2.0))]


@pytest.mark.parametrize("stretch", [2, 40])
def test_a_trial_that_goes_back_all_the_time_is_drawn_all_the_same(stretch: int) -> None:
    points = [(float(at % stretch), float(at)) for at in range(20_000)]
    assert len(thin_out(points)) <= MOST_HISTORY_POINTS
