"""All results of a trial, as attempts have stored them."""

from __future__ import annotations

import math
import threading
import time
from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from podtune.dashboard.stores.limits import LimitReached
from podtune.protocol.messages import read_number
from podtune.storage.object_store import ReadableStore
from podtune.storage.segments.former import FormerFolder, read_all_results
from podtune.trial.layout import TIME_TOTAL

MOST_RESULTS = 200_000
"""Of a trial, so many are read for a page: they take about 10 MB with two metrics, and a few seconds."""
MOST_HISTORIES = 4
FRESH_SECONDS = 30.0
"""A page's table, its picture and what its pointer finds are asked for one after the other, and read once."""


@dataclass(frozen=True, slots=True)
class StoredHistory:
    """The results of a trial that have one of some metrics, in order of time: a column for each fact.

    Attributes:
        metrics: Which metrics.
        read: When they were read, in seconds since 1970.
        attempts: Of each result, the attempt's number among the trial's.
        steps: Its training iteration; falls where a stretch was run again, or the trial has cloned another.
        seconds: Training time up to it, as the result says it; NaN where it does not.
        values: For each metric, NaN where a result has none, or no number.
        missing: How many results are missing between these.
        cut: Why no more was read; empty where there is no more.
    """

    metrics: tuple[str, ...]
    read: float
    attempts: array[int]
    steps: array[float]
    seconds: array[float]
    values: tuple[array[float], ...]
    missing: int = 0
    cut: str = ""

    def __len__(self) -> int:
        return len(self.steps)


@dataclass(slots=True)
class _Columns:
    """A history that is being read."""

    values: tuple[array[float], ...]
    attempts: array[int] = field(default_factory=lambda: array("q"))
    steps: array[float] = field(default_factory=lambda: array("d"))
    seconds: array[float] = field(default_factory=lambda: array("d"))


def read_stored_history(
    store: ReadableStore,
    experiment_prefix: str,
    trial: str,
    metrics: Sequence[str],
    *,
    former: Sequence[FormerFolder] = (),
    now: float,
) -> StoredHistory:
    """Reads the results of a trial; those of rank 0 of a gang, as in its status.

    Args:
        store: The store, which may have limits: what was read until they were reached is the history then.
        experiment_prefix: What all keys of the experiment start with; it ends with a slash.
        trial: Name of the trial.
        metrics: What is wanted of each result. Results without any of them are left out.
        former: Where the experiment has stored things before it was restored, the oldest first.
        now: The present time in seconds since 1970.

    Raises:
        StoreError: The store can't be read.
    """
    columns, missing, cut = _Columns(tuple(array("d") for _ in metrics)), 0, ""
    try:
        for stored in read_all_results(store, experiment_prefix, former, trial=trial):
            missing += stored.missed
            found = [read_number(stored.result.metrics, metric) for metric in metrics]
            if all(value is None for value in found):
                continue
            if len(columns.steps) >= MOST_RESULTS:
                cut = f"there are more than {MOST_RESULTS:,} results"
                break
            columns.attempts.append(stored.number)
            columns.steps.append(float(stored.result.step))
            seconds = read_number(stored.result.metrics, TIME_TOTAL)
            columns.seconds.append(math.nan if seconds is None else seconds)
            for column, value in zip(columns.values, found, strict=True):
                column.append(math.nan if value is None else value)
    except LimitReached as error:
        cut = str(error)
    return StoredHistory(
        metrics=tuple(metrics),
        read=now,
        attempts=columns.attempts,
        steps=columns.steps,
        seconds=columns.seconds,
        values=columns.values,
        missing=missing,
        cut=cut,
    )


class HistoryShelf:
    """The histories that were read last. Threads share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Has none yet; the clock tells their age."""
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[object, ...], tuple[float, StoredHistory]] = OrderedDict()

    def find(self, key: tuple[object, ...], read: Callable[[], StoredHistory]) -> StoredHistory:
        """A history that is here and fresh, or as it is read now."""
        with self._lock:
            read_at, history = self._kept.get(key, (-math.inf, None))
        if history is not None and self._clock() - read_at < FRESH_SECONDS:
            return history
        history = read()
        with self._lock:
            self._kept[key] = self._clock(), history
            self._kept.move_to_end(key)
            while len(self._kept) > MOST_HISTORIES:
                self._kept.popitem(last=False)
        return history
