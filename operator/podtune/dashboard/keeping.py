"""Keeps what was worked out of an experiment, so that an update costs what has changed.

Rows of an experiment are another object as soon as there is news of any trial. A chart is kept with the rows that it
was drawn from, and goes with them. What is read from each trial alone goes on to the next rows as a column, but for the
trials that have changed. So nothing that is kept can be out of date, and a chart is the same as one drawn from scratch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from threading import Lock
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from podtune.dashboard.trial_rows import ExperimentRows, TrialRow

MOST_CHARTS = 96
"""So many charts are kept with an experiment: an address names axes, and anybody can name many."""
LONGEST_IDLE = 8
"""After so many updates in which nobody needed it, a column is dropped: scales move."""

Base = TypeVar("Base")
Found = TypeVar("Found")
Settings = ParamSpec("Settings")
_UNREAD: Any = object()
_lock = Lock()
"""Some charts are drawn in threads."""


@dataclass(slots=True)
class _Column:
    """What was read from each trial, by its place.

    Attributes:
        gaps: Places of trials that were not read yet.
        idle: How many updates ago it was needed.
    """

    values: list[Any]
    gaps: set[int]
    idle: int = 0

    def pass_on(self, changed: Iterable[int], count: int) -> _Column:
        gaps = self.gaps | set(changed)  # before the values: another thread may fill gaps meanwhile
        values = self.values.copy()
        values.extend([_UNREAD] * (count - len(values)))
        return _Column(values, gaps, self.idle + 1)


class Keeper:
    """What is kept with an experiment's rows."""

    def __init__(self, columns: Mapping[Hashable, _Column] | None = None) -> None:
        """Begins with the columns of earlier rows, where there are any."""
        self._charts: dict[Hashable, Any] = {}
        self._columns: dict[Hashable, _Column] = dict(columns or {})

    def pass_on(self, changed: Iterable[int], count: int) -> Keeper:
        """What is kept with later rows.

        Args:
            changed: The places of trials that have changed, or are new.
            count: How many trials there are now.
        """
        with _lock:
            kept = [(key, column) for key, column in self._columns.items() if column.idle < LONGEST_IDLE]
        return Keeper({key: column.pass_on(changed, count) for key, column in kept})

    def find_column(self, key: Hashable, count: int) -> _Column:
        """What was read so far."""
        with _lock:
            column = self._columns.get(key)
            if column is None:
                column = self._columns[key] = _Column([_UNREAD] * count, set(range(count)))
            column.idle = 0
        return column

    def find_chart(self, key: Hashable, make: Callable[[], Found]) -> Found:
        """A chart, which is made unless it is kept; of very many, the oldest goes."""
        chart: Found = self._charts.get(key, _UNREAD)
        if chart is not _UNREAD:
            return chart
        chart = make()
        with _lock:
            self._charts[key] = chart
            while len(self._charts) > MOST_CHARTS:
                del self._charts[next(iter(self._charts))]
        return chart


class TrialFact(Generic[Found]):
    """What is read from one trial alone; see `keep_by_trial`."""

    def __init__(self, read: Callable[..., Found], source: TrialFact[Any] | None) -> None:
        """Takes the function that reads it, from a row or from another fact."""
        self._read, self._source = read, source
        self.__doc__ = read.__doc__

    def __call__(self, row: TrialRow, *settings: Hashable) -> Found:
        """Of one trial, read anew."""
        return self._read(self._source(row) if self._source is not None else row, *settings)

    def read_all(self, experiment: ExperimentRows, *settings: Hashable) -> Sequence[Found]:
        """Of all trials, in their order."""
        column = experiment.keeper.find_column((self._read, settings), len(experiment.rows))
        self._fill(column, column.gaps.copy(), experiment, settings)
        return column.values

    def read_some(self, experiment: ExperimentRows, places: Sequence[int], *settings: Hashable) -> list[Found]:
        """Of some trials, by their places."""
        column = experiment.keeper.find_column((self._read, settings), len(experiment.rows))
        self._fill(column, column.gaps.intersection(places), experiment, settings)
        values = column.values
        return [values[place] for place in places]

    def _fill(
        self, column: _Column, places: set[int], experiment: ExperimentRows, settings: tuple[Hashable, ...]
    ) -> None:
        if not places:
            return
        sources = self._source.read_all(experiment) if self._source is not None else experiment.rows
        for place in places:
            column.values[place] = self._read(sources[place], *settings)
            column.gaps.discard(place)


def keep_by_trial(read: Callable[Concatenate[TrialRow, ...], Found]) -> TrialFact[Found]:
    """Keeps what a function reads from a trial's row until that trial changes, where it is read of many at once.

    The function may look at the row alone, and at settings that never change themselves, such as a scale.
    """
    return TrialFact(read, None)


def keep_by_trial_from(
    source: TrialFact[Base],
) -> Callable[[Callable[Concatenate[Base, ...], Found]], TrialFact[Found]]:
    """The same for a function that reads what another one has read from the trial."""
    return lambda read: TrialFact(read, source)


def keep_chart(
    make: Callable[Concatenate[ExperimentRows, Settings], Found],
) -> Callable[Concatenate[ExperimentRows, Settings], Found]:
    """Keeps what a function makes of an experiment's rows, such as a chart, for as long as these are shown."""

    @wraps(make)
    def find(experiment: ExperimentRows, /, *settings: Settings.args, **named: Settings.kwargs) -> Found:
        key = (make, settings, tuple(sorted(named.items())))
        return experiment.keeper.find_chart(key, lambda: make(experiment, *settings, **named))

    return find
