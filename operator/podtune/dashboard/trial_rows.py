"""Trials as pages need them: how each went in one word, and its values as numbers."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import compress, count
from operator import is_not

from podtune.api.names import TrialReason, TrialState
from podtune.cli.client.resources import ExperimentView, TrialView
from podtune.cli.views.budgets import measure_active_time
from podtune.cli.views.formats import read_moment
from podtune.dashboard.keeping import Keeper, keep_by_block, keep_by_trial
from podtune.dashboard.numbers import read_finite
from podtune.dashboard.search_axes import SearchAxis, make_axes

__all__ = [
    "ENDED_PROGRESS",
    "STATE_WORDS",
    "ExperimentRows",
    "ShownState",
    "TrialRow",
    "collect_rows",
    "read_moment",
]
_LARGE_SHARE = 4
"""If more than one trial in so many has changed, all are ranked anew."""
_RankKey = tuple[float, int, str]
_EARLY = frozenset({TrialReason.STOPPED_BY_SCHEDULER, TrialReason.NOT_PROMOTED})


class ShownState(StrEnum):
    """How far a trial is; the states of the API, but for those that the scheduler stopped."""

    RUNNING = "running"
    PAUSED = "paused"
    PENDING = "pending"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


_BY_STATE = {
    TrialState.RUNNING: ShownState.RUNNING,
    TrialState.PAUSED: ShownState.PAUSED,
    TrialState.TERMINATED: ShownState.DONE,
    TrialState.ERROR: ShownState.FAILED,
}
ENDED_PROGRESS = frozenset({ShownState.DONE, ShownState.STOPPED, ShownState.FAILED})
STATE_WORDS = {
    ShownState.DONE: "Completed",
    ShownState.STOPPED: "Stopped early",
    ShownState.RUNNING: "Running",
    ShownState.PAUSED: "Paused",
    ShownState.PENDING: "Pending",
    ShownState.FAILED: "Failed",
}
"""In the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class TrialRow:
    """One trial.

    Attributes:
        values: The objectives' values at its best, in their order; None where there is no finite number.
        numbers: Its parameters that are numbers.
        started: When it began, in seconds since 1970; None where it has not.
        ended: When it ended.
    """

    view: TrialView
    progress: ShownState
    values: tuple[float | None, ...]
    numbers: Mapping[str, float]
    started: float | None
    ended: float | None

    @property
    def name(self) -> str:
        """Name of the Trial."""
        return self.view.name

    @property
    def value(self) -> float | None:
        """The first objective's value."""
        return self.values[0]

    @property
    def gpu_hours(self) -> float | None:
        """GPU time of its pods; None where it is not on record."""
        usage = self.view.status.usage
        return usage.gpu_seconds / 3600 if usage is not None else None

    @property
    def duration(self) -> float | None:
        """From its start to its end, in seconds; None as long as it has no end."""
        return self.measure_time(None)

    def measure_time(self, now: float | None) -> float | None:
        """The same, or how long it has taken so far.

        Args:
            now: The present time in seconds since 1970; None where it is not known.
        """
        end = self.ended if self.ended is not None else now
        return None if self.started is None or end is None else max(0.0, end - self.started)


class RowsByName(Mapping[str, TrialRow]):
    """Rows by name. Where each is stays the same while trials go on: only that is kept apart from the rows."""

    def __init__(self, rows: Sequence[TrialRow], places: Mapping[str, int]) -> None:
        """Takes the rows, and the place of each by its name."""
        self._rows = rows
        self.places = places

    def __getitem__(self, name: str) -> TrialRow:
        """The row of this name."""
        return self._rows[self.places[name]]

    def __iter__(self) -> Iterator[str]:
        """All names."""
        return iter(self.places)

    def __len__(self) -> int:
        """How many there are."""
        return len(self.places)


@dataclass(frozen=True, eq=False)
class ExperimentRows:
    """An experiment with its trials; another object as soon as there is news, so charts are kept with it.

    Attributes:
        view: The Experiment.
        rows: Its trials, by index.
        axes: Its parameters.
        by_name: The trials by name.
        ranked: The trials that have a value, the best first.
        rank_keys: What each of these is sorted by.
        trials: What the rows were read from.
        keeper: What was worked out of it.
    """

    view: ExperimentView
    rows: Sequence[TrialRow]
    axes: tuple[SearchAxis, ...]
    by_name: RowsByName
    ranked: Sequence[TrialRow]
    rank_keys: Sequence[_RankKey]
    trials: Sequence[TrialView]
    keeper: Keeper = field(default_factory=Keeper, repr=False)

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """Names of the objectives."""
        return tuple(self.view.objectives)

    @cached_property
    def signs(self) -> tuple[float, ...]:
        """1 for each objective that is better the higher it is, otherwise -1."""
        return tuple(1.0 if mode == "max" else -1.0 for mode in self.view.objectives.values())

    @property
    def training_metric(self) -> str:
        """What training is judged by: where trials are evaluated afterwards, that is not the objective."""
        evaluated = (self.view.spec.get("evaluation") or {}).get("trainingObjective") or {}
        return str(evaluated.get("metric") or self.view.metric)

    @property
    def scheduler(self) -> str:
        """Name of its scheduler, as the manifest has it."""
        asked = (self.view.spec.get("scheduler") or {}).items()
        return next((name for name, settings in asked if settings is not None and name != "resources"), "fifo")

    @property
    def ranks(self) -> int:
        """How many pods an attempt has; the manifest may be a newer operator's."""
        template = self.view.spec.get("trialTemplate") or {}
        counts = [role.get("replicas", 1) for role in template.get("roles") or ()] or [template.get("replicas", 1)]
        return sum(count for count in counts if isinstance(count, int)) or 1

    @cached_property
    def counts(self) -> Counter[ShownState]:
        """How many trials are how far."""
        counts: Counter[ShownState] = Counter()
        for block in _count_states.read_all(self):
            counts.update(block)
        return counts

    @cached_property
    def unfinished(self) -> Sequence[TrialRow]:
        """The trials that have not ended, by index."""
        return [row for block in _list_unfinished.read_all(self) for row in block]

    @property
    def best(self) -> TrialRow | None:
        """The trial that the status names as the best, or else the first of `ranked`."""
        named = self.by_name.get(self.view.status.best.trial) if self.view.status.best else None
        return named or next(iter(self.ranked), None)

    @cached_property
    def last_moment(self) -> float | None:
        """The latest time that is on record, in seconds since 1970."""
        return max((moment for moment in _find_last_moments.read_all(self) if moment is not None), default=None)

    def tell_time(self, now: float | None) -> float | None:
        """The present time in seconds since 1970; where that is None, of what was exported, the latest on record."""
        return self.last_moment if now is None else now

    def measure_time(self, now: float | None) -> float | None:
        """From its start to its end; where it goes on, for how long it has run, without suspensions. None before.

        Args:
            now: The present time in seconds since 1970; where that is None, the latest on record.
        """
        start, end = read_moment(self.view.status.start_time), read_moment(self.view.status.completion_time)
        if start is not None and end is not None:
            return max(0.0, end - start)
        return measure_active_time(self.view, self.tell_time(now))

    @cached_property
    def gpu_hours(self) -> float | None:
        """GPU time of the whole experiment; None where none is on record."""
        if self.view.status.usage is not None:
            return self.view.status.usage.gpu_hours
        hours = [hours for hours in _add_gpu_hours.read_all(self) if hours is not None]
        return sum(hours) if hours else None


@keep_by_trial
def _read_gpu_hours(row: TrialRow) -> float | None:
    return row.gpu_hours


@keep_by_block(_read_gpu_hours)
def _add_gpu_hours(hours: Sequence[float | None]) -> float | None:
    known = [each for each in hours if each is not None]
    return sum(known) if known else None


@keep_by_trial
def _find_latest(row: TrialRow) -> float | None:
    """The latest time that is on record for a trial."""
    return max((moment for moment in (row.started, row.ended) if moment is not None), default=None)


@keep_by_block(_find_latest)
def _find_last_moments(moments: Sequence[float | None]) -> float | None:
    return max((moment for moment in moments if moment is not None), default=None)


@keep_by_trial
def _pass_unfinished(row: TrialRow) -> TrialRow | None:
    return row if row.progress not in ENDED_PROGRESS else None


@keep_by_block(_pass_unfinished)
def _list_unfinished(rows: Sequence[TrialRow | None]) -> Sequence[TrialRow]:
    return [row for row in rows if row is not None]


@keep_by_trial
def _find_state(row: TrialRow) -> ShownState:
    return row.progress


@keep_by_block(_find_state)
def _count_states(states: Sequence[ShownState]) -> Counter[ShownState]:
    return Counter(states)


def collect_rows(
    view: ExperimentView, trials: Sequence[TrialView], earlier: ExperimentRows | None = None
) -> ExperimentRows:
    """Takes an experiment and its trials together.

    Args:
        view: The experiment.
        trials: Its trials, by index.
        earlier: The same at an earlier time: only what has changed since is read. The outcome is the same without it.
    """
    if earlier is not None and [*earlier.view.objectives.items()] == [*view.objectives.items()]:
        changed = _find_changes(trials, earlier.trials)
        if changed is not None:
            return _update_rows(view, trials, earlier, changed)
    metrics = tuple(view.objectives)
    rows = [_make_row(trial, metrics) for trial in trials]
    ranked, rank_keys = _rank(rows, view)
    return ExperimentRows(
        view=view,
        rows=rows,
        axes=make_axes(view.spec.get("parameters") or (), [row.view.parameters for row in rows]),
        by_name=RowsByName(rows, {row.name: place for place, row in enumerate(rows)}),
        ranked=ranked,
        rank_keys=rank_keys,
        trials=trials,
    )


def _find_changes(trials: Sequence[TrialView], earlier: Sequence[TrialView]) -> list[int] | None:
    """The places of trials that have changed or are new; None where one is gone or in another place."""
    if len(trials) < len(earlier):
        return None
    changed = list(compress(count(), map(is_not, trials, earlier)))
    if any(trials[place].name != earlier[place].name for place in changed):
        return None
    return [*changed, *range(len(earlier), len(trials))]


def _update_rows(
    view: ExperimentView, trials: Sequence[TrialView], earlier: ExperimentRows, changed: Sequence[int]
) -> ExperimentRows:
    known = len(earlier.rows)
    before = [earlier.rows[place] if place < known else None for place in changed]
    fresh = [_make_row(trials[place], earlier.metrics, row) for place, row in zip(changed, before, strict=True)]
    rows = [*earlier.rows, *fresh[len(fresh) - (len(trials) - known) :]]
    for place, row in zip(changed, fresh, strict=True):
        rows[place] = row
    places, added = earlier.by_name.places, {row.name: known + place for place, row in enumerate(rows[known:])}
    parameters, axes = view.spec.get("parameters") or (), earlier.axes
    pairs = list(zip(fresh, before, strict=True))
    is_same = parameters == (earlier.view.spec.get("parameters") or ())
    if not is_same or not all(_keeps_axes(row, before, axes) for row, before in pairs):
        axes = make_axes(parameters, [row.view.parameters for row in rows])
    is_large = len(changed) * _LARGE_SHARE > len(rows)
    ranked, rank_keys = _rank(rows, view) if is_large else _update_ranked(earlier, pairs)
    return ExperimentRows(
        view=view,
        rows=rows,
        axes=axes,
        by_name=RowsByName(rows, {**places, **added} if added else places),
        ranked=ranked,
        rank_keys=rank_keys,
        trials=trials,
        keeper=earlier.keeper.pass_on(changed, len(rows)),
    )


def _rank(rows: Iterable[TrialRow], view: ExperimentView) -> tuple[list[TrialRow], list[_RankKey]]:
    """The trials that have a value, the best first, and what each is sorted by."""
    find_key = _make_rank_key(view)
    ranked = sorted((row for row in rows if row.value is not None), key=find_key)
    return ranked, [*map(find_key, ranked)]


def _update_ranked(
    earlier: ExperimentRows, changed: Sequence[tuple[TrialRow, TrialRow | None]]
) -> tuple[list[TrialRow], list[_RankKey]]:
    """The same as `_rank`, for trials of which a few have changed: each is moved to where it now belongs."""
    find_key = _make_rank_key(earlier.view)
    ranked, rank_keys = [*earlier.ranked], [*earlier.rank_keys]
    for row, before in changed:
        if before is not None and before.value is not None:
            place = bisect_left(rank_keys, find_key(before))
            del ranked[place], rank_keys[place]
        if row.value is not None:
            key = find_key(row)
            place = bisect_left(rank_keys, key)
            ranked.insert(place, row)
            rank_keys.insert(place, key)
    return ranked, rank_keys


def _keeps_axes(row: TrialRow, before: TrialRow | None, axes: Sequence[SearchAxis]) -> bool:
    """Whether the axes are the same with a trial as it is now: what others have may be all that made them so."""
    values = row.view.parameters
    if before is not None:
        return values is before.view.parameters or values == before.view.parameters
    return all(axis.has_room_for(values[axis.name]) for axis in axes if axis.name in values)


def _make_rank_key(view: ExperimentView) -> Callable[[TrialRow], _RankKey]:
    """What trials with a value are sorted by, the best first; no two have the same."""
    sign = -1.0 if next(iter(view.objectives.values()), "") == "max" else 1.0
    return lambda row: (sign * (row.value or 0.0), row.view.index, row.view.name)


def _make_row(trial: TrialView, metrics: Sequence[str], before: TrialRow | None = None) -> TrialRow:
    status = trial.status
    best = {metrics[0]: status.best_value, **status.best} if metrics else {}
    numbers: Mapping[str, float]
    if before is not None and before.view.parameters == trial.parameters:
        numbers = before.numbers
    else:
        numbers = {name: number for name, text in trial.parameters.items() if (number := read_finite(text)) is not None}
    return TrialRow(
        view=trial,
        progress=_find_progress(trial),
        values=tuple(read_finite(best.get(metric)) for metric in metrics) or (None,),
        numbers=numbers,
        started=read_moment(status.start_time),
        ended=read_moment(status.completion_time),
    )


def _find_progress(trial: TrialView) -> ShownState:
    progress = next((word for state, word in _BY_STATE.items() if state == trial.state), ShownState.PENDING)
    return ShownState.STOPPED if progress is ShownState.DONE and trial.status.reason in _EARLY else progress
