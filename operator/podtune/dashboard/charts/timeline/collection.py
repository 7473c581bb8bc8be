"""The histories of all trials of an experiment; those of trials that have not changed are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from podtune.dashboard.charts.timeline.history import trace_trial
from podtune.dashboard.charts.timeline.spans import Span, TrialHistory
from podtune.dashboard.keeping import keep_by_block, keep_by_trial, keep_by_trial_from, keep_chart
from podtune.dashboard.trial_rows import ExperimentRows, TrialRow, read_moment


@dataclass(frozen=True, slots=True)
class TracedTrial:
    """A trial with its history."""

    row: TrialRow
    history: TrialHistory

    @property
    def begin(self) -> float:
        """When it begins."""
        return self.history.begin or 0.0

    @property
    def end(self) -> float:
        """When it has ended, or what is looked at."""
        return self.history.end or 0.0


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The time that an experiment has taken.

    Attributes:
        begin: In seconds since 1970.
        end: The present moment, or else the last one that is on record; after `begin`.
        untold: How many trials nothing is on record of.
    """

    begin: float
    end: float
    untold: int

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.end - self.begin


@dataclass(frozen=True, eq=False, slots=True)
class Timeline:
    """An experiment over time.

    Attributes:
        trials: Those of whose time anything is on record, by when they begin, up to the end of the range.
    """

    trials: Sequence[TracedTrial]
    range: TimeRange


@keep_by_trial
def read_history(row: TrialRow) -> TracedTrial:
    """A trial's history up to the last moment that is on record of it."""
    return TracedTrial(row, trace_trial(row))


@keep_by_trial_from(read_history)
def read_ends(traced: TracedTrial) -> tuple[float, float] | None:
    """The first and the last moment of a history."""
    return (traced.begin, traced.end) if traced.history.spans else None


@keep_by_block(read_ends)
def _join_ends(ends: Sequence[tuple[float, float] | None]) -> tuple[float, float, int] | None:
    """The first and the last moment of some histories, and how many have any."""
    known = [each for each in ends if each is not None]
    return (min(first for first, _ in known), max(last for _, last in known), len(known)) if known else None


@keep_chart
def measure_range(experiment: ExperimentRows, now: float | None = None) -> TimeRange | None:
    """The time that an experiment has taken; None where nothing is on record.

    Args:
        experiment: The experiment.
        now: The present time, in seconds since 1970; None for what was exported. What has ended goes on no longer.
    """
    known = [ends for ends in _join_ends.read_all(experiment) if ends is not None]
    if not known:
        return None
    status = experiment.view.status
    began, done = read_moment(status.start_time), read_moment(status.completion_time)
    begin = began if began is not None else min(first for first, _, _ in known)
    last = max(last for _, last, _ in known)
    present = done if done is not None else now
    end = max(last, present) if present is not None else last
    return TimeRange(begin, max(end, begin + 1.0), len(experiment.rows) - sum(count for _, _, count in known))


@keep_chart
def trace_experiment(experiment: ExperimentRows, now: float | None = None) -> Timeline | None:
    """What all trials were doing when; None where nothing is on record. The arguments are as for `measure_range`."""
    span = measure_range(experiment, now)
    if span is None:
        return None
    trials = [_fit(traced, span) for traced in read_history.read_all(experiment) if traced.history.spans]
    trials.sort(key=lambda trial: (trial.begin, trial.row.view.index))
    return Timeline(trials, span)


def _fit(traced: TracedTrial, span: TimeRange) -> TracedTrial:
    """The same up to the moment that is looked at, and from the experiment's start, which whole seconds may miss."""
    history = traced.history
    if not history.is_open and traced.begin >= span.begin:
        return traced
    spans: list[Span] = list(history.spans)
    if spans[0].begin < span.begin <= spans[0].end:
        spans[0] = replace(spans[0], begin=span.begin)
    if history.is_open:
        spans[-1] = replace(spans[-1], end=max(span.end, spans[-1].begin))
    return TracedTrial(traced.row, replace(history, spans=spans))
